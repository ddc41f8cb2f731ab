//! A sequence lock for larger `Copy` values; the handle enforces one producer per key.
//!
//! The sequence is odd while a put writes; half of it is the number of puts. `taken` is the
//! sequence of the last value that was taken. A compare-exchange on `taken` makes sure that each
//! value is taken once. The words of the value are atomic, so a take that overlaps a put has no
//! data race. It finds that the sequence has changed, and retries.

use core::array;

use super::{Cell, Put, Taken};
use crate::primitive::hint;
use crate::primitive::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

/// Maximum number of words of a value.
const WORDS_MAX: usize = 8;

/// Number of attempts of one take; a producer that is faster marks the key again.
const LOOKS: usize = 16;

/// A `Copy` value that is stored as up to eight words.
///
/// ```
/// use rast_conflate::Plain;
///
/// #[derive(Clone, Copy)]
/// struct Quote { bid: f64, ask: f64, size: u32 }
///
/// impl Plain for Quote {
///     const WORDS: usize = 3;
///     fn write(self, words: &mut [u64]) {
///         words[0] = self.bid.to_bits();
///         words[1] = self.ask.to_bits();
///         words[2] = u64::from(self.size);
///     }
///     fn read(words: &[u64]) -> Self {
///         let [bid, ask] = [words[0], words[1]].map(f64::from_bits);
///         Self { bid, ask, size: words[2] as u32 }
///     }
/// }
/// ```
pub trait Plain: Copy + Send + 'static {
    /// Number of words of a value, 1 to 8.
    const WORDS: usize;
    /// Writes the value to `WORDS` words.
    fn write(self, words: &mut [u64]);
    /// Returns the value from `WORDS` words that [`write`](Self::write) wrote.
    fn read(words: &[u64]) -> Self;
}

impl<const N: usize> Plain for [u64; N] {
    const WORDS: usize = N;
    #[inline]
    fn write(self, words: &mut [u64]) {
        words.copy_from_slice(&self);
    }
    #[inline]
    fn read(words: &[u64]) -> Self {
        array::from_fn(|at| words[at])
    }
}

impl<const N: usize> Plain for [f64; N] {
    const WORDS: usize = N;
    #[inline]
    fn write(self, words: &mut [u64]) {
        words.copy_from_slice(&self.map(f64::to_bits));
    }
    #[inline]
    fn read(words: &[u64]) -> Self {
        array::from_fn(|at| f64::from_bits(words[at]))
    }
}

/// A cell of up to eight words under a sequence; see [`Plain`].
pub struct SeqCell {
    /// Twice the number of puts; odd during a put. Written only by the key's only producer.
    seq: AtomicU64,
    /// Sequence of the last value taken.
    taken: AtomicU64,
    words: [AtomicU64; WORDS_MAX],
}

impl Default for SeqCell {
    fn default() -> Self {
        Self {
            seq: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            words: array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<V: Plain> Cell<V> for SeqCell {
    type Spare = ();

    fn new() -> Self {
        const { assert!(V::WORDS > 0 && V::WORDS <= WORDS_MAX) };
        Self::default()
    }

    #[inline]
    fn put(&self, _: &mut (), value: V) -> Put<V> {
        let mut words = [0; WORDS_MAX];
        value.write(&mut words[..V::WORDS]);
        // Relaxed: only the key's only producer writes it; the claim of the handle orders
        // successive producers. [CQ1]
        let seq = self.seq.load(Relaxed);
        // Relaxed: the fence below orders it before the words. [CQ2]
        self.seq.store(seq + 1, Relaxed);
        // Release: pairs with the fence in take; a take that reads a word of this put sees the odd
        // sequence. [CQ3]
        fence(Release);
        for (place, word) in self.words.iter().zip(&words[..V::WORDS]) {
            // Relaxed: ordered by the fence above and the swap below. [CQ4]
            place.store(*word, Relaxed);
        }
        // Release: pairs with the Acquire in take; publishes the words. [CQ5]
        self.seq.swap(seq + 2, Release);
        Put::counted(0)
    }

    #[inline]
    fn take(&self, _: &mut ()) -> Option<Taken<V>> {
        let mut words = [0; WORDS_MAX];
        for _ in 0..LOOKS {
            // Relaxed: the fence below orders it before the second load of the sequence, which is
            // then not older. [CQ6]
            let taken = self.taken.load(Relaxed);
            // Acquire: pairs with the Release in put; the words are those of this sequence or
            // later. [CQ7]
            let seq = self.seq.load(Acquire);
            if seq == taken || seq % 2 == 1 {
                // The put in progress marks the key when it is done.
                return None;
            }
            for (place, word) in self.words.iter().zip(&mut words[..V::WORDS]) {
                // Relaxed: ordered by the sequence before and the fence after. [CQ8]
                *word = place.load(Relaxed);
            }
            // Acquire: pairs with the fence in put; if a word is from a later put, the load below
            // sees its odd sequence. [CQ9]
            fence(Acquire);
            // Relaxed: ordered by the fence above. [CQ10]
            if self.seq.load(Relaxed) != seq {
                hint::spin_loop();
                continue;
            }
            // AcqRel: only this compare-exchange removes the value; takes are ordered. [CQ11]
            let moved = self.taken.compare_exchange(taken, seq, AcqRel, Relaxed);
            if moved.is_ok() {
                return Some(Taken {
                    value: V::read(&words[..V::WORDS]),
                    conflated: (seq - taken) / 2 - 1,
                });
            }
        }
        None
    }

    #[inline]
    fn is_full(&self) -> bool {
        // Relaxed: the compare-exchange that follows decides. [CQ12]
        let taken = self.taken.load(Relaxed);
        // Relaxed: as CQ12. [CQ13]
        self.seq.load(Relaxed) & !1 != taken
    }
}
