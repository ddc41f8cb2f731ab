//! The operations of a ring, found by the `user_data` of their completions.
//!
//! ```text
//!   user_data  63 ─── generation ─── 32 │ 31 ─── index ─── 0
//!
//!              start                       last completion            taken
//!   free ─────────────► in flight ───────────────────────────► done ─────────► free
//!                           │ abandon                            │ abandon
//!                           ▼            last completion         ▼
//!                       abandoned ─────────────────────────► cleaned up ─────► free
//! ```
//!
//! | field | written by | meaning |
//! |---|---|---|
//! | `generation` | `free` | increased after each use of the slot, so the `user_data` of earlier uses finds no operation |
//! | `is_in_flight` | start, last completion | the kernel may use the operation's memory |
//! | `is_abandoned` | abandon | completions are cleaned up: descriptors closed, buffers given back |
//! | `fd` | start, last completion | keeps the descriptor's number from being used again |
//! | `keep` | abandon, last completion | the memory of an operation whose future was dropped |
//! | `results` | completions | results not taken yet |
//!
//! A free slot keeps the memory of its lists for the next operation. When there are far fewer
//! operations than slots, the memory of most free slots is released. From then on the lowest free
//! indices are taken first, so that the table can shrink to the highest index in use. A new slot
//! begins at the greatest generation of the released slots (modulo 2^32), so a stale `user_data`
//! finds no operation.

use core::any::Any;
use core::task::Waker;
use std::os::fd::OwnedFd;
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use crate::waker_list::WakerList;

/// What a completion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

/// What a result that is not taken leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    #[default]
    Plain,
    /// A descriptor, which is closed.
    Descriptor,
    /// A buffer of the ring, which is given back.
    Chunks,
}

/// The name of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(u64);

impl Key {
    fn new(generation: u32, index: u32) -> Self {
        Self(u64::from(generation) << 32 | u64::from(index))
    }

    pub(crate) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(crate) fn word(self) -> u64 {
        self.0
    }

    fn index(self) -> usize {
        self.0 as u32 as usize
    }

    fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// An operation.
#[derive(Default)]
pub(crate) struct Slot {
    generation: u32,
    is_free: bool,
    pub(crate) kind: Kind,
    pub(crate) is_in_flight: bool,
    pub(crate) is_abandoned: bool,
    /// A cancellation was asked for.
    pub(crate) is_cancelled: bool,
    pub(crate) fd: Option<Rc<OwnedFd>>,
    pub(crate) keep: Option<Box<dyn Any>>,
    pub(crate) results: VecDeque<Done>,
    pub(crate) waiting: WakerList,
}

/// The operations.
#[derive(Default)]
pub(crate) struct Slots {
    /// By index; `None` where a slot was given back.
    slots: Vec<Option<Box<Slot>>>,
    /// The indices without an operation; the last one is taken first.
    free: Vec<u32>,
    in_flight: usize,
    /// How many slots there are.
    made: usize,
    /// The first generation of a new slot.
    floor: u32,
    /// How many more operations end before the next check whether the table can shrink.
    looks_in: usize,
    /// At this index and above there is no free slot.
    high: usize,
}

/// Maximum number of operations: greater indices are for the ring itself.
const MOST: usize = 1 << 31;
/// Number of slots that a table keeps, even if fewer operations are in flight.
const SMALL: usize = 256;

impl Slots {
    /// Takes a slot for an operation that is about to be in flight.
    pub(crate) fn start(&mut self, kind: Kind, fd: Option<&Rc<OwnedFd>>) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < MOST, "io: at most 2^31 operations");
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        });
        let slot = self.slots[index as usize].get_or_insert_with(|| {
            self.made += 1;
            Box::new(Slot {
                generation: self.floor,
                ..Slot::default()
            })
        });
        slot.is_free = false;
        slot.kind = kind;
        slot.is_in_flight = true;
        slot.is_abandoned = false;
        slot.is_cancelled = false;
        slot.fd = fd.cloned();
        self.in_flight += 1;
        Key::new(slot.generation, index)
    }

    /// The slot of an operation; `None` if the operation is over.
    pub(crate) fn get(&mut self, key: Key) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(key.index())?.as_deref_mut()?;
        (!slot.is_free && slot.generation == key.generation()).then_some(slot)
    }

    /// The kernel is done with the operation.
    pub(crate) fn land(&mut self, key: Key) {
        if let Some(slot) = self.get(key)
            && slot.is_in_flight
        {
            slot.is_in_flight = false;
            self.in_flight -= 1;
        }
    }

    /// Ends an operation that is not in flight. What still waits for it is to be woken.
    pub(crate) fn free(&mut self, key: Key, wakers: &mut Vec<Waker>) {
        let Some(slot) = self.get(key) else { return };
        debug_assert!(!slot.is_in_flight, "the kernel may still use its memory");
        debug_assert!(slot.results.is_empty(), "its results were taken");
        slot.generation = slot.generation.wrapping_add(1);
        slot.is_free = true;
        debug_assert!(
            slot.fd.is_none() && slot.keep.is_none(),
            "the last completion took them"
        );
        wakers.extend(slot.waiting.drain());
        self.free.push(key.index() as u32);
        self.high = self.high.max(key.index() + 1);
        let used = self.slots.len() - self.free.len();
        let most = 8 * used + SMALL;
        self.looks_in = self.looks_in.saturating_sub(1);
        if self.looks_in == 0 && self.slots.len() > most {
            self.give_back(2 * used + SMALL / 2);
            self.end_table();
        } else if self.made > most {
            self.give_back(2 * used + SMALL / 2);
        }
    }

    /// Keeps the first `most` slots, and those that have an operation. Cost: a look at each index
    /// up to the highest one at which an operation has ended since the last time.
    #[cold]
    fn give_back(&mut self, most: usize) {
        let high = core::mem::replace(&mut self.high, most);
        for place in self.slots.iter_mut().take(high).skip(most) {
            let Some(slot) = place.take_if(|slot| slot.is_free) else {
                continue;
            };
            self.made -= 1;
            // The later of the two: generations count up, and wrap.
            if slot.generation.wrapping_sub(self.floor) < 1 << 31 {
                self.floor = slot.generation;
            }
        }
    }

    /// Ends the table after its last slot, and has the lowest indices taken first. Cost: linear in
    /// the table, after a quarter as many operations.
    #[cold]
    fn end_table(&mut self) {
        let last = self.slots.iter().rposition(Option::is_some);
        self.slots.truncate(last.map_or(0, |last| last + 1));
        self.slots.shrink_to_fit();
        let is_free = |slot: &Option<Box<Slot>>| slot.as_ref().is_none_or(|slot| slot.is_free);
        let free = self.slots.iter().enumerate().rev();
        let free = free.filter(|(_, slot)| is_free(slot));
        self.free = free.map(|(index, _)| index as u32).collect();
        self.looks_in = self.slots.len() / 4;
    }

    /// How many operations the kernel has.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes the memory that the kernel may still use.
    pub(crate) fn take_kept(&mut self) -> Vec<Box<dyn Any>> {
        let slots = self.slots.iter_mut().flatten();
        let slots = slots.filter(|slot| slot.is_in_flight);
        slots.filter_map(|slot| slot.keep.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(slots: &mut Slots, key: Key) {
        slots.land(key);
        slots.free(key, &mut Vec::new());
    }

    #[test]
    fn slots_are_given_back_after_a_burst() {
        const MANY: usize = 4_000;
        let mut slots = Slots::default();
        let burst = |slots: &mut Slots| {
            let start = |_| slots.start(Kind::Plain, None);
            let keys: Vec<_> = (0..MANY).map(start).collect();
            // The last one goes on, at the highest index.
            for &key in &keys[..MANY - 1] {
                end(slots, key);
            }
            keys
        };
        let first = burst(&mut slots);
        assert_eq!(slots.made, slots.slots.iter().flatten().count());
        assert!(slots.made <= SMALL + 8, "{}", slots.made);
        assert_eq!(slots.slots.len(), MANY, "one has an operation");
        assert!(slots.get(first[MANY - 1]).is_some());
        let second = burst(&mut slots);
        for key in first.iter().take(MANY - 1).chain(&second[..MANY - 1]) {
            assert!(slots.get(*key).is_none(), "{key:?} is over");
        }
        assert!(first.iter().all(|key| !second.contains(key)));
        end(&mut slots, first[MANY - 1]);
        end(&mut slots, second[MANY - 1]);
        // The next operations take low indices, and the table ends after them.
        for _ in 0..MANY {
            let key = slots.start(Kind::Plain, None);
            end(&mut slots, key);
        }
        assert!(slots.slots.len() <= SMALL, "{}", slots.slots.len());
        assert!(
            slots.free.capacity() <= 2 * SMALL,
            "{}",
            slots.free.capacity()
        );
        assert_eq!(slots.in_flight(), 0);
    }

    #[test]
    fn a_slot_is_used_again_with_its_memory() {
        let mut slots = Slots::default();
        let key = slots.start(Kind::Plain, None);
        let waiting = &mut slots.get(key).unwrap().waiting;
        for _ in 0..100 {
            let waker = Waker::noop();
            assert!(waiting.wait(&mut None, waker, &mut Some(waker.clone())));
        }
        end(&mut slots, key);
        let again = slots.start(Kind::Descriptor, None);
        assert!(again != key && slots.get(key).is_none());
        assert!(slots.get(again).unwrap().waiting.capacity() >= 100);
    }
}
