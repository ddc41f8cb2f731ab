//! A grant of free slots: written in place, made the consumer's in whole or in part.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};

use super::Producer;
use super::raw::Span;
use crate::alloc::{Allocator, Global};

/// Free slots of a ring, lent to be written: what [`Producer::write_chunk`] gives.
///
/// The slots are one stretch of memory, or two where the ring wraps. Nothing is pushed until a
/// method that says so: a chunk that is dropped or forgotten leaves the ring as it was.
///
/// | to push | take |
/// | --- | --- |
/// | what an iterator gives | [`fill`](Self::fill) |
/// | a copy of a slice | [`copy_from_slice`](Self::copy_from_slice) |
/// | what is written in place, each slot having a value before | [`filled_with`](Self::filled_with), [`filled`](Self::filled) |
/// | what is written in place, by foreign code or a read from the system | [`as_mut_slices`](Self::as_mut_slices), then the unsafe [`commit`](Self::commit) |
///
/// All methods are wait-free; each push is one atomic store, whatever the number of items.
///
/// ```
/// use std::mem::MaybeUninit;
///
/// let (mut producer, mut consumer) = rast_queue::spsc::ring::<u32>(8);
/// assert_eq!(producer.write_chunk(3).fill([1, 2]), 2); // fewer than the slots
/// assert_eq!(producer.write_chunk(8).copy_from_slice(&[3, 4, 5]), 3);
///
/// let mut chunk = producer.write_chunk(2);
/// let (first, second) = chunk.as_mut_slices();
/// for slot in first.iter_mut().chain(second) {
///     slot.write(6);
/// }
/// // SAFETY: both slots were written.
/// unsafe { chunk.commit(2) };
///
/// let items: Vec<u32> = consumer.read_chunk(8).into_iter().collect();
/// assert_eq!(items, [1, 2, 3, 4, 5, 6, 6]);
/// ```
///
/// While a chunk lives, the producer is its own:
///
/// ```compile_fail
/// let (mut producer, _consumer) = rast_queue::spsc::ring::<u32>(8);
/// let chunk = producer.write_chunk(2);
/// producer.push(1).unwrap();
/// chunk.fill([2]);
/// ```
///
/// Slots that no thread has said to hold values are not pushed by safe code:
///
/// ```compile_fail
/// let (mut producer, _consumer) = rast_queue::spsc::ring::<u32>(8);
/// producer.write_chunk(2).commit(2);
/// ```
#[must_use = "a chunk pushes nothing until it is filled or committed"]
pub struct WriteChunk<'a, T, A: Allocator = Global> {
    producer: &'a mut Producer<T, A>,
    span: Span<T>,
}

// SAFETY: a chunk is the exclusive borrow of a producer and the addresses of slots that belong to
// that producer; sending it sends both.
unsafe impl<T: Send, A: Allocator + Send> Send for WriteChunk<'_, T, A> {}

impl<'a, T, A: Allocator> WriteChunk<'a, T, A> {
    /// The `len` slots from the tail on, for which the producer has found room.
    #[inline(always)]
    pub(super) fn new(producer: &'a mut Producer<T, A>, len: usize) -> Self {
        Self {
            span: producer.span(len),
            producer,
        }
    }

    /// Returns how many slots there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.span.len()
    }

    /// Returns whether there is no slot at all.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves items of `items` into the slots until either ends, pushes them at once, and returns
    /// how many.
    ///
    /// The iterator is asked for no more items than there are slots; lend it by `&mut` to use it
    /// further. If it panics, the items that it gave before are pushed. An iterator whose length
    /// the standard library trusts, a range's or a vector's say, and what `map` makes of it, by
    /// value or by `&mut`, is not asked for its end at each item, and goes to memory in vectors
    /// where its items do. The iterator, if it is given away, is dropped after the push.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring(2);
    /// let mut numbers = 1..;
    /// assert_eq!(producer.write_chunk(8).fill(&mut numbers), 2);
    /// assert_eq!((consumer.pop(), consumer.pop()), (Some(1), Some(2)));
    /// assert_eq!(numbers.next(), Some(3));
    /// ```
    #[inline]
    pub fn fill(self, items: impl IntoIterator<Item = T>) -> usize {
        // Dropped after `written`, which pushes: what dropping it costs delays no item.
        let mut items = items.into_iter();
        let mut written = Written {
            producer: self.producer,
            count: 0,
        };
        // SAFETY: the slots are the producer's, which is borrowed to the end of this call; no other
        // borrow of them is made.
        let (first, second) = unsafe { self.span.as_slots() };
        let in_first = first.len();
        written.fill(first, items.by_ref());
        // An iterator that has ended is not asked again: it might go on.
        if written.count == in_first && !second.is_empty() {
            written.fill(second, items.by_ref());
        }
        written.count
    }

    /// Copies items from the front of `items` into the slots until either ends, pushes them at
    /// once, and returns how many.
    #[inline]
    pub fn copy_from_slice(self, items: &[T]) -> usize
    where
        T: Copy,
    {
        let count = items.len().min(self.len());
        let mut from = items.as_ptr();
        for (slots, len) in self.span.range(0, count).parts() {
            // SAFETY: the two lengths are `count` together, so `from` has `len` items before the
            // end of `items`; the slots are of the chunk: ours, empty, and no part of what the
            // caller lent.
            unsafe { slots.as_ptr().copy_from_nonoverlapping(from, len) };
            // SAFETY: as above, inside `items` or at its end.
            from = unsafe { from.add(len) };
        }
        // SAFETY: that many slots were written just now.
        unsafe { self.commit(count) };
        count
    }

    /// Writes the default value into every slot, for code that then changes it in place.
    ///
    /// ```
    /// let (mut producer, mut consumer) = rast_queue::spsc::ring::<u8>(8);
    /// let mut chunk = producer.write_chunk(5).filled();
    /// let (first, _second) = chunk.as_mut_slices();
    /// first.copy_from_slice(b"hello");
    /// chunk.commit(4); // the last one is dropped
    /// assert_eq!(consumer.read_chunk(8).as_slices().0, b"hell");
    /// ```
    pub fn filled(self) -> FilledChunk<'a, T, A>
    where
        T: Default,
    {
        self.filled_with(T::default)
    }

    /// Writes what `make` gives into every slot, for code that then changes it in place.
    ///
    /// If `make` panics, what it gave before is dropped and nothing is pushed.
    pub fn filled_with(self, mut make: impl FnMut() -> T) -> FilledChunk<'a, T, A> {
        let mut filled = FilledChunk {
            chunk: self,
            count: 0,
        };
        for (slots, len) in filled.chunk.span.parts() {
            for n in 0..len {
                let item = make();
                // SAFETY: `n` is below the length of this stretch of slots.
                let slot = unsafe { slots.add(n) };
                // SAFETY: the slot is one of the chunk: past the tail, before the capacity, ours
                // alone, and empty.
                unsafe { slot.write(item) };
                filled.count += 1;
            }
        }
        filled
    }

    /// Borrows the slots, in order; the second slice is empty unless the ring wraps among them.
    ///
    /// What is written here is pushed by [`commit`](Self::commit); without it, it is forgotten and
    /// not dropped.
    #[inline]
    #[must_use]
    pub fn as_mut_slices(&mut self) -> (&mut [MaybeUninit<T>], &mut [MaybeUninit<T>]) {
        // SAFETY: the slots are the producer's, which the chunk borrows alone, and the chunk is
        // borrowed here.
        unsafe { self.span.as_slots() }
    }

    /// Pushes the first `count` slots at once.
    ///
    /// # Panics
    ///
    /// If `count` is over [`len`](Self::len).
    ///
    /// # Safety
    ///
    /// 1. The first `count` slots hold values, written by way of this chunk.
    #[inline]
    pub unsafe fn commit(self, count: usize) {
        assert!(
            count <= self.len(),
            "spsc: a chunk commits at most its length"
        );
        if count > 0 {
            // SAFETY: by (1) they were written, and the tail has not moved since the chunk was
            // made.
            unsafe { self.producer.advance(count) };
        }
    }

    /// Pushes all slots at once.
    ///
    /// # Safety
    ///
    /// 1. All slots hold values, written by way of this chunk.
    #[inline]
    pub unsafe fn commit_all(self) {
        let len = self.len();
        // SAFETY: by (1).
        unsafe { self.commit(len) };
    }
}

impl<T, A: Allocator> fmt::Debug for WriteChunk<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteChunk")
            .field("len", &self.len())
            .finish()
    }
}

/// Counts what is written and pushes it on drop, so by a panic of the iterator too.
///
/// The count is kept here and not in the half, whose words a write to a slot might change for all
/// that the compiler knows. No user code holds one, so none is lost.
struct Written<'a, T, A: Allocator> {
    producer: &'a Producer<T, A>,
    count: usize,
}

impl<T, A: Allocator> Written<'_, T, A> {
    /// Moves items of `items` into `slots` until either ends; they are what follows in the chunk on
    /// those counted.
    ///
    /// A slot is taken first and then an item, so no item is taken that has no slot. The loop is
    /// driven from inside: over an iterator whose length the standard library knows it has one
    /// exit, and the items of a batch go to memory in vectors, which loads in vectors soon after
    /// can be given from the store buffer.
    #[inline(always)]
    fn fill(&mut self, slots: &mut [MaybeUninit<T>], items: impl Iterator<Item = T>) {
        slots.iter_mut().zip(items).for_each(|(slot, item)| {
            slot.write(item);
            self.count += 1;
        });
    }
}

impl<T, A: Allocator> Drop for Written<'_, T, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count > 0 {
            // SAFETY: that many slots were written from the tail on.
            unsafe { self.producer.advance(self.count) };
        }
    }
}

/// Slots of a ring that hold values already, lent to be changed: the safe form of a [`WriteChunk`].
///
/// What is not committed is dropped with the chunk; a chunk that is forgotten leaks its values and
/// leaves the ring as it was.
///
/// ```
/// let (mut producer, mut consumer) = rast_queue::spsc::ring::<String>(4);
/// let mut chunk = producer.write_chunk(2).filled();
/// chunk.as_mut_slices().0[0].push_str("in place");
/// chunk.commit(1);
/// assert_eq!(consumer.pop().unwrap(), "in place");
/// assert!(consumer.is_empty());
/// ```
#[must_use = "a chunk pushes nothing until it is committed"]
pub struct FilledChunk<'a, T, A: Allocator = Global> {
    chunk: WriteChunk<'a, T, A>,
    /// How many slots hold values: all but while they are written.
    count: usize,
}

impl<T, A: Allocator> FilledChunk<'_, T, A> {
    /// Returns how many values there are.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is no value at all.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Borrows the values, in order; the second slice is empty unless the ring wraps among them.
    #[inline]
    #[must_use]
    pub fn as_mut_slices(&mut self) -> (&mut [T], &mut [T]) {
        // SAFETY: the first `count` slots hold values, which the chunk owns and borrows alone.
        unsafe { self.chunk.span.range(0, self.count).as_mut_slices() }
    }

    /// Pushes the first `count` values at once, and drops the others.
    ///
    /// If a drop panics, the values are pushed all the same and the others dropped.
    ///
    /// # Panics
    ///
    /// If `count` is over [`len`](Self::len); nothing is pushed then.
    #[inline]
    pub fn commit(self, count: usize) {
        assert!(
            count <= self.len(),
            "spsc: a chunk commits at most its length"
        );
        let filled = ManuallyDrop::new(self);
        let rest = filled.chunk.span.range(count, filled.count);
        if count > 0 {
            // SAFETY: the first `count` slots hold values, which are given away here, `filled` not
            // being dropped.
            unsafe { filled.chunk.producer.advance(count) };
        }
        // SAFETY: these hold the other values, past the tail; they are dropped here alone.
        unsafe { rest.drop_items() };
    }

    /// Pushes all values at once.
    #[inline]
    pub fn commit_all(self) {
        let len = self.len();
        self.commit(len);
    }
}

impl<T, A: Allocator> Drop for FilledChunk<'_, T, A> {
    fn drop(&mut self) {
        // SAFETY: the first `count` slots hold values that the chunk owns; they are past the tail,
        // and dropped here alone.
        unsafe { self.chunk.span.range(0, self.count).drop_items() };
    }
}

impl<T, A: Allocator> fmt::Debug for FilledChunk<'_, T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilledChunk")
            .field("len", &self.len())
            .finish()
    }
}
