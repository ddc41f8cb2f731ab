//! Registries: lists that only grow. One contains every thread heap that was ever made; others
//! contain the stripes that do not fit in a table.
//!
//! An entry's link is written before the entry is published and never after, so reading needs no
//! protection and waits for no thread. Heaps are reused, so the list is as long as the maximum
//! number of threads that ever lived at once.

use core::ptr::{self, NonNull};

use crate::primitive::cell::UnsafeCell;
use crate::primitive::constructor;
use crate::primitive::sync::atomic::{AtomicPtr, Ordering};

/// A list that only grows.
#[derive(Debug)]
pub struct Registry<T> {
    first: AtomicPtr<T>,
}

/// The link of a value in its [`Registry`].
#[derive(Debug)]
pub struct Entry<T>(UnsafeCell<*mut T>);

// SAFETY: the link is written before the value is published, and only read after.
unsafe impl<T> Sync for Entry<T> {}
// SAFETY: a pointer to a value that is shared anyway.
unsafe impl<T> Send for Entry<T> {}

/// A value that may be entered.
pub trait Entered: Sized {
    /// Its link.
    fn entry(&self) -> &Entry<Self>;
}

impl<T> Entry<T> {
    constructor! {
        /// Makes the link of a value in no list.
        #[must_use]
        pub fn new() -> Self {
            Self(UnsafeCell::new(ptr::null_mut()))
        }
    }
}

impl<T: Entered> Registry<T> {
    constructor! {
        /// Makes an empty list.
        #[must_use]
        pub fn new() -> Self {
            Self {
                first: AtomicPtr::new(ptr::null_mut()),
            }
        }
    }

    /// Enters a value; lock-free.
    ///
    /// # Safety
    ///
    /// 1. `value` was never entered, and lives as long as the list, or until [`Registry::clear`].
    pub unsafe fn enter(&self, value: &T) {
        // Relaxed: only compared; the reader follows it, after an Acquire of this entry. [AR1]
        let mut first = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: the value is not published yet, by obligation 1, so no thread reads its link.
            value.entry().0.with_mut(|next| unsafe { *next = first });
            // Release: pairs with the Acquire in `find`; publishes the link and the value. [AR2]
            match self.first.compare_exchange_weak(
                first,
                ptr::from_ref(value).cast_mut(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    /// Calls `f` on the values, latest first, until it returns `Some`. Wait-free except for `f`.
    pub fn find<'a, R>(&'a self, mut f: impl FnMut(&'a T) -> Option<R>) -> Option<R> {
        // Acquire: pairs with the Release in `enter`, of each entry: a later exchange continues an
        // earlier one's release. [AR3]
        let mut next = self.first.load(Ordering::Acquire);
        // SAFETY: entered values live as long as the list is shared.
        while let Some(value) = unsafe { next.as_ref() } {
            #[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
            steps::count();
            if let Some(found) = f(value) {
                return Some(found);
            }
            // SAFETY: published links are not written any more.
            next = value.entry().0.with(|next| unsafe { *next });
        }
        None
    }

    /// Takes all values out, for their end.
    pub fn clear(&mut self, mut f: impl FnMut(NonNull<T>)) {
        // Relaxed: the thread that has the list for itself is ordered after all that shared it.
        // [AR4]
        let mut next = self.first.swap(ptr::null_mut(), Ordering::Relaxed);
        while let Some(value) = NonNull::new(next) {
            // SAFETY: entered values live until they are taken out.
            let entry = unsafe { value.as_ref() }.entry();
            // SAFETY: published links are not written any more.
            next = entry.0.with(|next| unsafe { *next });
            f(value);
        }
    }
}

/// How many values were looked at, on the test's own thread.
#[cfg(all(test, target_os = "linux", not(rast_system_segments)))]
pub(crate) mod steps {
    use core::cell::Cell;

    std::thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        STEPS.set(STEPS.get() + 1);
    }

    /// How many `f` looks at.
    pub(crate) fn of(f: impl FnOnce()) -> usize {
        STEPS.set(0);
        f();
        STEPS.get()
    }
}
