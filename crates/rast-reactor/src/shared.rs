//! State that the reactors of one set share, and how they end.

use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::vec::Vec;

use rast_executor::RemoteSpawner;

use crate::credit::Pair;
use crate::origin::Origin;
use crate::pool::Pool;
use crate::primitive::panics::quietly;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};
use crate::primitive::sync::{Arc, Condvar, Mutex};
use crate::primitive::{CachePadded, Counter};
use crate::registry;
use crate::watch::{SlowPoll, Tasks, Unfinished, Watch};

/// How a reactor is reached.
pub(crate) struct Seat {
    pub(crate) remote: RemoteSpawner,
    pub(crate) tasks: Tasks,
    /// Written on the thread of the reactor.
    pub(crate) slow_polls: Counter,
    /// The main task of the reactor must return.
    pub(crate) is_ended: AtomicBool,
}

/// How far the thread of a reactor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It runs tasks.
    Runs,
    /// It drops tasks.
    Ends,
    Returned,
}

/// What the reactors of one set share.
pub(crate) struct Shared {
    pub(crate) seats: Box<[CachePadded<Seat>]>,
    /// By caller times the number of reactors, plus target.
    pub(crate) pairs: Box<[CachePadded<Pair>]>,
    pub(crate) pool: Pool,
    pub(crate) watch: Watch,
    pub(crate) resources: Arc<registry::Shared>,
    /// Tasks from threads outside of the reactors are rejected.
    pub(crate) is_closing: AtomicBool,
    /// How far the threads are.
    pub(crate) phases: Mutex<Vec<Phase>>,
    pub(crate) changed: Condvar,
}

impl Shared {
    pub(crate) fn new(
        remotes: Vec<RemoteSpawner>,
        pool: Pool,
        watch: Watch,
        resources: Arc<registry::Shared>,
    ) -> Self {
        let number = remotes.len();
        let seat = |remote| {
            CachePadded::new(Seat {
                remote,
                tasks: Tasks::default(),
                slow_polls: Counter::new(),
                is_ended: AtomicBool::new(false),
            })
        };
        Self {
            seats: remotes.into_iter().map(seat).collect(),
            pairs: (0..number * number)
                .map(|_| CachePadded::default())
                .collect(),
            pool,
            watch,
            resources,
            is_closing: AtomicBool::new(false),
            phases: Mutex::new(std_alloc::vec![Phase::Runs; number]),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn pair(&self, caller: usize, target: usize) -> &Pair {
        &self.pairs[caller * self.seats.len() + target]
    }

    pub(crate) fn leave(&self, reactor: usize, task: u64) {
        let is_last = self.seats[reactor].tasks.leave(task);
        // Relaxed: a stop that counted this task has set the flag before it took the lock of the
        // list, which this thread has taken after it.
        if is_last && self.is_closing.load(Ordering::Relaxed) {
            self.notify();
        }
    }

    /// A reactor has come to `phase`.
    pub(crate) fn come_to(&self, reactor: usize, phase: Phase) {
        self.phases.lock()[reactor] = phase;
        self.notify();
    }

    /// Makes a stop check again.
    pub(crate) fn notify(&self) {
        // Under the lock, so that the notification comes before a check or during a wait.
        let phases = self.phases.lock();
        self.changed.notify_all();
        drop(phases);
    }

    /// Wakes the main task of a reactor.
    pub(crate) fn wake(&self, reactor: usize) {
        self.resources.wakers.wake(reactor);
    }

    /// Makes a reactor return.
    pub(crate) fn end(&self, reactor: usize) {
        // Relaxed: ordered by the lock of the wake-up. The main task stores its waker under this
        // lock, and then loads the flag.
        self.seats[reactor].is_ended.store(true, Ordering::Relaxed);
        self.wake(reactor);
    }

    /// Returns `true` if no reactor has a task.
    ///
    /// Counts twice, because a task may spawn one on a reactor that was already counted, and then
    /// end. In that case the two counts of all tasks ever spawned differ. If the counts are equal,
    /// each list was empty from its first count to its second, so all lists were empty at the
    /// moment between the two rounds.
    pub(crate) fn is_quiet(&self) -> bool {
        let count = || {
            self.seats.iter().try_fold(0, |sum, seat| {
                let (now, ever) = seat.tasks.count();
                (now == 0).then_some(sum + ever)
            })
        };
        let first = count();
        first.is_some() && first == count()
    }

    /// All tasks.
    pub(crate) fn unfinished(&self) -> Vec<Unfinished> {
        let seats = self.seats.iter().enumerate();
        seats.flat_map(|(at, seat)| seat.tasks.all(at)).collect()
    }

    #[cold]
    pub(crate) fn report_slow(&self, reactor: usize, origin: &Origin, took: Duration) {
        self.seats[reactor].slow_polls.add(1);
        if let Some(report) = &self.watch.report {
            let slow = SlowPoll {
                reactor,
                name: origin.name.as_ref().map(|name| name.as_str()),
                line: origin.line,
                took,
            };
            quietly(|| report(&slow));
        }
    }
}
