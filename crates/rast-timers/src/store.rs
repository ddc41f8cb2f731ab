//! Deadline stores: values that wait for their time.
//!
//! One trait, so that the code around a store does not depend on how it
//! keeps its order. Times are exact to the nanosecond: a value is due at its
//! deadline, never before it.

mod heap;

pub use heap::HeapStore;

use crate::Instant;
use core::fmt;

/// Names a value in a [`DeadlineStore`].
///
/// A handle outlives its value without harm: once the value has left the
/// store, the handle names nothing, for ever. It has a meaning only for the
/// store that gave it; another store may take it for one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    slot: u32,
    generation: u32,
}

impl Handle {
    /// Makes the handle of a slot's present value, for those who write a
    /// store: no two values of one store may ever get the same one.
    ///
    /// # Panics
    ///
    /// If `slot` is `u32::MAX`, which no store uses.
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Self {
        assert!(slot != u32::MAX, "the slot u32::MAX is never used");
        Self { slot, generation }
    }

    /// Returns the place of the value in its store.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Returns which of the values of its slot is meant.
    #[must_use]
    pub const fn generation(self) -> u32 {
        self.generation
    }

    /// Packs the handle in one word.
    pub(crate) const fn to_word(self) -> u64 {
        (self.generation as u64) << 32 | self.slot as u64
    }

    /// Unpacks a handle from [`Handle::to_word`].
    pub(crate) const fn from_word(word: u64) -> Self {
        Self {
            slot: word as u32,
            generation: (word >> 32) as u32,
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({}.{})", self.slot, self.generation)
    }
}

/// A value whose time has come, out of its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// The deadline it was stored under, at or before the time asked for.
    pub at: Instant,
    /// The handle it had; it names nothing any more.
    pub handle: Handle,
    /// The value.
    pub value: T,
}

/// Keeps values until their deadlines.
///
/// What every store promises:
///
/// 1. Values leave in the order of their deadlines, those of one deadline in
///    the order in which they came to it (by `insert` or `reschedule`).
/// 2. A value is due at `now` if its deadline is at or before `now`; one in
///    the past is due at once, however far time has jumped.
/// 3. [`Instant::MAX`] means never: such a value is kept, and can be cancelled
///    and rescheduled, but is not due at any time.
/// 4. A handle whose value has left is refused by `cancel` and `reschedule`.
/// 5. The store runs no code of the caller's while it is being changed, so a
///    panic in a callback or in a destructor loses only the value at hand.
///
/// `now` need not grow from call to call: each call answers for the time it
/// is given.
pub trait DeadlineStore<T> {
    /// Stores `value` until `at` and returns its handle.
    ///
    /// # Panics
    ///
    /// If the store is full; how much it holds is the store's to say.
    fn insert(&mut self, at: Instant, value: T) -> Handle;

    /// Takes a value out before its time; `None` if it has left already.
    fn cancel(&mut self, handle: Handle) -> Option<T>;

    /// Moves a value to another deadline, behind those that wait for it
    /// already; returns whether the value was still there. The handle stays.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> bool;

    /// Returns the earliest deadline, `None` if nothing here will ever be due.
    fn next_deadline(&self) -> Option<Instant>;

    /// Takes out the first value that is due at `now`.
    ///
    /// The caller has the store back before it handles the value, so it may
    /// insert and cancel as it likes. A value re-armed at or before `now` is
    /// due again within the same `now`: bound such a loop by a count.
    fn pop_due(&mut self, now: Instant) -> Option<Expired<T>>;

    /// Returns the number of values.
    fn len(&self) -> usize;

    /// Tells whether no value is stored.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands at most `budget` due values to `each` and returns how many.
    ///
    /// What is due beyond the budget stays first in line for the next call:
    /// a return value equal to `budget` says to come back soon. `each` cannot
    /// reach the store; to re-arm while expiring, loop over
    /// [`pop_due`](Self::pop_due). If `each` panics, the value it was given is
    /// gone and all others stay.
    fn expire(&mut self, now: Instant, budget: usize, mut each: impl FnMut(Expired<T>)) -> usize
    where
        Self: Sized,
    {
        let mut done = 0;
        while done < budget {
            let Some(expired) = self.pop_due(now) else {
                break;
            };
            done += 1;
            each(expired);
        }
        done
    }
}
