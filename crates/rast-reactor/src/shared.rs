//! What the reactors of one set share, and their ends.

use core::fmt;
use core::panic::Location;
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use rast_executor::RemoteSpawner;
use rast_executor::timers::{Clock, Instant, MonotonicClock, Nanos};

use crate::credit::Pair;
use crate::here;
use crate::origin::Origin;
use crate::pool::Pool;
use crate::primitive::CachePadded;
use crate::primitive::panics::{contain, discard, quietly};
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::sync::{Arc, Condvar, Mutex};
use crate::registry;
use crate::spawned::Spawned;
use crate::watch::{Entry, SlowPoll, SlowPolls, Tasks, Unfinished, Watch, Watched};

/// How a reactor is reached.
pub(crate) struct Seat {
    pub(crate) remote: RemoteSpawner,
    pub(crate) tasks: Tasks,
    pub(crate) slow_polls: SlowPolls,
    pub(crate) control: Mutex<Control>,
}

/// What the main task of a reactor waits for.
#[derive(Default)]
pub(crate) struct Control {
    pub(crate) is_ended: bool,
    pub(crate) waker: Option<Waker>,
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
    /// Nothing is spawned from outside any more.
    pub(crate) is_closing: AtomicBool,
    /// What `is_closing` is compared to for a task that a reactor spawns: it never closes.
    never: AtomicBool,
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
                slow_polls: SlowPolls::default(),
                control: Mutex::new(Control::default()),
            })
        };
        Self {
            seats: remotes.into_iter().map(seat).collect(),
            pairs: (0..number * number)
                .map(|_| CachePadded::new(Pair::new()))
                .collect(),
            pool,
            watch,
            resources,
            is_closing: AtomicBool::new(false),
            never: AtomicBool::new(false),
            phases: Mutex::new(std_alloc::vec![Phase::Runs; number]),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn pair(&self, caller: usize, target: usize) -> &Pair {
        &self.pairs[caller * self.seats.len() + target]
    }

    /// Enters a task into the list of a reactor; `None` if it comes from outside after the close.
    pub(crate) fn enter(this: &Arc<Self>, reactor: usize, origin: Origin) -> Option<Entry> {
        let is_inside = here::is_of(this);
        let closed = if is_inside {
            &this.never
        } else {
            &this.is_closing
        };
        let place = this.seats[reactor].tasks.enter(origin, closed)?;
        Some(Entry {
            shared: Arc::clone(this),
            reactor,
            place,
        })
    }

    pub(crate) fn leave(&self, reactor: usize, place: usize) {
        let is_last = self.seats[reactor].tasks.leave(place);
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

    /// Has a stop look again.
    pub(crate) fn notify(&self) {
        // Under the lock, so that it comes before a look or after the begin of a wait.
        let phases = self.phases.lock();
        self.changed.notify_all();
        drop(phases);
    }

    /// Wakes the main task of a reactor.
    pub(crate) fn wake(&self, reactor: usize) {
        let waker = self.seats[reactor].control.lock().waker.clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Has a reactor return.
    pub(crate) fn end(&self, reactor: usize) {
        self.seats[reactor].control.lock().is_ended = true;
        self.wake(reactor);
    }

    /// Returns `true` if no reactor has a task.
    ///
    /// A task that ends may have spawned one on a reactor that was counted before. The numbers of
    /// all tasks that there ever were show that: they are then not what the first look found.
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
        self.seats[reactor].slow_polls.add();
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

/// A reactor of a set: a handle for any thread.
#[derive(Clone)]
pub struct Reactor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
}

impl Reactor {
    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many reactors the set has.
    #[must_use]
    pub fn reactors(&self) -> usize {
        self.shared.seats.len()
    }

    /// Calls `begin` on the reactor's thread and runs its future there, which need not be `Send`.
    ///
    /// There is no bound on how many tasks are spawned so; [`reactor_task`](crate::reactor_task)
    /// has one. After [`Reactors::stop`](crate::Reactors::stop) began, what threads outside of the
    /// reactors spawn is dropped, and the handle returns
    /// [`CallError::Stopped`](crate::CallError::Stopped).
    ///
    /// Cost: an allocation, the locks of two lists of tasks, an exchange, a wake-up if the reactor
    /// sleeps.
    ///
    /// ```
    /// use rast_reactor::{Reactors, current};
    ///
    /// let reactors = Reactors::builder().number(2).build().unwrap();
    /// let task = reactors.reactor(1).unwrap().spawn(|| async { current().unwrap().index() });
    /// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), 1);
    /// ```
    #[track_caller]
    pub fn spawn<F, R>(&self, begin: F) -> Spawned<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        self.spawn_as(Location::caller(), None, begin)
    }

    /// As [`spawn`](Self::spawn), with a name for reports.
    #[track_caller]
    pub fn spawn_named<F, R>(&self, name: impl Into<String>, begin: F) -> Spawned<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        self.spawn_as(Location::caller(), Some(name.into()), begin)
    }

    fn spawn_as<F, R>(
        &self,
        line: &'static Location<'static>,
        name: Option<String>,
        begin: F,
    ) -> Spawned<R::Output>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Future + 'static,
        R::Output: Send,
    {
        let remote = &self.shared.seats[self.index].remote;
        let origin = Origin {
            name: name.map(Arc::new),
            line,
        };
        let Some(entry) = Shared::enter(&self.shared, self.index, origin.clone()) else {
            drop(begin);
            return Spawned::stopped();
        };
        let (shared, reactor) = (Arc::clone(&self.shared), self.index);
        Spawned::new(remote.spawn(move || Watched {
            future: async move { begin().await },
            shared,
            reactor,
            origin,
            _entry: Some(entry),
        }))
    }
}

impl PartialEq for Reactor {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared) && self.index == other.index
    }
}

impl Eq for Reactor {}

impl fmt::Debug for Reactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reactor")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

/// How far the remembered time of a clock may be behind.
const BEHIND: Nanos = Nanos::from_millis(1);

/// A clock of the program whose panics are contained: a reading that panics is one that was at most
/// a millisecond before the last.
struct Contained<C> {
    clock: C,
    /// In nanoseconds; written once a millisecond at most, since all threads share the word.
    last: AtomicU64,
}

impl<C: Clock> Clock for Contained<C> {
    fn now(&self) -> Instant {
        // Relaxed: an old time is one too.
        let last = Instant::from_nanos(self.last.load(Ordering::Relaxed));
        match contain(|| self.clock.now()) {
            Ok(now) => {
                if now.saturating_since(last) >= BEHIND {
                    // Relaxed: as above; of two readings the later one is kept.
                    self.last.fetch_max(now.as_nanos(), Ordering::Relaxed);
                }
                now
            }
            Err(payload) => {
                discard(payload);
                last
            }
        }
    }
}

/// A clock of the program behind a pointer.
pub(crate) fn shared_clock(
    clock: impl Clock + Send + Sync + 'static,
) -> Arc<dyn Clock + Send + Sync> {
    let last = AtomicU64::new(0);
    let clock = Contained { clock, last };
    crate::primitive::unsized_arc!(clock)
}

/// The system's monotonic clock behind a pointer.
pub(crate) fn system_clock() -> Arc<dyn Clock + Send + Sync> {
    let clock = MonotonicClock::new();
    crate::primitive::unsized_arc!(clock)
}
