//! Sleeping by class, so that a wake-up can choose the class of thread that it wakes.
//!
//! Threads of several classes sleep on one word. A wake-up names a class and changes the word. On
//! Linux the word is a futex, and a class is one bit of its bitset. Elsewhere, and in a model, each
//! class has an [`EventCount`](crate::EventCount).
//!
//! No wake-up is lost. A waiter reads the word, checks its condition, and sleeps only while the
//! word has the value that it read. A notifier changes the condition, then the word. A waiter that
//! reads the changed word sees the changed condition. If it reads the old word, there are two
//! cases. Either it finds the word changed when it tries to sleep, or it sleeps before the change
//! and the wake-up after the change wakes it.

use core::fmt;

use crate::sync::atomic::AtomicU32;
use crate::sync::atomic::Ordering::{Acquire, Release};

/// Maximum number of classes: the bits of a futex bitset.
const CLASSES_MAX: u32 = 32;

/// Lets threads of several classes sleep until a condition holds. A wake-up wakes some threads of
/// one class.
///
/// A waiter calls [`look`](Self::look), checks the condition, and calls [`wait`](Self::wait), in a
/// loop, because a wait may end early. A notifier changes the condition, then calls
/// [`wake`](Self::wake).
///
/// # Examples
///
/// ```
/// use rast_primitive::sync::{Arc, atomic::{AtomicBool, Ordering}};
/// use rast_primitive::{ClassEvent, thread};
///
/// let shared = Arc::new((AtomicBool::new(false), ClassEvent::new(2)));
/// let theirs = Arc::clone(&shared);
/// let waiter = thread::spawn(move || {
///     loop {
///         let seen = theirs.1.look();
///         if theirs.0.load(Ordering::Relaxed) {
///             break;
///         }
///         theirs.1.wait(seen, 1);
///     }
/// });
/// shared.0.store(true, Ordering::Relaxed);
/// shared.1.wake(1, 1);
/// waiter.join().unwrap();
/// ```
pub struct ClassEvent {
    word: AtomicU32,
    classes: u32,
    sleepers: imp::Sleepers,
}

/// The value of the word, from [`ClassEvent::look`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen(u32);

impl ClassEvent {
    /// Makes an event for the classes 0 to `classes` - 1.
    ///
    /// # Panics
    ///
    /// If there is no class, or there are more than 32.
    #[must_use]
    pub fn new(classes: u32) -> Self {
        assert!(
            (1..=CLASSES_MAX).contains(&classes),
            "a ClassEvent has 1 to {CLASSES_MAX} classes, not {classes}"
        );
        Self {
            word: AtomicU32::new(0),
            classes,
            sleepers: imp::Sleepers::new(classes),
        }
    }

    /// Reads the word. Call it before you check the condition. Wait-free.
    ///
    /// What a thread wrote before an earlier [`wake`](Self::wake) is then visible.
    #[must_use]
    pub fn look(&self) -> Seen {
        // Acquire: pairs with CE2; if it loads the notifier's change of the word, the check that
        // follows sees the notifier's change of the condition. [CE1]
        Seen(self.word.load(Acquire))
    }

    /// Sleeps in `class` until a wake-up for that class. Returns at once if there was a wake-up for
    /// any class since `seen`. May return early. Blocking.
    ///
    /// # Panics
    ///
    /// If there is no such class.
    pub fn wait(&self, seen: Seen, class: u32) {
        self.check(class);
        self.sleepers.wait(&self.word, seen.0, class);
    }

    /// Wakes at most `most` threads that sleep in `class`, in the order in which they fell asleep.
    ///
    /// A system call on Linux, even if no thread sleeps; so call this only if a thread is known to
    /// wait.
    ///
    /// # Panics
    ///
    /// If there is no such class.
    pub fn wake(&self, class: u32, most: u32) {
        self.check(class);
        // Release: pairs with CE1; publishes the condition. A wake-up is lost only if exactly 2^32
        // others come between a `look` and its `wait`. [CE2]
        self.word.fetch_add(1, Release);
        self.sleepers.wake(&self.word, class, most);
    }

    fn check(&self, class: u32) {
        assert!(class < self.classes, "no class {class} of a ClassEvent");
    }
}

impl fmt::Debug for ClassEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClassEvent").finish_non_exhaustive()
    }
}

#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
))]
mod imp {
    use core::ptr::null;

    use super::AtomicU32;

    /// Threads sleep in the kernel.
    pub(super) struct Sleepers;

    impl Sleepers {
        pub(super) fn new(_: u32) -> Self {
            Self
        }

        pub(super) fn wait(&self, word: &AtomicU32, seen: u32, class: u32) {
            // Its errors are a changed word and a signal, both an early return.
            futex(word, libc::FUTEX_WAIT_BITSET, seen, class);
        }

        pub(super) fn wake(&self, word: &AtomicU32, class: u32, most: u32) {
            // The system call wakes one thread if the number is 0.
            if most == 0 {
                return;
            }
            let most = most.min(i32::MAX.cast_unsigned());
            futex(word, libc::FUTEX_WAKE_BITSET, most, class);
        }
    }

    fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, class: u32) -> libc::c_long {
        // SAFETY: the word is borrowed for the call, and there is neither a timeout nor a second
        // word.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                null::<libc::timespec>(),
                null::<u32>(),
                1_u32 << class,
            )
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::sync::atomic::Ordering::Relaxed;
        use crate::thread;
        use std::format;

        /// Returns whether a thread of this process sleeps in the kernel.
        fn is_asleep(id: u32) -> bool {
            let stat = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
            stat.is_ok_and(|stat| stat.contains(") S "))
        }

        #[test]
        fn no_thread_is_woken_if_none_is_to_be() {
            let (word, id) = (AtomicU32::new(0), AtomicU32::new(0));
            thread::scope(|scope| {
                scope.spawn(|| {
                    // SAFETY: it returns a number.
                    id.store(unsafe { libc::gettid() }.cast_unsigned(), Relaxed);
                    Sleepers.wait(&word, 0, 0);
                });
                while !is_asleep(id.load(Relaxed)) {
                    thread::yield_now();
                }
                Sleepers.wake(&word, 0, 0);
                let woken = futex(&word, libc::FUTEX_WAKE_BITSET, 1, 0);
                assert_eq!(woken, 1, "it slept until now");
            });
        }
    }
}

#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
)))]
mod imp {
    use std_alloc::boxed::Box;

    use super::{Acquire, AtomicU32};
    use crate::{EventCount, WaitStrategy};

    /// Threads sleep in the event count of their class.
    pub(super) struct Sleepers {
        events: Box<[EventCount]>,
    }

    impl Sleepers {
        pub(super) fn new(classes: u32) -> Self {
            Self {
                events: (0..classes).map(|_| EventCount::new()).collect(),
            }
        }

        pub(super) fn wait(&self, word: &AtomicU32, seen: u32, class: u32) {
            // Acquire: as CE1, for a caller that uses what the notifier wrote. [CE3]
            let changed = || word.load(Acquire) != seen;
            self.events[class as usize].wait_until(WaitStrategy::Park, changed);
        }

        pub(super) fn wake(&self, _: &AtomicU32, class: u32, most: u32) {
            self.events[class as usize].notify_some(most as usize);
        }
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_wait_after_a_wake_up_returns_at_once() {
        let event = ClassEvent::new(3);
        let seen = event.look();
        event.wake(0, 1);
        // For another class, and so of no use to this thread, which checks again.
        event.wait(seen, 2);
        assert_ne!(event.look(), seen);
    }

    #[test]
    #[should_panic(expected = "no class 2")]
    fn a_class_that_is_not_there_is_named() {
        let event = ClassEvent::new(2);
        event.wake(2, 1);
    }

    #[test]
    #[should_panic(expected = "1 to 32 classes, not 33")]
    fn too_many_classes_are_named() {
        let _ = ClassEvent::new(33);
    }
}
