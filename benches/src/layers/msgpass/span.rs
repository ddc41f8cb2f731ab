//! The time from a graph's first message to its last.

use std::sync::mpsc;
use std::time::Instant;

use crate::workers::Sample;

/// Records when the first and the last message were handled.
#[derive(Clone)]
pub(super) struct Span {
    began: Option<Instant>,
    ended: mpsc::Sender<(Instant, Instant)>,
}

impl Span {
    pub(super) fn begin(&mut self) {
        self.began = Some(Instant::now());
    }

    pub(super) fn end(&self) {
        let span = (self.began.expect("it began"), Instant::now());
        self.ended.send(span).expect("the bench waits");
    }
}

/// Makes a span, starts a graph with it, and measures it.
pub(super) fn measured<H>(ops: u64, start: impl FnOnce(Span) -> H) -> Sample {
    measured_with(ops, start, || {})
}

/// As [`measured`]; calls `at_end` while the graph is still there.
pub(super) fn measured_with<H>(
    ops: u64,
    start: impl FnOnce(Span) -> H,
    at_end: impl FnOnce(),
) -> Sample {
    let (ended, end) = mpsc::channel();
    let handle = start(Span { began: None, ended });
    let (begin, end) = end.recv().expect("the last message comes");
    at_end();
    drop(handle); // stops the graph and joins its workers
    Sample::new(ops, end - begin)
}
