//! A value that writers replace as a whole while others read it.
//!
//! Readers see one consistent value for as long as they have the guard. Readers and writers never
//! wait for each other. crossbeam-epoch drops the old value once no reader can have it. loom and
//! shuttle cannot see crossbeam-epoch, so a model runs a substitute with the same interface: a
//! shared pointer under a lock.

use core::fmt;
use core::ops::Deref;

#[cfg(not(any(rast_loom, rast_shuttle)))]
use self::epoch as imp;
#[cfg(any(rast_loom, rast_shuttle))]
use self::stand_in as imp;

/// A value that is replaced as a whole and read without waiting.
///
/// Reading and replacing are lock-free. A read pins the epoch of the calling thread, which costs
/// about two atomic operations. While a reader has its guard, all values that are replaced
/// meanwhile stay alive.
///
/// # Examples
///
/// ```
/// use rast_primitive::Snapshot;
///
/// let owners = Snapshot::new(vec![0, 0, 1]);
/// let before = owners.load();
/// owners.store(vec![1, 0, 1]);
/// assert_eq!(*before, [0, 0, 1]);
/// assert_eq!(*owners.load(), [1, 0, 1]);
/// ```
pub struct Snapshot<T: Send + Sync + 'static>(imp::Snapshot<T>);

/// The value of a [`Snapshot`] at the time of its `load`.
///
/// Stays on the thread that loaded it.
#[must_use = "a guard keeps old values alive; drop it when done"]
pub struct SnapshotGuard<'a, T: Send + Sync + 'static>(imp::Guard<'a, T>);

impl<T: Send + Sync + 'static> Snapshot<T> {
    /// Makes a snapshot of `value`.
    pub fn new(value: T) -> Self {
        Self(imp::Snapshot::new(value))
    }

    /// Returns the current value. Lock-free; never waits for a writer.
    pub fn load(&self) -> SnapshotGuard<'_, T> {
        SnapshotGuard(self.0.load())
    }

    /// Replaces the value. Lock-free; never waits for a reader.
    ///
    /// The old value is dropped later, on any thread, inside a `load` or `store` of any snapshot:
    /// if no guard is alive, in about the third `store` after this one. So its destructor must not
    /// panic, and must not wait for anything that such a caller may hold. The last values may not
    /// be dropped before the process ends.
    pub fn store(&self, value: T) {
        self.0.store(value);
    }
}

impl<T: Send + Sync + 'static> Deref for SnapshotGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.get()
    }
}

impl<T: Send + Sync + Default + 'static> Default for Snapshot<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for Snapshot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Snapshot").field(&*self.load()).finish()
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for SnapshotGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(not(any(rast_loom, rast_shuttle)))]
mod epoch {
    //! The implementation on crossbeam-epoch.

    use core::marker::PhantomData;

    use crossbeam_epoch::{Atomic, Owned, pin};

    use crate::sync::atomic::Ordering::{AcqRel, Acquire};

    /// The pointer is never null until the drop.
    pub(super) struct Snapshot<T>(Atomic<T>);

    pub(super) struct Guard<'a, T> {
        value: *const T,
        _pinned: crossbeam_epoch::Guard,
        _snapshot: PhantomData<&'a T>,
    }

    impl<T: Send + Sync + 'static> Snapshot<T> {
        pub(super) fn new(value: T) -> Self {
            Self(Atomic::new(value))
        }

        pub(super) fn load(&self) -> Guard<'_, T> {
            let pinned = pin();
            // Acquire: pairs with the AcqRel in store; the value behind the pointer is initialised.
            // [SN1]
            let value = self.0.load(Acquire, &pinned).as_raw();
            Guard {
                value,
                _pinned: pinned,
                _snapshot: PhantomData,
            }
        }

        pub(super) fn store(&self, value: T) {
            let pinned = pin();
            // AcqRel: pairs with the Acquire in load, publishes the new value; and with the AcqRel
            // of the earlier store, so that the old value is initialised when it is dropped. [SN2]
            let old = self.0.swap(Owned::new(value), AcqRel, &pinned);
            // SAFETY: `Owned` made `old`, and no later load can reach it. Only this swap returned
            // it, so it is destroyed once, after the threads that are pinned now have unpinned. `T:
            // Send + 'static` may be dropped at any time on any thread.
            unsafe { pinned.defer_destroy(old) };
            // Without this a thread keeps up to 64 old values before any is dropped, and a thread
            // that stores no more keeps its own for ever.
            pinned.flush();
        }
    }

    impl<T> Guard<'_, T> {
        pub(super) fn get(&self) -> &T {
            // SAFETY: the value was reachable while this guard's thread was pinned, and it stays
            // pinned until the guard is dropped, so it is not destroyed; no thread changes a value
            // once published.
            unsafe { &*self.value }
        }
    }

    impl<T> Drop for Snapshot<T> {
        fn drop(&mut self) {
            let last = core::mem::replace(&mut self.0, Atomic::null());
            // SAFETY: `&mut self` shows that no guard borrows the snapshot and no thread can load,
            // so only this thread has the pointer; it is not null.
            drop(unsafe { last.into_owned() });
        }
    }
}

#[cfg(any(rast_loom, rast_shuttle))]
mod stand_in {
    //! The stand-in of a model.

    use core::marker::PhantomData;

    use crate::sync::{Arc, Mutex};

    pub(super) struct Snapshot<T>(Mutex<Arc<T>>);

    pub(super) struct Guard<'a, T> {
        value: Arc<T>,
        _snapshot: PhantomData<(&'a T, *const ())>,
    }

    impl<T> Snapshot<T> {
        pub(super) fn new(value: T) -> Self {
            Self(Mutex::new(Arc::new(value)))
        }

        pub(super) fn load(&self) -> Guard<'_, T> {
            Guard {
                value: Arc::clone(&self.0.lock()),
                _snapshot: PhantomData,
            }
        }

        pub(super) fn store(&self, value: T) {
            let old = core::mem::replace(&mut *self.0.lock(), Arc::new(value));
            drop(old);
        }
    }

    impl<T> Guard<'_, T> {
        pub(super) fn get(&self) -> &T {
            &self.value
        }
    }
}
