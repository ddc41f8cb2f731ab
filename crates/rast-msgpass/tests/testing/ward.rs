//! What the processors of the supervision tests write down, and panic at.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rast_msgpass::timers::Instant;
use rast_msgpass::{Failure, Handler, Stopped, Then};

/// A processor, by name and replica.
pub(crate) type At = (&'static str, usize);

/// A step in the life of a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Started,
    Handled,
    Stopped,
}

/// The lives of the processors of one instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Life {
    pub(crate) starts: u64,
    pub(crate) failures: u64,
    pub(crate) thens: Vec<Then>,
    /// Its restarts: when they were asked for, and when they were to come.
    pub(crate) asked: Vec<(u64, u64)>,
    /// When its processors started.
    pub(crate) started: Vec<u64>,
    stops: Vec<Stopped>,
    last: Option<Step>,
}

/// What an edge counted.
pub(crate) struct Balance {
    pub(crate) sent: u64,
    pub(crate) depth: u64,
}

#[derive(Default)]
pub(crate) struct Journal {
    number: u64,
    handled: HashMap<(usize, u64), u64>,
    lost: HashMap<(usize, u64), u64>,
    lives: HashMap<At, Life>,
    /// Calls until each panics.
    bombs: HashMap<String, u64>,
    deaths: Vec<At>,
    alive: i64,
    /// What was wrong in a handler, where an assertion would be contained.
    wrong: Vec<String>,
}

const ALWAYS: u64 = u64::MAX;

impl Journal {
    /// Has the `nth` call of [`bomb`](Self::bomb) with this name panic.
    pub(crate) fn arm(&mut self, bomb: &str, nth: u64) {
        self.bombs.insert(bomb.to_owned(), nth);
    }

    pub(crate) fn arm_always(&mut self, bomb: &str) {
        self.arm(bomb, ALWAYS);
    }

    pub(crate) fn disarm(&mut self, bomb: &str) {
        self.bombs.remove(bomb);
    }

    /// Returns the calls until it panics; 0 if it is not armed.
    pub(crate) fn armed(&self, bomb: &str) -> u64 {
        self.bombs.get(bomb).copied().unwrap_or(0)
    }

    /// Returns whether this call is the one that panics.
    fn is_due(&mut self, bomb: &str) -> bool {
        match self.bombs.get_mut(bomb) {
            None => false,
            Some(&mut ALWAYS) => true,
            Some(left) => {
                *left -= 1;
                *left == 0 && self.bombs.remove(bomb).is_some()
            }
        }
    }

    /// Takes note of what is wrong in a handler.
    pub(crate) fn check(&mut self, is_right: bool, what: impl Fn() -> String) {
        if !is_right {
            self.wrong.push(what());
        }
    }

    pub(crate) fn lost(&mut self, edge: usize, number: u64) {
        *self.lost.entry((edge, number)).or_default() += 1;
    }

    pub(crate) fn failed(&mut self, failure: &Failure) {
        let at = (failure.processor, failure.replica);
        let life = self.lives.entry(at).or_default();
        life.failures += 1;
        if failure.handler != Handler::Stop {
            life.thens.push(failure.then);
            if let Then::Restarts(at) = failure.then {
                life.asked.push((failure.at.as_nanos(), at.as_nanos()));
            }
        }
    }

    pub(crate) fn life(&self, at: At) -> Life {
        self.lives.get(&at).cloned().unwrap_or_default()
    }

    pub(crate) fn last_step(&self, at: At) -> Option<Step> {
        self.life(at).last
    }

    pub(crate) fn deaths(&self) -> Vec<At> {
        self.deaths.clone()
    }

    pub(crate) fn alive(&self) -> i64 {
        self.alive
    }

    /// Each message was handled or lost, once.
    pub(crate) fn assert_fates(&self, balance: &[Balance], text: &str) {
        assert!(self.wrong.is_empty(), "{:?}, {text}", self.wrong);
        for (edge, counts) in balance.iter().enumerate() {
            let of = |fates: &HashMap<(usize, u64), u64>| -> u64 {
                let fates = fates.iter().filter(|((of, _), _)| *of == edge);
                fates.map(|(_, count)| count).sum()
            };
            let fates = of(&self.handled) + of(&self.lost);
            assert_eq!(counts.sent, fates, "edge {edge}, {text}");
            assert_eq!(counts.depth, 0, "edge {edge}, {text}");
        }
        for (message, count) in self.handled.iter().chain(&self.lost) {
            let both = self.handled.contains_key(message) && self.lost.contains_key(message);
            assert!(*count == 1 && !both, "{message:?} twice, {text}");
        }
        let mut deaths = self.deaths.clone();
        deaths.sort_unstable();
        deaths.dedup();
        assert_eq!(deaths.len(), self.deaths.len(), "told twice, {text}");
    }
}

/// Locks a journal, whatever panicked with it.
pub(crate) fn lock(journal: &Mutex<Journal>) -> MutexGuard<'_, Journal> {
    journal.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What every processor has.
pub(crate) struct Part {
    journal: Arc<Mutex<Journal>>,
    at: At,
    has_stopped: bool,
}

impl Part {
    pub(crate) fn new(journal: &Arc<Mutex<Journal>>, name: &'static str, replica: usize) -> Self {
        lock(journal).alive += 1;
        Self {
            journal: journal.clone(),
            at: (name, replica),
            has_stopped: false,
        }
    }

    pub(crate) fn replica(&self) -> usize {
        self.at.1
    }

    /// Panics, if that was asked for. Nothing is printed.
    fn bomb(&self, what: &str) {
        let bomb = format!("{}.{what}", self.at.0);
        bomb_in(&self.journal, &bomb);
    }

    /// Takes the next number for a message.
    pub(crate) fn number(&self) -> u64 {
        let mut journal = lock(&self.journal);
        journal.number += 1;
        journal.number
    }

    fn note(&self, step: Step) {
        let mut journal = lock(&self.journal);
        journal.check(!self.has_stopped, || {
            format!("{:?} was called after its end", self.at)
        });
        journal.lives.entry(self.at).or_default().last = Some(step);
    }

    pub(crate) fn step(&self, what: &str) {
        self.note(Step::Handled);
        self.bomb(what);
    }

    pub(crate) fn handled(&self, edge: usize, number: u64) {
        self.note(Step::Handled);
        let mut journal = lock(&self.journal);
        *journal.handled.entry((edge, number)).or_default() += 1;
    }

    pub(crate) fn told(&self, who: At) {
        self.note(Step::Handled);
        lock(&self.journal).deaths.push(who);
        self.bomb("on_retired");
    }

    pub(crate) fn on_start(&self, restarts: u64, now: Instant) {
        self.note(Step::Started);
        let mut journal = lock(&self.journal);
        let life = journal.life(self.at);
        let counts = [life.starts, life.stops.len() as u64];
        journal.check(counts == [restarts; 2], || {
            format!("{counts:?}, {restarts} restarts")
        });
        let life = journal.lives.entry(self.at).or_default();
        life.starts += 1;
        life.started.push(now.as_nanos());
        drop(journal);
        self.bomb("on_start");
    }

    pub(crate) fn on_stop(&mut self, why: Stopped) {
        self.note(Step::Stopped);
        self.has_stopped = true;
        let mut journal = lock(&self.journal);
        let life = journal.lives.entry(self.at).or_default();
        life.stops.push(why);
        let life = life.clone();
        // All before were replaced.
        let mut before = life.stops.iter().rev().skip(1);
        let is_right =
            life.stops.len() as u64 == life.starts && before.all(|why| *why == Stopped::Restarted);
        journal.check(is_right, || format!("{:?}: {life:?}", self.at));
        drop(journal);
        self.bomb("on_stop");
    }
}

/// Panics, if the journal says so.
pub(crate) fn bomb_in(journal: &Mutex<Journal>, bomb: &str) {
    let is_due = lock(journal).is_due(bomb);
    if is_due {
        resume_unwind(Box::new(format!("bomb: {bomb}")));
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut journal = lock(&self.journal);
        journal.alive -= 1;
        let is_right = self.has_stopped || journal.life(self.at).starts == 0;
        journal.check(is_right, || {
            format!("{:?} was dropped without its end", self.at)
        });
        drop(journal);
        if !std::thread::panicking() {
            self.bomb("drop");
        }
    }
}
