//! Random operations of several threads on blocks that pass between them: the thread that has a
//! block grows, shrinks or frees it.
//!
//! `RAST_ALLOC_SEED=N` repeats the choices of a run, though not how its threads met.
#![cfg(all(feature = "std", not(rast_loom)))]

mod support;

use rast_alloc::{Allocator, Layout, RastAlloc, SharedHeap};
use std::ptr::NonNull;
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use support::{GlobalFace, Map, Random, seed};

const THREADS: usize = 4;
/// Maximum number of blocks of a thread.
const HELD_MAX: usize = 300;

/// A block in use, with the contents of its mark; its memory belongs to the thread that has this.
struct Block {
    memory: NonNull<u8>,
    layout: Layout,
    mark: usize,
}

// SAFETY: the block is this value's alone, and the allocator lets any thread free it.
unsafe impl Send for Block {}

/// Where threads store blocks for others, one entry each.
type Shelves = [Mutex<Vec<Block>>; THREADS];

/// The ranges in use, if they are watched; noting each call keeps the threads in step, so one half
/// of the runs does without and tells by the contents alone.
struct Watch(Option<Mutex<Map>>);

impl Watch {
    fn note(&self, block: &Block) {
        if let Some(map) = &self.0 {
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            map.insert(block.memory, block.layout.size()).unwrap();
        }
    }

    /// Before the block is freed, as another thread may get it at once.
    fn forget(&self, block: &Block) {
        if let Some(map) = &self.0 {
            let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
            map.remove(block.memory);
        }
    }
}

/// One thread's part.
struct Hand<'a, A> {
    alloc: A,
    random: Random,
    watch: &'a Watch,
    held: Vec<Block>,
}

impl<A: Allocator> Hand<'_, A> {
    /// Up to 64 KiB mostly, up to 2 MiB now and then.
    fn size(&mut self) -> usize {
        let bits = if self.random.below(8) == 0 { 21 } else { 16 };
        self.random.size(bits)
    }

    fn take(&mut self, mark: usize) {
        let layout = Layout::from_size_align(self.size(), self.random.align()).unwrap();
        let is_zeroed = self.random.below(3) == 0;
        let memory = if is_zeroed {
            self.alloc.allocate_zeroed(layout)
        } else {
            self.alloc.allocate(layout)
        };
        let block = Block {
            memory: memory.unwrap().cast(),
            layout,
            mark,
        };
        assert_eq!(block.memory.addr().get() % layout.align(), 0);
        self.watch.note(&block);
        if is_zeroed {
            // SAFETY: the block is new, and initialised, as is to be seen.
            assert!(unsafe { support::is_zero(block.memory, 0, layout.size()) });
        }
        // SAFETY: the block is new and this long.
        unsafe { support::write(block.memory, mark, 0, layout.size()) };
        self.held.push(block);
    }

    fn check(block: &Block) {
        // SAFETY: the block is in use and written over its whole length.
        let kept = unsafe { support::has(block.memory, block.mark, block.layout.size()) };
        assert!(kept, "contents of {:?}", block.layout);
    }

    /// Any of the blocks held; there is one.
    fn pick(&mut self) -> Block {
        let which = self.random.below(self.held.len());
        self.held.swap_remove(which)
    }

    fn resize(&mut self) {
        let mut block = self.pick();
        Self::check(&block);
        self.watch.forget(&block);
        let old = block.layout;
        // Mostly near, so that levels change at their borders and blocks grow in place.
        let size = match self.random.below(3) {
            0 => self.size(),
            1 => old.size() + 1 + self.random.below(old.size() + 1),
            _ => 1 + self.random.below(old.size()),
        };
        block.layout = Layout::from_size_align(size, old.align()).unwrap();
        let memory = if size < old.size() {
            // SAFETY: the block is the allocator's, of the old layout; the new one is smaller.
            unsafe { self.alloc.shrink(block.memory, old, block.layout) }
        } else {
            // SAFETY: likewise; the new one is not smaller.
            unsafe { self.alloc.grow(block.memory, old, block.layout) }
        };
        block.memory = memory.unwrap().cast();
        assert_eq!(block.memory.addr().get() % old.align(), 0);
        self.watch.note(&block);
        let kept = size.min(old.size());
        // SAFETY: the block is in use, and so much of it was written before.
        let is_kept = unsafe { support::has(block.memory, block.mark, kept) };
        assert!(is_kept, "contents from {old:?} to {:?}", block.layout);
        // SAFETY: the block is in use and this long.
        unsafe { support::write(block.memory, block.mark, kept, size) };
        self.held.push(block);
    }

    fn free(&mut self) {
        let block = self.pick();
        Self::check(&block);
        self.watch.forget(&block);
        // SAFETY: the block is the allocator's, of this layout, and not used again.
        unsafe { self.alloc.deallocate(block.memory, block.layout) };
    }

    fn trade(&mut self, shelves: &Shelves) {
        let other = &shelves[self.random.below(THREADS)];
        let mut shelf = other.lock().unwrap_or_else(PoisonError::into_inner);
        self.held.append(&mut shelf);
        for _ in 0..1 + self.random.below(30) {
            if self.held.is_empty() {
                break;
            }
            let block = self.pick();
            shelf.push(block);
        }
    }

    fn turn(&mut self, shelves: &Shelves, mark: usize) {
        match self.random.below(100) {
            0..=41 if self.held.len() < HELD_MAX => self.take(mark),
            42..=64 if !self.held.is_empty() => self.resize(),
            65..=69 => self.trade(shelves),
            70 => match self.random.below(20) {
                0 => drop(RastAlloc::purge()),
                1 => drop(RastAlloc::purge_all()),
                _ => RastAlloc::on_idle(),
            },
            _ if !self.held.is_empty() => self.free(),
            _ => {}
        }
    }
}

/// Generations of threads: each continues with the blocks that the previous one left in the shared
/// entries, and leaves its own blocks there.
fn exchange<A: Allocator + Copy + Send>(alloc: A, is_watched: bool, generations: usize) {
    let turns = if cfg!(miri) { 40 } else { 2500 };
    let start = seed();
    let watch = Watch(is_watched.then(Mutex::default));
    let shelves = Shelves::default();
    for generation in 0..generations {
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            let hands = [0, 1, 2, 3].map(|id| {
                let (shelves, watch, barrier) = (&shelves, &watch, &barrier);
                scope.spawn(move || {
                    let number = generation * THREADS + id;
                    let seed = start.wrapping_mul(2 * number as u64 + 1) | 1;
                    let mut hand = Hand {
                        alloc,
                        random: Random::new(seed),
                        watch,
                        held: Vec::new(),
                    };
                    barrier.wait();
                    for turn in 0..turns {
                        hand.turn(shelves, turn * THREADS + id);
                    }
                    let mut shelf = shelves[id].lock().unwrap_or_else(PoisonError::into_inner);
                    shelf.append(&mut hand.held);
                })
            });
            // Joined one by one: the scope does not wait until a thread has abandoned its heap.
            for hand in hands {
                hand.join().unwrap();
            }
        });
    }
    let mut last = Hand {
        alloc,
        random: Random::new(start),
        watch: &watch,
        held: Vec::new(),
    };
    for shelf in shelves {
        last.held
            .append(&mut shelf.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
    while !last.held.is_empty() {
        last.free();
    }
}

// One test, so that no other moves the figures; the program's own blocks come from elsewhere.
#[test]
fn blocks_go_from_hand_to_hand() {
    for is_watched in [true, false] {
        exchange(RastAlloc, is_watched, 3);
        exchange(GlobalFace, is_watched, 3);
        let heap = SharedHeap::new();
        exchange(&heap, is_watched, 3);
        let stats = heap.stats();
        assert_eq!((stats.bytes_current, stats.live()), (0, 0), "{stats}");
    }
    // All threads have ended and every block was freed: nothing is left, to the byte and to the
    // block.
    let stats = RastAlloc::stats();
    assert_eq!((stats.bytes_current, stats.live()), (0, 0), "{stats}");
    for class in RastAlloc::class_stats() {
        assert_eq!(class.live(), 0, "{} bytes", class.block_bytes);
    }
    // Heaps without a thread hold no messages back: all their memory goes, and with it the last
    // segment.
    RastAlloc::purge_all();
    let stats = RastAlloc::stats();
    assert_eq!(stats.bytes_reserved, 0, "{stats}");
    assert_eq!(stats.bytes_committed, 0, "{stats}");
}
