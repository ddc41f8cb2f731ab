//! Threads for slow work, by policy.
//!
//! ```text
//!   policy         queues           threads            sleeps as
//!   High    ───►  [ h h h ]  ◄───  class 0 (4)         bit 0   ┐
//!   Medium  ───►  [ m m ]    ◄───  class 1 (3): h m    bit 1   ├ one ClassEvent
//!   Low     ───►  [ l l l ]  ◄───  class 2 (3): h m l  bit 2   ┘
//! ```
//!
//! A task of policy p (0 is High) runs on the threads of classes p and above. In the original RAST
//! design each thread sleeps on the bits of all policies that it runs. So a push of a High task may
//! wake the only sleeping thread that could have run the next Low task. Here a thread sleeps only
//! on the bit of its class. A push wakes a thread of the lowest class that may run the task and has
//! a sleeping thread.
//!
//! Rules, under the lock of the queues:
//!
//! 1. A thread that is about to sleep adds one to `asleep` of its class.
//! 2. For each task, a push picks a sleeping thread that may run the task, if there is one. It
//!    subtracts one from `asleep` of that thread's class and adds one to `picked`. After it has
//!    released the lock, it wakes as many threads as it picked.
//! 3. A thread that is awake again subtracts one from `picked`, or from `asleep` if `picked` is
//!    zero. So the sum of the two is the number of sleeping threads, whichever thread of the class
//!    woke up.
//! 4. A thread that finds no task that it may run reads the event's word under the lock, and sleeps
//!    only while the word is unchanged. A later push finds the thread counted in `asleep`. If the
//!    push wakes a thread of this class, it changes the word, so no wake-up is lost.

use core::fmt;
use core::time::Duration;
use std_alloc::collections::VecDeque;
use std_alloc::format;
use std_alloc::string::String;
use std_alloc::sync::Arc as StdArc;
use std_alloc::vec::Vec;

use rast_executor::queue::Full;
use rast_executor::timers::{Clock, Instant, MonotonicClock, Nanos};
use rast_executor::{Job, SharedClock, shared_clock, trusted_clock};

use crate::error::BuildError;
use crate::primitive::panics::quietly;
use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
use crate::primitive::sync::{Arc, Condvar, Mutex};
use crate::primitive::{ClassEvent, thread};
use crate::quiet::Quiet;
use crate::spawned::Call;

/// How many policies and classes there are.
const CLASSES: usize = 3;

/// The most threads of a pool.
const THREADS_MAX: usize = 1024;

/// Maximum number of queued tasks of one policy, by default.
const CAPACITY: usize = 65_536;

/// A task that has waited for longer than this goes before the others.
const OLD: Nanos = Nanos::from_secs(1);

/// How urgent a task of a [`Pool`] is. The threads of its class and of less urgent (higher) classes
/// run it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// A request waits for it. All threads run it.
    High,
    /// The threads of the classes 1 and 2 run it.
    Medium,
    /// Analytics: nothing waits for it. The threads of class 2 alone run it.
    Low,
}

/// A job on its way to the pool. It counts against the bound of its policy.
pub(crate) struct Entry {
    job: Job,
    policy: Policy,
    queued: Instant,
}

#[derive(Default)]
struct State {
    queues: [VecDeque<Entry>; CLASSES],
    asleep: [u32; CLASSES],
    picked: [u32; CLASSES],
    threads: usize,
    is_closed: bool,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    event: ClassEvent,
    ended: Condvar,
    /// Tasks by policy that are queued, or on their way from a reactor.
    queued: [AtomicUsize; CLASSES],
    capacity: usize,
    clock: SharedClock,
}

/// The choice of a task depends on the time. The clock is read without the lock, since it is user
/// code.
#[derive(Debug)]
struct NeedsTime;

impl State {
    /// Takes the task that a thread of `class` runs next. `now` is needed only where there is a
    /// choice.
    fn take(&mut self, class: usize, now: Option<Instant>) -> Result<Option<Entry>, NeedsTime> {
        let mine = &self.queues[..=class];
        let Some(first) = mine.iter().position(|queue| !queue.is_empty()) else {
            return Ok(None);
        };
        let fronts = mine.iter().enumerate();
        let oldest = fronts.filter_map(|(at, queue)| Some((queue.front()?.queued, at)));
        let chosen = match oldest.min() {
            Some((queued, at)) if at != first => {
                let is_old = now.ok_or(NeedsTime)?.saturating_since(queued) > OLD;
                if is_old { at } else { first }
            }
            _ => first,
        };
        Ok(self.queues[chosen].pop_front())
    }

    /// Picks a sleeper for a task of `policy`: of the lowest class that has one.
    fn pick(&mut self, policy: Policy) -> Option<usize> {
        let class = (policy as usize..CLASSES).find(|&class| self.asleep[class] > 0)?;
        self.asleep[class] -= 1;
        self.picked[class] += 1;
        Some(class)
    }

    /// A thread of `class` is awake.
    fn woke(&mut self, class: usize) {
        if self.picked[class] > 0 {
            self.picked[class] -= 1;
        } else {
            self.asleep[class] -= 1;
        }
    }
}

impl Shared {
    /// Makes the entry of a task, and counts it, if the queue of its policy has room.
    pub(crate) fn admit<T, F>(&self, policy: Policy, task: F) -> Result<(Entry, Call<T>), Full<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let more = |queued: usize| (queued < self.capacity).then_some(queued + 1);
        let queued = &self.queued[policy as usize];
        // Relaxed: a count; the queue is under its lock.
        let counted = queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        if counted.is_err() {
            return Err(Full(task));
        }
        let (job, handle) = Job::new(task);
        let queued = self.clock.now();
        let entry = Entry {
            job,
            policy,
            queued,
        };
        Ok((entry, Call::new(handle)))
    }

    /// Queues tasks that were counted, and wakes threads for them: one system call for each class
    /// at most.
    pub(crate) fn push(&self, entries: &mut Vec<Entry>) {
        let mut wakes = [0; CLASSES];
        {
            let mut state = self.state.lock();
            if !state.is_closed {
                for entry in entries.drain(..) {
                    if let Some(class) = state.pick(entry.policy) {
                        wakes[class] += 1;
                    }
                    state.queues[entry.policy as usize].push_back(entry);
                }
            }
        }
        for (class, &most) in wakes.iter().enumerate() {
            if most > 0 {
                self.event.wake(class as u32, most);
            }
        }
        // A closed pool rejects these tasks. They are cancelled outside of the lock.
        for entry in entries.drain(..) {
            self.uncount(entry.policy);
            drop(entry);
        }
    }

    fn uncount(&self, policy: Policy) {
        // Relaxed: a count, as in `admit`.
        self.queued[policy as usize].fetch_sub(1, Ordering::Relaxed);
    }

    /// What a thread does.
    fn serve(&self, class: usize) {
        let mut state = self.state.lock();
        let mut now = None;
        loop {
            match state.take(class, now.take()) {
                Ok(Some(entry)) => {
                    drop(state);
                    self.uncount(entry.policy);
                    entry.job.run();
                    state = self.state.lock();
                    continue;
                }
                Err(NeedsTime) => {
                    drop(state);
                    now = Some(self.clock.now());
                    state = self.state.lock();
                    continue;
                }
                Ok(None) => {}
            }
            if state.is_closed {
                break;
            }
            state.asleep[class] += 1;
            let seen = self.event.look();
            drop(state);
            self.event.wait(seen, class as u32);
            state = self.state.lock();
            state.woke(class);
        }
        state.threads -= 1;
        drop(state);
        self.ended.notify_all();
    }

    /// Refuses tasks from now on, and cancels those that are queued.
    fn close(&self) {
        let queues = {
            let mut state = self.state.lock();
            state.is_closed = true;
            core::mem::take(&mut state.queues)
        };
        for class in 0..CLASSES as u32 {
            self.event.wake(class, u32::MAX);
        }
        for entry in queues.into_iter().flatten() {
            self.uncount(entry.policy);
            drop(entry);
        }
    }

    /// Waits until all threads have ended, for at most the given time; returns how many have not.
    fn wait_for_threads(&self, grace: Duration) -> usize {
        let begin = std::time::Instant::now();
        let mut state = self.state.lock();
        while state.threads > 0 {
            let left = grace.saturating_sub(begin.elapsed());
            if left.is_zero() {
                break;
            }
            self.ended.wait_timeout(&mut state, left);
        }
        state.threads
    }
}

/// Threads that run slow work; each task has a [`Policy`], its urgency. A pool serves
/// [`Reactors`](crate::Reactors) or is used alone.
///
/// Dropping the pool cancels the queued tasks and refuses further ones. Each thread ends after its
/// current task.
///
/// # Examples
///
/// ```
/// use rast_reactor::executor::block_on;
/// use rast_reactor::{Policy, Pool};
///
/// let pool = Pool::builder().threads([1, 0, 1]).build().unwrap();
/// let sum = pool.run(Policy::Low, || (1..=100).sum::<u32>()).unwrap();
/// assert_eq!(block_on(sum).unwrap(), 5050);
/// ```
pub struct Pool {
    pub(crate) shared: Arc<Shared>,
}

impl Pool {
    /// Sets up a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder {
            threads: [4, 3, 3],
            name: "rast-pool".into(),
            capacity: CAPACITY,
            clock: None,
            on_start: None,
        }
    }

    /// Queues a call, from any thread. Takes a lock for some instructions, and makes a system call
    /// if a thread that may run the call sleeps.
    ///
    /// Dropping the handle cancels the call if it has not begun.
    ///
    /// # Errors
    ///
    /// [`Full`] with the closure if 65,536 tasks of the policy are queued, or as many as
    /// [`PoolBuilder::capacity`] says.
    pub fn run<T, F>(&self, policy: Policy, task: F) -> Result<Call<T>, Full<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (entry, call) = self.shared.admit(policy, task)?;
        self.shared.push(&mut std_alloc::vec![entry]);
        Ok(call)
    }

    /// How many tasks of a policy are queued. A hint.
    #[must_use]
    pub fn queued(&self, policy: Policy) -> usize {
        // Relaxed: a figure.
        self.shared.queued[policy as usize].load(Ordering::Relaxed)
    }

    /// Ends the pool: cancels the queued calls, and waits for the threads, for `grace` at most.
    /// Returns how many threads are still in a task; each of them ends after its task. Blocking.
    ///
    /// ```
    /// use rast_reactor::Pool;
    /// use std::time::Duration;
    ///
    /// assert_eq!(Pool::builder().build().unwrap().stop(Duration::from_secs(60)), 0);
    /// ```
    pub fn stop(self, grace: Duration) -> usize {
        self.end(grace)
    }

    pub(crate) fn end(&self, grace: Duration) -> usize {
        self.shared.close();
        self.shared.wait_for_threads(grace)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("queued", &self.shared.queued)
            .finish_non_exhaustive()
    }
}

/// A thread of a [`Pool`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolThread {
    /// Its class, 0 to 2: the least urgent [`Policy`] that it runs, as a number.
    pub class: usize,
    /// Its number among the threads of its class.
    pub number: usize,
}

type OnStart = dyn Fn(PoolThread) + Send + Sync;

/// Sets up a [`Pool`].
#[must_use = "nothing starts before `build`"]
pub struct PoolBuilder {
    threads: [usize; CLASSES],
    name: String,
    capacity: usize,
    clock: Option<SharedClock>,
    on_start: Option<StdArc<OnStart>>,
}

impl PoolBuilder {
    /// How many threads the classes have: 4, 3 and 3 by default.
    pub fn threads(mut self, threads: [usize; CLASSES]) -> Self {
        self.threads = threads;
        self
    }

    /// The start of the threads' names; `rast-pool` by default. A thread's class and number follow,
    /// as in `rast-pool-2-0`.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How many tasks of one policy may be queued: 65,536 by default.
    pub fn capacity(mut self, tasks: usize) -> Self {
        self.capacity = tasks;
        self
    }

    /// The clock that measures the age of tasks; the system's monotonic one by default. If it
    /// panics, a reading from up to a millisecond before is used. It is called without a lock, and
    /// a panic of its destructor is contained.
    pub fn clock(mut self, clock: impl Clock + Send + Sync + 'static) -> Self {
        self.clock = Some(shared_clock(clock));
        self
    }

    /// Calls `hook` on each thread before its first task, for example to set its scheduling class
    /// or its cores. [`build`](Self::build) does not wait for it. Panics of the hook and of its
    /// destructor are contained, and the thread then runs tasks.
    ///
    /// ```
    /// use rast_reactor::Pool;
    /// use std::sync::mpsc;
    ///
    /// let (starts, started) = mpsc::channel();
    /// let hook = move |thread| starts.send(thread).unwrap();
    /// let _pool = Pool::builder().threads([0, 0, 1]).on_thread_start(hook).build().unwrap();
    /// let thread = started.recv().unwrap();
    /// assert_eq!((thread.class, thread.number), (2, 0));
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn(PoolThread) + Send + Sync + 'static) -> Self {
        let hook = Quiet::new(hook);
        self.on_start = Some(StdArc::new(move |thread| (*hook)(thread)));
        self
    }

    pub(crate) fn clock_if_none(mut self, clock: &SharedClock) -> Self {
        self.clock.get_or_insert_with(|| Arc::clone(clock));
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// [`BuildError::Threads`] if class 2 has no thread, so that tasks of its policy would never
    /// run, or if there are more than 1,024 threads; [`BuildError::Name`]; [`BuildError::Spawn`].
    pub fn build(self) -> Result<Pool, BuildError> {
        let total = self.threads.iter().try_fold(0, |sum: usize, &threads| {
            sum.checked_add(threads).filter(|&sum| sum <= THREADS_MAX)
        });
        if total.is_none() || self.threads[CLASSES - 1] == 0 {
            return Err(BuildError::Threads);
        }
        if self.name.contains('\0') {
            return Err(BuildError::Name);
        }
        let clock = self
            .clock
            .unwrap_or_else(|| trusted_clock(MonotonicClock::new()));
        let pool = Pool {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                event: ClassEvent::new(CLASSES as u32),
                ended: Condvar::new(),
                queued: core::array::from_fn(|_| AtomicUsize::new(0)),
                capacity: self.capacity,
                clock,
            }),
        };
        for (class, &threads) in self.threads.iter().enumerate() {
            for number in 0..threads {
                let shared = Arc::clone(&pool.shared);
                shared.state.lock().threads += 1;
                let name = format!("{}-{class}-{number}", self.name);
                let on_start = self.on_start.clone();
                let serve = move || {
                    if let Some(hook) = on_start {
                        quietly(|| hook(PoolThread { class, number }));
                    }
                    shared.serve(class);
                };
                if let Err(error) = thread::spawn_named(name, serve) {
                    pool.shared.state.lock().threads -= 1;
                    // The drop of the pool ends the threads that were started.
                    return Err(BuildError::Spawn(error));
                }
            }
        }
        Ok(pool)
    }
}

impl fmt::Debug for PoolBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolBuilder")
            .field("threads", &self.threads)
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;
    use rast_executor::timers::ManualClock;

    fn queue(state: &mut State, clock: &ManualClock, policy: Policy) {
        state.queues[policy as usize].push_back(Entry {
            job: Job::new(|| ()).0,
            policy,
            queued: clock.now(),
        });
    }

    #[test]
    fn a_class_takes_its_policies_in_order_and_the_old_first() {
        let clock = ManualClock::new();
        let mut state = State::default();
        let take = |state: &mut State, class| {
            let taken = state.take(class, Some(clock.now())).unwrap();
            taken.map(|entry| entry.policy)
        };
        queue(&mut state, &clock, Policy::Low);
        clock.advance(Nanos::from_nanos(1));
        queue(&mut state, &clock, Policy::Medium);
        assert_eq!(
            take(&mut state, 0),
            None,
            "class 0 runs the high ones alone"
        );
        clock.advance(Nanos::from_nanos(OLD.as_nanos() - 1));
        queue(&mut state, &clock, Policy::High);
        queue(&mut state, &clock, Policy::High);
        assert_eq!(
            take(&mut state, 2),
            Some(Policy::High),
            "one second is not more than one"
        );
        clock.advance(Nanos::from_nanos(2));
        assert_eq!(
            take(&mut state, 0),
            Some(Policy::High),
            "no old one is for class 0"
        );
        queue(&mut state, &clock, Policy::High);
        assert!(state.take(2, None).is_err(), "the time decides");
        assert_eq!(
            take(&mut state, 2),
            Some(Policy::Low),
            "queued before the medium one"
        );
        assert_eq!(take(&mut state, 1), Some(Policy::Medium));
        assert_eq!(take(&mut state, 1), Some(Policy::High));
        assert_eq!(take(&mut state, 2), None);
    }

    #[test]
    fn a_wake_up_leaves_the_threads_that_may_run_more() {
        let mut state = State {
            asleep: [1, 1, 1],
            ..State::default()
        };
        assert_eq!(state.pick(Policy::High), Some(0));
        assert_eq!(state.pick(Policy::Low), Some(2), "it was not used up");
        assert_eq!(state.pick(Policy::Low), None);
        assert_eq!(state.pick(Policy::High), Some(1));
        assert_eq!(state.pick(Policy::High), None);
        assert_eq!((state.asleep, state.picked), ([0; 3], [1; 3]));
        // One more goes to sleep in class 0; it and the picked one wake up in either order.
        state.asleep[0] += 1;
        state.woke(0);
        state.woke(0);
        assert_eq!((state.asleep[0], state.picked[0]), (0, 0));
    }
}
