//! The statistics: what was requested from the allocator, and what it took from the system.
//!
//! Each heap has its own sums, which only its holder writes, and a reading adds them up. A block
//! that one thread allocates and another frees is added in one heap's sums and subtracted in the
//! other's. So the total is exact whenever no call is in progress.

use core::fmt;

#[cfg(not(any(rast_loom, rast_shuttle)))]
use crate::{
    arena::Arena,
    level::{LARGE, SPANS},
    os,
    peak::IN_USE,
    primitive::Counter,
    size_class::size_of_class,
    thread_heap::HEAPS,
};

/// Statistics of [`RastAlloc`](crate::RastAlloc) at one moment.
///
/// Each number except for the peak is exact if no thread allocates during the reading; otherwise
/// the numbers may come from moments that are some calls apart.
///
/// The heaps report their bytes in use in steps. The peak is the maximum of these reports and of
/// all readings of these statistics. For each running thread it may be too low by:
///
/// - 1.5 MiB,
/// - 64 KiB for each size class up to 8 KiB of which the thread has blocks, and
/// - 72 KiB for each of up to 8 threads whose blocks it frees.
///
/// The peak is never higher than what was in use at one moment, with one exception. If a thread
/// only replaces blocks by shorter ones of the same class, the peak may be too high by the
/// difference. This is at most an eighth of the bytes of these blocks, or 15 bytes for each block
/// up to 256 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes requested and not yet freed, without rounding.
    pub bytes_current: usize,
    /// The maximum of `bytes_current`.
    pub bytes_peak: usize,
    /// Bytes of address space mapped for blocks, including what the system refused to unmap.
    pub bytes_reserved: usize,
    /// Bytes of these that may occupy memory: those of blocks, and those of free spans that are not
    /// entirely untouched or returned. At least the resident bytes, and more if only a part of a
    /// free span was touched.
    pub bytes_committed: usize,
    /// Allocated blocks.
    pub allocations: u64,
    /// Freed blocks.
    pub frees: u64,
    /// Blocks whose size was changed.
    pub reallocations: u64,
}

impl Stats {
    /// Returns the number of blocks in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.allocations.saturating_sub(self.frees)
    }

    /// Returns all numbers with their names, for any output format.
    ///
    /// ```
    /// use rast_alloc::RastAlloc;
    ///
    /// for (name, value) in RastAlloc::stats().fields() {
    ///     println!("alloc_{name} {value}");
    /// }
    /// ```
    #[must_use]
    pub fn fields(&self) -> [(&'static str, u64); 7] {
        [
            ("bytes_current", self.bytes_current as u64),
            ("bytes_peak", self.bytes_peak as u64),
            ("bytes_reserved", self.bytes_reserved as u64),
            ("bytes_committed", self.bytes_committed as u64),
            ("allocations", self.allocations),
            ("frees", self.frees),
            ("reallocations", self.reallocations),
        ]
    }

    #[cfg(not(any(rast_loom, rast_shuttle)))]
    pub(crate) fn read() -> Self {
        let mut sums = Sums::default();
        HEAPS.find(|heap| {
            sums.add_early(&heap.arena);
            sums.add_frees(heap.foreign.iter().map(Counter::get).sum());
            None::<()>
        });
        HEAPS.find(|heap| {
            sums.add_late(&heap.arena);
            None::<()>
        });
        let mut stats = sums.stats();
        stats.bytes_reserved += os::bytes_stranded();
        stats.bytes_peak = IN_USE.offer(stats.bytes_current as u64) as usize;
        stats
    }
}

/// A sum; zero if it was read below zero between two threads.
#[cfg(not(any(rast_loom, rast_shuttle)))]
fn not_below_zero(sum: u64) -> usize {
    usize::try_from(sum.cast_signed()).unwrap_or(0)
}

/// Sums of arenas, each wrapping, in two passes. Allocations are read in the first and frees in the
/// second, so the result is at most what was in use at the moment between them. (This holds where
/// other processors see the stores of a processor in their order, as on x86. Elsewhere the last of
/// these stores may be an exception.)
#[cfg(not(any(rast_loom, rast_shuttle)))]
#[derive(Default)]
pub(crate) struct Sums {
    requested: u64,
    reserved: u64,
    clean: u64,
    taken: u64,
    given: u64,
    reallocations: u64,
    moves: u64,
}

#[cfg(not(any(rast_loom, rast_shuttle)))]
impl Sums {
    /// Adds what must be read first, for all arenas: allocated bytes, and freed blocks. So neither
    /// the bytes nor the blocks in use are too high or below zero.
    pub(crate) fn add_early(&mut self, arena: &Arena) {
        add(&mut self.requested, &arena.bytes_taken);
        add(&mut self.moves, &arena.moves);
        for slot in arena.slots() {
            add(&mut self.given, &slot.given);
        }
    }

    /// Adds the rest, for all arenas.
    pub(crate) fn add_late(&mut self, arena: &Arena) {
        self.requested = self.requested.wrapping_sub(arena.bytes_given.get());
        for slot in arena.slots() {
            add(&mut self.taken, &slot.taken);
        }
        add(&mut self.reserved, &arena.reserved);
        add(&mut self.clean, &arena.spans.clean);
        add(&mut self.reallocations, &arena.reallocations);
    }

    /// Adds bytes that were freed into an arena by messages; in the second pass.
    pub(crate) fn subtract_bytes(&mut self, bytes: u64) {
        self.requested = self.requested.wrapping_sub(bytes);
    }

    /// Adds blocks that were freed into an arena by messages; in the first pass.
    pub(crate) fn add_frees(&mut self, frees: u64) {
        self.given = self.given.wrapping_add(frees);
    }

    /// Returns the statistics.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            bytes_current: not_below_zero(self.requested),
            bytes_peak: not_below_zero(self.requested),
            bytes_reserved: not_below_zero(self.reserved),
            bytes_committed: not_below_zero(self.reserved.wrapping_sub(self.clean)),
            allocations: self.taken.saturating_sub(self.moves),
            // A move is counted before the old block is freed.
            frees: self.given.saturating_sub(self.moves),
            reallocations: self.reallocations,
        }
    }
}

#[cfg(not(any(rast_loom, rast_shuttle)))]
fn add(sum: &mut u64, counter: &Counter) {
    *sum = sum.wrapping_add(counter.get());
}

/// Statistics of the blocks of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The size of the blocks in bytes. The last two rows are blocks of any size: 0 for spans,
    /// `usize::MAX` for mappings.
    pub block_bytes: usize,
    /// Allocated blocks; a block that changed its class counts as one freed and one allocated.
    pub taken: u64,
    /// Freed blocks, by any thread.
    pub given: u64,
}

impl ClassStats {
    /// Returns the number of blocks in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.taken.saturating_sub(self.given)
    }

    /// The row of a slot, added up over all heaps.
    #[cfg(not(any(rast_loom, rast_shuttle)))]
    pub(crate) fn read(slot: usize) -> Self {
        let mut stats = Self {
            block_bytes: match slot {
                SPANS => 0,
                LARGE => usize::MAX,
                class => size_of_class(class),
            },
            ..Self::default()
        };
        HEAPS.find(|heap| {
            let (own, foreign) = (heap.arena.slot(slot), heap.foreign[slot].get());
            stats.given = stats
                .given
                .wrapping_add(own.given.get().wrapping_add(foreign));
            stats.taken = stats.taken.wrapping_add(own.taken.get());
            None::<()>
        });
        stats
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} bytes in {} blocks, peak {} bytes, {} allocations, {} frees, {} reallocations, {} bytes reserved, {} committed",
            self.bytes_current,
            self.live(),
            self.bytes_peak,
            self.allocations,
            self.frees,
            self.reallocations,
            self.bytes_reserved,
            self.bytes_committed,
        )
    }
}
