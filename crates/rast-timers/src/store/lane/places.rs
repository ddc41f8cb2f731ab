//! A queue of numbered places, from which any value can be removed by its number. A place holds a
//! deadline, and a value until the value is removed.
//!
//! ```text
//!  directory, a power of two       chunks of 64 places
//!  ┌───┐
//!  │ ● │─▶ chunk 4                 │    │    │    │ ·· │    │   spare
//!  │ ● │─▶ chunk 1   front ▶       │    │ at │ †  │ ·· │ at │
//!  │ ● │─▶ chunk 2                 │ at │ at │ at │ ·· │ †  │
//!  │ ● │─▶ chunk 3   back ▶        │ at │ at │    │ ·· │    │
//!  └───┘                                       ▲ tail
//! ```
//!
//! | field | meaning |
//! | --- | --- |
//! | `head`, `tail` | the number of the first place, and the number of the next new place |
//! | `front`, `back` | the chunks of `head` and of the place before `tail` |
//! | `directory` | chunk c is at index c modulo the length |
//! | `dead` | number of places from `head` to `tail` without a value |
//!
//! Rules:
//!
//! 1. The places with numbers from `head` to `tail` are initialised. The key of a place is its
//!    deadline and, as the lowest bit, `LIVE`. A place has a value if `LIVE` is set; otherwise the
//!    value was removed (†).
//! 2. Numbers are consecutive multiples of `STEP`; the caller uses the lower bits for its own data.
//!    Number n × `STEP` is place n modulo 64 of chunk n / 64. The directory has at least as many
//!    entries as there are chunks from `head` to `tail`. So each of these chunks has an entry of
//!    its own, with the memory of the chunk. Other entries have spare memory or none.
//! 3. If there is any place, `front` is the chunk of `head`. If there ever was one, `back` is the
//!    chunk of the place before `tail`.
//! 4. Deadlines are before `FAR`, and do not decrease. The place before `tail` keeps its key even
//!    after it has left the queue, so that the least acceptable deadline can be read there.
//!
//! A chunk that the front of the queue has left stays in its entry of the directory. The back
//! reuses the chunk when it comes to this entry again. Memory is allocated in chunks of 64 places.
//! Only the directory is copied when it grows, and no memory is freed before the drop.
#![allow(
    unsafe_code,
    reason = "places without a value, and chunks that are reached by two ways"
)]

use super::Handle;
use crate::primitive::panics::drop_each;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, needs_drop};
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;
use core::slice;
use std_alloc::boxed::Box;
use std_alloc::vec;
use std_alloc::vec::Vec;

/// Distance from one number to the next.
pub(super) const STEP: u64 = 16;

/// Number of places in a chunk.
const CHUNK: u64 = 64;

/// Bit of a key whose value has not been removed.
const LIVE: u64 = 1;

/// First deadline that is rejected, 292 years after the clock's origin.
pub(super) const FAR: u64 = 1 << 63;

struct Place<T> {
    /// Deadline, shifted above the bit `LIVE`.
    key: u64,
    value: MaybeUninit<T>,
}

impl<T> Place<T> {
    /// Returns the key of a deadline before `FAR` with a value; it is greater than the key of the
    /// same deadline without a value.
    #[inline(always)]
    const fn live(at: u64) -> u64 {
        at << 1 | LIVE
    }

    /// Returns the byte offset of a number's place in its chunk. This is one instruction if a place
    /// has `STEP` bytes. It is computed in 64 bits, because the product may be `STEP` times a
    /// chunk.
    #[inline(always)]
    const fn offset(number: u64) -> usize {
        (number % (STEP * CHUNK) * size_of::<Self>() as u64 / STEP) as usize
    }

    #[inline(always)]
    const fn at(&self) -> u64 {
        self.key >> 1
    }

    #[inline(always)]
    const fn is_live(&self) -> bool {
        self.key & LIVE != 0
    }
}

type Chunk<T> = [MaybeUninit<Place<T>>; CHUNK as usize];

/// Pointer to the first place of a chunk, with provenance for the whole chunk.
type First<T> = NonNull<Place<T>>;

/// Returns the index of a number's place in its chunk.
#[inline(always)]
const fn within(number: u64) -> u64 {
    number % (STEP * CHUNK) / STEP
}

/// Returns `true` if a number's place is the first of its chunk.
#[inline(always)]
const fn is_first(number: u64) -> bool {
    number.is_multiple_of(STEP * CHUNK)
}

/// Returns the chunk of a number's place.
#[inline(always)]
const fn chunk(number: u64) -> u64 {
    number / (STEP * CHUNK)
}

/// Result of [`Places::push_row`].
pub(super) struct Row<T> {
    /// Number of values that were pushed.
    pub(super) count: usize,
    /// First value that was not pushed, `None` if the iterator has ended.
    pub(super) next: Option<(u64, T)>,
}

pub(super) struct Places<T> {
    head: u64,
    tail: u64,
    front: First<T>,
    back: First<T>,
    directory: Vec<Option<First<T>>>,
    dead: u64,
    owns: PhantomData<Place<T>>,
}

// SAFETY: the chunks are reached only through their one owner, so moving it moves the values, and
// nothing else.
unsafe impl<T: Send> Send for Places<T> {}
// SAFETY: through a shared reference only deadlines are read.
unsafe impl<T: Sync> Sync for Places<T> {}

// As for a `Vec` of the places: a panic in the caller's code leaves a consistent queue, and a
// shared reference changes nothing.
impl<T: UnwindSafe> UnwindSafe for Places<T> {}
impl<T: RefUnwindSafe> RefUnwindSafe for Places<T> {}

impl<T> Places<T> {
    /// Makes an empty queue without memory.
    pub(super) const fn new() -> Self {
        Self {
            head: 0,
            tail: 0,
            front: NonNull::dangling(),
            back: NonNull::dangling(),
            directory: Vec::new(),
            dead: 0,
            owns: PhantomData,
        }
    }

    /// Makes an empty queue with memory for `capacity` places, whatever their first number; it may
    /// reserve up to twice that, and 128 more.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let mut places = Self::new();
        if capacity > 0 {
            // One more, because the places may start in the middle of a chunk.
            let chunks = capacity.div_ceil(CHUNK as usize) + 1;
            places.directory = vec![None; chunks.next_power_of_two()];
            // Fill all entries, because the chunks in use move around the directory.
            for entry in &mut places.directory {
                *entry = Some(Self::new_chunk());
            }
        }
        places
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        (self.places() - self.dead) as usize
    }

    /// Returns the number of places.
    #[inline(always)]
    fn places(&self) -> u64 {
        (self.tail - self.head) / STEP
    }

    /// Returns `true` if a value for `at` may be pushed.
    #[inline(always)]
    pub(super) fn takes(&self, at: u64) -> bool {
        self.last() <= at && at < FAR
    }

    /// Returns `true` if the next place is in the chunk of the last one.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        Place::<T>::offset(self.tail) != 0
    }

    /// Returns `true` if there is no place, not even one without a value.
    pub(super) fn is_bare(&self) -> bool {
        self.head == self.tail
    }

    /// Returns the place before `tail`, `None` if there never was one.
    fn before_tail(&self) -> Option<NonNull<Place<T>>> {
        let number = self.tail.checked_sub(STEP)?;
        // SAFETY: by rule 3 `back` is the chunk of this number. The index is inside the chunk.
        Some(unsafe { self.back.add(within(number) as usize) })
    }

    /// Returns the minimum key of the next push.
    fn least(&self) -> u64 {
        self.before_tail().map_or(0, |place| {
            // SAFETY: by rule 4 its key is initialised, and nothing writes it now.
            unsafe { (*place.as_ptr()).key }
        })
    }

    /// Returns the minimum deadline of the next push.
    pub(super) fn last(&self) -> u64 {
        self.least() >> 1
    }

    /// Accepts any deadline from now on.
    ///
    /// # Panics
    ///
    /// If there is any place.
    pub(super) fn restart(&mut self) {
        assert!(self.is_bare(), "rule 4: the deadlines rise");
        if let Some(place) = self.before_tail() {
            // SAFETY: the memory is owned by this queue, and nothing refers to it.
            unsafe { (*place.as_ptr()).key = 0 };
        }
    }

    /// Pushes a value and returns its number; returns the value if its deadline is before the last
    /// or not before [`FAR`].
    #[inline(always)]
    pub(super) fn push(&mut self, at: u64, value: T) -> Result<u64, T> {
        let number = self.tail;
        let offset = Place::<T>::offset(number);
        let key = Place::<T>::live(at);
        let fits = if offset == 0 {
            self.begin(at)
        } else {
            // SAFETY: by rule 3 `back` is the chunk of the place before `tail`. That place is
            // inside the chunk, because this one is not the first.
            let before = unsafe { self.back.byte_add(offset - size_of::<Place<T>>()) };
            // SAFETY: by rule 4 its key is initialised, and nothing writes it now.
            at < FAR && unsafe { (*before.as_ptr()).key } <= key
        };
        if !fits {
            return Err(value);
        }
        // SAFETY: `back` is the chunk of this number: by rule 3, because the place before is in it
        // too, or because `begin` has just set it.
        let place = unsafe { self.back.byte_add(offset) };
        let value = MaybeUninit::new(value);
        // SAFETY: the memory is a place owned by this queue, by rule 2 of no other number, and
        // nothing refers to it.
        unsafe { place.write(Place { key, value }) };
        self.tail = number + STEP;
        Ok(number)
    }

    /// Begins a chunk at `tail` if a value for `at` may be pushed; the caller must then push it.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, at: u64) -> bool {
        let fits = self.takes(at);
        if fits {
            self.grow();
        }
        fits
    }

    /// Pushes `first` and then the items of `more`. Passes each number to `each`. It stops at the
    /// first item whose deadline is less than the previous one, or not less than `before`, and
    /// returns this item.
    ///
    /// If `more` or `each` panics, the pushed values stay.
    ///
    /// # Panics
    ///
    /// If `before` is after [`FAR`].
    #[inline(always)]
    pub(super) fn push_row(
        &mut self,
        first: (u64, T),
        before: u64,
        more: &mut impl Iterator<Item = (u64, T)>,
        mut each: impl FnMut(u64),
    ) -> Row<T> {
        assert!(before <= FAR, "rule 4");
        let mut last = self.last();
        let start = self.tail;
        let mut put = Put {
            number: start,
            places: self,
        };
        let (mut at, mut value) = first;
        let next = 'row: loop {
            if at < last || at >= before {
                break Some((at, value));
            }
            if is_first(put.number) {
                put.places.tail = put.number;
                put.places.grow();
            }
            let back = put.places.back;
            for index in within(put.number)..CHUNK {
                // Checked again, so that within a chunk nothing else is checked.
                if at < last || at >= before {
                    break 'row Some((at, value));
                }
                // SAFETY: `back` is the chunk of this number: by rule 3, because the place before
                // is in it too, or because `grow` has just set it.
                let place = unsafe { back.add(index as usize) };
                let whole = Place {
                    key: Place::<T>::live(at),
                    value: MaybeUninit::new(value),
                };
                // SAFETY: the memory is a place owned by this queue, by rule 2 of no other number,
                // and nothing refers to it.
                unsafe { place.write(whole) };
                let number = put.number;
                put.number = number + STEP;
                last = at;
                each(number);
                match more.next() {
                    Some(next) => (at, value) = next,
                    None => break 'row None,
                }
            }
        };
        let count = ((put.number - start) / STEP) as usize;
        Row { count, next }
    }

    /// Removes the value of `number`, ignoring the bits below [`STEP`]; `None` if there is none.
    #[inline(always)]
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let number = number & !(STEP - 1);
        if number >= self.tail {
            return None;
        }
        if number <= self.head {
            return if number == self.head {
                self.take_first()
            } else {
                None
            };
        }
        // SAFETY: `number` is from `head` to `tail`.
        let chunk = unsafe { self.chunk_of(number) };
        // SAFETY: the offset is inside the chunk.
        let mut place = unsafe { chunk.byte_add(Place::<T>::offset(number)) };
        // SAFETY: by rule 1 the place is initialised, and nothing refers to it.
        let place = unsafe { place.as_mut() };
        if !place.is_live() {
            return None;
        }
        place.key &= !LIVE;
        self.dead += 1;
        // SAFETY: by rule 1 it had a value, and its key is now marked as without one.
        Some(unsafe { place.value.assume_init_read() })
    }

    /// Removes the first place and returns its value.
    ///
    /// # Panics
    ///
    /// If there is no place; the caller must check.
    #[inline(always)]
    fn take_first(&mut self) -> Option<T> {
        assert!(!self.is_bare(), "a number before `tail`");
        if self.dead > 0 {
            return self.take_first_slow();
        }
        // SAFETY: there is a place, so by rule 3 `front` is the chunk of `head`. The offset is
        // inside it.
        let place = unsafe { self.front.byte_add(Place::<T>::offset(self.head)) };
        // SAFETY: by rule 1 the place is initialised, and nothing refers to it.
        let place = unsafe { place.as_ref() };
        // SAFETY: every place has its value; the next line removes this place.
        let value = unsafe { place.value.assume_init_read() };
        self.pass(self.head + STEP);
        Some(value)
    }

    /// As `take_first` if some places have no value; also removes such places from the front.
    #[cold]
    #[inline(never)]
    fn take_first_slow(&mut self) -> Option<T> {
        let first = self.rest(1).first().filter(|place| place.is_live())?;
        // SAFETY: by rule 1 it has a value; the next line removes the place.
        let value = unsafe { first.value.assume_init_read() };
        self.pass(self.head + STEP);
        self.trim();
        Some(value)
    }

    /// Removes the values of the first `handles`, as long as they name consecutive places from the
    /// first place on, and passes them to `each`; returns their number. It ends at the end of the
    /// first chunk, and removes nothing if any place is without a value. `lane` is the value of the
    /// handles' bits below [`STEP`].
    ///
    /// If `each` panics, the value that it was given and those before it are
    /// gone, and all others stay.
    #[inline(always)]
    pub(super) fn take_row(
        &mut self,
        lane: u64,
        handles: &[Handle],
        mut each: impl FnMut(Handle, T),
    ) -> usize {
        if self.dead > 0 {
            return 0;
        }
        let rest: *const [Place<T>] = self.rest(handles.len() as u64);
        // SAFETY: these are places of a chunk. Until `run` is dropped, after the loop, nothing
        // changes or frees them; only the count in `run` changes before.
        let rest = unsafe { &*rest };
        let handles = &handles[..rest.len()];
        let first = self.head + lane;
        // Zero if a handle is that of its place.
        let pairs = handles.iter().zip(0..);
        let mut differ = pairs.map(|(handle, step)| handle.to_word() ^ (first + step * STEP));
        // All of them at once, without a branch for each, if the last one matches.
        let is_last = |handle: &Handle| {
            let step = handles.len() as u64 - 1;
            handle.to_word() == first + step * STEP
        };
        let is_row = handles.last().is_some_and(is_last)
            && differ.clone().fold(0, |all, bits| all | bits) == 0;
        let count = if is_row {
            handles.len()
        } else {
            differ.position(|bits| bits != 0).unwrap_or(0)
        };
        let mut run = Run::<_, true>::new(self);
        for (place, &handle) in rest[..count].iter().zip(&handles[..count]) {
            // SAFETY: every place has its value. The next line passes the place, so the value is
            // read once, even if `each` panics.
            let value = unsafe { place.value.assume_init_read() };
            run.number += STEP;
            each(handle, value);
        }
        count
    }

    /// Returns the deadline of the first place, and whether it has a value.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(u64, bool)> {
        let first = self.rest(1).first()?;
        Some((first.at(), first.is_live()))
    }

    /// Removes places without a value from the front, up to the end of the first chunk; removes all
    /// places if none has a value.
    #[cold]
    #[inline(never)]
    pub(super) fn trim(&mut self) {
        if self.len() == 0 {
            self.dead = 0;
            // Rule 3: the chunk of `tail`, if it was begun.
            (self.head, self.front) = (self.tail, self.back);
            return;
        }
        let rest = self.rest(CHUNK).iter();
        let gone = rest.take_while(|place| !place.is_live()).count() as u64;
        self.dead -= gone;
        self.pass(self.head + gone * STEP);
    }

    /// Removes values at the front whose deadline is not after `until`, passes them to `each` with
    /// number and deadline, and returns their number. It removes at most `most`, and none beyond
    /// the end of the first chunk. Places without a value between them are removed too, and do not
    /// count.
    ///
    /// If `each` panics, the value that it was given is lost and all others stay.
    #[inline(always)]
    pub(super) fn drain(
        &mut self,
        until: u64,
        most: u64,
        mut each: impl FnMut(u64, u64, T),
    ) -> usize {
        let until = Place::<T>::live(until.min(FAR - 1));
        let is_whole = self.dead == 0;
        let rest: *const [Place<T>] = self.rest(if is_whole { most } else { CHUNK });
        // SAFETY: these are places of a chunk. Until `run` is dropped, after the loops, nothing
        // changes or frees them; only the counts in `run` change before.
        let rest = unsafe { &*rest };
        if is_whole && rest.last().is_some_and(|place| place.key <= until) {
            let mut run = Run::<_, true>::new(self);
            // All of them are due, since they are sorted.
            for place in rest {
                let number = run.number;
                // SAFETY: every place here has its value. The next line passes the place, so the
                // value is read once, even if `each` panics.
                let value = unsafe { place.value.assume_init_read() };
                run.number = number + STEP;
                each(number, place.at(), value);
            }
            return rest.len();
        }
        let mut run = Run::<_, false>::new(self);
        for place in rest {
            if place.key > until {
                break;
            }
            let number = run.number;
            if !place.is_live() {
                run.number = number + STEP;
                continue;
            }
            if run.taken == most {
                break;
            }
            // SAFETY: by rule 1 it has a value. The next line passes the place, so the value is
            // read once, even if `each` panics.
            let value = unsafe { place.value.assume_init_read() };
            run.number = number + STEP;
            run.taken += 1;
            each(number, place.at(), value);
        }
        run.taken as usize
    }

    /// Removes the first value; `None` if there is none, and then no place is left.
    pub(super) fn pop(&mut self) -> Option<T> {
        let mut first = None;
        while first.is_none() && !self.is_bare() {
            self.drain(FAR - 1, 1, |_, _, value| first = Some(value));
        }
        first
    }

    /// Returns the places from the first one to the end of its chunk, at most `most`.
    #[inline(always)]
    fn rest(&self, most: u64) -> &[Place<T>] {
        let here = within(self.head);
        let count = most.min(self.places()).min(CHUNK - here);
        if count == 0 {
            return &[];
        }
        // SAFETY: there is a place, so by rule 3 `front` is the chunk of `head`.
        let first = unsafe { self.front.add(here as usize) };
        // SAFETY: by rule 1 they are initialised; the count ends inside the chunk.
        unsafe { slice::from_raw_parts(first.as_ptr(), count as usize) }
    }

    /// Returns the directory entry for the chunk of `number`.
    fn entry(&self, number: u64) -> Option<First<T>> {
        let last = self.directory.len().wrapping_sub(1);
        *self.directory.get(chunk(number) as usize & last)?
    }

    /// Returns the chunk of `number`.
    ///
    /// # Safety
    ///
    /// 1. `head <= number < tail`.
    #[inline(always)]
    unsafe fn chunk_of(&self, number: u64) -> First<T> {
        let last = self.directory.len().wrapping_sub(1);
        let index = chunk(number) as usize & last;
        // SAFETY: by 1 and rule 2 the directory has entries, a power of two.
        let entry = unsafe { self.directory.get_unchecked(index) };
        // SAFETY: by 1 and rule 2 the chunk has its memory.
        unsafe { entry.unwrap_unchecked() }
    }

    /// Removes all places before `number`, which must have no values any more.
    #[inline(always)]
    fn pass(&mut self, number: u64) {
        self.head = number;
        if is_first(number) {
            self.turn();
        }
    }

    #[cold]
    #[inline(never)]
    fn turn(&mut self) {
        // If there is no place, the entry is empty or a spare chunk; then the next push is the
        // first of its chunk, and sets `front`.
        if let Some(chunk) = self.entry(self.head) {
            self.front = chunk;
        }
    }

    /// Provides memory for the chunk that begins at `tail`.
    ///
    /// # Panics
    ///
    /// If `tail` would wrap, because its numbers are the last ones; that would break rule 2.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let end = self.tail.checked_add(STEP * CHUNK);
        assert!(end.is_some(), "a lane has 2^60 numbers");
        // Trim two chunks for each one added, so that removed values' places are freed soon after
        // the value before them has left, and not only at their own deadlines.
        for _ in 0..2 {
            if self.dead > 0 {
                self.trim();
            }
        }
        let (first, next) = (chunk(self.head), chunk(self.tail));
        let used = (next - first) as usize;
        if used == self.directory.len() {
            let length = (used * 2).max(2);
            let mut directory = vec![None; length];
            for chunk in first..next {
                directory[chunk as usize & (length - 1)] = self.entry(chunk * CHUNK * STEP);
            }
            self.directory = directory;
        }
        let last = self.directory.len() - 1;
        let entry = &mut self.directory[next as usize & last];
        self.back = *entry.get_or_insert_with(Self::new_chunk);
        if used == 0 {
            self.front = self.back;
        }
    }

    /// Allocates a chunk.
    fn new_chunk() -> First<T> {
        NonNull::from(Box::leak(Box::<Chunk<T>>::new_uninit())).cast()
    }

    /// Checks the rules at the head of this file, for tests.
    pub(super) fn check_invariants(&self) {
        assert!(self.head <= self.tail && self.dead <= self.places());
        assert!(self.head.is_multiple_of(STEP) && self.tail.is_multiple_of(STEP));
        let (first, end) = (chunk(self.head), chunk(self.tail + (CHUNK - 1) * STEP));
        let length = self.directory.len();
        assert!(length == 0 || length.is_power_of_two());
        assert!((end - first) as usize <= length || self.is_bare(), "rule 2");
        if !self.is_bare() {
            assert_eq!(self.entry(self.head), Some(self.front), "rule 3");
        }
        if within(self.tail) != 0 {
            assert_eq!(self.entry(self.tail - STEP), Some(self.back), "rule 3");
        }
        let (mut dead, mut last) = (0, 0);
        for number in (self.head..self.tail).step_by(STEP as usize) {
            assert!(self.entry(number).is_some(), "rule 2");
            // SAFETY: `number` is from `head` to `tail`.
            let chunk = unsafe { self.chunk_of(number) };
            // SAFETY: the offset is inside the chunk.
            let place = unsafe { chunk.byte_add(Place::<T>::offset(number)) };
            // SAFETY: by rule 1 it is initialised.
            let place = unsafe { place.as_ref() };
            dead += u64::from(!place.is_live());
            assert!(last <= place.at(), "rule 4: the deadlines rise");
            last = place.at();
        }
        assert!(self.is_bare() || last == self.last(), "rule 4");
        assert_eq!(dead, self.dead, "each place without a value is counted");
    }
}

/// Updates `tail` for the values that [`Places::push_row`] has pushed, even on a panic.
struct Put<'a, T> {
    places: &'a mut Places<T>,
    number: u64,
}

impl<T> Drop for Put<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.places.tail = self.number;
    }
}

/// Updates the queue for the places removed at the front, even on a panic. If `ALL`, all passed
/// places had values; otherwise `taken` of them had.
struct Run<'a, T, const ALL: bool> {
    places: &'a mut Places<T>,
    number: u64,
    taken: u64,
}

impl<'a, T, const ALL: bool> Run<'a, T, ALL> {
    #[inline(always)]
    fn new(places: &'a mut Places<T>) -> Self {
        Self {
            number: places.head,
            taken: 0,
            places,
        }
    }
}

impl<T, const ALL: bool> Drop for Run<'_, T, ALL> {
    #[inline(always)]
    fn drop(&mut self) {
        if !ALL {
            let passed = (self.number - self.places.head) / STEP;
            self.places.dead -= passed - self.taken;
        }
        self.places.pass(self.number);
    }
}

impl<T> Drop for Places<T> {
    fn drop(&mut self) {
        /// Frees the chunks, also if the drop of a value has panicked.
        struct Chunks<'a, T>(&'a mut Places<T>);
        impl<T> Drop for Chunks<'_, T> {
            fn drop(&mut self) {
                for entry in self.0.directory.drain(..).flatten() {
                    // SAFETY: each chunk is in only one entry, and came from a box of that type;
                    // its values are dropped, or need no drop.
                    drop(unsafe { Box::from_raw(entry.as_ptr().cast::<Chunk<T>>()) });
                }
            }
        }
        let chunks = Chunks(self);
        if needs_drop::<T>() {
            drop_each(|| chunks.0.pop());
        }
    }
}

#[cfg(all(test, feature = "std", not(rast_loom)))]
mod tests;
