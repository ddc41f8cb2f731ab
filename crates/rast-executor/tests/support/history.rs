//! Histories of tasks: what was done to each task and what it did, in one order, and the rules that
//! the order has to keep.
//!
//! An event takes the next number from a counter. Events that cause something (a wake-up, an abort)
//! are recorded before the call; events that report something are recorded after it. So the rules
//! never accuse a correct executor, no matter where a thread is stopped.
//!
//! Rules, for each task:
//!
//! 1. It is polled only after its spawn and before its end, by one thread at a time. Its end is a
//!    poll that is ready or panics, or the drop of its future.
//! 2. A wake-up that began after the last poll did leads to another poll before the executor is
//!    quiet; a spawn counts as a wake-up. There are no more polls than wake-ups.
//! 3. Its future is dropped once, not during a poll, and before its handle is ready. A future that
//!    is neither ready nor panicked is dropped only after an abort or a shutdown began.
//! 4. An abort leads to the drop of the future before the executor is quiet. At most one poll
//!    begins after the abort returned: the runner may have looked before it.
//! 5. A ready poll makes one output, which is dropped once, and the handle returns it at most once.
//!    The handle returns what became of the task.

use std::sync::atomic::{AtomicU64, Ordering};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Spawn = 1,
    PollBegins,
    PollPends,
    PollIsReady,
    PollPanics,
    /// A wake-up begins.
    Wake,
    /// An abort begins.
    Abort,
    /// An abort returned.
    Aborted,
    /// The destructor of the future begins.
    Drop,
    /// The same, of a destructor that panics.
    DropPanics,
    OutputDropped,
    /// The handle returned the output.
    Taken,
    /// The handle said that the task was cancelled.
    Cancelled,
    /// The handle said that the task panicked.
    Panicked,
    /// No thread acts on the tasks, and the executor was given the time to answer. Of no task.
    Quiet,
    /// The shutdown begins. Of no task.
    Shutdown,
}

const EVENTS: [Event; 16] = [
    Event::Spawn,
    Event::PollBegins,
    Event::PollPends,
    Event::PollIsReady,
    Event::PollPanics,
    Event::Wake,
    Event::Abort,
    Event::Aborted,
    Event::Drop,
    Event::DropPanics,
    Event::OutputDropped,
    Event::Taken,
    Event::Cancelled,
    Event::Panicked,
    Event::Quiet,
    Event::Shutdown,
];

/// An event, and the number of its task.
pub(crate) type Entry = (Event, usize);

/// Events of all threads in one order. The atomics are std's: the scheduler of shuttle does not
/// switch at them, and they order less than a lock would.
pub(crate) struct History {
    next: AtomicU64,
    /// Zero for an entry that is not written yet.
    entries: Box<[AtomicU64]>,
}

impl History {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            next: AtomicU64::new(0),
            entries: (0..entries_max).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    pub(crate) fn record(&self, event: Event, task: usize) {
        let at = self.next.fetch_add(1, Ordering::AcqRel) as usize;
        let code = (task as u64) << 8 | event as u64;
        // Beyond the end the count is too high, and `entries` says so.
        if let Some(entry) = self.entries.get(at) {
            entry.store(code, Ordering::Release);
        }
    }

    /// What was recorded so far; `None` while a thread is about to write an entry.
    pub(crate) fn entries(&self) -> Option<Vec<Entry>> {
        let count = self.next.load(Ordering::Acquire) as usize;
        assert!(count <= self.entries.len(), "the history is too short");
        let entry = |entry: &AtomicU64| {
            let code = entry.load(Ordering::Acquire);
            let event = EVENTS.get((code as usize & 0xff).checked_sub(1)?)?;
            Some((*event, (code >> 8) as usize))
        };
        self.entries[..count].iter().map(entry).collect()
    }

    /// Whether every wake-up and every abort so far was answered.
    pub(crate) fn is_answered(&self) -> bool {
        self.entries().is_some_and(|entries| {
            let mut checker = Checker::default();
            let mut entries = entries.into_iter().chain([(Event::Quiet, 0)]);
            entries.all(|entry| checker.step(entry).is_ok())
        })
    }
}

/// Returns the first rule that the history breaks, and what happened to the task until then.
pub(crate) fn check(entries: &[Entry]) -> Result<(), String> {
    let mut checker = Checker::default();
    for (at, &entry) in entries.iter().enumerate() {
        checker.step(entry).map_err(|(rule, number)| {
            let story: Vec<_> = (entries[..=at].iter().enumerate())
                .filter(|(_, entry)| entry.1 == number)
                .map(|(at, entry)| (at, entry.0))
                .collect();
            format!("{rule}: task {number}, {story:?}")
        })?;
    }
    checker.finish()
}

/// How a task came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Ready,
    Panic,
}

/// What a history says of one task so far.
#[derive(Debug, Default)]
struct Seen {
    is_spawned: bool,
    is_polled: bool,
    end: Option<End>,
    is_dropped: bool,
    drop_panicked: bool,
    wakes: usize,
    polls: usize,
    /// A wake-up began after the last poll did.
    is_woken: bool,
    is_abort_begun: bool,
    is_aborted: bool,
    polls_after_abort: usize,
    has_result: bool,
    is_output_dropped: bool,
}

/// Goes through a history.
#[derive(Debug, Default)]
struct Checker {
    tasks: Vec<Seen>,
    is_shut_down: bool,
}

/// A rule, and the number of the task that breaks it.
type Broken = (&'static str, usize);

impl Checker {
    fn step(&mut self, (event, number): Entry) -> Result<(), Broken> {
        match event {
            Event::Quiet => {
                for (number, task) in self.tasks.iter().enumerate() {
                    task.quiet().map_err(|rule| (rule, number))?;
                }
                return Ok(());
            }
            Event::Shutdown => {
                self.is_shut_down = true;
                return Ok(());
            }
            _ => {}
        }
        if self.tasks.len() <= number {
            self.tasks.resize_with(number + 1, Seen::default);
        }
        let is_shut_down = self.is_shut_down;
        let broken = self.tasks[number].step(event, is_shut_down);
        broken.map_err(|rule| (rule, number))
    }

    fn finish(&self) -> Result<(), String> {
        for (number, task) in self.tasks.iter().enumerate() {
            if task.is_spawned && !task.is_dropped {
                return Err(format!("rule 3: a future was not dropped: task {number}"));
            }
            if task.is_output_dropped != (task.end == Some(End::Ready)) {
                return Err(format!("rule 5: an output was not dropped: task {number}"));
            }
        }
        Ok(())
    }
}

/// Returns the rule as an error if it does not hold.
fn rule(holds: bool, rule: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(rule) }
}

impl Seen {
    fn step(&mut self, event: Event, is_shut_down: bool) -> Result<(), &'static str> {
        match event {
            Event::Spawn => {
                rule(!self.is_spawned, "rule 1: spawned twice")?;
                self.is_spawned = true;
                self.woken();
            }
            Event::PollBegins => {
                rule(self.is_spawned, "rule 1: polled before the spawn")?;
                rule(!self.is_polled, "rule 1: polled by two threads at a time")?;
                let is_alive = self.end.is_none() && !self.is_dropped;
                rule(is_alive, "rule 1: polled after the end")?;
                self.is_polled = true;
                self.is_woken = false;
                self.polls += 1;
                rule(self.polls <= self.wakes, "rule 2: a poll without a wake-up")?;
                self.polls_after_abort += usize::from(self.is_aborted);
                rule(self.polls_after_abort < 2, "rule 4: polled after an abort")?;
            }
            Event::PollPends => self.end_poll(None)?,
            Event::PollIsReady => self.end_poll(Some(End::Ready))?,
            Event::PollPanics => self.end_poll(Some(End::Panic))?,
            Event::Wake => self.woken(),
            Event::Abort => self.is_abort_begun = true,
            Event::Aborted => self.is_aborted = true,
            Event::Drop | Event::DropPanics => {
                rule(!self.is_dropped, "rule 3: dropped twice")?;
                rule(!self.is_polled, "rule 3: dropped during a poll")?;
                let is_due = self.end.is_some() || self.is_abort_begun || is_shut_down;
                rule(is_due, "rule 3: dropped without a reason")?;
                self.is_dropped = true;
                self.drop_panicked = event == Event::DropPanics;
            }
            Event::OutputDropped => {
                let is_made = self.end == Some(End::Ready);
                rule(is_made, "rule 5: an output without a ready poll")?;
                rule(
                    !self.is_output_dropped,
                    "rule 5: an output was dropped twice",
                )?;
                self.is_output_dropped = true;
            }
            Event::Taken => {
                let is_kept = !self.is_output_dropped && !self.drop_panicked;
                self.result(self.end == Some(End::Ready) && is_kept)?;
            }
            Event::Cancelled => self.result(self.end.is_none() && !self.drop_panicked)?,
            Event::Panicked => self.result(self.end == Some(End::Panic) || self.drop_panicked)?,
            Event::Quiet | Event::Shutdown => {}
        }
        Ok(())
    }

    fn woken(&mut self) {
        self.wakes += 1;
        self.is_woken = true;
    }

    fn end_poll(&mut self, end: Option<End>) -> Result<(), &'static str> {
        rule(self.is_polled, "rule 1: a poll ends that did not begin")?;
        self.is_polled = false;
        self.end = end;
        Ok(())
    }

    fn result(&mut self, is_right: bool) -> Result<(), &'static str> {
        rule(self.is_dropped, "rule 3: a handle is ready before the drop")?;
        rule(!self.has_result, "rule 5: a handle returned twice")?;
        rule(is_right, "rule 5: a handle returned another result")?;
        self.has_result = true;
        Ok(())
    }

    fn quiet(&self) -> Result<(), &'static str> {
        rule(!self.is_polled, "rule 2: a poll did not end")?;
        if self.is_dropped {
            return Ok(());
        }
        rule(self.end.is_none(), "rule 3: a future outlived its end")?;
        rule(!self.is_woken, "rule 2: a wake-up was lost")?;
        rule(!self.is_abort_begun, "rule 4: an abort was lost")
    }
}
