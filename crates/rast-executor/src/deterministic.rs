//! Reproducible runs: one thread, a simulated clock, an order that a seed determines.

use core::cell::Cell;
use core::fmt;
use core::task::Waker;
use std_alloc::rc::Rc;

use rast_timers::{ManualClock, Nanos};

use crate::context::refuse_nested;
use crate::deadlines::trusted_clock;
use crate::driver::ParkerDriver;
use crate::local::Local;

/// An executor with one thread and a simulated clock, which runs tasks in an order that a seed
/// determines.
///
/// When no task is ready, the clock jumps to the next deadline, so a run takes only the time of its
/// polls. With the same seed a run repeats step by step, unless the tasks depend on something else,
/// such as other threads, the system's clock or addresses.
///
/// # Examples
///
/// Two tasks race for a value; some seeds let the first win, others the second:
///
/// ```
/// use rast_executor::{Deterministic, spawn_local};
/// use std::{cell::Cell, rc::Rc};
///
/// let race = |seed| {
///     let winner = Rc::new(Cell::new(0));
///     let enter = |n| {
///         let winner = Rc::clone(&winner);
///         spawn_local(async move {
///             if winner.get() == 0 {
///                 winner.set(n);
///             }
///         })
///     };
///     Deterministic::new(seed).run(async {
///         let tasks = [enter(1), enter(2)];
///         for task in tasks {
///             task.await.unwrap();
///         }
///     });
///     winner.get()
/// };
/// let winners: Vec<i32> = (0..100).map(race).collect();
/// assert!(winners.contains(&1) && winners.contains(&2));
/// assert_eq!(winners, (0..100).map(race).collect::<Vec<_>>());
/// ```
pub struct Deterministic {
    local: Rc<Local>,
    clock: ManualClock,
    seed: u64,
    /// Waker of the main task.
    main: Cell<Option<Waker>>,
}

impl Deterministic {
    /// Makes an executor for one seed; its clock shows its origin.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let clock = ManualClock::new();
        let shared = trusted_clock(clock.clone());
        Self {
            // It never sleeps: the clock moves instead.
            local: Rc::new(Local::new(
                shared,
                Some(seed),
                Box::new(ParkerDriver::new()),
            )),
            clock,
            seed,
            main: Cell::new(None),
        }
    }

    /// Runs `future` and the tasks until `future` is ready.
    ///
    /// # Panics
    ///
    /// If `future` panics, with its payload. If no task is ready and no deadline is left, so that
    /// no task could ever run again; the message contains the seed. If it is called inside an
    /// executor.
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        refuse_nested("Deterministic::run");
        let is_stalled = Cell::new(false);
        let local = &self.local;
        let main = async {
            let mut future = core::pin::pin!(future);
            core::future::poll_fn(|cx| {
                assert!(
                    !is_stalled.get(),
                    "no task is ready and no deadline is left (seed {})",
                    self.seed
                );
                self.main.set(Some(cx.waker().clone()));
                future.as_mut().poll(cx)
            })
            .await
        };
        let output = local.run(main, |timeout| match timeout {
            Some(timeout) => self
                .clock
                .advance(Nanos::from_nanos(timeout.as_nanos() as u64)),
            None => {
                is_stalled.set(true);
                if let Some(waker) = self.main.take() {
                    waker.wake();
                }
            }
        });
        self.main.set(None);
        output
    }
}

impl fmt::Debug for Deterministic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deterministic")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}
