//! One word as wide as a pointer, which keeps a pointer's provenance.
//!
//! Outside of models it is an `AtomicPtr<()>`, so strict-provenance checkers can follow the
//! pointer. loom's atomics contain integers, and its `AtomicPtr` has no addition, so a model uses
//! an `AtomicU64`. There, too, one read-modify-write accesses both pointer and count.

/// The bits of both parts, with the provenance of the pointer.
pub(super) type Word = *mut ();

pub(super) const NULL: Word = core::ptr::null_mut();

#[cfg(not(rast_loom))]
pub(super) type AtomicWord = crate::sync::atomic::AtomicPtr<()>;

#[cfg(rast_loom)]
pub(super) use self::modelled::AtomicWord;

#[cfg(rast_loom)]
mod modelled {
    //! The same operations on loom's integer.

    use core::ptr::with_exposed_provenance_mut;

    use super::Word;
    use crate::sync::atomic::{AtomicU64, Ordering};

    const _: () = assert!(usize::BITS == u64::BITS, "models run on 64-bit hosts");

    pub(crate) struct AtomicWord(AtomicU64);

    fn bits(word: Word) -> u64 {
        word.expose_provenance() as u64
    }

    fn word(bits: u64) -> Word {
        with_exposed_provenance_mut(bits as usize)
    }

    impl AtomicWord {
        #[track_caller]
        pub(crate) fn new(value: Word) -> Self {
            Self(AtomicU64::new(bits(value)))
        }

        #[track_caller]
        pub(crate) fn load(&self, order: Ordering) -> Word {
            word(self.0.load(order))
        }

        #[track_caller]
        pub(crate) fn store(&self, value: Word, order: Ordering) {
            self.0.store(bits(value), order);
        }

        #[track_caller]
        pub(crate) fn swap(&self, value: Word, order: Ordering) -> Word {
            word(self.0.swap(bits(value), order))
        }

        #[track_caller]
        pub(crate) fn compare_exchange(
            &self,
            current: Word,
            new: Word,
            success: Ordering,
            failure: Ordering,
        ) -> Result<Word, Word> {
            self.0
                .compare_exchange(bits(current), bits(new), success, failure)
                .map(word)
                .map_err(word)
        }

        #[track_caller]
        pub(crate) fn compare_exchange_weak(
            &self,
            current: Word,
            new: Word,
            success: Ordering,
            failure: Ordering,
        ) -> Result<Word, Word> {
            self.0
                .compare_exchange_weak(bits(current), bits(new), success, failure)
                .map(word)
                .map_err(word)
        }

        #[cfg(not(rast_tagged_low))]
        #[track_caller]
        pub(crate) fn fetch_byte_add(&self, n: usize, order: Ordering) -> Word {
            word(self.0.fetch_add(n as u64, order))
        }
    }
}
