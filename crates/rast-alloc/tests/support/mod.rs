//! What the tests of blocks share: contents that tell whose they are, sizes of every level, and
//! which blocks are in use.
#![allow(dead_code, reason = "each test uses some of it")]

use rast_alloc::primitive;
use rast_alloc::{AllocError, Allocator, Layout, RastAlloc};
use std::alloc::GlobalAlloc;
use std::collections::BTreeMap;
use std::ptr::NonNull;

/// Sizes at which the level or the class of a request changes, and one more.
pub(crate) const BORDERS: [usize; 13] = [
    8,
    16,
    256,
    1024,
    2048,
    4096,
    8192,
    16 * 1024,
    32 * 1024,
    64 * 1024,
    1 << 20,
    2 << 20,
    4 << 20,
];

/// The same sequence for the same seed.
pub(crate) struct Random(primitive::Random);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(primitive::Random::new(seed))
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound)
    }

    /// Sizes of every level; each doubling up to `bits` is as likely as the next, and some are at a
    /// border.
    pub(crate) fn size(&mut self, bits: usize) -> usize {
        let longest = 1 << bits;
        if self.below(5) == 0 {
            let border = BORDERS[self.below(BORDERS.len())].min(longest);
            return border - 1 + self.below(3);
        }
        let doubling = self.below(bits);
        (1 << doubling) + self.below(1 << doubling)
    }

    /// Alignments up to past a page and past what a span can have, small ones more often.
    pub(crate) fn align(&mut self) -> usize {
        match self.below(16) {
            0 => 1 << self.below(19),
            1 => 1 << self.below(14),
            _ => 1 << self.below(6),
        }
    }
}

/// A seed: that of the environment, or another one each time; printed, so that a failure can be
/// repeated.
pub(crate) fn seed() -> u64 {
    const NAME: &str = "RAST_ALLOC_SEED";
    let seed = match std::env::var(NAME) {
        Ok(text) => text.parse().expect("the seed is a number"),
        Err(_) => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.expect("after 1970").as_nanos() as u64 | 1
        }
    };
    println!("{NAME}={seed}");
    seed
}

/// The period of the contents; a prime, so that no block's copy at another place looks the same.
const PERIOD: usize = 251;
/// Bytes that are written or compared at a time, a multiple of the period.
const CHUNK: usize = PERIOD * 256;
static WHEEL: [u8; CHUNK + PERIOD] = {
    let mut wheel = [0; CHUNK + PERIOD];
    let mut at = 0;
    while at < wheel.len() {
        // Never zero, so that memory that was cleared is seen.
        wheel[at] = (at % PERIOD) as u8 + 1;
        at += 1;
    }
    wheel
};

/// The contents that a block with this mark has from the byte `from` on, a chunk of them.
fn expected(mark: usize, from: usize) -> &'static [u8] {
    let start = (mark + from) % PERIOD;
    &WHEEL[start..start + CHUNK]
}

/// Writes the contents of a mark to the bytes from `from` to `to` of a block.
///
/// # Safety
///
/// 1. The block is writable up to `to`, and nothing else uses it.
pub(crate) unsafe fn write(block: NonNull<u8>, mark: usize, from: usize, to: usize) {
    let mut at = from;
    while at < to {
        let length = CHUNK.min(to - at);
        // SAFETY: `at` is less than `to`.
        let place = unsafe { block.add(at) };
        let source = expected(mark, at).as_ptr();
        // SAFETY: obligation 1, and the source is a chunk long.
        unsafe { source.copy_to_nonoverlapping(place.as_ptr(), length) };
        at += length;
    }
}

/// Whether the first `bytes` of a block are what [`write`] wrote for the mark.
///
/// # Safety
///
/// 1. They are initialised, and no thread writes to them.
pub(crate) unsafe fn has(block: NonNull<u8>, mark: usize, bytes: usize) -> bool {
    // SAFETY: obligation 1.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), bytes) };
    let mut chunks = bytes.chunks(CHUNK);
    chunks.all(|chunk| chunk == &expected(mark, 0)[..chunk.len()])
}

/// Whether the bytes from `from` to `to` of a block are zero.
///
/// # Safety
///
/// 1. They are initialised, and no thread writes to them.
pub(crate) unsafe fn is_zero(block: NonNull<u8>, from: usize, to: usize) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    // SAFETY: obligation 1.
    let bytes = unsafe { std::slice::from_raw_parts(block.as_ptr(), to) };
    let mut chunks = bytes[from..].chunks(ZEROES.len());
    chunks.all(|chunk| chunk == &ZEROES[..chunk.len()])
}

/// Which bytes are in use: a map that no two blocks may share a byte of.
#[derive(Default)]
pub(crate) struct Map(BTreeMap<usize, usize>);

impl Map {
    /// Notes a block of at least one byte; fails if one that is noted has a byte of it.
    pub(crate) fn insert(&mut self, block: NonNull<u8>, bytes: usize) -> Result<(), String> {
        let (start, end) = (block.addr().get(), block.addr().get() + bytes);
        if let Some((other, other_end)) = self.0.range(..end).next_back()
            && *other_end > start
        {
            return Err(format!(
                "{start:#x}..{end:#x} overlaps {other:#x}..{other_end:#x}"
            ));
        }
        self.0.insert(start, end);
        Ok(())
    }

    /// Forgets a block.
    pub(crate) fn remove(&mut self, block: NonNull<u8>) {
        assert!(self.0.remove(&block.addr().get()).is_some());
    }
}

/// `RastAlloc` by the calls that the compiler makes for a global allocator.
#[derive(Clone, Copy)]
pub(crate) struct GlobalFace;

fn found(block: *mut u8, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
    let block = NonNull::new(block).ok_or(AllocError)?;
    Ok(NonNull::slice_from_raw_parts(block, layout.size()))
}

impl GlobalFace {
    /// Changes a block's layout, by one call where there is one for that.
    ///
    /// # Safety
    ///
    /// 1. As for `grow` and `shrink` of the trait.
    unsafe fn change(
        self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        if old.size() > 0 && new.size() > 0 && old.align() == new.align() {
            // SAFETY: obligation 1; the new size is not zero, and the block has one.
            return found(
                unsafe { RastAlloc.realloc(block.as_ptr(), old, new.size()) },
                new,
            );
        }
        let moved = self.allocate(new)?;
        let kept = old.size().min(new.size());
        // SAFETY: both blocks are at least that long, and different where they have a size.
        unsafe { block.copy_to_nonoverlapping(moved.cast(), kept) };
        // SAFETY: obligation 1.
        unsafe { self.deallocate(block, old) };
        Ok(moved)
    }
}

// SAFETY: each call is one of the global allocator's, or the trait's own default over these.
unsafe impl Allocator for GlobalFace {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return RastAlloc.allocate(layout);
        }
        // SAFETY: the layout has a size.
        found(unsafe { RastAlloc.alloc(layout) }, layout)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.size() == 0 {
            return RastAlloc.allocate(layout);
        }
        // SAFETY: the layout has a size.
        found(unsafe { RastAlloc.alloc_zeroed(layout) }, layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        if layout.size() > 0 {
            // SAFETY: the caller's obligations.
            unsafe { RastAlloc.dealloc(block.as_ptr(), layout) };
        }
    }

    unsafe fn grow(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's obligations.
        unsafe { self.change(block, old, new) }
    }

    unsafe fn shrink(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        // SAFETY: the caller's obligations.
        unsafe { self.change(block, old, new) }
    }
}
