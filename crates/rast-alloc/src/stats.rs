//! What the allocator was asked for, and what it took from the system for it.
//!
//! Each heap keeps its own sums, which only its thread writes, and a reading adds them up. A block
//! that one thread takes and another frees is added in the one's sums and subtracted in the
//! other's, so the total is exact at every moment at which no call is under way; nothing is merged
//! and nothing is lost when a thread ends.

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

/// Figures of [`RastAlloc`](crate::RastAlloc) at one moment.
///
/// Each figure is exact if no thread allocates meanwhile, except for the peak; otherwise figures of
/// one reading may be some calls apart. The peak is the highest of what the heaps told in steps,
/// and of readings: not more than was in use at once, but it may be too low, for each thread that
/// runs, by 1.5 MiB, by what its lists can take (64 KiB for each size class up to 8 KiB of which it
/// has blocks), and by 72 KiB for each of up to 8 threads whose blocks it frees. Where a thread
/// replaces blocks by shorter ones of the same class, and does nothing else, the peak may be too
/// high by what they differ in: at most an eighth of these blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes asked for and not given back, without what rounding adds.
    pub bytes_current: usize,
    /// The most of these at once.
    pub bytes_peak: usize,
    /// Bytes of address space taken from the system for blocks, with what the system refused to
    /// take back.
    pub bytes_reserved: usize,
    /// Bytes of these that may occupy memory: those of blocks, and of free memory all that was
    /// joined with some that was in use since it came from the system or went back; so never too
    /// few, but more than is resident where part of a free stretch, as of a segment without blocks,
    /// was never touched.
    pub bytes_committed: usize,
    /// Blocks taken.
    pub allocations: u64,
    /// Blocks given back.
    pub frees: u64,
    /// Blocks that were made larger or smaller.
    pub reallocations: u64,
}

impl Stats {
    /// Returns how many blocks are in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.allocations.saturating_sub(self.frees)
    }

    /// Returns all figures with their names, for whatever format they are to be written in.
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

/// A sum; one that was caught below zero between two threads is none.
#[cfg(not(any(rast_loom, rast_shuttle)))]
fn not_below_zero(sum: u64) -> usize {
    usize::try_from(sum.cast_signed()).unwrap_or(0)
}

/// Sums of arenas, each wrapping, in two passes: between the two there is a moment at which no
/// fewer bytes were in use than the sums say, since what was taken was read before and what was
/// given back is read after. (That holds where the stores of a processor are seen in their order,
/// as on x86; elsewhere except for the last of them.)
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
    /// Adds what is to be read first, of all arenas: bytes taken, and blocks given back, so that
    /// neither those in use nor those that live are too many or below none.
    pub(crate) fn add_early(&mut self, arena: &Arena) {
        add(&mut self.requested, &arena.bytes_taken);
        add(&mut self.moves, &arena.moves);
        for slot in arena.slots() {
            add(&mut self.given, &slot.given);
        }
    }

    /// Adds the rest, of all arenas.
    pub(crate) fn add_late(&mut self, arena: &Arena) {
        self.requested = self.requested.wrapping_sub(arena.bytes_given.get());
        for slot in arena.slots() {
            add(&mut self.taken, &slot.taken);
        }
        add(&mut self.reserved, &arena.reserved);
        add(&mut self.clean, &arena.spans.clean);
        add(&mut self.reallocations, &arena.reallocations);
    }

    /// Adds bytes that were given back to an arena without its being told; late.
    pub(crate) fn subtract_bytes(&mut self, bytes: u64) {
        self.requested = self.requested.wrapping_sub(bytes);
    }

    /// Adds blocks that were given back to an arena without its being told; early.
    pub(crate) fn add_frees(&mut self, frees: u64) {
        self.given = self.given.wrapping_add(frees);
    }

    /// The figures.
    pub(crate) fn stats(&self) -> Stats {
        Stats {
            bytes_current: not_below_zero(self.requested),
            bytes_peak: not_below_zero(self.requested),
            bytes_reserved: not_below_zero(self.reserved),
            bytes_committed: not_below_zero(self.reserved.wrapping_sub(self.clean)),
            allocations: self.taken.saturating_sub(self.moves),
            // A move is counted before the block that it leaves is given back.
            frees: self.given.saturating_sub(self.moves),
            reallocations: self.reallocations,
        }
    }
}

#[cfg(not(any(rast_loom, rast_shuttle)))]
fn add(sum: &mut u64, counter: &Counter) {
    *sum = sum.wrapping_add(counter.get());
}

/// Figures of the blocks of one size class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// The size of the blocks in bytes; the last two rows are of any size: spans have 0 here,
    /// mappings `usize::MAX`.
    pub block_bytes: usize,
    /// Blocks taken; a block that changed its class counts as one given back and one taken.
    pub taken: u64,
    /// Blocks given back, by whichever thread.
    pub given: u64,
}

impl ClassStats {
    /// Returns how many blocks are in use.
    #[must_use]
    pub fn live(&self) -> u64 {
        self.taken.saturating_sub(self.given)
    }

    /// The row of a slot, summed over all heaps.
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
