//! A sequence lock for larger `Copy` values, where one producer per key is enforced by its handle.
//!
//! The sequence is odd while a put writes; half of it counts the puts. `taken` is the sequence of
//! the value that was taken last, so that each value is taken once, by the exchange that moves
//! `taken`. The words of the value are atomic, so a take that overlaps a put reads numbers and no
//! torn value: it finds that the sequence changed and looks again.

use core::array;

use super::{Cell, Put, Taken};
use crate::primitive::hint;
use crate::primitive::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

/// Words of a value at most.
const WORDS_MAX: usize = 8;

/// Looks of one take; a producer that outruns them marks the key again.
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
    /// Words that a value takes, 1 to 8.
    const WORDS: usize;
    /// Writes the value to `WORDS` words.
    fn write(self, words: &mut [u64]);
    /// Returns the value of `WORDS` words that [`write`](Self::write) wrote.
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
    /// Twice the puts; odd while one writes. Written by the key's only producer.
    seq: AtomicU64,
    /// The sequence of the value taken last.
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

    fn open(&self) {}

    fn spare() {}

    #[inline]
    fn put(&self, _: &mut (), value: V) -> Put<V> {
        let mut words = [0; WORDS_MAX];
        value.write(&mut words[..V::WORDS]);
        // Relaxed: the key's only producer writes it, and reads its own; the claim of the handle
        // orders two. [CQ1]
        let seq = self.seq.load(Relaxed);
        // Relaxed: the fence below orders it before the words. [CQ2]
        self.seq.store(seq + 1, Relaxed);
        // Release: pairs with the fence in take; a take that read a word of this put sees the odd
        // sequence. [CQ3]
        fence(Release);
        for (place, word) in self.words.iter().zip(&words[..V::WORDS]) {
            // Relaxed: ordered by the fence above and the exchange below. [CQ4]
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
            // Relaxed: the fence below orders it before the second look at the sequence, which is
            // then not older. [CQ6]
            let taken = self.taken.load(Relaxed);
            // Acquire: pairs with the Release in put; the words are those of this sequence or
            // later. [CQ7]
            let seq = self.seq.load(Acquire);
            if seq == taken || seq % 2 == 1 {
                // The put that writes now marks the key when it is done.
                return None;
            }
            for (place, word) in self.words.iter().zip(&mut words[..V::WORDS]) {
                // Relaxed: ordered by the sequence before and the fence after. [CQ8]
                *word = place.load(Relaxed);
            }
            // Acquire: pairs with the fence in put; if a word was a later put's, the load below
            // sees its odd sequence. [CQ9]
            fence(Acquire);
            // Relaxed: ordered by the fence above. [CQ10]
            if self.seq.load(Relaxed) != seq {
                hint::spin_loop();
                continue;
            }
            // AcqRel: the value leaves by this exchange alone; takes follow each other. [CQ11]
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
        // Relaxed: what follows decides by an exchange. [CQ12]
        let taken = self.taken.load(Relaxed);
        // Relaxed: as CQ12. [CQ13]
        self.seq.load(Relaxed) & !1 != taken
    }
}
