//! The load figures of one instance in one window, for the balancer: busy time, and the senders of
//! its messages.
//!
//! Senders with a ring of their own are counted exactly. Senders that share an inbox are counted in
//! a table of fixed size that finds the heavy ones (Boyer and Moore's majority vote, one per
//! entry): an entry that meets another sender decreases by one, and at zero passes to that sender.
//! So even traffic of a thousand senders results in counts near zero; a balancer could not use it
//! anyway.

use crate::clock::GraphClock;
use crate::sharder::{LoadReport, ShardId};
use crate::timers::{Nanos, StartFinishTimer, TimerConfig};

/// Number of senders that are counted per inbox.
const PLACES: usize = 16;

/// The senders into an input of an instance.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// Outside threads.
    Outside,
    /// One shard.
    One(ShardId),
    /// The shards from this one on.
    Many(ShardId),
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    sender: u32,
    messages: u64,
}

/// The figures of one input.
#[derive(Debug)]
pub(crate) enum Input {
    Outside,
    One(u64),
    Many(Box<[Entry; PLACES]>),
}

impl Input {
    /// Counts messages of the one sender.
    #[inline]
    pub(crate) fn add(&mut self, messages: u64) {
        if let Self::One(count) = self {
            *count += messages;
        }
    }

    /// Counts a message of one of many senders.
    #[inline]
    pub(crate) fn add_from(&mut self, sender: u32) {
        let Self::Many(entries) = self else {
            return;
        };
        let entry = &mut entries[sender as usize % PLACES];
        if entry.sender == sender {
            entry.messages += 1;
        } else if entry.messages > 0 {
            entry.messages -= 1;
        } else {
            *entry = Entry {
                sender,
                messages: 1,
            };
        }
    }
}

/// The figures of one instance.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) timer: StartFinishTimer<GraphClock>,
    pub(crate) inputs: Box<[Input]>,
    /// The busy time of earlier windows.
    earlier: Nanos,
}

impl Load {
    pub(crate) fn new(routes: &[Route], clock: GraphClock) -> Self {
        let input = |route: &Route| match route {
            Route::Outside => Input::Outside,
            Route::One(_) => Input::One(0),
            Route::Many(_) => Input::Many(Box::new([Entry::default(); PLACES])),
        };
        Self {
            timer: StartFinishTimer::new(clock, TimerConfig::new()),
            inputs: routes.iter().map(input).collect(),
            earlier: Nanos::ZERO,
        }
    }

    pub(crate) fn restart(&mut self) {
        self.earlier = self.busy_in_all();
        self.timer.reset();
        for input in &mut self.inputs {
            match input {
                Input::Outside => {}
                Input::One(count) => *count = 0,
                Input::Many(entries) => entries.fill(Entry::default()),
            }
        }
    }

    pub(crate) fn busy(&self) -> Nanos {
        self.timer.sum()
    }

    /// The busy time of all windows.
    #[inline]
    pub(crate) fn busy_in_all(&self) -> Nanos {
        self.earlier.saturating_add(self.timer.sum())
    }

    /// Reports the senders.
    pub(crate) fn report(&self, routes: &[Route], out: &mut LoadReport<'_>) {
        for (route, input) in routes.iter().zip(&self.inputs) {
            match (*route, input) {
                (Route::One(from), Input::One(messages)) => out.received(from, *messages),
                (Route::Many(first), Input::Many(entries)) => {
                    for entry in entries.iter().filter(|entry| entry.messages > 0) {
                        let from = ShardId::from_index(first.index() + entry.sender as usize);
                        out.received(from, entry.messages);
                    }
                }
                _ => {}
            }
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::timers::ManualClock;

    #[test]
    fn a_heavy_sender_is_found_among_many() {
        let clock = GraphClock::new(ManualClock::new());
        let mut load = Load::new(&[Route::Many(ShardId::from_index(0))], clock);
        for round in 0..1000 {
            load.inputs[0].add_from(round % 999);
            load.inputs[0].add_from(5);
        }
        let Input::Many(entries) = &load.inputs[0] else {
            panic!("many senders share the input");
        };
        let most = entries.iter().max_by_key(|entry| entry.messages);
        assert!(most.is_some_and(|entry| entry.sender == 5 && entry.messages > 900));
        assert!(entries.iter().filter(|entry| entry.messages > 20).count() == 1);
    }
}
