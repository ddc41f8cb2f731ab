//! State shared by the threads of a scheduler, its handles and its waiting tasks.

use core::fmt;
use std::any::Any;
use std::boxed::Box;
use std::string::String;
use std::vec::Vec;

use rast_timers::primitive::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use rast_timers::primitive::sync::{Arc, Condvar, Mutex, MutexGuard};
use rast_timers::primitive::thread::ThreadId;
use rast_timers::primitive::{CachePadded, Counter, EventCount};
use rast_timers::queue::mpsc::intrusive::Queue;
use rast_timers::{Clock, Nanos};

use crate::idle::Idle;
use crate::owned::{NEVER, Owned};
use crate::plan::{Front, Plan, Round};
use crate::primitive::panics::{contain, discard};
use crate::priority::Priority;
use crate::seat::Seat;

/// Settings from the builder.
pub(crate) struct Config {
    pub(crate) name: String,
    /// Number of the scheduler's own threads; the other seats are for threads of the user.
    pub(crate) workers: usize,
    pub(crate) seats: usize,
    pub(crate) batch: usize,
    pub(crate) batch_time: Nanos,
}

/// Counters of one worker; only that worker writes them.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: Counter,
    pub(crate) rounds: Counter,
    pub(crate) sleeps: Counter,
    pub(crate) stolen: Counter,
}

/// The seats and the threads on them. Locked for some instructions, when a worker enters or leaves.
pub(crate) struct Crew {
    pub(crate) seats: Vec<Option<Seat>>,
    /// Thread on each seat.
    pub(crate) threads: Vec<Option<ThreadId>>,
    pub(crate) is_running: bool,
    /// `true` if one of its own workers dropped the scheduler; the last to leave closes it.
    pub(crate) is_orphaned: bool,
}

impl Crew {
    /// Returns whether no thread has a seat.
    pub(crate) fn is_gone(&self) -> bool {
        self.seats.iter().all(Option::is_some)
    }

    /// Returns whether the seats without a worker have no ready task. A worker that leaves because
    /// the scheduler stops leaves its ready tasks behind.
    fn is_deserted(&self) -> bool {
        self.seats.iter().flatten().all(|seat| !seat.has_ready())
    }
}

/// All state of a scheduler.
pub(crate) struct Shared {
    fronts: [Front; Priority::COUNT],
    idle: Idle,
    plan: Mutex<Plan>,
    /// Copies of words of the plan, for threads without the role. `next`: no entry is due before
    /// it. `more`: a round left tasks to move. `timed`: the number of entries with a deadline.
    next: CachePadded<AtomicU64>,
    more: AtomicBool,
    timed: AtomicUsize,
    clock: Box<dyn Clock + Send + Sync>,
    /// Notified when a worker finds no work left.
    pub(crate) calm: EventCount,
    members: AtomicU64,
    pub(crate) crew: Mutex<Crew>,
    pub(crate) left: Condvar,
    pub(crate) counts: Box<[CachePadded<Counts>]>,
    pub(crate) panics: AtomicU64,
    pub(crate) clock_panics: AtomicU64,
    pub(crate) config: Config,
}

impl Shared {
    pub(crate) fn new(config: Config, clock: Box<dyn Clock + Send + Sync>) -> Arc<Self> {
        let (idle, parkers) = Idle::new(config.seats);
        let counts = parkers.iter().map(|_| CachePadded::default()).collect();
        let threads = parkers.iter().map(|_| None).collect();
        Arc::new(Self {
            fronts: [(); Priority::COUNT].map(|()| Queue::new()),
            idle,
            plan: Mutex::new(Plan::new()),
            next: CachePadded::new(AtomicU64::new(u64::MAX)),
            more: AtomicBool::new(false),
            timed: AtomicUsize::new(0),
            clock,
            calm: EventCount::new(),
            members: AtomicU64::new(0),
            crew: Mutex::new(Crew {
                seats: Seat::all(parkers).into_iter().map(Some).collect(),
                threads,
                is_running: false,
                is_orphaned: false,
            }),
            left: Condvar::new(),
            counts,
            panics: AtomicU64::new(0),
            clock_panics: AtomicU64::new(0),
            config,
        })
    }

    #[inline]
    pub(crate) fn idle(&self) -> &Idle {
        &self.idle
    }

    /// Reads the clock; the result is at most `NEVER - 1`, so that tasks without a deadline are
    /// never due.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_nanos().min(NEVER - 1)
    }

    /// Reads the clock for a worker; returns `last`, its previous reading, if the clock panics.
    /// Deadlines are then late.
    #[inline]
    pub(crate) fn now_or(&self, last: u64) -> u64 {
        match contain(|| self.now()) {
            Ok(now) => now,
            Err(payload) => self.unread_slow(payload, last),
        }
    }

    #[cold]
    fn unread_slow(&self, payload: Box<dyn Any + Send>, last: u64) -> u64 {
        discard(payload);
        // Relaxed: a count. [SW16]
        self.clock_panics.fetch_add(1, Ordering::Relaxed);
        last
    }

    /// Pushes a task to the front queue and wakes no worker; returns the task if the scheduler is
    /// closed.
    #[inline]
    pub(crate) fn push(&self, task: Owned) -> Result<(), Owned> {
        let front = &self.fronts[task.class() as usize];
        match front.push(task) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.into_inner()),
        }
    }

    /// Pushes a task to the front queue and wakes a sleeping worker.
    #[inline]
    pub(crate) fn post(&self, task: Owned) -> Result<(), Owned> {
        self.push(task)?;
        self.idle.notify();
        Ok(())
    }

    /// Pushes tasks of one priority to the front queue with one read-modify-write; returns those
    /// that were rejected.
    pub(crate) fn push_many(
        &self,
        class: Priority,
        tasks: impl Iterator<Item = Owned>,
    ) -> Result<(), Vec<Owned>> {
        match self.fronts[class as usize].push_batch(tasks) {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.into_inner().collect()),
        }
    }

    /// Returns whether the role has posted tasks to move, or tasks that the last round left.
    #[inline]
    pub(crate) fn has_posted(&self) -> bool {
        // Relaxed: a hint; a thread that must not miss it fences. [SW1]
        self.fronts.iter().any(|front| !front.is_empty()) || self.more.load(Ordering::Relaxed)
    }

    /// Returns the time before which no entry is due; `u64::MAX` if none has a deadline.
    #[inline]
    pub(crate) fn next_due(&self) -> u64 {
        // Relaxed: as SW1. [SW2]
        self.next.load(Ordering::Relaxed)
    }

    /// Returns whether a deadline is stored and no worker sleeps until it.
    #[inline]
    pub(crate) fn lacks_keeper(&self) -> bool {
        self.next_due() != u64::MAX && !self.idle.is_kept()
    }

    /// Tries to acquire the role.
    #[inline]
    pub(crate) fn try_role(&self) -> Option<MutexGuard<'_, Plan>> {
        self.plan.try_lock()
    }

    /// Runs one round of the role at `now`, and releases the role.
    pub(crate) fn round(
        this: &Arc<Self>,
        mut plan: MutexGuard<'_, Plan>,
        now: u64,
        ready: impl FnMut(Owned),
    ) -> Round {
        let before = this.next_due();
        let round = plan.round(this, &this.fronts, now, ready);
        // Relaxed: only the role writes it; the fences of `Idle` order it for sleepers. [SW3]
        this.next.store(round.next, Ordering::Relaxed);
        // Relaxed: as SW3. [SW4]
        this.more.store(round.more, Ordering::Relaxed);
        // Relaxed: as SW3. [SW5]
        this.timed.store(round.timed, Ordering::Relaxed);
        drop(plan);
        if round.next < before {
            this.idle.hasten();
        }
        round
    }

    /// Returns whether no task is ready, running, posted, or waiting for a deadline.
    pub(crate) fn is_idle(&self) -> bool {
        // Locked during the whole check, so that no seat is taken or returned.
        let crew = self.crew.lock();
        // Relaxed: a bit is set before the lock under which its seat is taken is released. [SW6]
        let members = self.members.load(Ordering::Relaxed);
        self.idle.is_calm(members, || {
            // Relaxed: the sleepers' announcements publish it. [SW7]
            let is_planned = self.has_posted() || self.timed.load(Ordering::Relaxed) > 0;
            !is_planned && crew.is_deserted()
        })
    }

    /// Counts a worker as a member, before it runs a step.
    pub(crate) fn enter(&self, worker: usize) {
        // Relaxed: as SW6. [SW8]
        self.members.fetch_or(1 << worker, Ordering::Relaxed);
    }

    /// Removes a worker from the members.
    pub(crate) fn exit(&self, worker: usize) {
        // Relaxed: as SW6. [SW9]
        self.members.fetch_and(!(1 << worker), Ordering::Relaxed);
    }

    /// Returns a seat.
    pub(crate) fn leave(this: &Arc<Self>, seat: Seat) {
        let worker = seat.worker;
        let mut crew = this.crew.lock();
        this.exit(worker);
        crew.threads[worker] = None;
        crew.seats[worker] = Some(seat);
        let closes = crew.is_orphaned && crew.is_gone();
        drop(crew);
        this.left.notify_all();
        if closes {
            Self::close(this);
        }
    }

    /// Removes all tasks, the ready ones first, then by deadline. No worker may be running.
    pub(crate) fn empty(this: &Arc<Self>, close: bool) -> Vec<Owned> {
        let (mut ready, mut waiting) = (Vec::new(), Vec::new());
        let mut crew = this.crew.lock();
        for seat in crew.seats.iter_mut().flatten() {
            seat.empty(&mut ready);
        }
        drop(crew);
        let mut plan = this.plan.lock();
        plan.empty(this, &this.fronts, close, &mut ready, &mut waiting);
        // Relaxed: as SW3. [SW10]
        this.next.store(u64::MAX, Ordering::Relaxed);
        // Relaxed: as SW3. [SW11]
        this.more.store(false, Ordering::Relaxed);
        // Relaxed: as SW3. [SW12]
        this.timed.store(0, Ordering::Relaxed);
        drop(plan);
        waiting.sort_by_key(Owned::due);
        ready.append(&mut waiting);
        ready
    }

    /// Ends all tasks, and rejects new ones.
    pub(crate) fn close(this: &Arc<Self>) {
        drop(Self::empty(this, true));
        this.calm.notify_all();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared")
            .field("name", &self.config.name)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}
