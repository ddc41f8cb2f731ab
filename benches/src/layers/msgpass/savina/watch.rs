//! The time of a run, its result, and the random numbers of the programs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use crate::workers::Sample;

/// Measures a run of which several actors may report the end.
#[derive(Clone)]
pub(in super::super) struct Watch(Arc<Shared>);

struct Shared {
    began: OnceLock<Instant>,
    /// Actors that have not ended.
    left: AtomicU64,
    sum: AtomicU64,
    ended: mpsc::Sender<(Instant, u64)>,
}

impl Watch {
    /// Says that the first message is about to be sent. Further calls change nothing.
    pub(in super::super) fn begin(&self) {
        self.0.began.get_or_init(Instant::now);
    }

    /// When the run began.
    #[inline]
    pub(in super::super) fn began(&self) -> Instant {
        *self.0.began.get().expect("it began")
    }

    /// Says that an actor has ended, and what it adds to the result.
    #[cold]
    pub(in super::super) fn part(&self, result: u64) {
        // Relaxed: the count below publishes it.
        self.0.sum.fetch_add(result, Ordering::Relaxed);
        // AcqRel: the last one sees what the others have added.
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let end = (Instant::now(), self.0.sum.load(Ordering::Relaxed));
            self.0.ended.send(end).expect("the bench waits");
        }
    }
}

/// The other end of a [`Watch`].
pub(in super::super) struct End {
    watch: Watch,
    ended: mpsc::Receiver<(Instant, u64)>,
}

impl End {
    /// Waits until all parts have ended.
    ///
    /// # Panics
    ///
    /// If the result is not `expected`, or if the parts have not ended after 60 seconds.
    pub(in super::super) fn wait(&self, messages: u64, expected: u64) -> Sample {
        let end = self.ended.recv_timeout(Duration::from_secs(60));
        let (end, result) = end.expect("the program ends");
        assert_eq!(result, expected, "the result of the program");
        Sample::new(messages, end - self.watch.began())
    }
}

/// Makes a watch of a program whose end so many actors report.
pub(in super::super) fn watch(parts: u64) -> (Watch, End) {
    let (give, ended) = mpsc::channel();
    let watch = Watch(Arc::new(Shared {
        began: OnceLock::new(),
        left: AtomicU64::new(parts),
        sum: AtomicU64::new(0),
        ended: give,
    }));
    let end = End {
        watch: watch.clone(),
        ended,
    };
    (watch, end)
}

/// Random numbers that are the same in each run.
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number: xorshift by Marsaglia, with a product over it.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The next number below `bound`.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((self.next() >> 32) * bound) >> 32
    }
}
