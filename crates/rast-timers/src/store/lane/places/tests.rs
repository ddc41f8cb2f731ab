//! Tests of the places against a map by number, and of panics of the caller's code.

use super::{CHUNK, FAR, Handle, Places, STEP};
use crate::primitive::Random;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std_alloc::vec::Vec;

/// The same pseudo-random numbers at each run.
fn noise() -> impl Iterator<Item = u64> {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    core::iter::repeat_with(move || random.draw() >> 20)
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
                assert_eq!(number.ok(), Some(next));
                map.insert(next, at);
                next += STEP;
            }
            6 if fills => {
                // Some in a row, then one too early or too late.
                let count = random(100);
                let ends = [at.checked_sub(1).unwrap_or(FAR), FAR - 1, FAR];
                let end = ends[random(3) as usize];
                let before = if end == FAR - 1 { end } else { FAR };
                let row = core::iter::repeat_n(at, count as usize).chain([end]);
                let mut row = row.map(|at| (at, (at, Rc::clone(&alive))));
                let first = row.next().unwrap();
                let start = next;
                let left = places.push_row(first, before, &mut row, |number| {
                    assert_eq!(number, next);
                    map.insert(next, at);
                    next += STEP;
                });
                assert_eq!(left.next.map(|next| next.0), Some(end));
                assert_eq!(left.count as u64, (next - start) / STEP);
            }
            7 if !map.is_empty() => {
                // Those at the front, with one left out perhaps.
                let skip = random(80) as usize;
                let handles = map.keys().enumerate();
                let handles = handles.filter(|(index, _)| *index != skip);
                let handles = handles.map(|(_, number)| Handle::from_word(number + 3));
                let mut handles: Vec<_> = handles.take(random(100) as usize).collect();
                // Perhaps one that is of no place.
                let wrong = random(200) as usize;
                if let Some(handle) = handles.get_mut(wrong) {
                    *handle = Handle::from_word(3 + STEP / 2);
                }
                let mut each = handles.iter();
                // In a row from the front on, in its chunk.
                let row = match places.dead {
                    0 => handles
                        .len()
                        .min(skip)
                        .min(wrong)
                        .min(places.rest(CHUNK).len()),
                    _ => 0,
                };
                let taken = places.take_row(3, &handles, |handle, value| {
                    assert_eq!(Some(&handle), each.next());
                    assert_eq!(map.remove(&(handle.to_word() - 3)), Some(value.0));
                });
                assert_eq!(taken, row);
            }
            6..8 if !map.is_empty() => {
                // Before, at and behind the front, and beyond the back.
                let first = *map.keys().next().unwrap();
                let steps = random((next - first) / STEP + 2);
                let number = (first + steps * STEP).saturating_sub(random(2) * STEP);
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
            places.check_invariants();
            assert_eq!(Rc::strong_count(&alive), 1 + map.len());
        }
    }
    assert!(next > 500 * STEP, "several chunks");
    drop(places);
    assert_eq!(Rc::strong_count(&alive), 1);
}

/// One that is all taken in the middle is skipped chunk by chunk.
#[test]
fn what_is_taken_is_skipped() {
    let mut places = Places::new();
    let numbers: Vec<u64> = (0..1000).map(|at| places.push(at, at).unwrap()).collect();
    for &number in numbers[1..999].iter().rev() {
        assert_eq!(places.take(number), Some(number / STEP));
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
    places.check_invariants();
}

/// What is taken counts for nothing when a count of others is drained.
#[test]
fn a_drain_counts_values() {
    let mut places = Places::new();
    let numbers: Vec<u64> = (0..CHUNK).map(|at| places.push(at, at).unwrap()).collect();
    for &number in numbers.iter().skip(1).step_by(2) {
        assert!(places.take(number).is_some());
    }
    let mut out = Vec::new();
    for count in [0, 1, 20, 11, 0] {
        let most = if count == 11 { 20 } else { count };
        let drained = places.drain(FAR - 1, most, |_, _, value| out.push(value));
        assert_eq!(drained as u64, count);
        places.check_invariants();
    }
    assert!(out.into_iter().eq((0..CHUNK).step_by(2)));
    assert!(places.is_bare());
}

/// Places at the front go though no thread expires, once no value is before
/// them.
#[test]
fn what_is_taken_does_not_pile_up() {
    for stays in [true, false] {
        let mut places = Places::new();
        let numbers: Vec<u64> = (0..200).map(|at| places.push(at, at).unwrap()).collect();
        for &number in numbers[..199].iter().rev() {
            assert_eq!(places.take(number), Some(number / STEP));
        }
        let mut last = numbers[199];
        for at in 200..100_000 {
            if !stays {
                assert_eq!(places.take(last), Some(last / STEP));
            }
            let number = places.push(at, at).unwrap();
            if stays {
                assert_eq!(places.take(last), Some(last / STEP));
            }
            last = number;
            assert!(places.places() <= 200 + CHUNK);
        }
        assert!(places.directory.len() <= 8);
        places.check_invariants();
        assert_eq!(places.take(last), Some(last / STEP));
        places.trim();
        assert!(places.is_bare());
        assert_eq!(places.push(99_998, 7), Err(7), "before the last");
        assert_eq!(places.push(FAR, 7), Err(7));
        places.restart();
        assert_eq!(places.push(5, 7), Ok(100_000 * STEP));
        assert_eq!(places.first(), Some((5, true)));
        places.check_invariants();
    }
}

/// Where the numbers would wrap, nothing is put any more, and what was put is
/// whole.
#[test]
fn numbers_end_before_they_wrap() {
    let mut places = Places::new();
    // As if as many had come and gone: whole turns of the directory but the last
    // two chunks.
    for at in 0..2 * CHUNK {
        assert!(places.push(at, at).is_ok());
    }
    let turns = u64::MAX - (u64::MAX % (2 * CHUNK * STEP)) - 2 * CHUNK * STEP;
    places.head += turns;
    places.tail += turns;
    places.check_invariants();
    for at in 0..CHUNK {
        assert_eq!(places.take(turns + at * STEP), Some(at));
        let at = at + 2 * CHUNK;
        assert_eq!(places.push(at, at), Ok(turns + at * STEP));
    }
    assert!(catch_unwind(AssertUnwindSafe(|| places.push(FAR - 1, 7))).is_err());
    assert_eq!(places.len(), 2 * CHUNK as usize);
    places.check_invariants();
}

/// Puts, takes and drains values made from their numbers, over some chunks.
fn come_and_go<T: PartialEq + core::fmt::Debug>(value: fn(u64) -> T) {
    let mut places = Places::new();
    let mut next = 0;
    for _ in 0..20 {
        let start = next;
        for at in start..start + 30 {
            assert_eq!(places.push(at, value(at)), Ok(at * STEP));
        }
        let mut more = (start + 31..start + 90).map(|at| (at, value(at)));
        let row = places.push_row((start + 30, value(start + 30)), FAR, &mut more, |_| {});
        assert!((row.count, row.next) == (60, None));
        next = start + 90;
        let handles: Vec<_> = (start..start + 40).collect();
        let handles: Vec<_> = handles
            .iter()
            .map(|at| Handle::from_word(at * STEP))
            .collect();
        let mut taken = 0;
        while taken < 40 {
            taken += places.take_row(0, &handles[taken..], |handle, taken| {
                assert_eq!(taken, value(handle.to_word() / STEP));
            });
        }
        for at in (start + 40..start + 90).step_by(3) {
            assert_eq!(places.take(at * STEP), Some(value(at)));
        }
        places.check_invariants();
        while places.len() > 0 {
            places.drain(FAR - 1, CHUNK, |number, at, drained| {
                assert_eq!((number, drained), (at * STEP, value(at)));
            });
        }
        places.trim();
        assert!(places.is_bare());
    }
}

/// A place is found by its bytes, whatever size it has.
#[test]
fn values_have_any_size_and_alignment() {
    #[derive(PartialEq, Debug)]
    #[repr(align(256))]
    struct Aligned(u64);
    #[derive(PartialEq, Debug)]
    #[repr(align(64))]
    struct Nothing;
    come_and_go(|_| ());
    come_and_go(|_| Nothing);
    come_and_go(|at| at as u8);
    come_and_go(|at| (at, at as u32));
    come_and_go(|at| [at; 37]);
    come_and_go(Aligned);
    come_and_go(std_alloc::boxed::Box::new);
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
        assert!(places.push(at, Touchy::new(&alive, false)).is_ok());
    }
    let drained = catch_unwind(AssertUnwindSafe(|| {
        places.drain(1000, 1000, |number, _, _| assert!(number < 10 * STEP));
    }));
    assert!(drained.is_err());
    assert_eq!((places.len(), Rc::strong_count(&alive)), (89, 90));
    places.check_invariants();
    assert_eq!(places.first(), Some((11, true)));
    let handles: Vec<_> = (11..50).map(|at| Handle::from_word(at * STEP)).collect();
    let taken = catch_unwind(AssertUnwindSafe(|| {
        places.take_row(0, &handles, |handle, _| assert!(handle != handles[9]));
    }));
    assert!(taken.is_err());
    assert_eq!((places.len(), Rc::strong_count(&alive)), (79, 80));
    places.check_invariants();
    // The same where one place has no value any more.
    assert!(places.take(23 * STEP).is_some());
    let drained = catch_unwind(AssertUnwindSafe(|| {
        places.drain(1000, 1000, |number, _, _| assert!(number < 30 * STEP));
    }));
    assert!(drained.is_err());
    assert_eq!((places.len(), Rc::strong_count(&alive)), (69, 70));
    places.check_invariants();
}

#[test]
fn a_panic_while_a_row_comes_keeps_what_came() {
    let alive = Rc::new(());
    let value = |at| (at, Touchy::new(&alive, false));
    for (first, panics) in [(0, 150), (100, 164), (64, 65)] {
        let mut places = Places::new();
        for at in 0..first {
            assert!(places.push(at, value(at).1).is_ok());
        }
        // The iterator, and then what is told the numbers.
        let row = catch_unwind(AssertUnwindSafe(|| {
            let mut row = (first + 1..).map(|at| {
                assert!(at < panics);
                value(at)
            });
            places.push_row(value(first), FAR, &mut row, |_| {})
        }));
        assert!(row.is_err());
        assert_eq!(places.len() as u64, panics);
        assert_eq!(Rc::strong_count(&alive) as u64, panics + 1);
        let row = catch_unwind(AssertUnwindSafe(|| {
            let mut row = (panics + 1..).map(value);
            places.push_row(value(panics), FAR, &mut row, |number| {
                assert!(number < 200 * STEP);
            })
        }));
        assert!(row.is_err());
        assert_eq!((places.len(), Rc::strong_count(&alive)), (201, 202));
        assert_eq!(places.last(), 200);
        places.check_invariants();
    }
}

#[test]
fn a_drop_that_panics_stops_no_other() {
    let alive = Rc::new(());
    let mut places = Places::new();
    for at in 0..200 {
        assert!(places.push(at, Touchy::new(&alive, at == 70)).is_ok());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| drop(places))).is_err());
    assert_eq!(Rc::strong_count(&alive), 1);
}
