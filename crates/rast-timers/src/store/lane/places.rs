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
//! | `front`, `back` | the chunks of those |
//! | `directory` | chunk c stands at c modulo its length |
//! | `dead` | places from `head` to `tail` without a value |
//!
//! Rules:
//!
//! 1. The places with numbers from `head` to `tail` are written. One has a
//!    value unless its deadline has the bit `DEAD` (†), which no deadline has
//!    by itself.
//! 2. Place n is place n modulo 64 of chunk n / 64. The directory is at least
//!    as long as there are chunks from `head` to `tail`, so each of those has an
//!    entry to itself, with its memory; other entries have spare memory or none.
//! 3. `front` is the chunk of `head` if there is any place; `back` is the chunk
//!    of `tail` unless `tail` is the first of its chunk.
//!
//! What the front leaves behind, the back meets again one turn of the directory
//! later: memory comes in pieces of 64 places, nothing is copied but the
//! directory where that grows, and nothing is given back before the end.
#![allow(
    unsafe_code,
    reason = "places without a value, and chunks that are reached by two ways"
)]

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;
use core::slice;
use std_alloc::boxed::Box;
use std_alloc::vec;
use std_alloc::vec::Vec;

/// Places of a chunk.
const CHUNK: u64 = 64;

/// The bit of a deadline whose value has been taken.
const DEAD: u64 = 1 << 63;

/// Deadlines from here on, 292 years after the clock's origin, find no place.
pub(super) const FAR: u64 = DEAD;

struct Place<T> {
    at: u64,
    value: MaybeUninit<T>,
}

type Chunk<T> = [MaybeUninit<Place<T>>; CHUNK as usize];

/// The first place of a chunk, which is good for all of it.
type First<T> = NonNull<Place<T>>;

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

    /// Makes an empty queue with memory for `capacity` places.
    pub(super) fn with_capacity(capacity: usize) -> Self {
        let mut places = Self::new();
        if capacity > 0 {
            // One more: the places may begin in the middle of a chunk.
            let chunks = capacity.div_ceil(CHUNK as usize) + 1;
            places.directory = vec![None; chunks.next_power_of_two()];
            for entry in &mut places.directory[..chunks] {
                *entry = Some(Self::chunk());
            }
        }
        places
    }

    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        (self.tail - self.head - self.dead) as usize
    }

    /// Whether there is no place, not even one without a value.
    pub(super) fn is_bare(&self) -> bool {
        self.head == self.tail
    }

    /// Puts a value behind all others and returns its number.
    ///
    /// # Panics
    ///
    /// If `at` is not before [`FAR`]; the caller has looked, so it costs nothing.
    #[inline(always)]
    pub(super) fn push(&mut self, at: u64, value: T) -> u64 {
        assert!(at < FAR, "rule 1");
        let number = self.tail;
        if number.is_multiple_of(CHUNK) {
            self.grow();
        }
        // SAFETY: `back` is the chunk of this number: by rule 3, or `grow` has
        // just made it so. The remainder is inside of it.
        let place = unsafe { self.back.add((number % CHUNK) as usize) };
        let value = MaybeUninit::new(value);
        // SAFETY: it is memory of ours for a place, by rule 2 of no other number,
        // and nothing refers to it.
        unsafe { place.write(Place { at, value }) };
        self.tail = number + 1;
        number
    }

    /// Takes the value of `number`; `None` if there is none.
    #[inline(always)]
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
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
        let mut place = unsafe { chunk.add((number % CHUNK) as usize) };
        // SAFETY: the place is written, by rule 1, and nothing refers to it.
        let place = unsafe { place.as_mut() };
        if place.at & DEAD != 0 {
            return None;
        }
        place.at |= DEAD;
        self.dead += 1;
        // SAFETY: it had a value, by rule 1, and has none from the mark on.
        Some(unsafe { place.value.assume_init_read() })
    }

    /// Takes the value of the first place, and lets it go.
    #[inline(always)]
    fn take_first(&mut self) -> Option<T> {
        let first = self.rest(1).first().filter(|place| place.at & DEAD == 0)?;
        // SAFETY: by rule 1 it has a value; the place goes with the next line.
        let value = unsafe { first.value.assume_init_read() };
        self.pass(self.head + 1);
        if self.dead > 0 {
            self.trim();
        }
        Some(value)
    }

    /// Returns the deadline of the first place, and whether it has its value.
    #[inline(always)]
    pub(super) fn first(&self) -> Option<(u64, bool)> {
        let at = self.rest(1).first()?.at;
        Some((at & !DEAD, at & DEAD == 0))
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
        let gone = rest.take_while(|place| place.at & DEAD != 0).count() as u64;
        self.dead -= gone;
        self.pass(self.head + gone);
    }

    /// Takes out values at the front whose deadline is not after `until`, gives
    /// them to `each` with number and deadline, and returns how many; at most
    /// `most`, and none beyond the end of the first chunk.
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
        // Before every deadline with the mark.
        let until = until.min(FAR - 1);
        let mut run = Run {
            number: self.head,
            dead: 0,
            places: self,
        };
        let mut fired = 0;
        let rest: *const [Place<T>] = run.places.rest(most);
        // SAFETY: these are places of a chunk. Until `run` is dropped, behind
        // the loops, nothing changes or frees them: what is changed before is the
        // run's two counts.
        let rest = unsafe { &*rest };
        if run.places.dead == 0 && rest.last().is_some_and(|place| place.at <= until) {
            // All of them, since they are sorted.
            for place in rest {
                let number = run.number;
                // SAFETY: no place here is without its value. It is passed with
                // the next line, so the value is taken once, also if `each`
                // panics.
                let value = unsafe { place.value.assume_init_read() };
                run.number = number + 1;
                each(number, place.at, value);
            }
            return rest.len();
        }
        for place in rest {
            if place.at > until {
                if place.at & DEAD == 0 || place.at & !DEAD > until {
                    break;
                }
                run.dead += 1;
                run.number += 1;
                continue;
            }
            let number = run.number;
            // SAFETY: by rule 1 it has a value, for a deadline with the mark is
            // after `until`. The place is passed with the next line, so the value
            // is taken once, also if `each` panics.
            let value = unsafe { place.value.assume_init_read() };
            run.number = number + 1;
            fired += 1;
            each(number, place.at, value);
        }
        fired
    }

    /// The places from the first one on, as far as its chunk goes and at most
    /// `most`.
    #[inline(always)]
    fn rest(&self, most: u64) -> &[Place<T>] {
        let here = self.head % CHUNK;
        let count = most.min(self.tail - self.head).min(CHUNK - here);
        if count == 0 {
            return &[];
        }
        // SAFETY: there is a place, so by rule 3 `front` is the chunk of `head`.
        let first = unsafe { self.front.add(here as usize) };
        // SAFETY: by rule 1 they are written; by the count they lie in the chunk.
        unsafe { slice::from_raw_parts(first.as_ptr(), count as usize) }
    }

    /// What stands in the directory for the chunk of `number`.
    fn entry(&self, number: u64) -> Option<First<T>> {
        let last = self.directory.len().wrapping_sub(1);
        *self.directory.get((number / CHUNK) as usize & last)?
    }

    /// The chunk of `number`.
    ///
    /// # Safety
    ///
    /// 1. `number` is from `head` to `tail`, less than that.
    #[inline(always)]
    unsafe fn chunk_of(&self, number: u64) -> First<T> {
        let last = self.directory.len().wrapping_sub(1);
        let index = (number / CHUNK) as usize & last;
        // SAFETY: by 1 and rule 2 the directory has entries, a power of two.
        let entry = unsafe { self.directory.get_unchecked(index) };
        // SAFETY: by 1 and rule 2 the chunk has its memory.
        unsafe { entry.unwrap_unchecked() }
    }

    /// Lets all places before `number` go; they have no values any more.
    #[inline(always)]
    fn pass(&mut self, number: u64) {
        self.head = number;
        if number.is_multiple_of(CHUNK) {
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
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        // Two for one: so what was taken behind a value goes when that has gone,
        // and not only when its own time has come.
        for _ in 0..2 {
            if self.dead > 0 {
                self.trim();
            }
        }
        let (first, next) = (self.head / CHUNK, self.tail / CHUNK);
        let used = (next - first) as usize;
        if used == self.directory.len() {
            let length = (used * 2).max(2);
            let mut directory = vec![None; length];
            for chunk in first..next {
                directory[chunk as usize & (length - 1)] = self.entry(chunk * CHUNK);
            }
            self.directory = directory;
        }
        let last = self.directory.len() - 1;
        let entry = &mut self.directory[next as usize & last];
        self.back = *entry.get_or_insert_with(Self::chunk);
        if used == 0 {
            self.front = self.back;
        }
    }

    /// Memory for a chunk.
    fn chunk() -> First<T> {
        NonNull::from(Box::leak(Box::<Chunk<T>>::new_uninit())).cast()
    }

    /// Checks the rules at the head of this file, and that the deadlines rise.
    pub(super) fn check_invariants(&self, greatest: u64) {
        assert!(self.head <= self.tail && self.dead <= self.tail - self.head);
        let (first, end) = (self.head / CHUNK, self.tail.div_ceil(CHUNK));
        let length = self.directory.len();
        assert!(length == 0 || length.is_power_of_two());
        assert!((end - first) as usize <= length || self.is_bare(), "rule 2");
        if !self.is_bare() {
            assert_eq!(self.entry(self.head), Some(self.front), "rule 3");
        }
        if !self.tail.is_multiple_of(CHUNK) {
            assert_eq!(self.entry(self.tail), Some(self.back), "rule 3");
        }
        let (mut dead, mut last) = (0, 0);
        for number in self.head..self.tail {
            assert!(self.entry(number).is_some(), "rule 2");
            // SAFETY: `number` is from `head` to `tail`.
            let chunk = unsafe { self.chunk_of(number) };
            // SAFETY: the remainder is inside of the chunk.
            let place = unsafe { chunk.add((number % CHUNK) as usize) };
            // SAFETY: by rule 1 it is written.
            let at = unsafe { place.as_ref() }.at;
            dead += at >> 63;
            assert!(last <= at & !DEAD && at & !DEAD <= greatest, "sorted");
            last = at & !DEAD;
        }
        assert_eq!(dead, self.dead, "each place without a value is counted");
    }
}

/// Keeps count of what [`Places::drain`] has taken, also through a panic.
struct Run<'a, T> {
    places: &'a mut Places<T>,
    number: u64,
    dead: u64,
}

impl<T> Drop for Run<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.places.dead -= self.dead;
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
mod tests {
    use super::{CHUNK, FAR, Places};
    use std::collections::BTreeMap;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;
    use std_alloc::vec::Vec;

    /// The same pseudo-random numbers at each run.
    fn noise() -> impl Iterator<Item = u64> {
        core::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |last| {
            let next = last ^ (last << 13);
            let next = next ^ (next >> 7);
            Some(next ^ (next << 17))
        })
        .map(|random| random >> 20)
    }

    /// Pushes, takes and drains by the hundred thousand, beside a map: over
    /// chunks that end, come again and grow more.
    #[test]
    fn places_are_a_map_by_number() {
        let alive = Rc::new(());
        let mut places = Places::with_capacity(100);
        let mut map = BTreeMap::new();
        let mut noise = noise();
        let mut random = |below: u64| noise.next().unwrap() % below;
        let (mut at, mut next) = (0, 0);
        for turn in 0..if cfg!(miri) { 2_000 } else { 200_000 } {
            // Now it fills, now it empties.
            let fills = turn / 5_000 % 2 == 0;
            match random(16) {
                0..6 => {
                    at += random(3);
                    let number = places.push(at, (at, Rc::clone(&alive)));
                    assert_eq!(number, next);
                    map.insert(number, at);
                    next += 1;
                }
                6..8 if !map.is_empty() => {
                    // Before, at and behind the front, and beyond the back.
                    let first = *map.keys().next().unwrap();
                    let number = (first + random(next - first + 2)).saturating_sub(random(2));
                    let taken = places.take(number).map(|value| value.0);
                    assert_eq!(taken, map.remove(&number));
                }
                8..10 => {
                    if let Some(first) = map.first_entry() {
                        let (number, at) = first.remove_entry();
                        assert_eq!(places.take(number).map(|value| value.0), Some(at));
                        assert_eq!(places.take(number).map(|value| value.0), None);
                    }
                }
                10..12 => places.trim(),
                _ if fills => {}
                _ => {
                    let until = at.saturating_sub(random(200));
                    let most = random(2 * CHUNK);
                    let fired = places.drain(until, most, |number, at, value| {
                        assert!(at <= until && at == value.0);
                        let first = map.pop_first();
                        assert_eq!(first, Some((number, at)));
                    });
                    assert!(fired as u64 <= most.min(CHUNK));
                }
            }
            assert_eq!(places.len(), map.len());
            if let Some((first, true)) = places.first() {
                assert_eq!(Some(&first), map.values().next());
            }
            if turn % 97 == 0 {
                places.check_invariants(at);
                assert_eq!(Rc::strong_count(&alive), 1 + map.len());
            }
        }
        assert!(next > 500, "several chunks");
        drop(places);
        assert_eq!(Rc::strong_count(&alive), 1);
    }

    /// One that is all taken in the middle is skipped chunk by chunk.
    #[test]
    fn what_is_taken_is_skipped() {
        let mut places = Places::new();
        let numbers: Vec<u64> = (0..1000).map(|at| places.push(at, at)).collect();
        for &number in numbers[1..999].iter().rev() {
            assert_eq!(places.take(number), Some(number));
        }
        assert_eq!((places.len(), places.first()), (2, Some((0, true))));
        assert_eq!(places.take(0), Some(0));
        let mut out = Vec::new();
        let mut looks = 0;
        while !places.is_bare() {
            places.drain(FAR - 1, u64::MAX, |_, _, value| out.push(value));
            looks += 1;
        }
        assert_eq!(out, [999]);
        assert!(looks <= 1000 / CHUNK + 1);
        places.check_invariants(999);
    }

    /// Places at the front go though nobody expires, once no value is before
    /// them.
    #[test]
    fn what_is_taken_does_not_pile_up() {
        for stays in [true, false] {
            let mut places = Places::new();
            let numbers: Vec<u64> = (0..200).map(|at| places.push(at, at)).collect();
            for &number in numbers[..199].iter().rev() {
                assert_eq!(places.take(number), Some(number));
            }
            let mut last = numbers[199];
            for at in 200..100_000 {
                if !stays {
                    assert_eq!(places.take(last), Some(last));
                }
                let number = places.push(at, at);
                if stays {
                    assert_eq!(places.take(last), Some(last));
                }
                last = number;
                assert!(places.tail - places.head <= 200 + CHUNK);
            }
            assert!(places.directory.len() <= 8);
            places.check_invariants(100_000);
            assert_eq!(places.take(last), Some(last));
            places.trim();
            assert!(places.is_bare());
            assert_eq!(places.push(100_000, 7), 100_000);
            assert_eq!(places.first(), Some((100_000, true)));
            places.check_invariants(100_000);
        }
    }

    /// Panics when it is dropped, if it is told to.
    struct Touchy {
        _alive: Rc<()>,
        panics: bool,
    }

    impl Touchy {
        fn new(alive: &Rc<()>, panics: bool) -> Self {
            let _alive = Rc::clone(alive);
            Self { _alive, panics }
        }
    }

    impl Drop for Touchy {
        fn drop(&mut self) {
            assert!(!self.panics, "it was told to");
        }
    }

    #[test]
    fn a_panic_loses_one_value() {
        let alive = Rc::new(());
        let mut places = Places::new();
        for at in 0..100 {
            places.push(at, Touchy::new(&alive, false));
        }
        let drained = catch_unwind(AssertUnwindSafe(|| {
            places.drain(1000, 1000, |number, _, _| assert!(number < 10));
        }));
        assert!(drained.is_err());
        assert_eq!((places.len(), Rc::strong_count(&alive)), (89, 90));
        places.check_invariants(1000);
        assert_eq!(places.first(), Some((11, true)));
    }

    #[test]
    fn a_drop_that_panics_stops_no_other() {
        let alive = Rc::new(());
        let mut places = Places::new();
        for at in 0..200 {
            places.push(at, Touchy::new(&alive, at == 70));
        }
        assert!(catch_unwind(AssertUnwindSafe(|| drop(places))).is_err());
        assert_eq!(Rc::strong_count(&alive), 1);
    }
}
