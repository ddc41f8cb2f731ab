//! The least cost of a message between two processors. Two threads on different processors pass a
//! number back and forth by two cache lines. In a second variant each sleeps in the kernel while it
//! waits.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

use rast::primitive::CachePadded;

use crate::workers::{Sample, apart};

/// The two lines: one for each direction.
#[derive(Default)]
struct Lines([CachePadded<AtomicU32>; 2]);

impl Lines {
    /// `rounds` round trips between two threads: `send` stores a round number, `wait` returns
    /// when it is there.
    fn round_trips(
        rounds: u64,
        send: impl Fn(&AtomicU32, u32) + Sync,
        wait: impl Fn(&AtomicU32, u32) + Sync,
    ) -> Sample {
        let rounds = u32::try_from(rounds).expect("a run has fewer rounds");
        let lines = Self::default();
        let [there, back] = &lines.0;
        let (send, wait) = (&send, &wait);
        apart(vec![
            Box::new(move || {
                for round in 1..=rounds {
                    send(there, round);
                    wait(back, round);
                }
                u64::from(rounds)
            }),
            Box::new(move || {
                for round in 1..=rounds {
                    wait(there, round);
                    send(back, round);
                }
                0
            }),
        ])
    }
}

/// Round trips of two threads that spin.
pub(crate) fn spinning(rounds: u64) -> Sample {
    Lines::round_trips(
        rounds,
        |line, round| line.store(round, Ordering::Release),
        |line, round| {
            while line.load(Ordering::Acquire) != round {
                spin_loop();
            }
        },
    )
}

/// Round trips of two threads that sleep on the word that they wait for.
#[cfg(target_os = "linux")]
pub(crate) fn sleeping(rounds: u64) -> Sample {
    Lines::round_trips(
        rounds,
        |line, round| {
            line.store(round, Ordering::Release);
            let word = std::ptr::from_ref(line);
            // SAFETY: the word lives, and the call wakes at most one thread that sleeps on it.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    word,
                    libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                    1,
                );
            }
        },
        |line, round| {
            while line.load(Ordering::Acquire) != round {
                let word = std::ptr::from_ref(line);
                // SAFETY: the word lives, no timeout is given, and the call returns at once if
                // the word has changed.
                unsafe {
                    libc::syscall(
                        libc::SYS_futex,
                        word,
                        libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                        round - 1,
                        std::ptr::null::<libc::timespec>(),
                    );
                }
            }
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_throw_every_round() {
        assert_eq!(spinning(100).done, 100);
        #[cfg(target_os = "linux")]
        assert_eq!(sleeping(100).done, 100);
    }
}
