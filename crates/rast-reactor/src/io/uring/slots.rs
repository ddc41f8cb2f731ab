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
//! | `generation` | `free` | number of earlier uses of the slot, so that their `user_data` finds no operation |
//! | `is_in_flight` | start, last completion | the kernel may use the operation's memory |
//! | `is_abandoned` | abandon | what completes is cleaned up: descriptors closed, buffers given back |
//! | `fd` | start, last completion | keeps the descriptor's number from being used again |
//! | `keep` | abandon, last completion | the memory of an operation whose future was dropped |
//! | `results` | completions | what was not taken yet |

use core::any::Any;
use core::task::Waker;
use std::os::fd::OwnedFd;
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

/// What a completion says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) result: i32,
    pub(crate) flags: u32,
}

/// What a result that is not taken leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
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
pub(crate) struct Slot {
    generation: u32,
    pub(crate) kind: Kind,
    pub(crate) is_in_flight: bool,
    pub(crate) is_abandoned: bool,
    /// A cancellation was asked for.
    pub(crate) is_cancelled: bool,
    pub(crate) fd: Option<Rc<OwnedFd>>,
    pub(crate) keep: Option<Box<dyn Any>>,
    pub(crate) results: VecDeque<Done>,
    pub(crate) wakers: Vec<Waker>,
}

/// The operations.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
}

/// The most operations: numbers above it are for the ring itself.
const MOST: usize = 1 << 31;

impl Slots {
    /// Takes a slot for an operation that is about to be in flight.
    pub(crate) fn start(&mut self, kind: Kind, fd: Option<&Rc<OwnedFd>>) -> Key {
        let index = self.free.pop().unwrap_or_else(|| {
            assert!(self.slots.len() < MOST, "io: at most 2^31 operations");
            self.slots.push(Slot {
                generation: 0,
                kind,
                is_in_flight: false,
                is_abandoned: false,
                is_cancelled: false,
                fd: None,
                keep: None,
                results: VecDeque::new(),
                wakers: Vec::new(),
            });
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
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
        let slot = self.slots.get_mut(key.index())?;
        (slot.generation == key.generation()).then_some(slot)
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
        debug_assert!(
            slot.fd.is_none() && slot.keep.is_none(),
            "the last completion took them"
        );
        wakers.append(&mut slot.wakers);
        self.free.push(key.index() as u32);
    }

    /// How many operations the kernel has.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Takes the memory that the kernel may still use.
    pub(crate) fn take_kept(&mut self) -> Vec<Box<dyn Any>> {
        let slots = self.slots.iter_mut().filter(|slot| slot.is_in_flight);
        slots.filter_map(|slot| slot.keep.take()).collect()
    }
}
