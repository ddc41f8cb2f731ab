//! A borrow of free slots, which are written in place and then pushed, all or some of them.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};

use super::Producer;
use super::raw::Span;
use crate::alloc::{Allocator, Global};

impl<T, A: Allocator> Producer<T, A> {
    /// Borrows up to `max` free slots to be written in place; fewer, or none, if the ring has less
    /// room.
    ///
    /// ```
    /// let (mut producer, consumer) = rast_queue::spsc::ring(4);
    /// let chunk = producer.write_chunk(usize::MAX);
    /// assert_eq!(chunk.len(), 4);
    /// chunk.fill(["a", "b"]);
    /// assert_eq!(consumer.len(), 2);
    /// ```
    #[inline]
    pub fn write_chunk(&mut self, max: usize) -> WriteChunk<'_, T, A> {
        let room = self.room_for(max);
        let len = room.min(max);
        self.prefetch(room, len);
        WriteChunk::new(self, len)
    }

    /// Borrows `count` free slots to be written in place, or returns `None` if there are fewer.
    #[inline]
    pub fn write_chunk_exact(&mut self, count: usize) -> Option<WriteChunk<'_, T, A>> {
        self.has_room(count).then(|| WriteChunk::new(self, count))
    }
}

/// Borrowed free slots of a ring, to be written; made by [`Producer::write_chunk`].
///
/// The slots are one slice, or two where the ring wraps. Only the methods below push items. A chunk
/// that is dropped or leaked pushes nothing.
///
/// | to push | use |
/// | --- | --- |
/// | the items of an iterator | [`fill`](Self::fill) |
/// | a copy of a slice | [`copy_from_slice`](Self::copy_from_slice) |
/// | values that are first initialised and then changed in place | [`filled_with`](Self::filled_with), [`filled`](Self::filled) |
/// | values that foreign code or a system call writes in place | [`as_mut_slices`](Self::as_mut_slices), then the unsafe [`commit`](Self::commit) |
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
/// A chunk borrows the producer exclusively:
///
/// ```compile_fail
/// let (mut producer, _consumer) = rast_queue::spsc::ring::<u32>(8);
/// let chunk = producer.write_chunk(2);
/// producer.push(1).unwrap();
/// chunk.fill([2]);
/// ```
///
/// Safe code cannot push slots that may be uninitialised:
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
    fn new(producer: &'a mut Producer<T, A>, len: usize) -> Self {
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

    /// Moves items of `items` into the slots until the items or the slots end. Pushes them by one
    /// store, and returns how many.
    ///
    /// The call takes at most one item per slot; pass the iterator by `&mut` to use it afterwards.
    /// If the iterator panics, the items that it had yielded are pushed. An iterator that is passed
    /// by value is dropped after the push. If the standard library trusts the length of the
    /// iterator (a range, a vector, or a `map` over these), the loop does not check for the end at
    /// each item. So it can be vectorised.
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
        // Dropped after `written`, which pushes, so that its drop delays no item.
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
        // An iterator that has ended is not called again: it might yield more.
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

    /// Writes the result of `make` into every slot, for code that then changes it in place.
    ///
    /// If `make` panics, the values that it returned before are dropped and nothing is pushed.
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
    /// [`commit`](Self::commit) pushes the values written here; without it they are leaked.
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
    /// 1. The first `count` slots hold values, which were written through this chunk.
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
    /// 1. All slots hold values, which were written through this chunk.
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

/// Counts the written items and pushes them on drop, so also if the iterator panics.
///
/// The count is here and not in the half, because the compiler must assume that a write to a slot
/// may change the fields of the half. User code never has this value, so it cannot be leaked.
struct Written<'a, T, A: Allocator> {
    producer: &'a Producer<T, A>,
    count: usize,
}

impl<T, A: Allocator> Written<'_, T, A> {
    /// Moves items of `items` into `slots` until either ends. `slots` must follow the slots counted
    /// so far.
    ///
    /// `zip` asks for a slot before an item, so no item is lost. With `for_each` the loop over an
    /// iterator of known length has one exit and is vectorised. Vector loads soon after can then be
    /// forwarded from the store buffer.
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

/// Borrowed slots of a ring that hold initialised values, which the caller can change: the safe
/// form of a [`WriteChunk`].
///
/// Values that are not committed are dropped with the chunk. A chunk that is leaked leaks its
/// values and pushes nothing.
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
    /// Number of initialised slots: all, except while they are being written.
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
    /// Even if a drop panics, the values are pushed and the others are dropped.
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
