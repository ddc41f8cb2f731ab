//! The reactor of the calling thread: what its turn has collected, its side of the credits.

use core::cell::{Cell, OnceCell, RefCell};
use core::panic::Location;
use core::task::{Poll, Waker};
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::string::String;
use std_alloc::vec::Vec;

use rast_executor::{Driver, RemoteBatch};

use crate::credit::Sent;
use crate::line::{Ended, Line, Place};
use crate::origin::Origin;
use crate::pool;
use crate::primitive;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::Ordering;
use crate::registry::Replica;
use crate::shared::Shared;
use crate::spawned::Spawned;
use crate::trackers::Trackers;
use crate::watched::{Entry, Watched};

/// A reactor, on its thread.
pub(crate) struct Here {
    pub(crate) shared: Arc<Shared>,
    pub(crate) index: usize,
    pub(crate) replica: Rc<Replica>,
    lanes: Box<[Rc<LaneOf>]>,
    /// The turn has collected something.
    is_dirty: Cell<bool>,
    /// Number of calls to other reactors whose results are awaited.
    awaited: Cell<usize>,
    /// An awaited call has ended since the last decision to spin or sleep.
    has_ended: Cell<bool>,
    jobs: RefCell<Vec<pool::Entry>>,
    pub(crate) trackers: Rc<Trackers>,
    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    pub(crate) io: Rc<crate::io::Io>,
    /// `true` while the executor runs tasks; then its tasks are dropped.
    pub(crate) is_running: Cell<bool>,
}

/// The calls to one target.
pub(crate) struct LaneOf {
    shared: Arc<Shared>,
    caller: usize,
    pub(crate) target: usize,
    sent: Sent,
    waiting: RefCell<Line<()>>,
    /// The calls of this turn; taken out while they are sent.
    batch: RefCell<Option<RemoteBatch>>,
}

/// A credit that was taken. Its drop, on any thread, returns it.
pub(crate) struct Credit {
    shared: Arc<Shared>,
    caller: usize,
    target: usize,
}

impl Drop for Credit {
    fn drop(&mut self) {
        if self.shared.pair(self.caller, self.target).give_back() {
            self.shared.wake(self.caller);
        }
    }
}

/// A call that is awaited.
pub(crate) struct Awaited<'a>(&'a Here);

impl Drop for Awaited<'_> {
    fn drop(&mut self) {
        self.0.awaited.set(self.0.awaited.get() - 1);
        self.0.has_ended.set(true);
    }
}

primitive::thread_local! {
    static HERE: RefCell<Option<Rc<Here>>> = const { RefCell::new(None) };
}

/// The reactor of the calling thread.
pub(crate) fn here() -> Option<Rc<Here>> {
    HERE.try_with(|here| here.borrow().clone()).ok().flatten()
}

/// The reactor of the calling thread, if it is one of this set.
pub(crate) fn here_of(shared: &Arc<Shared>) -> Option<Rc<Here>> {
    here().filter(|here| Arc::ptr_eq(&here.shared, shared))
}

/// The panic message of a function that is called outside of a reactor.
pub(crate) const OUTSIDE: &str =
    "no reactor runs on this thread: call this in a task of a reactor, or use Reactor::spawn";

/// Spawns a task on the reactor that runs the caller; its future need not be `Send`.
///
/// When the reactor has left its loop, it drops its tasks. If a destructor of a task then calls
/// `spawn_local`, the new future is dropped, and its handle returns
/// [`CallError::Stopped`](crate::CallError::Stopped).
///
/// # Panics
///
/// Outside of a reactor.
///
/// ```
/// use rast_reactor::{Reactors, spawn_local};
///
/// let reactors = Reactors::builder().number(1).build().unwrap();
/// let task = reactors.reactor(0).unwrap().spawn(|| async {
///     spawn_local(async { 6 * 7 }).await.unwrap()
/// });
/// assert_eq!(rast_reactor::executor::block_on(task).unwrap(), 42);
/// ```
#[track_caller]
pub fn spawn_local<F: Future + 'static>(future: F) -> Spawned<F::Output> {
    spawn_local_as(Location::caller(), None, future)
}

/// As [`spawn_local`], with a name for reports.
///
/// # Panics
///
/// Outside of a reactor.
#[track_caller]
pub fn spawn_local_named<F: Future + 'static>(
    name: impl Into<String>,
    future: F,
) -> Spawned<F::Output> {
    spawn_local_as(Location::caller(), Some(name.into()), future)
}

#[track_caller]
fn spawn_local_as<F: Future + 'static>(
    line: &'static Location<'static>,
    name: Option<String>,
    future: F,
) -> Spawned<F::Output> {
    let here = here().expect(OUTSIDE);
    let origin = Origin {
        name: name.map(Arc::new),
        line,
    };
    let is_running = here.is_running.get();
    let entry = is_running.then(|| Entry::new(&here.shared, here.index, origin, None));
    let Some(entry) = entry.flatten() else {
        drop(future);
        return Spawned::stopped();
    };
    Spawned::new(rast_executor::spawn_local(Watched { future, entry }))
}

impl Here {
    pub(crate) fn new(
        shared: Arc<Shared>,
        index: usize,
        replica: Replica,
        #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))] io: Rc<crate::io::Io>,
    ) -> Self {
        let lane = |target| {
            Rc::new(LaneOf {
                shared: Arc::clone(&shared),
                caller: index,
                target,
                sent: Sent::default(),
                waiting: RefCell::new(Line::new()),
                batch: RefCell::new(None),
            })
        };
        Self {
            replica: Rc::new(replica),
            lanes: (0..shared.seats.len()).map(lane).collect(),
            is_dirty: Cell::new(false),
            awaited: Cell::new(0),
            has_ended: Cell::new(false),
            jobs: RefCell::new(Vec::new()),
            trackers: Rc::new(Trackers::new(Arc::clone(&shared.watch.clock))),
            #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
            io,
            is_running: Cell::new(true),
            shared,
            index,
        }
    }

    /// Calls `f` while this is the reactor of the thread.
    pub(crate) fn enter<R>(self: &Rc<Self>, f: impl FnOnce() -> R) -> R {
        /// Removes the reactor from the thread, also if `f` panics.
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                let here = HERE.try_with(|here| here.borrow_mut().take());
                drop(here);
            }
        }
        HERE.with(|here| *here.borrow_mut() = Some(Rc::clone(self)));
        let _leave = Leave;
        self.replica.enter(f)
    }

    /// The lane to a target; `None` if there is no such reactor.
    pub(crate) fn lane(&self, target: usize) -> Option<&Rc<LaneOf>> {
        self.lanes.get(target)
    }

    /// Adds a call to the turn.
    pub(crate) fn stage<R>(&self, lane: &LaneOf, stage: impl FnOnce(&mut RemoteBatch) -> R) -> R {
        self.is_dirty.set(true);
        let mut batch = lane.batch.borrow_mut();
        stage(batch.get_or_insert_with(|| self.shared.seats[lane.target].remote.batch()))
    }

    /// Counts a call as awaited until the returned value is dropped.
    pub(crate) fn awaits(&self) -> Awaited<'_> {
        self.awaited.set(self.awaited.get() + 1);
        Awaited(self)
    }

    /// Adds a job to the turn.
    pub(crate) fn stage_job(&self, entry: pool::Entry) {
        self.is_dirty.set(true);
        self.jobs.borrow_mut().push(entry);
    }

    /// Sends the calls that the turn has collected. The drop of a rejected call runs user code,
    /// which may add calls.
    pub(crate) fn flush(&self) {
        while self.is_dirty.replace(false) {
            for lane in &self.lanes {
                let batch = &lane.batch;
                let Some(mut taken) = batch.borrow_mut().take() else {
                    continue;
                };
                taken.send();
                batch.borrow_mut().get_or_insert(taken);
            }
            let mut jobs = self.jobs.take();
            if !jobs.is_empty() {
                self.shared.pool.shared.push(&mut jobs);
                let mut place = self.jobs.borrow_mut();
                if place.is_empty() {
                    *place = jobs;
                }
            }
        }
    }

    /// The main task of the reactor: serves calls that wait for a credit.
    pub(crate) async fn main(self: Rc<Self>) {
        core::future::poll_fn(|cx| {
            self.replica.woken_by(cx.waker());
            for lane in &self.lanes {
                lane.serve();
            }
            // Relaxed: see `Shared::end`.
            if self.shared.seats[self.index]
                .is_ended
                .load(Ordering::Relaxed)
            {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}

impl LaneOf {
    fn pair(&self) -> &crate::credit::Pair {
        self.shared.pair(self.caller, self.target)
    }

    /// Takes a credit, if there is one and no earlier call waits for it.
    pub(crate) fn try_take(&self) -> Option<Credit> {
        let may = self.waiting.borrow().is_empty() && self.sent.take(self.pair());
        may.then(|| self.taken())
    }

    /// The credit that was taken.
    pub(crate) fn taken(&self) -> Credit {
        Credit {
            shared: Arc::clone(&self.shared),
            caller: self.caller,
            target: self.target,
        }
    }

    /// Gives credits to the waiting calls, in order.
    pub(crate) fn serve(&self) {
        let mut ended = Ended::new();
        {
            let mut line = self.waiting.borrow_mut();
            while !line.is_empty() && self.sent.take_or_wait(self.pair()) {
                line.serve(&mut ended);
            }
        }
        ended.wake();
    }
}

impl Place for LaneOf {
    type Wants = ();

    fn line<R>(&self, f: impl FnOnce(&mut Line<()>) -> R) -> R {
        f(&mut self.waiting.borrow_mut())
    }

    fn give_back(&self, (): &()) {
        drop(self.taken());
    }
}

#[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
pub(crate) type Sleeps = crate::io::IoDriver;
#[cfg(not(all(feature = "io", not(any(rast_loom, rast_shuttle)))))]
pub(crate) type Sleeps = rast_executor::ParkerDriver;

/// What a reactor without a ready task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    Sleeps,
    /// It repeats its loop.
    Spins,
}

/// Number of passes of the executor without a ready task, while a call is awaited and none ends,
/// before the reactor sleeps.
/// `bench reactor --only "both busy"` (2 cores, 2026-11-28): 890 ns a call without a pass, 276 ns
/// with 200. The same loop in a program of its own: 950 ns with 64 passes, 280 ns with 400.
#[cfg(not(any(rast_loom, rast_shuttle)))]
const PASSES: u32 = 200;
// The models explore each pass.
#[cfg(any(rast_loom, rast_shuttle))]
const PASSES: u32 = 0;

/// Maximum number of sleeps without a spin, after spins without a result.
const SKIPS_MAX: u32 = 64;

/// Decides whether a reactor that awaits a call spins before it sleeps.
///
/// A result of a busy reactor usually comes within a few microseconds. After a spin without a
/// result, the next sleep begins without a spin. If the next spin brings no result either, two
/// sleeps begin without a spin, then four, and so on up to [`SKIPS_MAX`]. So where results take
/// long, spins cost little.
#[derive(Debug, Default)]
pub(crate) struct BriefSpin {
    passes: u32,
    /// Sleeps that begin at once, after the last spin without a result.
    skips: u32,
    /// Those that are left.
    skips_left: u32,
}

impl BriefSpin {
    /// Called before a sleep; `has_ended` is `true` if an awaited call has ended since the last
    /// time. Returns `true` if the reactor spins.
    fn spins(&mut self, has_ended: bool) -> bool {
        if has_ended {
            if self.passes > 0 {
                self.skips = 0;
            }
            self.passes = 0;
        }
        if self.skips_left > 0 {
            self.skips_left -= 1;
            return false;
        }
        if self.passes < PASSES {
            self.passes += 1;
            return true;
        }
        self.passes = 0;
        self.skips = (2 * self.skips).clamp(1, SKIPS_MAX);
        self.skips_left = self.skips;
        false
    }
}

/// The driver of a reactor's thread; it also sends the calls that a turn has collected.
pub(crate) struct TurnDriver {
    pub(crate) sleeps: Sleeps,
    pub(crate) idle: Idle,
    pub(crate) brief: BriefSpin,
    /// Set before the first task runs.
    pub(crate) here: Rc<OnceCell<Rc<Here>>>,
}

impl Driver for TurnDriver {
    fn submit(&mut self) {
        let here = self.here.get();
        if let Some(here) = here {
            here.trackers.expire();
            here.flush();
            here.replica.turn();
        }
        self.sleeps.submit();
        // Destructors, deferred actions and wakers have run since then, and may have made calls.
        if let Some(here) = here {
            here.flush();
        }
    }

    fn park(&mut self, timeout: Option<Duration>) {
        match self.here.get() {
            // The executor returns here until a task is ready. In between `submit` checks the
            // driver, and the executor checks its timers and what others have sent. The driver does
            // not sleep, so a wake-up makes no system call.
            Some(_) if self.idle == Idle::Spins => primitive::hint::spin_loop(),
            // As above, for a short time.
            Some(here)
                if here.awaited.get() > 0 && self.brief.spins(here.has_ended.replace(false)) =>
            {
                primitive::hint::spin_loop();
            }
            Some(here) => {
                let timeout = here.trackers.limit(timeout);
                let timeout = here.replica.park(timeout);
                self.sleeps.park(timeout);
                here.replica.unpark();
            }
            None => self.sleeps.park(timeout),
        }
    }

    fn unparker(&self) -> Waker {
        self.sleeps.unparker()
    }

    #[cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]
    fn sockets(&self) -> Option<rast_executor::io::Sockets> {
        self.sleeps.sockets()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    /// Passes until the spin sleeps.
    fn passes(spin: &mut BriefSpin) -> u32 {
        let mut passes = 0;
        while spin.spins(false) {
            passes += 1;
        }
        passes
    }

    #[test]
    fn spins_in_vain_become_rare() {
        let mut spin = BriefSpin::default();
        let mut skipped = 0;
        for skips in [1, 2, 4, 8, 16, 32, 64, 64] {
            assert_eq!(passes(&mut spin), PASSES);
            for _ in 0..skips {
                assert_eq!(passes(&mut spin), 0);
                skipped += 1;
            }
        }
        assert_eq!(skipped, 191);
        // A call that ends during a spin ends the spin.
        assert!(spin.spins(false) && spin.spins(true));
        assert_eq!(passes(&mut spin), PASSES - 1);
        assert_eq!(passes(&mut spin), 0);
        assert_eq!(passes(&mut spin), PASSES);
    }
}
