//! Deadline stores: values that wait for their deadlines.
//!
//! One trait, so that code that uses a store does not depend on its data structure. Times are exact
//! to the nanosecond: a value is due at its deadline, never before it.

/// Implements `Default` and `Debug` of a store.
macro_rules! default_and_debug {
    ($store:ident) => {
        impl<T> Default for $store<T> {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<T> core::fmt::Debug for $store<T> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.debug_struct(stringify!($store))
                    .field("len", &self.len())
                    .field("next_deadline", &self.next_deadline())
                    .finish_non_exhaustive()
            }
        }
    };
}

mod calendar;
mod firing;
mod heap;
mod keys;
mod lane;
mod slab;

pub use calendar::CalendarStore;
pub use firing::FiringStore;
pub use heap::HeapStore;
pub use lane::LaneStore;

use crate::{Instant, Nanos};
use core::fmt;

/// Names a value in a [`DeadlineStore`].
///
/// A handle outlives its value safely: once the value has left the store, the handle never names a
/// value again. It is valid only for the store that returned it; another store may take it for one
/// of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// Generation in the upper half, slot in the lower.
    word: u64,
}

impl Handle {
    /// Makes the handle of a slot's current value, for implementors of a store. No two values of
    /// one store may ever get the same handle.
    ///
    /// # Panics
    ///
    /// If `slot` is `u32::MAX`, which no store uses.
    #[must_use]
    pub const fn new(slot: u32, generation: u32) -> Self {
        assert!(slot != u32::MAX, "the slot u32::MAX is never used");
        Self::from_word((generation as u64) << 32 | slot as u64)
    }

    /// Returns the index of the value's slot in its store.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.word as u32
    }

    /// Returns the generation of the slot, which distinguishes the successive values of a slot.
    #[must_use]
    pub const fn generation(self) -> u32 {
        (self.word >> 32) as u32
    }

    /// Packs the handle in one word.
    pub(crate) const fn to_word(self) -> u64 {
        self.word
    }

    /// Unpacks a handle from [`Handle::to_word`].
    pub(crate) const fn from_word(word: u64) -> Self {
        Self { word }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({}.{})", self.slot(), self.generation())
    }
}

/// A value whose deadline has passed, removed from its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired<T> {
    /// The deadline it was stored under, at or before the `now` of the call.
    pub at: Instant,
    /// The handle it had; it names nothing any more.
    pub handle: Handle,
    /// The value.
    pub value: T,
}

/// Result of one [`step`](DeadlineStore::step).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// This value was due.
    Due(Expired<T>),
    /// The store was rearranged; call again.
    Busy,
    /// No value is due, and there is no work to do.
    Idle,
}

/// Result of one [`expire`](DeadlineStore::expire).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Number of values that were passed to `each`.
    pub fired: usize,
    /// `true` if the budget ended the call, so that more values may be due: call again soon.
    pub more: bool,
}

/// Keeps values until their deadlines.
///
/// Every store promises:
///
/// 1. Values leave in the order of their deadlines. Values with the same deadline leave in the
///    order in which `insert` or `reschedule` gave them this deadline. Only
///    [`expire_unordered`](Self::expire_unordered) ignores the order, among the values that are
///    due.
/// 2. A value is due at `now` if its deadline is at or before `now`, and never before. A deadline
///    in the past is due at once, however far time has jumped.
/// 3. [`Instant::MAX`] means never: such a value is kept, and can be cancelled and rescheduled, but
///    is not due at any time.
/// 4. `cancel` and `reschedule` return `None` for a handle whose value has left.
/// 5. While the store is being changed, it runs no code of the caller. So a panic in a callback or
///    in a destructor loses only the value that was passed or dropped.
///
/// `now` need not increase from call to call: each call uses only the `now` that it is given.
///
/// | store | for | insert | cancel | one [`step`](Self::step) |
/// | --- | --- | --- | --- | --- |
/// | [`CalendarStore`] | any number of values that are mostly cancelled | O(1) | O(1) | O(1) |
/// | [`LaneStore`] | timeouts of a few durations | O(1) | O(1); its entry stays for a while | O(1) |
/// | [`FiringStore`] | values that are hardly ever cancelled | O(log n) | O(1) amortised; its key stays for a while | O(log n) |
/// | [`HeapStore`] | few values, or an exact `next_deadline` | O(log n) | O(log n) | O(log n) |
pub trait DeadlineStore<T> {
    /// Stores `value` until `at` and returns its handle.
    ///
    /// # Panics
    ///
    /// If the store is full; each store documents its capacity.
    fn insert(&mut self, at: Instant, value: T) -> Handle;

    /// Stores several values, each until its own deadline, as repeated calls of
    /// [`insert`](Self::insert) do. Passes each handle to `each` and returns their number.
    ///
    /// In a store that keeps consecutive values together, `insert_all` is faster than repeated
    /// calls of `insert`. [`LaneStore`] is such a store if the deadlines are equal or increase. If
    /// the iterator or `each` panics, the values that were already stored stay.
    ///
    /// ```
    /// use rast_timers::{DeadlineStore, Instant, LaneStore};
    /// let mut store = LaneStore::new();
    /// let timeout = Instant::from_nanos(30);
    /// let requests = ["first", "second", "third"];
    /// let mut handles = Vec::new();
    /// store.insert_all(requests.map(|request| (timeout, request)), |handle| {
    ///     handles.push(handle);
    /// });
    /// assert_eq!(store.cancel(handles[1]), Some("second"));
    /// assert_eq!(store.len(), 2);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    fn insert_all(
        &mut self,
        values: impl IntoIterator<Item = (Instant, T)>,
        mut each: impl FnMut(Handle),
    ) -> usize
    where
        Self: Sized,
    {
        let mut count = 0;
        for (at, value) in values {
            each(self.insert(at, value));
            count += 1;
        }
        count
    }

    /// Stores `value` with a deadline in `at..=at + slack` and returns its handle. The deadline is
    /// the time in that range with the most trailing zero bits ([`Instant::within`]). So values
    /// with overlapping ranges tend to have the same deadline, and one wake-up serves several of
    /// them.
    ///
    /// [`Expired::at`] contains the chosen deadline.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    fn insert_within(&mut self, at: Instant, slack: Nanos, value: T) -> Handle {
        self.insert(at.within(slack), value)
    }

    /// Removes a value before its deadline; returns `None` if it has left already.
    fn cancel(&mut self, handle: Handle) -> Option<T>;

    /// Removes values before their deadlines, as repeated calls of [`cancel`](Self::cancel) do.
    /// Passes those that had not left yet to `each`, and returns their number.
    ///
    /// In a store whose values lie far apart in memory, `cancel_all` is faster than repeated calls
    /// of `cancel`. If `each` panics, the value it was given and those before it are gone, and all
    /// others stay.
    ///
    /// ```
    /// use rast_timers::{CalendarStore, DeadlineStore, Instant};
    /// let mut store = CalendarStore::new();
    /// let handles = [1, 2, 3].map(|value| store.insert(Instant::from_nanos(9), value));
    /// assert_eq!(store.cancel(handles[1]), Some(2));
    /// let mut sum = 0;
    /// assert_eq!(store.cancel_all(&handles, |_, value| sum += value), 2);
    /// assert_eq!(sum, 4);
    /// ```
    fn cancel_all(&mut self, handles: &[Handle], mut each: impl FnMut(Handle, T)) -> usize
    where
        Self: Sized,
    {
        let mut count = 0;
        for &handle in handles {
            if let Some(value) = self.cancel(handle) {
                count += 1;
                each(handle, value);
            }
        }
        count
    }

    /// Moves a value to another deadline, after the values that have that deadline already. Returns
    /// the handle that it has from now on; `None` if it has left.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle>;

    /// Drops all values, including those that are never due.
    ///
    /// Their handles name nothing from then on; the store keeps its memory. If the destructor of a
    /// value panics, the others are still dropped, and the store is then empty and usable. With
    /// `std` any number of destructors may panic, here and in the drop of a store of this crate:
    /// the first panic continues at the end. Without `std` a second panic aborts the process.
    ///
    /// ```
    /// use rast_timers::{CalendarStore, DeadlineStore, Instant};
    /// let mut store = CalendarStore::new();
    /// let handle = store.insert(Instant::from_nanos(9), "closed");
    /// store.clear();
    /// assert!(store.is_empty() && store.next_deadline().is_none());
    /// assert_eq!(store.cancel(handle), None);
    /// ```
    fn clear(&mut self);

    /// Returns the time at which to call the store next; `None` if no value will ever be due. No
    /// value is due before that time, and after a [`Step::Idle`] it is in the future.
    ///
    /// It is the earliest deadline if the store documents it as exact; otherwise it may be earlier.
    fn next_deadline(&self) -> Option<Instant>;

    /// Does a bounded amount of work: returns the first value that is due at `now`, or moves values
    /// towards being due.
    fn step(&mut self, now: Instant) -> Step<T>;

    /// Returns the number of values.
    fn len(&self) -> usize;

    /// Returns `true` if no value is stored.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pops the first value that is due at `now`, in as many steps as needed;
    /// [`expire`](Self::expire) has a bound.
    ///
    /// The store is not borrowed while the caller handles the value, so the caller may insert and
    /// cancel. A value re-armed at or before `now` is due again at the same `now`: bound such a
    /// loop by a count.
    fn pop_due(&mut self, now: Instant) -> Option<Expired<T>> {
        loop {
            match self.step(now) {
                Step::Due(expired) => return Some(expired),
                Step::Busy => {}
                Step::Idle => return None,
            }
        }
    }

    /// Takes at most `budget` steps, and passes the due values to `each`.
    ///
    /// If the budget ends the call, `more` is `true`, and the next call continues with the first
    /// value that is due. `each` cannot access the store; to re-arm while expiring, loop over
    /// [`step`](Self::step) or [`pop_due`](Self::pop_due). If `each` panics, the value it was given
    /// is lost and all others stay.
    fn expire(&mut self, now: Instant, budget: usize, mut each: impl FnMut(Expired<T>)) -> Swept
    where
        Self: Sized,
    {
        let mut fired = 0;
        for _ in 0..budget {
            match self.step(now) {
                Step::Due(expired) => {
                    fired += 1;
                    each(expired);
                }
                Step::Busy => {}
                Step::Idle => return Swept { fired, more: false },
            }
        }
        Swept { fired, more: true }
    }

    /// As [`expire`](Self::expire), but passes the due values in any order, which saves the store
    /// the work of sorting them.
    ///
    /// All else is the same: no value leaves before its deadline, and once `more` is `false`, no
    /// value that is due at `now` is left. Ordered and unordered calls may be mixed; an ordered
    /// call orders the values that it finds.
    ///
    /// It suits timers that are handled separately, such as timeouts, if the calls come late or
    /// find many due values. A store that would save no work passes the values in order.
    ///
    /// ```
    /// use rast_timers::{CalendarStore, DeadlineStore, Instant};
    /// let mut store = CalendarStore::new();
    /// for value in [30, 10, 40, 20] {
    ///     store.insert(Instant::from_nanos(value), value);
    /// }
    /// let mut sum = 0;
    /// let swept = store.expire_unordered(Instant::from_nanos(30), 100, |due| sum += due.value);
    /// assert_eq!((swept.fired, swept.more, sum), (3, false, 60));
    /// ```
    fn expire_unordered(
        &mut self,
        now: Instant,
        budget: usize,
        each: impl FnMut(Expired<T>),
    ) -> Swept
    where
        Self: Sized,
    {
        self.expire(now, budget, each)
    }
}
