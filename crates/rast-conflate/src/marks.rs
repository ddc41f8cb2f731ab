//! Marks: which cells of a table may have a value, as a flat mask or as a 64-ary tree of bits.
//!
//! ```text
//!   tree, 16,384 cells                                flat
//!   level 2   [ 1 word, 4 bits in use ]   the root    [ 1 word: a bit per 256 cells ]
//!   level 1   [ 4 words ]
//!   level 0   [ 256 words: a bit per cell ]
//! ```
//!
//! The words are in one slice. The root is first, and each level is at the same offset in every
//! tree, so a producer finds the words of its cell by shifts alone. Consumers wait on the roots.
//!
//! Rules. A superfluous mark costs a check; a missing mark loses a value.
//!
//! 1. A producer publishes its value by a read-modify-write, executes a fence, and then goes from
//!    the leaf to the root. It tests each bit on the way and sets those that are clear. The
//!    producer always continues to the root, so that it does not depend on another producer.
//! 2. A consumer clears leaf bits, executes a fence, and then takes the values of their cells.
//! 3. A consumer that finds a word empty clears the word's bit in the level above, executes a
//!    fence, and loads the word again. If the word is not empty, the consumer sets the bit again.
//!
//! Testing before setting is sound by the store-buffer argument. Consider the fence of the producer
//! (1) and that of the consumer that cleared the bit (2 or 3). If the producer's is first, the
//! consumer's load after its fence sees what the producer wrote one level down: the value of the
//! cell, or a bit. If the consumer's is first, the producer's test finds the bit clear, and the
//! producer sets it.

use std::boxed::Box;
use std::vec::Vec;

use crate::primitive::fence_after_exchange;
use crate::primitive::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Bits of a word, and children of a node. Under a model checker trees have several levels over few
/// cells.
#[cfg(not(any(rast_loom, rast_shuttle)))]
const WIDTH: usize = 64;
#[cfg(any(rast_loom, rast_shuttle))]
const WIDTH: usize = 2;
/// Maximum number of levels of a tree: 64^5 cells.
const LEVELS_MAX: usize = 5;

/// How a conflator marks the cells that hold a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Marks {
    /// A 64-ary tree of bits, with a bit per cell at its leaves. The cost of a pass grows with the
    /// number of marked cells.
    #[default]
    Tree,
    /// One mask of 64 bits per table, each bit for a 64th of its cells. A put accesses fewer words,
    /// and a pass checks every cell of a marked part. Use it for small tables, or if most keys
    /// change all the time.
    Flat,
}

/// Indices of the first words of the levels, from the root down.
const STARTS: [usize; LEVELS_MAX] = {
    let mut starts = [0; LEVELS_MAX];
    let mut depth = 1;
    while depth < LEVELS_MAX {
        starts[depth] = starts[depth - 1] * WIDTH + 1;
        depth += 1;
    }
    starts
};

/// The marks of one table.
pub(crate) struct Map {
    /// Log2 of the number of cells per leaf bit.
    shift: u32,
    levels: usize,
    /// Number of leaf bits.
    bits: usize,
    words: Box<[AtomicU64]>,
}

/// The path of marks of one cell.
#[derive(Clone, Copy)]
pub(crate) struct Path<'a> {
    /// Words of the map.
    pub(crate) words: &'a [AtomicU64],
    pub(crate) levels: u32,
    /// Index of the leaf bit.
    pub(crate) bit: u32,
}

/// Leaf bits that a consumer has cleared and must visit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// Index of the word's first bit.
    pub(crate) first: usize,
    pub(crate) bits: u64,
}

impl Map {
    /// Makes clear marks for `cells` cells, a power of two.
    pub(crate) fn new(cells: usize, marks: Marks) -> Self {
        let shift = match marks {
            Marks::Tree => 0,
            Marks::Flat => cells.div_ceil(WIDTH).next_power_of_two().ilog2(),
        };
        let bits = (cells >> shift).max(1);
        let leaves = bits.div_ceil(WIDTH);
        let (mut levels, mut above) = (1, leaves);
        while above > 1 {
            above = above.div_ceil(WIDTH);
            levels += 1;
        }
        let words = STARTS[levels - 1] + leaves;
        let words: Vec<_> = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self {
            shift,
            levels,
            bits,
            words: words.into(),
        }
    }

    /// Returns log2 of the number of cells of one leaf bit.
    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    #[inline(always)]
    fn word(&self, level: usize, at: usize) -> &AtomicU64 {
        &self.words[STARTS[self.levels - 1 - level] + at]
    }

    /// Returns `true` if a cell may be marked.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        // Relaxed: the callers fence before, as the rules require. [CM1]
        self.words[0].load(Relaxed) != 0
    }

    /// Returns the marks of a cell.
    #[inline(always)]
    pub(crate) fn path(&self, cell: usize) -> Path<'_> {
        Path {
            words: &self.words,
            levels: self.levels as u32,
            bit: (cell >> self.shift) as u32,
        }
    }

    /// Sets a bit of a level, and those above it.
    fn mark_from(&self, level: usize, at: usize) {
        let path = Path {
            words: &self.words,
            levels: (self.levels - level) as u32,
            bit: at as u32,
        };
        path.mark();
    }

    /// Clears up to `limit` set bits of one word, the first ones in `from..end`, by rule 2.
    pub(crate) fn claim(&self, from: usize, end: usize, limit: u32) -> Option<Claim> {
        let mut from = from;
        loop {
            let bit = self.find(from, end)?;
            let (at, first) = (bit / WIDTH, bit - bit % WIDTH);
            let word = self.word(0, at);
            // Relaxed: the `fetch_and` below decides. [CM4]
            let marked = word.load(Relaxed) & (!0 << (bit % WIDTH)) & below(end - first);
            let wanted = lowest(marked, limit);
            // Relaxed: the fence below orders it before the takes. [CM5]
            let old = word.fetch_and(!wanted, Relaxed);
            fence_after_exchange();
            if old & !wanted == 0 {
                self.clear_above(0, at);
            }
            let bits = old & wanted;
            if bits != 0 {
                return Some(Claim { first, bits });
            }
            // Another consumer has cleared these bits first.
            from = bit + 1;
        }
    }

    /// Sets the bits again that a consumer cleared and did not visit.
    pub(crate) fn give_back(&self, claim: Claim) {
        let mut bits = claim.bits;
        while bits != 0 {
            self.mark_from(0, claim.first + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }

    /// Returns the first set leaf bit in `from..end`, and clears the bits of empty words on the
    /// way.
    fn find(&self, from: usize, end: usize) -> Option<usize> {
        let (mut level, mut at) = (0, from);
        let end = end.min(self.bits);
        loop {
            let index = at / WIDTH;
            if at << (WIDTH.ilog2() * level as u32) >= end {
                return None;
            }
            // Relaxed: a mark that is missed here is found before the consumer sleeps. [CM6]
            let word = self.word(level, index).load(Relaxed);
            let bits = word & (!0 << (at % WIDTH));
            if bits != 0 {
                at = index * WIDTH + bits.trailing_zeros() as usize;
                if level == 0 {
                    return (at < end).then_some(at);
                }
                level -= 1;
                at *= WIDTH;
                continue;
            }
            if level + 1 == self.levels {
                return None;
            }
            let above = self.word(level + 1, index / WIDTH);
            // Relaxed: `clear_above` checks again.
            if word == 0 && above.load(Relaxed) >> (index % WIDTH) & 1 == 1 {
                self.clear_above(level, index);
            }
            level += 1;
            at = index + 1;
        }
    }

    /// Clears, in the level above, the bit of a word that was found empty, by rule 3.
    fn clear_above(&self, level: usize, index: usize) {
        let (mut level, mut index) = (level, index);
        while level + 1 < self.levels {
            let (above, bit) = (self.word(level + 1, index / WIDTH), 1 << (index % WIDTH));
            // Relaxed: the fence below orders it before the load of the word. [CM7]
            let old = above.fetch_and(!bit, Relaxed);
            fence_after_exchange();
            // Relaxed: after the fence, either this load sees a mark or its producer finds the bit
            // clear. [CM8]
            if self.word(level, index).load(Relaxed) != 0 {
                self.mark_from(level + 1, index);
                return;
            }
            if old & !bit != 0 {
                return;
            }
            level += 1;
            index /= WIDTH;
        }
    }

    /// Checks, while no other thread uses it, that each set bit has its bits above it set. For
    /// tests.
    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        for level in 0..self.levels - 1 {
            let words = self.bits.div_ceil(WIDTH.pow(level as u32 + 1));
            for index in 0..words {
                // Relaxed: no other thread has it.
                let word = self.word(level, index).load(Relaxed);
                // Relaxed: no other thread has it.
                let above = self.word(level + 1, index / WIDTH).load(Relaxed);
                let is_marked = above >> (index % WIDTH) & 1 == 1;
                assert!(word == 0 || is_marked, "level {level} word {index}");
            }
        }
    }
}

impl Path<'_> {
    /// No marks: the caller must look up the priority of the key first.
    pub(crate) const NONE: Self = Self {
        words: &[],
        levels: 0,
        bit: 0,
    };

    /// Marks the cell by rule 1. The caller must have fenced after its last read-modify-write.
    #[inline(always)]
    pub(crate) fn mark(self) {
        let mut at = self.bit as usize;
        for start in STARTS[..self.levels as usize].iter().rev() {
            let (word, bit) = (&self.words[start + at / WIDTH], 1 << (at % WIDTH));
            // Relaxed: after the fence of the put, either the bit is found clear or the consumer
            // finds the value.
            if word.load(Relaxed) & bit == 0 {
                // Relaxed: the fences before and after order it.
                word.fetch_or(bit, Relaxed);
                fence_after_exchange();
            }
            at /= WIDTH;
        }
    }
}

/// Returns the bits below this one; all of them from 64 on.
fn below(bit: usize) -> u64 {
    if bit >= WIDTH { !0 } else { (1 << bit) - 1 }
}

/// Returns the lowest set bits, at most `limit`.
fn lowest(bits: u64, limit: u32) -> u64 {
    if bits.count_ones() <= limit {
        return bits;
    }
    let mut rest = bits;
    for _ in 0..limit {
        rest &= rest - 1;
    }
    bits & !rest
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    fn drain(map: &Map, from: usize) -> Vec<usize> {
        let (mut at, mut found) = (from, Vec::new());
        while let Some(claim) = map.claim(at, usize::MAX, 64) {
            for bit in 0..WIDTH {
                if claim.bits >> bit & 1 == 1 {
                    found.push(claim.first + bit);
                }
            }
            at = found.last().unwrap() + 1;
        }
        found
    }

    #[test]
    fn marks_are_found_in_order_and_leave_nothing() {
        for cells in [1, 2, 64, 128, 4096, 8192, 16_384, 1 << 19] {
            let map = Map::new(cells, Marks::Tree);
            let mut marked: Vec<usize> = [0, 1, 63, 64, 65, 4095, 4096, 9999, cells - 1]
                .into_iter()
                .filter(|&cell| cell < cells)
                .collect();
            marked.sort_unstable();
            marked.dedup();
            for &cell in marked.iter().rev() {
                map.path(cell).mark();
            }
            map.check_invariants();
            assert_eq!(drain(&map, 0), marked, "{cells}");
            map.check_invariants();
            assert!(!map.is_marked(), "{cells}");
        }
    }

    #[test]
    fn a_claim_stops_at_its_end_and_its_limit() {
        let map = Map::new(4096, Marks::Tree);
        (0..4096).for_each(|cell| map.path(cell).mark());
        let claim = map.claim(70, 75, 3).unwrap();
        assert_eq!((claim.first, claim.bits), (64, 0b111 << 6));
        let claim = map.claim(70, 75, 3).unwrap();
        assert_eq!((claim.first, claim.bits), (64, 0b11 << 9));
        assert!(map.claim(70, 75, 3).is_none());
        map.give_back(claim);
        assert_eq!(map.claim(0, 4096, 64).unwrap().bits, !0);
        assert_eq!(map.claim(73, 75, 64).unwrap().bits, 0b11 << 9);
        map.check_invariants();
    }

    #[test]
    fn a_mark_above_an_empty_word_is_cleared() {
        for (word, from) in [(77, 0), (0, 0), (77, 77 * 64), (77, 77 * 64 + 5)] {
            let map = Map::new(1 << 18, Marks::Tree);
            map.mark_from(1, word);
            assert!(map.is_marked());
            assert!(map.claim(from, usize::MAX, 64).is_none());
            assert!(!map.is_marked(), "word {word} from {from}");
        }
    }

    #[test]
    fn a_flat_bit_is_for_a_64th() {
        for (cells, shift) in [(2, 0), (64, 0), (4096, 6), (16_384, 8)] {
            let map = Map::new(cells, Marks::Flat);
            assert_eq!((map.shift(), map.levels), (shift, 1));
            map.path(cells - 1).mark();
            assert_eq!(drain(&map, 0), [(cells - 1) >> shift]);
            assert!(!map.is_marked());
        }
    }
}
