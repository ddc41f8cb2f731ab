//! Adversarial sequences, against the bounds of `docs/algorithms/alloc.md`. Only bytes are counted;
//! no block is touched.

use super::tests::arena;
use super::*;
use crate::Layout;
use crate::primitive::Random;
use std::vec::Vec;

/// Grains of a segment for spans; the header always leaves at least so many.
const PAYLOAD: usize = SEGMENT * 9 / 10 / GRAIN;
/// The longest request, in grains.
const LONGEST: usize = SEGMENT / 4 / GRAIN;

/// Spans of one arena, with the maximum in use at once and the maximum reserved; all in grains.
struct Board {
    arena: std::boxed::Box<Arena>,
    used: Vec<(usize, Span)>,
    live: usize,
    live_most: usize,
    reserved_most: usize,
    shortest: usize,
    longest: usize,
}

impl Board {
    fn new() -> Self {
        Self {
            arena: arena(LargeBlocks::untracked()),
            used: Vec::new(),
            live: 0,
            live_most: 0,
            reserved_most: 0,
            shortest: usize::MAX,
            longest: 0,
        }
    }

    fn take(&mut self, grains: usize) {
        let span = self.arena.take_span(grains * GRAIN, 1).unwrap();
        self.used.push((grains, span));
        self.live += grains;
        self.live_most = self.live_most.max(self.live);
        let reserved = self.arena.reserved.get() as usize / GRAIN;
        self.reserved_most = self.reserved_most.max(reserved);
        self.shortest = self.shortest.min(grains);
        self.longest = self.longest.max(grains);
    }

    /// Allocates spans of this length while at most `most` grains are in use.
    fn fill(&mut self, grains: usize, most: usize) {
        while self.live + grains <= most {
            self.take(grains);
        }
    }

    /// Frees the spans for which `keeps`, called with the index of the allocation, returns `false`.
    fn keep(&mut self, mut keeps: impl FnMut(usize, usize, Span) -> bool) {
        let mut place = 0;
        let mut given = Vec::new();
        self.used.retain(|&(grains, span)| {
            place += 1;
            let kept = keeps(place - 1, grains, span);
            if !kept {
                given.push((grains, span));
            }
            kept
        });
        for (grains, span) in given {
            self.live -= grains;
            self.arena.give_span(span);
        }
    }

    /// Checks the rules of spans, the bound, and Robson's bound for first fit, which is not proved
    /// for this allocator.
    fn check(&self, what: &str) {
        self.arena.check();
        let (most, reserved) = (self.live_most, self.reserved_most);
        // The longest request, plus what its list may add.
        let wanted = self.longest + self.longest.div_ceil(32);
        let bound =
            (most + most / self.shortest * wanted) * PAYLOAD / (PAYLOAD - wanted) + SEGMENT / GRAIN;
        let bound = bound * (SEGMENT / GRAIN) / PAYLOAD;
        let doublings = (self.longest / self.shortest).max(2).ilog2() as usize;
        let robson = most * (doublings + 1) + 2 * SEGMENT / GRAIN;
        std::println!(
            "{what}: {most} grains in use, {reserved} reserved, {}.{:02} times; bound {bound}",
            reserved / most,
            reserved * 100 / most % 100
        );
        assert!(reserved <= bound, "{what}: {reserved} past {bound}");
        assert!(reserved <= robson, "{what}: {reserved} past {robson}");
    }
}

/// Robson's adversary: at each doubling it keeps the spans that cover one residue of the addresses,
/// so that no free span between them fits the next length.
#[test]
fn the_adversary_of_robson() {
    for most in [PAYLOAD, 8 * PAYLOAD] {
        let mut board = Board::new();
        board.fill(1, most);
        let (mut residue, mut length) = (0, 1);
        while length < LONGEST {
            let next = 2 * length;
            let covers = |residue: usize, grains: usize, span: Span| {
                let start = span.start().addr().get() / GRAIN;
                let from = (residue + next - start % next) % next;
                from < grains
            };
            let kept = |residue| {
                let kept = board.used.iter();
                kept.filter(|&&(grains, span)| covers(residue, grains, span))
                    .map(|&(grains, _)| grains)
                    .sum::<usize>()
            };
            // The residue that keeps more spans, with less memory each.
            if kept(residue + length) > kept(residue) {
                residue += length;
            }
            board.keep(|_, grains, span| covers(residue, grains, span));
            length = next;
            board.fill(length, most);
        }
        board.check("Robson");
    }
}

/// Every second span is freed, and then a length is requested that fits into no hole.
#[test]
fn checkerboards() {
    for length in [1, 7, 31, 64, 300, 511] {
        let mut board = Board::new();
        board.fill(length, 4 * PAYLOAD);
        board.keep(|place, _, _| place % 2 == 0);
        board.fill(length + 1, 4 * PAYLOAD);
        board.keep(|place, _, _| place % 2 == 0);
        board.fill(2 * length + 1, 4 * PAYLOAD);
        board.check("checkerboard");
    }
}

/// Increasing lengths, of each length every k-th span kept.
#[test]
fn growing_lengths() {
    for every in [2, 3, 10, 50] {
        let mut board = Board::new();
        let mut length = 1;
        while length <= LONGEST {
            board.fill(length, 4 * PAYLOAD);
            board.keep(|place, _, _| place % every == 0);
            length = (length * 5).div_ceil(4).max(length + 1);
        }
        board.check("growing");
    }
}

/// Random lengths, every k-th span freed, repeatedly.
#[test]
fn every_kth_of_random_lengths() {
    for every in [2, 3, 7] {
        let mut board = Board::new();
        let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
        for round in 0..60 {
            while board.live + LONGEST <= 4 * PAYLOAD {
                let bits = random.below(11);
                board.take(1 + random.below(1 << bits));
            }
            board.keep(|place, _, _| (place + round) % every != 0);
        }
        board.check("every k-th");
    }
}

/// Each class in turn reaches its maximum, and keeps one block of each of its slabs.
#[test]
fn slabs_held_by_one_block_each() {
    const BYTES: usize = 1 << 20;
    let arena = arena(LargeBlocks::untracked());
    let mut slabs = 0;
    for class in 0..SLAB_CLASSES {
        let size = size_of_class(class);
        let layout = Layout::from_size_align(size, 8).unwrap();
        let mut blocks: Vec<_> = (0..BYTES / size)
            .map(|_| NonNull::new(arena.allocate(layout)).unwrap())
            .collect();
        let outside = blocks.len() + list_limit(class);
        slabs += outside.div_ceil(SLOT / size) + 1;
        blocks.sort_unstable();
        let mut kept = 0;
        for block in blocks {
            let slot = block.addr().get() / SLOT;
            if slot == kept {
                // SAFETY: taken above.
                unsafe { arena.deallocate(block, layout) };
            }
            kept = slot;
        }
        arena.check();
    }
    // The slots of a segment, without those of the header.
    let segments = slabs.div_ceil(PAYLOAD * GRAIN / SLOT - 1) + 1;
    let reserved = arena.reserved.get() as usize;
    std::println!("{slabs} slabs at most, {} segments", reserved / SEGMENT);
    assert!(reserved <= segments * SEGMENT);
}
