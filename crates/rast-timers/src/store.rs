//! Deadline stores: values that wait for their time.
//!
//! One trait, so that the code around a store does not depend on how it
//! keeps its order. Times are exact to the nanosecond: a value is due at its
//! deadline, never before it.

mod calendar;
mod firing;
mod heap;
mod lane;

pub use calendar::CalendarStore;
pub use firing::FiringStore;
pub use heap::HeapStore;
pub use lane::LaneStore;

use crate::{Instant, Nanos};
use core::fmt;

/// Names a value in a [`DeadlineStore`].
///
/// A handle outlives its value without harm: once the value has left the
/// store, the handle names nothing, for ever. It has a meaning only for the
/// store that gave it; another store may take it for one of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle {
    /// The generation above the slot.
    word: u64,
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
        Self::from_word((generation as u64) << 32 | slot as u64)
    }

    /// Returns the place of the value in its store.
    #[must_use]
    pub const fn slot(self) -> u32 {
        self.word as u32
    }

    /// Returns which of the values of its slot is meant.
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

/// Drops what `next` gives until there is no more, also where a drop panics.
pub(crate) fn drop_all<T>(mut next: impl FnMut() -> Option<T>) {
    struct Rest<F: FnMut() -> bool>(F);
    impl<F: FnMut() -> bool> Drop for Rest<F> {
        fn drop(&mut self) {
            while (self.0)() {}
        }
    }
    let mut rest = Rest(|| next().map(drop).is_some());
    while (rest.0)() {}
}

/// What one [`step`](DeadlineStore::step) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<T> {
    /// This value was due.
    Due(Expired<T>),
    /// Something was put in order; another step is needed to know more.
    Busy,
    /// Nothing is due, and nothing is to do.
    Idle,
}

/// What one [`expire`](DeadlineStore::expire) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// The values that were handed out.
    pub fired: usize,
    /// Whether the budget ended it, so that more may be due: come back soon.
    pub more: bool,
}

/// Keeps values until their deadlines.
///
/// What every store promises:
///
/// 1. Values leave in the order of their deadlines, those of one deadline in
///    the order in which they came to it (by `insert` or `reschedule`); only
///    [`expire_unordered`](Self::expire_unordered) keeps no order among those
///    that are due.
/// 2. A value is due at `now` if its deadline is at or before `now`, and never
///    before; one in the past is due at once, however far time has jumped.
/// 3. [`Instant::MAX`] means never: such a value is kept, and can be cancelled
///    and rescheduled, but is not due at any time.
/// 4. A handle whose value has left is refused by `cancel` and `reschedule`.
/// 5. The store runs no code of the caller's while it is being changed, so a
///    panic in a callback or in a destructor loses only the value at hand.
///
/// `now` need not grow from call to call: each call answers for the time it
/// is given.
///
/// | store | for | insert | cancel | a step |
/// | --- | --- | --- | --- | --- |
/// | [`CalendarStore`] | what is mostly cancelled, any population | O(1) | O(1) | O(1) |
/// | [`LaneStore`] | timeouts of a few durations | O(1) | O(1), its place later | O(1) |
/// | [`FiringStore`] | what is hardly ever cancelled | O(log n) | O(1) in the mean, its place later | O(log n) |
/// | [`HeapStore`] | few values, or an exact `next_deadline` | O(log n) | O(log n) | O(log n) |
pub trait DeadlineStore<T> {
    /// Stores `value` until `at` and returns its handle.
    ///
    /// # Panics
    ///
    /// If the store is full; how much it holds is the store's to say.
    fn insert(&mut self, at: Instant, value: T) -> Handle;

    /// Stores several values, each until its own time, as [`insert`](Self::insert)
    /// does one after the other, and hands each one's handle to `each`; returns
    /// how many.
    ///
    /// A store gains by it that keeps what comes in a row in a row, as
    /// [`LaneStore`] does where the deadlines are the same or rise. If the
    /// iterator or `each` panics, the values stored before stay.
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

    /// Stores `value` until some time in `at..=at + slack` and returns its
    /// handle: the roundest time there, so that values with slack fall
    /// together and one wake-up serves many.
    ///
    /// The time is [`Instant::within`]; [`Expired::at`] tells it.
    ///
    /// # Panics
    ///
    /// As [`insert`](Self::insert).
    fn insert_within(&mut self, at: Instant, slack: Nanos, value: T) -> Handle {
        self.insert(at.within(slack), value)
    }

    /// Takes a value out before its time; `None` if it has left already.
    fn cancel(&mut self, handle: Handle) -> Option<T>;

    /// Takes values out before their time, as [`cancel`](Self::cancel) does one
    /// handle after the other, and hands those that had not left yet to `each`;
    /// returns how many these were.
    ///
    /// A store whose values lie far apart in memory gains by knowing several
    /// handles at once. If `each` panics, the value it was given and those
    /// before it are gone, and all others stay.
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

    /// Moves a value to another deadline, behind those that wait for it
    /// already; returns the handle it has from now on, `None` if it has left.
    fn reschedule(&mut self, handle: Handle, at: Instant) -> Option<Handle>;

    /// Drops all values, those that are never due included.
    ///
    /// Their handles name nothing from then on; the memory stays with the store.
    /// If the destructor of a value panics, the others are dropped all the same,
    /// as those of a `Vec` are, and the store is empty and of use after it.
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

    /// Returns when to look at the store next, `None` if nothing here will
    /// ever be due: no value is due before that time, and after a
    /// [`Step::Idle`] it lies in the future.
    ///
    /// It is the earliest deadline where the store says that it is exact;
    /// otherwise it may be earlier.
    fn next_deadline(&self) -> Option<Instant>;

    /// Does a bounded piece of work: hands out the first value that is due at
    /// `now`, or brings it nearer.
    fn step(&mut self, now: Instant) -> Step<T>;

    /// Returns the number of values.
    fn len(&self) -> usize;

    /// Tells whether no value is stored.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes out the first value that is due at `now`, in as many steps as
    /// that takes; [`expire`](Self::expire) has a bound.
    ///
    /// The caller has the store back before it handles the value, so it may
    /// insert and cancel as it likes. A value re-armed at or before `now` is
    /// due again within the same `now`: bound such a loop by a count.
    fn pop_due(&mut self, now: Instant) -> Option<Expired<T>> {
        loop {
            match self.step(now) {
                Step::Due(expired) => return Some(expired),
                Step::Busy => {}
                Step::Idle => return None,
            }
        }
    }

    /// Takes at most `budget` steps, and hands the values that are due to
    /// `each`.
    ///
    /// What is due beyond the budget stays first in line for the next call,
    /// and the answer says so. `each` cannot reach the store; to re-arm while
    /// expiring, loop over [`step`](Self::step) or [`pop_due`](Self::pop_due).
    /// If `each` panics, the value it was given is gone and all others stay.
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

    /// As [`expire`](Self::expire), but hands out the values that are due in
    /// any order, which spares a store the work of sorting them.
    ///
    /// Nothing else changes: none leaves before its deadline, and once the
    /// answer is that there is no more, none that is due at `now` is left. All
    /// calls may be mixed: those that keep an order keep it among what they
    /// find.
    ///
    /// For who handles each timer on its own, as timeouts are, and calls late
    /// or for many at a time. A store that gains nothing by it hands out in
    /// order.
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
