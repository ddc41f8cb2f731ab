//! Injected faults: rare results that the system may give an operation.
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "some are of io_uring alone")
)]

use core::cell::RefCell;

use crate::primitive::Random;

/// Faults that a driver injects into I/O operations, to test code that uses them. None by default.
///
/// Each rate is the number of faults per 1,000 attempts, on average. The same seed and sequence of
/// attempts give the same faults.
///
/// ```
/// use rast_reactor::Reactors;
/// use rast_reactor::io::Faults;
///
/// let faults = Faults::seeded(7).short(500).interrupted(100);
/// let reactors = Reactors::builder().number(1).faults(faults).build().unwrap();
/// assert!(reactors.backend(0).is_some());
/// ```
#[derive(Clone, Debug)]
#[must_use = "faults are injected by reactors that are built with them"]
pub struct Faults {
    random: RefCell<Random>,
    short: u16,
    interrupted: u16,
    reset: u16,
    no_buffers: u16,
    cancelled: u16,
    pub(crate) entries: Option<u32>,
}

/// What an attempt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    Read,
    Write,
    Accept,
    Chunks,
    /// An operation that is left alone, apart from interruptions.
    Other,
}

/// What happens instead of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Interrupted,
    Reset,
    NoBuffers,
}

impl Faults {
    /// No faults, and a seed for those that are added.
    pub fn seeded(seed: u64) -> Self {
        Self {
            random: RefCell::new(Random::new(seed)),
            short: 0,
            interrupted: 0,
            reset: 0,
            no_buffers: 0,
            cancelled: 0,
            entries: None,
        }
    }

    /// Reads and writes that get fewer bytes than were asked for.
    pub fn short(mut self, per_mille: u16) -> Self {
        self.short = per_mille;
        self
    }

    /// Operations that the system interrupts. At most 900, so that they end.
    pub fn interrupted(mut self, per_mille: u16) -> Self {
        self.interrupted = per_mille.min(900);
        self
    }

    /// Reads and writes that find the connection reset.
    pub fn reset(mut self, per_mille: u16) -> Self {
        self.reset = per_mille;
        self
    }

    /// Receives that find no buffer in the ring.
    pub fn no_buffers(mut self, per_mille: u16) -> Self {
        self.no_buffers = per_mille.min(900);
        self
    }

    /// Reads, writes and accepts that are cancelled in flight and begun again. At most 900. The
    /// readiness driver has no operations in flight.
    pub fn cancelled(mut self, per_mille: u16) -> Self {
        self.cancelled = per_mille.min(900);
        self
    }

    /// Sets the length of the submission queue; the completion queue is twice as long. With few
    /// entries, completions overflow.
    pub fn entries(mut self, entries: u32) -> Self {
        self.entries = Some(entries.max(1));
        self
    }

    fn happens(&self, per_mille: u16) -> bool {
        per_mille != 0 && self.number() % 1000 < u64::from(per_mille)
    }

    fn number(&self) -> u64 {
        self.random.borrow_mut().draw()
    }

    /// What happens to an attempt to move `len` bytes, which may be made fewer.
    pub(crate) fn strike(&self, attempt: Attempt, len: &mut usize) -> Option<Fault> {
        if self.happens(self.interrupted) {
            return Some(Fault::Interrupted);
        }
        match attempt {
            Attempt::Read | Attempt::Write => {
                if self.happens(self.reset) {
                    return Some(Fault::Reset);
                }
                if *len > 1 && self.happens(self.short) {
                    *len = 1 + (self.number() % (*len as u64 - 1)) as usize;
                }
            }
            Attempt::Chunks if self.happens(self.no_buffers) => return Some(Fault::NoBuffers),
            Attempt::Chunks | Attempt::Accept | Attempt::Other => {}
        }
        None
    }

    /// Whether an attempt is cancelled in flight.
    pub(crate) fn cancels(&self, attempt: Attempt) -> bool {
        attempt != Attempt::Other && self.happens(self.cancelled)
    }
}
