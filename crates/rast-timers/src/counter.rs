//! Counters of the processor: what ticks for the price of an instruction.
//!
//! A counter is not a clock: its pace is known only by comparison, and it may
//! stop, jump, or differ between cores. [`Tsc::detect`] refuses those of which
//! that is known; [`TscClock`](crate::TscClock) finds out about the others.

use crate::primitive::hint;
use crate::raw;
use core::fmt;
use std::time::Instant as SystemInstant;

/// A count that goes up with time, at a pace that hardly changes.
///
/// The readings of one thread never go back while the counter is sound, also
/// where the thread moves between cores.
pub trait Counter {
    /// Returns the count. The processor may read it somewhat earlier or later
    /// than the instructions around it.
    fn count(&self) -> u64;

    /// Returns the count after everything before has run.
    #[inline]
    fn count_ordered(&self) -> u64 {
        self.count()
    }

    /// Counts in a second, at least: the true pace may be somewhat higher.
    fn pace(&self) -> u64;

    /// The step in which the count moves.
    #[inline]
    fn step(&self) -> u64 {
        1
    }
}

impl<K: Counter + ?Sized> Counter for &K {
    #[inline]
    fn count(&self) -> u64 {
        (**self).count()
    }

    #[inline]
    fn count_ordered(&self) -> u64 {
        (**self).count_ordered()
    }

    fn pace(&self) -> u64 {
        (**self).pace()
    }

    fn step(&self) -> u64 {
        (**self).step()
    }
}

/// Why there is no counter to build a clock on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoCounter {
    /// This build has no counter: neither x86-64 nor aarch64, or Miri.
    Absent,
    /// The processor, or the virtual machine, does not promise one pace.
    NotInvariant,
    /// The kernel keeps its time by something else, because it found the
    /// counter unstable or out of step between cores, or was told so.
    NotTrusted,
    /// The counter does not go up.
    Stuck,
}

impl fmt::Display for NoCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Absent => "no counter on this platform",
            Self::NotInvariant => "the processor does not promise an invariant counter",
            Self::NotTrusted => "the kernel does not keep its time by the counter",
            Self::Stuck => "the counter does not go up",
        })
    }
}

impl core::error::Error for NoCounter {}

/// The processor's own counter: the time-stamp counter of x86-64, the virtual
/// count of the generic timer on aarch64.
///
/// A reading is one instruction, 8 ns on the virtual machine of
/// `docs/performance.md`; the ordered one waits for what runs before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsc {
    pace: u64,
    step: u64,
}

impl Tsc {
    /// How long the first look at the pace takes.
    const LOOK_NS: u128 = 10_000;
    const LOOKS: u32 = 3;

    /// Looks for a counter that a clock can use; takes about 10 µs, and
    /// on Linux one look at a file of the kernel's.
    ///
    /// # Errors
    ///
    /// If there is none, or if it is known to be unsound: see [`NoCounter`].
    ///
    /// ```
    /// use rast_timers::{Counter, Tsc};
    /// match Tsc::detect() {
    ///     Ok(tsc) => assert!(tsc.pace() > 1_000_000),
    ///     Err(reason) => println!("no clock by counter: {reason}"),
    /// }
    /// ```
    pub fn detect() -> Result<Self, NoCounter> {
        if !raw::HAS_COUNTER {
            return Err(NoCounter::Absent);
        }
        if !raw::counter_is_invariant() {
            return Err(NoCounter::NotInvariant);
        }
        if !is_trusted() {
            return Err(NoCounter::NotTrusted);
        }
        let mut pace = 0;
        for _ in 0..Self::LOOKS {
            let (least, is_close) = Self::look();
            pace = pace.max(least);
            if is_close {
                break;
            }
        }
        if pace == 0 {
            return Err(NoCounter::Stuck);
        }
        Ok(Self {
            pace,
            step: Self::look_for_step(),
        })
    }

    /// Counts in a second at least, and whether that is within some percent:
    /// a thread that was off its core meanwhile knows less.
    fn look() -> (u64, bool) {
        let before = SystemInstant::now();
        let from = raw::counter_ordered();
        let begun = SystemInstant::now();
        while begun.elapsed().as_nanos() < Self::LOOK_NS {
            hint::spin_loop();
        }
        let inside = begun.elapsed().as_nanos().max(1);
        let to = raw::counter_ordered();
        let outside = before.elapsed().as_nanos().max(1);
        let counts = u128::from(to.saturating_sub(from));
        let pace = counts * 1_000_000_000 / outside;
        (u64::try_from(pace).unwrap_or(0), outside * 16 < inside * 17)
    }

    /// The greatest step of which all differences seen are multiples.
    fn look_for_step() -> u64 {
        let (mut step, mut last) = (0, raw::counter());
        for _ in 0..64 {
            let next = raw::counter();
            let (mut a, mut b) = (next.wrapping_sub(last), step);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            (step, last) = (a, next);
        }
        step.max(1)
    }
}

impl Counter for Tsc {
    #[inline(always)]
    fn count(&self) -> u64 {
        raw::counter()
    }

    #[inline(always)]
    fn count_ordered(&self) -> u64 {
        raw::counter_ordered()
    }

    #[inline]
    fn pace(&self) -> u64 {
        self.pace
    }

    #[inline]
    fn step(&self) -> u64 {
        self.step
    }
}

/// Whether the kernel itself keeps time by the counter: it compares the
/// counters of all cores, watches them, and turns away from bad ones.
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    target_arch = "x86_64"
))]
fn is_trusted() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // Without the file the promise of the processor is all there is.
    std::fs::read_to_string(SOURCE).map_or(true, |source| source.trim() == "tsc")
}

/// No way to ask: the promise of the processor is all there is.
#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    target_arch = "x86_64"
)))]
fn is_trusted() -> bool {
    true
}
