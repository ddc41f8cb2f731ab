//! Atomics and cells for shuttle, which may switch threads before each operation; only under `--cfg
//! rast_shuttle`.
//!
//! shuttle runs the threads of a scenario one at a time, on one OS thread, and switches only when
//! it is called. Each operation here first calls shuttle and then does what core's type does.
//! shuttle's own atomics do that too, but they are larger than a word and work only inside a run.
//! The types here have the layout and the `const` constructors of core's, can be `static`, and
//! outside a run behave as core's. So other crates need no changes for this build.
//!
//! Only one thread runs at a time, so every operation is sequentially consistent. This build does
//! not find orderings that are too weak; loom does.

use core::cell::{Cell, RefCell};
use core::fmt;
use core::panic::Location;
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::vec::Vec;

use crate::cell::UnsafeCell;

/// Lets shuttle switch to another thread; does nothing outside a run.
#[inline]
#[track_caller]
fn switch() {
    if let Some(thread) = shuttle::current::try_get_current_task() {
        if usize::from(thread) > 0 {
            HAS_THREADS.set(true);
        }
        // A sleep is only a switch, as shuttle has no clock. A yield would also mean that this
        // thread waits for another one.
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Records that this thread waits for another one; outside a run yields the core.
#[track_caller]
pub fn yield_now() {
    if shuttle::current::try_get_current_task().is_some() {
        shuttle::thread::yield_now();
    } else {
        std::thread::yield_now();
    }
}

/// Defines an atomic `$name` around `$inner` with values of type `$value`.
macro_rules! atomic {
    ($(#[$doc:meta])* $name:ident $(<$of:ident>)?, $inner:ty, $value:ty) => {
        $(#[$doc])*
        #[repr(transparent)]
        pub struct $name $(<$of>)? ($inner);

        impl $(<$of>)? $name $(<$of>)? {
            /// Makes an atomic with this value.
            #[inline]
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(<$inner>::new(value))
            }

            /// Returns the value; the caller has it exclusively.
            #[inline]
            pub fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// Returns a reference to the value; the caller has it exclusively.
            #[inline]
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            /// Returns the value.
            #[inline]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                switch();
                self.0.load(order)
            }

            /// Replaces the value.
            #[inline]
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                switch();
                self.0.store(value, order);
            }

            /// Replaces the value and returns the old one.
            #[inline]
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                switch();
                self.0.swap(value, order)
            }

            /// Replaces the value if it is `current`; returns what it found.
            #[inline]
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                switch();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As [`compare_exchange`](Self::compare_exchange); fails spuriously only if the
            /// processor's does.
            #[inline]
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                switch();
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// Replaces the value by `f` of it, repeatedly, until that succeeds or `f` returns
            /// `None`.
            #[inline]
            #[track_caller]
            pub fn fetch_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                mut f: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                let mut found = self.load(fetch);
                while let Some(new) = f(found) {
                    match self.compare_exchange(found, new, set, fetch) {
                        Ok(old) => return Ok(old),
                        Err(now) => found = now,
                    }
                }
                Err(found)
            }
        }

        impl $(<$of>)? fmt::Debug for $name $(<$of>)? {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl $(<$of>)? From<$value> for $name $(<$of>)? {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        }
    };
}

/// Read-modify-writes that take a value and return the old one.
macro_rules! fetch {
    ($name:ident, $value:ty: $($method:ident)*) => {
        impl $name {
            $(
                /// As the method of core's type.
                #[inline]
                #[track_caller]
                pub fn $method(&self, value: $value, order: Ordering) -> $value {
                    switch();
                    self.0.$method(value, order)
                }
            )*
        }
    };
}

/// An integer with all its read-modify-writes.
macro_rules! integer {
    ($(#[$doc:meta])* $name:ident, $inner:ty, $value:ty) => {
        atomic!($(#[$doc])* #[derive(Default)] $name, $inner, $value);
        fetch!($name, $value: fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
    };
}

integer!(
    /// An atomic `u8`.
    AtomicU8, core::sync::atomic::AtomicU8, u8
);
integer!(
    /// An atomic `u16`.
    AtomicU16, core::sync::atomic::AtomicU16, u16
);
integer!(
    /// An atomic `u32`.
    AtomicU32, core::sync::atomic::AtomicU32, u32
);
integer!(
    /// An atomic `u64`.
    AtomicU64, core::sync::atomic::AtomicU64, u64
);
integer!(
    /// An atomic `i64`.
    AtomicI64, core::sync::atomic::AtomicI64, i64
);
integer!(
    /// An atomic `usize`.
    AtomicUsize, core::sync::atomic::AtomicUsize, usize
);
pub(crate) use self::wide::AtomicU128;

mod wide {
    #![expect(
        unreachable_pub,
        dead_code,
        reason = "the macro makes what others re-export"
    )]

    use super::{Ordering, fmt, switch};

    integer!(
        /// An atomic `u128`, by portable-atomic.
        AtomicU128, portable_atomic::AtomicU128, u128
    );

    impl AtomicU128 {
        /// Returns `true` if the processor has the double-word instruction.
        pub(crate) fn is_lock_free() -> bool {
            portable_atomic::AtomicU128::is_lock_free()
        }
    }
}
atomic!(
    /// An atomic `bool`.
    #[derive(Default)]
    AtomicBool,
    core::sync::atomic::AtomicBool,
    bool
);
fetch!(AtomicBool, bool: fetch_and fetch_or fetch_xor fetch_nand);
atomic!(
    /// An atomic pointer.
    AtomicPtr<T>,
    core::sync::atomic::AtomicPtr<T>,
    *mut T
);

impl<T> AtomicPtr<T> {
    /// Advances the pointer by `n` bytes and returns the old one.
    #[inline]
    #[track_caller]
    pub fn fetch_byte_add(&self, n: usize, order: Ordering) -> *mut T {
        switch();
        self.0.fetch_byte_add(n, order)
    }
}

impl<T> Default for AtomicPtr<T> {
    fn default() -> Self {
        Self::new(core::ptr::null_mut())
    }
}

std::thread_local! {
    /// Whether a second thread has made a step.
    static HAS_THREADS: Cell<bool> = const { Cell::new(false) };
    /// The accesses that are in progress; all threads of a run are on one OS thread.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// An access to a cell: the cell's address and type (one cell may start with another one), whether
/// it writes, and where in the source it began.
#[derive(Clone, Copy, PartialEq)]
struct Open {
    place: usize,
    of: &'static str,
    writes: bool,
    at: &'static Location<'static>,
}

/// One access to a cell, in progress until it is dropped. Other threads may run meanwhile, so two
/// accesses that nothing excludes overlap in some schedule.
pub(crate) struct Access(Option<Open>);

impl Access {
    #[track_caller]
    pub(crate) fn read<T: ?Sized>(cell: &UnsafeCell<T>) -> Self {
        Self::open(cell, false)
    }

    #[track_caller]
    pub(crate) fn write<T: ?Sized>(cell: &UnsafeCell<T>) -> Self {
        Self::open(cell, true)
    }

    #[track_caller]
    fn open<T: ?Sized>(cell: &UnsafeCell<T>, writes: bool) -> Self {
        let is_in_run = shuttle::current::try_get_current_task().is_some();
        // During a panic there is already an error to report; a second panic would abort.
        if !is_in_run || size_of_val(cell) == 0 || std::thread::panicking() {
            return Self(None);
        }
        let open = Open {
            place: (&raw const *cell).cast::<()>().addr(),
            of: core::any::type_name::<T>(),
            writes,
            at: Location::caller(),
        };
        let other = OPEN.with_borrow_mut(|all| {
            let meets = |other: &&Open| {
                (other.place, other.of) == (open.place, open.of) && (other.writes || writes)
            };
            let other = all.iter().find(meets).copied();
            all.push(open);
            other
        });
        let access = Self(Some(open));
        if let Some(other) = other {
            let word = |writes| if writes { "writes" } else { "reads" };
            panic!(
                "two accesses to a cell meet: this {}, that of {} {}",
                word(writes),
                other.at,
                word(other.writes)
            );
        }
        switch();
        access
    }
}

impl Drop for Access {
    fn drop(&mut self) {
        let Some(mine) = self.0 else { return };
        OPEN.with_borrow_mut(|all| {
            if let Some(place) = all.iter().position(|open| *open == mine) {
                all.swap_remove(place);
            }
        });
    }
}

/// Forgets the accesses that a failed run left in progress; shuttle leaks the stacks of its
/// threads.
pub(crate) fn begin() {
    OPEN.with_borrow_mut(Vec::clear);
}

/// Returns `true` if a second thread made a step in a run since the last call.
pub(crate) fn take_has_threads() -> bool {
    HAS_THREADS.take()
}
