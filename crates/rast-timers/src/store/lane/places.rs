//! A queue of numbered places, each with a deadline and a value, out of which
//! any value may be taken by its number.
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
//! | `head`, `tail` | the numbers of the first place and of the next one |
//! | `front`, `back` | the chunks of `head` and of the place before `tail` |
//! | `directory` | chunk c is at c modulo its length |
//! | `dead` | places from `head` to `tail` without a value |
//!
//! Rules:
//!
//! 1. The places with numbers from `head` to `tail` are written. One has a
//!    value if its key has the bit `LIVE` below the deadline; where it has not,
//!    the value has been taken (†).
//! 2. Numbers go up by `STEP`, and are multiples of it: the bits below are the
//!    caller's. Of n steps is place n modulo 64 of chunk n / 64. The directory is
//!    at least as long as there are chunks from `head` to `tail`, so each of those
//!    has an entry to itself, with its memory; other entries have spare memory or
//!    none.
//! 3. `front` is the chunk of `head` if there is any place; `back` is the chunk
//!    of the place before `tail` if there ever was one.
//! 4. Deadlines are before `FAR`, and rise. The place before `tail` keeps its key
//!    when it has left the queue, so that there the least deadline that is taken
//!    can be read: a word that would be written for each value costs more than
//!    all else here.
//!
//! What the front leaves behind, the back meets again one turn of the directory
//! later: memory comes in pieces of 64 places, nothing is copied but the
//! directory where that grows, and nothing is given back before the end.
#![allow(
    unsafe_code,
    reason = "places without a value, and chunks that are reached by two ways"
)]

use super::Handle;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::ptr::NonNull;
use core::slice;
use std_alloc::boxed::Box;
use std_alloc::vec;
use std_alloc::vec::Vec;

/// From one number to the next.
pub(super) const STEP: u64 = 16;

/// Places of a chunk.
const CHUNK: u64 = 64;

/// The bit of a key whose value has not been taken.
const LIVE: u64 = 1;

/// Deadlines from here on, 292 years after the clock's origin, find no place.
pub(super) const FAR: u64 = 1 << 63;

struct Place<T> {
    /// The deadline, above the bit `LIVE`.
    key: u64,
    value: MaybeUninit<T>,
}

impl<T> Place<T> {
    /// The key of a deadline before `FAR` whose value is here: not less than that
    /// of the same deadline without its value.
    #[inline(always)]
    const fn live(at: u64) -> u64 {
        at << 1 | LIVE
    }

    /// How many bytes from the beginning of its chunk a number's place is: one
    /// instruction where a place has as many bytes as there are from number to
    /// number. In 64 bits, for the product may be `STEP` times a chunk.
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

/// The first place of a chunk, which is good for all of it.
type First<T> = NonNull<Place<T>>;

/// Which place of its chunk a number has.
#[inline(always)]
const fn within(number: u64) -> u64 {
    number % (STEP * CHUNK) / STEP
}

/// Whether a number's place is the first of its chunk.
#[inline(always)]
const fn is_first(number: u64) -> bool {
    number.is_multiple_of(STEP * CHUNK)
}

/// Which chunk a number's place is in.
#[inline(always)]
const fn chunk(number: u64) -> u64 {
    number / (STEP * CHUNK)
}

/// What [`Places::push_row`] came to.
pub(super) struct Row<T> {
    /// How many values were put.
    pub(super) count: usize,
    /// The first that does not belong to them, `None` if there are no more.
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

// SAFETY: the chunks are reached through their one owner alone, so with it the
// values go, and nothing else.
unsafe impl<T: Send> Send for Places<T> {}
// SAFETY: through a shared reference deadlines alone are read.
unsafe impl<T: Sync> Sync for Places<T> {}

// As a `Vec` of the places has it: what a panic in the caller's code leaves is
// whole, and a shared reference changes nothing.
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

    /// Makes an empty queue with memory for `capacity` places, whatever number
    /// they begin at; up to twice that, and 128 more.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let mut places = Self::new();
        if capacity > 0 {
            // One more: the places may begin in the middle of a chunk.
            let chunks = capacity.div_ceil(CHUNK as usize) + 1;
            places.directory = vec![None; chunks.next_power_of_two()];
            // All of them: the chunks in use go round.
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

    /// Whether a value for `at` may be put behind all others.
    #[inline(always)]
    pub(super) fn takes(&self, at: u64) -> bool {
        self.last() <= at && at < FAR
    }

    /// Whether the next place is in the chunk of the last one.
    #[inline(always)]
    pub(super) fn has_room(&self) -> bool {
        Place::<T>::offset(self.tail) != 0
    }

    /// Whether there is no place, not even one without a value.
    pub(super) fn is_bare(&self) -> bool {
        self.head == self.tail
    }

    /// The place before `tail`, `None` if there never was one.
    fn before_tail(&self) -> Option<NonNull<Place<T>>> {
        let number = self.tail.checked_sub(STEP)?;
        // SAFETY: by rule 3 `back` is the chunk of this number. The remainder is
        // inside of it.
        Some(unsafe { self.back.add(within(number) as usize) })
    }

    /// The key that no further one may be less than.
    fn least(&self) -> u64 {
        self.before_tail().map_or(0, |place| {
            // SAFETY: by rule 4 its key is there, and nothing changes it now.
            unsafe { (*place.as_ptr()).key }
        })
    }

    /// Returns the deadline that no further one may be before.
    pub(super) fn last(&self) -> u64 {
        self.least() >> 1
    }

    /// Takes any deadline from now on.
    ///
    /// # Panics
    ///
    /// If there is any place.
    pub(super) fn restart(&mut self) {
        assert!(self.is_bare(), "rule 4: the deadlines rise");
        if let Some(place) = self.before_tail() {
            // SAFETY: it is memory of ours, and nothing refers to it.
            unsafe { (*place.as_ptr()).key = 0 };
        }
    }

    /// Puts a value behind all others and returns its number, or gives it back
    /// if its deadline is before the last or not before [`FAR`].
    #[inline(always)]
    pub(super) fn push(&mut self, at: u64, value: T) -> Result<u64, T> {
        let number = self.tail;
        let offset = Place::<T>::offset(number);
        let key = Place::<T>::live(at);
        let fits = if offset == 0 {
            self.begin(at)
        } else {
            // SAFETY: by rule 3 `back` is the chunk of the place before `tail`; it is
            // inside of it, for this one is not its first.
            let before = unsafe { self.back.byte_add(offset - size_of::<Place<T>>()) };
            // SAFETY: by rule 4 its key is there, and nothing changes it now.
            at < FAR && unsafe { (*before.as_ptr()).key } <= key
        };
        if !fits {
            return Err(value);
        }
        // SAFETY: `back` is the chunk of this number: by rule 3, for the one before
        // is in it too, or `begin` has just made it so.
        let place = unsafe { self.back.byte_add(offset) };
        let value = MaybeUninit::new(value);
        // SAFETY: it is memory of ours for a place, by rule 2 of no other number,
        // and nothing refers to it.
        unsafe { place.write(Place { key, value }) };
        self.tail = number + STEP;
        Ok(number)
    }

    /// Begins a chunk at `tail` if a value for `at` may be put there, which then
    /// has to be done.
    #[cold]
    #[inline(never)]
    fn begin(&mut self, at: u64) -> bool {
        let fits = self.takes(at);
        if fits {
            self.grow();
        }
        fits
    }

    /// Puts `first` and then what `more` gives behind all others, as long as
    /// their deadlines rise and are before `before`, and hands the number of each
    /// to `each`.
    ///
    /// If `more` or `each` panics, what has been put stays.
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
                // Once more, so that inside of a chunk nothing else is looked at.
                if at < last || at >= before {
                    break 'row Some((at, value));
                }
                // SAFETY: `back` is the chunk of this number: by rule 3, for the one
                // before is in it too, or `grow` has just made it so.
                let place = unsafe { back.add(index as usize) };
                let whole = Place {
                    key: Place::<T>::live(at),
                    value: MaybeUninit::new(value),
                };
                // SAFETY: it is memory of ours for a place, by rule 2 of no other
                // number, and nothing refers to it.
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

    /// Takes the value of `number`, the bits below [`STEP`] aside; `None` if
    /// there is none.
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
        // SAFETY: the remainder is inside of the chunk.
        let mut place = unsafe { chunk.byte_add(Place::<T>::offset(number)) };
        // SAFETY: the place is written, by rule 1, and nothing refers to it.
        let place = unsafe { place.as_mut() };
        if !place.is_live() {
            return None;
        }
        place.key &= !LIVE;
        self.dead += 1;
        // SAFETY: it had a value, by rule 1, and has none from the mark on.
        Some(unsafe { place.value.assume_init_read() })
    }

    /// Takes the value of the first place, and lets it go.
    ///
    /// # Panics
    ///
    /// If there is no place; the caller has looked.
    #[inline(always)]
    fn take_first(&mut self) -> Option<T> {
        assert!(!self.is_bare(), "a number before `tail`");
        if self.dead > 0 {
            return self.take_first_slow();
        }
        // SAFETY: there is a place, so by rule 3 `front` is the chunk of `head`.
        // The remainder is inside of it.
        let place = unsafe { self.front.byte_add(Place::<T>::offset(self.head)) };
        // SAFETY: the place is written, by rule 1, and nothing refers to it.
        let place = unsafe { place.as_ref() };
        // SAFETY: no place is without its value; this one goes with the next line.
        let value = unsafe { place.value.assume_init_read() };
        self.pass(self.head + STEP);
        Some(value)
    }

    /// The same where some places have no value, of which those that are first
    /// then go too.
    #[cold]
    #[inline(never)]
    fn take_first_slow(&mut self) -> Option<T> {
        let first = self.rest(1).first().filter(|place| place.is_live())?;
        // SAFETY: by rule 1 it has a value; the place goes with the next line.
        let value = unsafe { first.value.assume_init_read() };
        self.pass(self.head + STEP);
        self.trim();
        Some(value)
    }

    /// Takes the values of `handles` as long as they name the first place, then
    /// the second and so on, and hands them to `each`; returns how many. It goes
    /// no further than the first chunk, and nowhere if any place is without its
    /// value. `lane` is what the handles have below [`STEP`].
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
        // SAFETY: these are places of a chunk. Until `run` is dropped, behind the
        // loop, nothing changes or frees them: what is changed before is its count.
        let rest = unsafe { &*rest };
        let handles = &handles[..rest.len()];
        let first = self.head + lane;
        // Nothing where a handle is that of its place.
        let pairs = handles.iter().zip(0..);
        let mut differ = pairs.map(|(handle, step)| handle.to_word() ^ (first + step * STEP));
        // All of them at once, without a branch for each, if the last one promises it.
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
            // SAFETY: no place is without its value. It is passed with the next
            // line, so the value is taken once, also if `each` panics.
            let value = unsafe { place.value.assume_init_read() };
            run.number += STEP;
            each(handle, value);
        }
        count
    }

    /// Returns the deadline of the first place, and whether it has its value.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(u64, bool)> {
        let first = self.rest(1).first()?;
        Some((first.at(), first.is_live()))
    }

    /// Clears away places without a value at the front, up to the end of its
    /// chunk; all of them at once if there is no value.
    #[cold]
    #[inline(never)]
    pub(super) fn trim(&mut self) {
        if self.len() == 0 {
            self.dead = 0;
            // Rule 3: the chunk of `tail`, if it has begun.
            (self.head, self.front) = (self.tail, self.back);
            return;
        }
        let rest = self.rest(CHUNK).iter();
        let gone = rest.take_while(|place| !place.is_live()).count() as u64;
        self.dead -= gone;
        self.pass(self.head + gone * STEP);
    }

    /// Takes out values at the front whose deadline is not after `until`, gives
    /// them to `each` with number and deadline, and returns how many; at most
    /// `most`, and none beyond the end of the first chunk. Places without a value
    /// between them go too, and do not count.
    ///
    /// If `each` panics, the value that it was given is gone and all others
    /// stay.
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
        // SAFETY: these are places of a chunk. Until `run` is dropped, behind
        // the loops, nothing changes or frees them: what is changed before is its
        // counts.
        let rest = unsafe { &*rest };
        if is_whole && rest.last().is_some_and(|place| place.key <= until) {
            let mut run = Run::<_, true>::new(self);
            // All of them, since they are sorted.
            for place in rest {
                let number = run.number;
                // SAFETY: no place here is without its value. It is passed with
                // the next line, so the value is taken once, also if `each`
                // panics.
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
            // SAFETY: by rule 1 it has a value. The place is passed with the next
            // line, so the value is taken once, also if `each` panics.
            let value = unsafe { place.value.assume_init_read() };
            run.number = number + STEP;
            run.taken += 1;
            each(number, place.at(), value);
        }
        run.taken as usize
    }

    /// The places from the first one on, as far as its chunk goes and at most
    /// `most`.
    #[inline(always)]
    fn rest(&self, most: u64) -> &[Place<T>] {
        let here = within(self.head);
        let count = most.min(self.places()).min(CHUNK - here);
        if count == 0 {
            return &[];
        }
        // SAFETY: there is a place, so by rule 3 `front` is the chunk of `head`.
        let first = unsafe { self.front.add(here as usize) };
        // SAFETY: by rule 1 they are written; by the count they lie in the chunk.
        unsafe { slice::from_raw_parts(first.as_ptr(), count as usize) }
    }

    /// What is in the directory for the chunk of `number`.
    fn entry(&self, number: u64) -> Option<First<T>> {
        let last = self.directory.len().wrapping_sub(1);
        *self.directory.get(chunk(number) as usize & last)?
    }

    /// The chunk of `number`.
    ///
    /// # Safety
    ///
    /// 1. `number` is from `head` to `tail`, less than that.
    #[inline(always)]
    unsafe fn chunk_of(&self, number: u64) -> First<T> {
        let last = self.directory.len().wrapping_sub(1);
        let index = chunk(number) as usize & last;
        // SAFETY: by 1 and rule 2 the directory has entries, a power of two.
        let entry = unsafe { self.directory.get_unchecked(index) };
        // SAFETY: by 1 and rule 2 the chunk has its memory.
        unsafe { entry.unwrap_unchecked() }
    }

    /// Lets all places before `number` go; they have no values any more.
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
        // None, or a spare one, if there is no place: then the next push is the
        // first of its chunk, and sets it.
        if let Some(chunk) = self.entry(self.head) {
            self.front = chunk;
        }
    }

    /// Memory for the chunk that begins at `tail`.
    ///
    /// # Panics
    ///
    /// If its numbers are the last ones: from there on `tail` would wrap, and
    /// rule 2 would not hold.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let end = self.tail.checked_add(STEP * CHUNK);
        assert!(end.is_some(), "a lane has 2^60 numbers");
        // Two for one: so what was taken behind a value goes when that has gone,
        // and not only when its own time has come.
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

    /// Memory for a chunk.
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
            // SAFETY: the remainder is inside of the chunk.
            let place = unsafe { chunk.byte_add(Place::<T>::offset(number)) };
            // SAFETY: by rule 1 it is written.
            let place = unsafe { place.as_ref() };
            dead += u64::from(!place.is_live());
            assert!(last <= place.at(), "rule 4: the deadlines rise");
            last = place.at();
        }
        assert!(self.is_bare() || last == self.last(), "rule 4");
        assert_eq!(dead, self.dead, "each place without a value is counted");
    }
}

/// Keeps count of what [`Places::push_row`] has put, also through a panic.
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

/// Keeps count of what has been taken at the front, also through a panic. Of
/// the places passed `ALL` had their values, or as many as were `taken`.
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
        /// Goes on where the drop of a value has panicked.
        struct Rest<'a, T>(&'a mut Places<T>);
        impl<T> Rest<'_, T> {
            fn values(&mut self) {
                while !self.0.is_bare() {
                    self.0.drain(FAR - 1, CHUNK, |_, _, value| drop(value));
                }
            }
        }
        impl<T> Drop for Rest<'_, T> {
            fn drop(&mut self) {
                self.values();
                for entry in self.0.directory.drain(..).flatten() {
                    // SAFETY: each chunk is in one entry alone, and came from a
                    // box of that type; its places hold nothing any more.
                    drop(unsafe { Box::from_raw(entry.as_ptr().cast::<Chunk<T>>()) });
                }
            }
        }
        Rest(self).values();
    }
}

#[cfg(all(test, feature = "std", not(rast_loom)))]
mod tests;
