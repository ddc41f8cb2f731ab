//! Counters of the processor, read by one instruction.
//!
//! A counter is not a clock: its rate is known only by comparison, and it may stop, jump, or differ
//! between cores. [`Tsc::detect`] rejects counters that are known to do so;
//! [`TscClock`](crate::TscClock) detects the others.

use crate::primitive::hint;
use crate::raw;
use core::fmt;
use std::time::Instant as SystemInstant;

/// A count that increases with time at a nearly constant rate.
///
/// While the counter is sound, the readings of one thread never decrease, even if the thread moves
/// between cores.
pub trait Counter {
    /// Returns the count. The processor may read it somewhat earlier or later
    /// than the instructions around it.
    fn count(&self) -> u64;

    /// Returns the count after all preceding instructions have run.
    #[inline]
    fn count_ordered(&self) -> u64 {
        self.count()
    }

    /// Returns a lower bound of the counts per second; the true rate may be slightly higher.
    fn pace(&self) -> u64;

    /// Returns the step in which the count increases.
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

/// Why no counter is usable as a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoCounter {
    /// This build has no counter: neither x86-64 nor aarch64, or Miri.
    Absent,
    /// The processor, or the virtual machine, does not guarantee a constant rate.
    NotInvariant,
    /// The kernel uses another clock source, because it found the counter unstable or not
    /// synchronised between cores, or was configured so.
    NotTrusted,
    /// The counter does not increase.
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
/// A reading is one instruction, 8 ns on the virtual machine of `docs/performance.md`. The ordered
/// reading waits for the preceding instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsc {
    pace: u64,
    step: u64,
}

impl Tsc {
    /// Duration of the first measurement of the rate.
    const LOOK_NS: u128 = 10_000;
    const LOOKS: u32 = 3;

    /// Detects a counter that a clock can use. Takes 10 to 30 µs, and on Linux on x86-64 reads one
    /// file of the kernel.
    ///
    /// # Errors
    ///
    /// If there is no counter, or if the counter is known to be unsound: see [`NoCounter`].
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

    /// Returns a lower bound of the counts per second, and whether it is accurate to a few percent;
    /// it is not if the thread was preempted meanwhile.
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

    /// Returns the greatest common divisor of all differences seen.
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

/// Returns `true` if the kernel uses the counter as its clock source. The kernel compares the
/// counters of all cores, watches them, and stops using bad ones.
fn is_trusted() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // Without the file, or a kernel that has it, rely on what the processor guarantees.
    !cfg!(all(
        any(target_os = "linux", target_os = "android"),
        target_arch = "x86_64"
    )) || std::fs::read_to_string(SOURCE).map_or(true, |source| source.trim() == "tsc")
}
