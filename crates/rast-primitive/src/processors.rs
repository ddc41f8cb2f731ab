//! The processors that a thread may use, and a short stay on one of them.
//!
//! The system chooses the processor of a thread when the thread starts or wakes up, from the load
//! at that moment. Threads that start together may get the same processor, and share it for some
//! milliseconds until the system balances them. A thread that is put on a processor and released at
//! once begins there, and the system may move it later like any other thread.

use core::fmt;

/// The processors that a thread was allowed to use when it called
/// [`of_this_thread`](Self::of_this_thread).
///
/// Only Linux and Android report these processors. `of_this_thread` returns `None` on other
/// systems, under loom, shuttle and Miri, and on a machine with more than 1,024 processors. All
/// operations may run on any thread; most are one or two system calls.
///
/// ```
/// use rast_primitive::Processors;
///
/// if let Some(allowed) = Processors::of_this_thread() {
///     assert!(allowed.count() >= 1);
///     // Puts the thread on the second one, if there are two; it may use all of them after that.
///     allowed.move_to(1);
///     let after = Processors::of_this_thread();
///     assert_eq!(after.map(|after| after.count()), Some(allowed.count()));
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Processors(imp::Set);

impl Processors {
    /// Returns the processors that the calling thread may use. One system call.
    #[must_use]
    pub fn of_this_thread() -> Option<Self> {
        imp::Set::of_this_thread().map(Self)
    }

    /// Returns their number.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.count()
    }

    /// Restricts the calling thread to one of these processors: number `index` in the system's
    /// order, modulo their number. Returns `true` if the system did it; then the thread runs there.
    /// One system call.
    pub fn stay_on(&self, index: usize) -> bool {
        match self.count() {
            0 => false,
            count => self.0.stay_on(index % count),
        }
    }

    /// Allows the calling thread all of them. Returns `true` if the system did it. One system call.
    pub fn allow_all(&self) -> bool {
        self.0.apply()
    }

    /// Puts the calling thread on one of these processors, as [`stay_on`](Self::stay_on) does, and
    /// then allows it all of them. If the system refuses the first step, nothing changes.
    ///
    /// Processors that are added later, to the machine or to the thread's cpuset, are not among
    /// them.
    pub fn move_to(&self, index: usize) {
        if self.stay_on(index) {
            self.allow_all();
        }
    }
}

impl fmt::Debug for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Processors")
            .field("count", &self.count())
            .finish()
    }
}

#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
))]
mod imp {
    /// Processors that a set can name.
    const MOST: usize = 1024;
    const WORDS: usize = MOST / usize::BITS as usize;

    /// A bit per processor, as the kernel has it: an array of `unsigned long`.
    #[derive(Clone, Copy)]
    pub(super) struct Set([usize; WORDS]);

    const _: () = assert!(size_of::<usize>() == size_of::<libc::c_ulong>());

    impl Set {
        pub(super) fn of_this_thread() -> Option<Self> {
            let mut set = Self([0; WORDS]);
            let bits = (&raw mut set.0).cast();
            // SAFETY: the call writes at most the given number of bytes, the size of the array.
            let result = unsafe { libc::sched_getaffinity(0, size_of::<Self>(), bits) };
            (result == 0).then_some(set)
        }

        pub(super) fn count(&self) -> usize {
            self.0.iter().map(|word| word.count_ones() as usize).sum()
        }

        /// Restricts the calling thread to one of its processors.
        pub(super) fn stay_on(&self, index: usize) -> bool {
            self.only(index).apply()
        }

        /// Returns the set of one of its processors.
        fn only(&self, index: usize) -> Self {
            let mut left = index;
            let mut set = Self([0; WORDS]);
            for (word, only) in self.0.iter().zip(&mut set.0) {
                let mut bits = *word;
                let here = bits.count_ones() as usize;
                if left < here {
                    for _ in 0..left {
                        bits &= bits - 1;
                    }
                    *only = 1 << bits.trailing_zeros();
                    break;
                }
                left -= here;
            }
            set
        }

        pub(super) fn apply(&self) -> bool {
            let bits = (&raw const self.0).cast();
            // SAFETY: the call reads at most the given number of bytes, the size of the array.
            unsafe { libc::sched_setaffinity(0, size_of::<Self>(), bits) == 0 }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn each_processor_of_a_set_is_found_by_its_number() {
            let last = usize::BITS as usize - 1;
            let mut words = [0; WORDS];
            (words[0], words[2]) = (1 << last | 1 << 3, 1 << 1);
            let set = Set(words);
            assert_eq!(set.count(), 3);
            for (index, (word, bit)) in [(0, 3), (0, last), (2, 1)].into_iter().enumerate() {
                let mut only = [0; WORDS];
                only[word] = 1 << bit;
                assert_eq!(set.only(index).0, only);
            }
        }

        #[test]
        fn a_thread_that_was_moved_may_use_all_again() {
            let allowed = crate::Processors::of_this_thread().expect("Linux tells them");
            for index in 0..allowed.count() + 1 {
                assert!(allowed.stay_on(index));
                let now = Set::of_this_thread().expect("as before");
                assert_eq!(now.0, allowed.0.only(index % allowed.count()).0);
                assert!(allowed.allow_all());
                allowed.move_to(index);
                let now = Set::of_this_thread().expect("as before");
                assert_eq!(now.0, allowed.0.0);
            }
        }
    }
}

#[cfg(not(all(
    any(target_os = "linux", target_os = "android"),
    not(any(rast_loom, rast_shuttle, miri))
)))]
mod imp {
    /// No system call tells the processors.
    #[derive(Clone, Copy)]
    pub(super) enum Set {}

    impl Set {
        pub(super) fn of_this_thread() -> Option<Self> {
            None
        }

        pub(super) fn count(&self) -> usize {
            match *self {}
        }

        pub(super) fn stay_on(&self, _: usize) -> bool {
            match *self {}
        }

        pub(super) fn apply(&self) -> bool {
            match *self {}
        }
    }
}
