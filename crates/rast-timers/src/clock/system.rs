//! Two more clocks of the system: one that counts while the machine is suspended, and the processor
//! time of a thread.

use super::Clock;
use crate::Instant;
use crate::raw::nanos_of;

macro_rules! system_clock {
    ($(#[$doc:meta])* $name:ident, $clock:ident) => {
        $(#[$doc])*
        #[cfg_attr(
            docsrs,
            doc(cfg(all(feature = "std", any(target_os = "linux", target_os = "android"))))
        )]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            /// Only `new` makes the value, after a successful system call.
            asked: (),
        }

        impl $name {
            /// Makes a handle of the clock; `None` if the kernel has no such clock or a system call
            /// filter forbids it.
            #[must_use]
            pub fn new() -> Option<Self> {
                nanos_of(libc::$clock).map(|_| Self { asked: () })
            }
        }

        impl Clock for $name {
            /// # Panics
            ///
            /// If the system call succeeded in `new` and fails now, which no kernel does.
            #[inline]
            fn now(&self) -> Instant {
                let nanos = nanos_of(libc::$clock);
                Instant::from_nanos(nanos.expect("a clock that was there stays"))
            }
        }
    };
}

system_clock! {
    /// The system's monotonic clock including suspended time: CLOCK_BOOTTIME.
    ///
    /// The type exists only on Linux and Android. The clock counts from the boot of the machine, so
    /// its instants mean the same in every process, and must not be compared with those of
    /// [`MonotonicClock`](crate::MonotonicClock). A reading is a call into the vDSO, costs as much
    /// as a reading of the monotonic clock, and is wait-free.
    ///
    /// ```
    /// use rast_timers::{BootClock, Clock};
    /// let clock = BootClock::new().expect("Linux has it since 2.6.39");
    /// assert!(clock.now() <= clock.now());
    /// ```
    BootClock, CLOCK_BOOTTIME
}

system_clock! {
    /// The processor time of the calling thread: CLOCK_THREAD_CPUTIME_ID.
    ///
    /// It does not advance while the thread sleeps or is preempted. Each thread reads its own time,
    /// so readings of two threads must not be compared. The type exists only on Linux and Android.
    /// A reading is a system call, and wait-free.
    ///
    /// ```
    /// use rast_timers::{Clock, ThreadClock};
    /// let clock = ThreadClock::new().expect("Linux has it since 2.6.12");
    /// assert!(clock.now() <= clock.now());
    /// ```
    ThreadClock, CLOCK_THREAD_CPUTIME_ID
}
