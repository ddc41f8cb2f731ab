//! Random operations on locks, each answer compared with what a deadlock means: with all waiters
//! where they are, a scope can never be served, whatever the other scopes release. Also, a wait is
//! woken once, when it is served.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rast_reactor::primitive::Random;
use rast_reactor::{Deadlock, Lock, LockScope};

use super::Held;

const TASKS: usize = 6;
const LOCKS: usize = 4;

/// Counts wake-ups.
#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Scopes that hold a lock or wait for it, by number, and whether they share it.
#[derive(Clone)]
struct Model {
    holders: [Vec<(usize, bool)>; LOCKS],
    line: [VecDeque<(usize, bool)>; LOCKS],
}

impl Model {
    fn admits(&self, lock: usize, shared: bool) -> bool {
        let holders = &self.holders[lock];
        holders.is_empty() || (shared && holders.iter().all(|holder| holder.1))
    }

    fn is_free(&self, lock: usize, shared: bool) -> bool {
        self.line[lock].is_empty() && self.admits(lock, shared)
    }

    /// Returns whether it was served; `None` if it is refused.
    fn lock(&mut self, scope: usize, lock: usize, shared: bool) -> Option<bool> {
        if self.is_free(lock, shared) {
            self.holders[lock].push((scope, shared));
            return Some(true);
        }
        self.line[lock].push_back((scope, shared));
        if self.is_stuck(scope) {
            self.line[lock].pop_back();
            return None;
        }
        Some(false)
    }

    /// Serves those that can be served; returns whether there were any.
    fn grant(&mut self, lock: usize) -> bool {
        let before = self.line[lock].len();
        while let Some(&(scope, shared)) = self.line[lock].front()
            && self.admits(lock, shared)
        {
            self.line[lock].pop_front();
            self.holders[lock].push((scope, shared));
        }
        self.line[lock].len() < before
    }

    fn unlock(&mut self, scope: usize, lock: usize, shared: bool) {
        let mut holders = self.holders[lock].iter();
        let at = holders.position(|holder| *holder == (scope, shared));
        self.holders[lock].remove(at.expect("it holds it"));
        self.grant(lock);
    }

    fn waits(&self, scope: usize) -> bool {
        self.line.iter().flatten().any(|waiter| waiter.0 == scope)
    }

    /// A wait is dropped: its scope leaves the line, or gives back what it was served.
    fn drop_wait(&mut self, scope: usize, lock: usize, shared: bool) {
        if !self.waits(scope) {
            return self.unlock(scope, lock, shared);
        }
        self.line[lock].retain(|waiter| waiter.0 != scope);
        self.grant(lock);
    }

    /// Returns whether a waiting scope is never served, even if all scopes that do not wait release
    /// all they hold, as often as that lets others run.
    fn is_stuck(&self, scope: usize) -> bool {
        let mut model = self.clone();
        while model.waits(scope) {
            let all = model.clone();
            let mut changed = false;
            for lock in 0..LOCKS {
                model.holders[lock].retain(|holder| all.waits(holder.0));
                changed |= model.grant(lock);
            }
            if !changed {
                return true;
            }
        }
        false
    }
}

struct Wait {
    future: Pin<Box<dyn Future<Output = Result<Held, Deadlock>>>>,
    lock: usize,
    shared: bool,
    wakes: Arc<Wakes>,
}

impl Wait {
    /// Polls it with a waker of its own.
    fn poll(&mut self) -> Poll<Result<Held, Deadlock>> {
        self.wakes = Arc::default();
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

/// A scope and its wait; a scope that leaves is replaced by another one with the next number.
struct Task {
    number: usize,
    scope: Rc<RefCell<LockScope>>,
    wait: Option<Wait>,
}

impl Task {
    fn new(number: usize) -> Self {
        Self {
            number,
            scope: Rc::new(RefCell::new(LockScope::new())),
            wait: None,
        }
    }
}

struct Run {
    seed: u64,
    random: Random,
    locks: &'static [Lock<u64>],
    model: Model,
    tasks: Vec<Task>,
    next: usize,
    held: Vec<(usize, usize, bool, Held)>,
}

impl Run {
    fn new(seed: u64, locks: &'static [Lock<u64>]) -> Self {
        let mut random = Random::new(seed);
        let next = 2 + random.below(TASKS - 1);
        let locks = &locks[..1 + random.below(LOCKS)];
        Self {
            seed,
            random,
            locks,
            model: Model {
                holders: Default::default(),
                line: Default::default(),
            },
            tasks: (0..next).map(Task::new).collect(),
            next,
            held: Vec::new(),
        }
    }

    fn step(&mut self) {
        let at = self.random.below(self.tasks.len());
        match self.random.below(12) {
            0..=5 if self.tasks[at].wait.is_none() => self.lock(at),
            6..=8 if !self.held.is_empty() => {
                let at = self.random.below(self.held.len());
                let (number, lock, shared, guard) = self.held.swap_remove(at);
                drop(guard);
                self.model.unlock(number, lock, shared);
            }
            9 => {
                self.drop_wait(at);
                self.tasks[at] = Task::new(self.next);
                self.next += 1;
            }
            10 => self.drop_wait(at),
            _ => {
                let task = &mut self.tasks[at];
                if self.model.waits(task.number)
                    && let Some(wait) = &mut task.wait
                {
                    assert!(wait.poll().is_pending(), "seed {}", self.seed);
                }
            }
        }
        self.check();
    }

    fn lock(&mut self, at: usize) {
        let lock = self.random.below(self.locks.len());
        let (shared, tries) = (self.random.below(2) == 0, self.random.below(6) == 0);
        let of = &self.locks[lock];
        let Task { number, scope, .. } = &self.tasks[at];
        let (number, scope) = (*number, Rc::clone(scope));
        if tries {
            let scope = &mut scope.borrow_mut();
            let guard = match shared {
                true => of.try_shared(scope).map(Held::Shared),
                false => of.try_exclusive(scope).map(Held::Exclusive),
            };
            let is_free = self.model.is_free(lock, shared);
            assert_eq!(guard.is_some(), is_free, "seed {}", self.seed);
            if let Some(guard) = guard {
                self.model.holders[lock].push((number, shared));
                self.held.push((number, lock, shared, guard));
            }
            return;
        }
        #[expect(
            clippy::await_holding_refcell_ref,
            reason = "no other borrow while it waits"
        )]
        let future = Box::pin(async move {
            let scope = &mut scope.borrow_mut();
            match shared {
                true => of.shared(scope).await.map(Held::Shared),
                false => of.exclusive(scope).await.map(Held::Exclusive),
            }
        });
        let mut wait = Wait {
            future,
            lock,
            shared,
            wakes: Arc::default(),
        };
        let expected = self.model.lock(number, lock, shared);
        let polled = wait.poll();
        let got = match &polled {
            Poll::Pending => Some(false),
            Poll::Ready(Ok(_)) => Some(true),
            Poll::Ready(Err(Deadlock)) => None,
        };
        assert_eq!(got, expected, "seed {}: lock {lock}, {number}", self.seed);
        match polled {
            Poll::Pending => self.tasks[at].wait = Some(wait),
            Poll::Ready(Ok(guard)) => self.held.push((number, lock, shared, guard)),
            Poll::Ready(Err(Deadlock)) => {
                drop(wait);
                assert!(self.tasks[at].scope.borrow().is_deadlocked());
            }
        }
    }

    fn drop_wait(&mut self, at: usize) {
        let task = &mut self.tasks[at];
        if let Some(Wait { lock, shared, .. }) = task.wait.take() {
            self.model.drop_wait(task.number, lock, shared);
        }
    }

    /// Each wait that was served was woken once, and no other; some of them go on.
    fn check(&mut self) {
        for task in &mut self.tasks {
            let Some(wait) = &mut task.wait else {
                continue;
            };
            let is_served = !self.model.waits(task.number);
            let wakes = wait.wakes.0.load(Ordering::Relaxed);
            assert_eq!(wakes, u64::from(is_served), "seed {}", self.seed);
            if is_served && self.random.below(3) == 0 {
                let Poll::Ready(Ok(guard)) = wait.poll() else {
                    panic!("seed {}: it was served", self.seed);
                };
                self.held.push((task.number, wait.lock, wait.shared, guard));
                task.wait = None;
            }
        }
    }
}

#[test]
fn locks_agree_with_the_meaning_of_a_deadlock() {
    let locks: Vec<_> = (0..LOCKS).map(|_| Lock::new(0)).collect();
    // All runs use the same ones, which are free between two runs.
    let locks: &'static [Lock<u64>] = locks.leak();
    for seed in 0..6_000 {
        let mut run = Run::new(seed, locks);
        (0..10 + run.random.below(80)).for_each(|_| run.step());
        drop(run);
        let mut scope = LockScope::new();
        for lock in locks {
            assert!(
                lock.try_exclusive(&mut scope).is_some(),
                "seed {seed}: it is held"
            );
        }
    }
}
