//! Random operations on locks, each answer compared with a naive wait-for graph.
#![cfg(not(any(rast_loom, rast_shuttle)))]

#[path = "model/meaning.rs"]
mod meaning;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;
use rast_reactor::{Deadlock, ExclusiveGuard, Lock, LockScope, SharedGuard};

fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// What a scope holds.
enum Held {
    Shared(#[allow(dead_code, reason = "held")] SharedGuard<'static, u64>),
    Exclusive(#[allow(dead_code, reason = "held")] ExclusiveGuard<'static, u64>),
}

type Waiting = Pin<Box<dyn Future<Output = (LockScope, Result<Held, Deadlock>)>>>;

/// What one scope does.
enum Actor {
    Runs(LockScope),
    Waits(Waiting),
}

/// The oracle: explicit edges, searched naively.
#[derive(Clone, Default)]
struct Oracle {
    /// By lock: the scopes that hold it, and whether they share it.
    holders: Vec<Vec<(usize, bool)>>,
    line: Vec<VecDeque<(usize, bool)>>,
}

impl Oracle {
    fn new(locks: usize) -> Self {
        Self {
            holders: vec![Vec::new(); locks],
            line: vec![VecDeque::new(); locks],
        }
    }

    fn admits(&self, lock: usize, shared: bool) -> bool {
        let holders = &self.holders[lock];
        holders.is_empty() || shared && holders.iter().all(|holder| holder.1)
    }

    /// Edges of all that wait, to what is in the way of each.
    fn edges(&self) -> Vec<(usize, usize)> {
        let mut edges = Vec::new();
        for (holders, line) in self.holders.iter().zip(&self.line) {
            for (at, &(scope, shared)) in line.iter().enumerate() {
                let ahead = line.iter().take(at);
                let in_the_way = holders.iter().chain(ahead);
                let in_the_way = in_the_way.filter(|other| !shared || !other.1);
                edges.extend(in_the_way.map(|other| (scope, other.0)));
            }
        }
        edges
    }

    /// Whether `scope` reaches itself.
    fn is_in_cycle(&self, scope: usize) -> bool {
        let edges = self.edges();
        let mut reached = vec![scope];
        let mut at = 0;
        while at < reached.len() {
            for &(from, to) in &edges {
                if from == reached[at] {
                    if to == scope {
                        return true;
                    }
                    if !reached.contains(&to) {
                        reached.push(to);
                    }
                }
            }
            at += 1;
        }
        false
    }

    /// Returns whether the lock was got, waited for, or refused.
    fn lock(&mut self, scope: usize, lock: usize, shared: bool) -> Option<bool> {
        if self.line[lock].is_empty() && self.admits(lock, shared) {
            self.holders[lock].push((scope, shared));
            return Some(true);
        }
        self.line[lock].push_back((scope, shared));
        if self.is_in_cycle(scope) {
            self.line[lock].pop_back();
            return None;
        }
        Some(false)
    }

    fn grant(&mut self, lock: usize) {
        while let Some(&(scope, shared)) = self.line[lock].front() {
            if !self.admits(lock, shared) {
                break;
            }
            self.line[lock].pop_front();
            self.holders[lock].push((scope, shared));
        }
    }

    fn unlock(&mut self, scope: usize, lock: usize) {
        let at = self.holders[lock]
            .iter()
            .position(|holder| holder.0 == scope);
        self.holders[lock].remove(at.expect("it holds it"));
        self.grant(lock);
    }

    fn leave(&mut self, scope: usize) {
        for lock in 0..self.line.len() {
            self.line[lock].retain(|waiter| waiter.0 != scope);
            self.grant(lock);
        }
    }

    fn waits(&self, scope: usize) -> bool {
        self.line.iter().flatten().any(|waiter| waiter.0 == scope)
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock(usize, usize, bool),
    Unlock(usize),
    Leave(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5_usize, 0..4_usize, any::<bool>()).prop_map(|(s, l, m)| Step::Lock(s, l, m)),
        3 => (0..64_usize).prop_map(Step::Unlock),
        1 => (0..5_usize).prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn a_wait_is_refused_if_it_closes_a_cycle_and_only_then(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        // Leaked so that guards and waits lie side by side; a few bytes for each case.
        let locks: &'static [Lock<u64>] =
            Box::leak((0..4).map(|_| Lock::new(0)).collect::<Vec<_>>().into_boxed_slice());
        let mut oracle = Oracle::new(4);
        // A scope that leaves is replaced; what it holds is still its own.
        let mut number = 5;
        let mut ids: Vec<usize> = (0..5).collect();
        let mut actors: Vec<Option<Actor>> =
            (0..5).map(|_| Some(Actor::Runs(LockScope::new()))).collect();
        let mut wants: Vec<usize> = vec![0; 5];
        let mut held: Vec<(usize, usize, Held)> = Vec::new();
        for (count, step) in steps.into_iter().enumerate() {
            match step {
                Step::Lock(at, lock, shared) => {
                    let Some(Actor::Runs(mut scope)) = actors[at].take_if(|a| matches!(a, Actor::Runs(_)))
                    else {
                        continue;
                    };
                    let expected = oracle.lock(ids[at], lock, shared);
                    wants[at] = lock;
                    let mut waiting: Waiting = Box::pin(async move {
                        let result = if shared {
                            locks[lock].shared(&mut scope).await.map(Held::Shared)
                        } else {
                            locks[lock].exclusive(&mut scope).await.map(Held::Exclusive)
                        };
                        (scope, result)
                    });
                    let polled = poll(waiting.as_mut());
                    let got = match &polled {
                        Poll::Pending => Some(false),
                        Poll::Ready((_, Ok(_))) => Some(true),
                        Poll::Ready((_, Err(Deadlock))) => None,
                    };
                    prop_assert_eq!(got, expected);
                    actors[at] = Some(match polled {
                        Poll::Pending => Actor::Waits(waiting),
                        Poll::Ready((scope, result)) => {
                            if let Ok(guard) = result {
                                held.push((ids[at], lock, guard));
                            }
                            Actor::Runs(scope)
                        }
                    });
                }
                Step::Unlock(at) => {
                    if !held.is_empty() {
                        let (id, lock, guard) = held.swap_remove(at % held.len());
                        drop(guard);
                        oracle.unlock(id, lock);
                    }
                }
                Step::Leave(at) => {
                    if matches!(actors[at], Some(Actor::Waits(_))) {
                        actors[at] = Some(Actor::Runs(LockScope::new()));
                        if oracle.waits(ids[at]) {
                            oracle.leave(ids[at]);
                        } else {
                            // Served, and not polled since.
                            oracle.unlock(ids[at], wants[at]);
                        }
                        ids[at] = number;
                        number += 1;
                    }
                }
            }
            // Some of those that were served run at once, some later.
            for at in (0..5).filter(|at| (at + count / 2).is_multiple_of(3)) {
                let Some(Actor::Waits(waiting)) = &mut actors[at] else {
                    continue;
                };
                let polled = poll(waiting.as_mut());
                prop_assert_eq!(polled.is_pending(), oracle.waits(ids[at]));
                if let Poll::Ready((scope, result)) = polled {
                    held.push((ids[at], wants[at], result.expect("it waited")));
                    actors[at] = Some(Actor::Runs(scope));
                }
            }
        }
    }
}
