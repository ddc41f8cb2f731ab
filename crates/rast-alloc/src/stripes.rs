//! Stripes: a table of values that is extended on demand. A thread claims a value that no other
//! thread holds.
//!
//! ```text
//!   places  │ ▪ │ ▪ │ ▪ │   │   │ …          known: 3          rest ─► ▪ ─► ▪
//!             ▲ each thread starts its search at a place of its own
//! ```
//!
//! 1. A place is filled once and never emptied while the stripes are shared, so reading needs no
//!    protection.
//! 2. A value is added when all known ones are held. So there are as many values as the greatest
//!    number of threads that held one at the same time.
//! 3. Values that find no place are in a list ([`crate::registry`]). So no thread waits for a
//!    place, even if more threads hold a value than there are places. This matters in the child of
//!    a `fork`, where some stripes stay held forever.

use core::ptr::{self, NonNull};

use crate::primitive::constructor;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::registry::{Entered, Registry};

/// Number of places.
const STRIPES: usize = if cfg!(any(rast_loom, rast_shuttle)) {
    1
} else {
    64
};

/// A table that only grows.
#[derive(Debug)]
pub struct Stripes<T> {
    places: [AtomicPtr<T>; STRIPES],
    known: AtomicUsize,
    rest: Registry<T>,
}

impl<T: Entered> Stripes<T> {
    constructor! {
        /// Makes an empty table.
        #[must_use]
        pub fn new() -> Self {
            #[cfg(not(rast_loom))]
            let places = [const { AtomicPtr::new(ptr::null_mut()) }; STRIPES];
            #[cfg(rast_loom)]
            let places = core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
            Self {
                places,
                known: AtomicUsize::new(0),
                rest: Registry::new(),
            }
        }
    }

    /// Enters a value; lock-free.
    ///
    /// # Safety
    ///
    /// 1. `value` was not entered before, and lives as long as the table, or until
    ///    [`Stripes::clear`].
    pub unsafe fn enter(&self, value: NonNull<T>) {
        for (index, place) in self.places.iter().enumerate() {
            // Release: pairs with the Acquire in `find`; publishes the value. [AS1]
            let entered = place.compare_exchange(
                ptr::null_mut(),
                value.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if entered.is_ok() {
                // Relaxed: a hint for how far to search; the place itself publishes the value.
                // [AS2]
                self.known.fetch_max(index + 1, Ordering::Relaxed);
                return;
            }
        }
        // SAFETY: obligation 1.
        let value = unsafe { value.as_ref() };
        // SAFETY: obligation 1.
        unsafe { self.rest.enter(value) };
    }

    /// Calls `f` on the values, starting at one that `from` chooses, until it returns `Some`.
    /// Wait-free except for `f`.
    pub fn find<R>(&self, from: usize, mut f: impl FnMut(&T) -> Option<R>) -> Option<R> {
        // Relaxed: as for [AS2]; a value that is not known yet is not found. [AS3]
        let known = self.known.load(Ordering::Relaxed);
        let placed = (0..known).find_map(|step| {
            let place = &self.places[from.wrapping_add(step) % known];
            // Acquire: pairs with the Release in `enter`; the value is initialised. [AS4]
            let value = place.load(Ordering::Acquire);
            // SAFETY: entered values live as long as the table is shared.
            unsafe { value.as_ref() }.and_then(&mut f)
        });
        placed.or_else(|| self.rest.find(f))
    }

    /// Removes all values, before they are unmapped.
    pub fn clear(&mut self, mut f: impl FnMut(NonNull<T>)) {
        for place in &self.places {
            // Relaxed: the thread that has the table exclusively is ordered after all that shared
            // it. [AS5]
            let value = place.swap(ptr::null_mut(), Ordering::Relaxed);
            if let Some(value) = NonNull::new(value) {
                f(value);
            }
        }
        self.rest.clear(f);
    }
}
