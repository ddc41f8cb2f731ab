//! `UnsafeCell` with accesses that loom and shuttle can check.
//!
//! std's cell returns a pointer, and a model checker cannot know when the pointer is used. This
//! cell calls a closure for each access. So the checker knows when the access begins and ends, and
//! the model fails if two accesses overlap or, under loom, are not ordered. Outside of a model it
//! costs nothing.

#[cfg(rast_loom)]
pub use loom::cell::UnsafeCell;

/// A cell for data that threads share by a protocol. [`with`](Self::with) and
/// [`with_mut`](Self::with_mut) mark each access for loom and shuttle.
///
/// Like `core::cell::UnsafeCell` it is not `Sync`. A type that contains it and is `Sync` must argue
/// by which protocol this is sound.
///
/// # Examples
///
/// ```
/// use rast_primitive::cell::UnsafeCell;
///
/// let cell = UnsafeCell::new(1);
/// // SAFETY: this thread alone has the cell, and no other access is open.
/// cell.with_mut(|value| unsafe { *value += 1 });
/// // SAFETY: as above.
/// assert_eq!(cell.with(|value| unsafe { *value }), 2);
/// ```
#[cfg(not(rast_loom))]
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct UnsafeCell<T: ?Sized>(core::cell::UnsafeCell<T>);

#[cfg(not(rast_loom))]
impl<T> UnsafeCell<T> {
    /// Wraps `value`.
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        Self(core::cell::UnsafeCell::new(value))
    }

    /// Returns the value.
    #[inline(always)]
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

#[cfg(not(rast_loom))]
impl<T: ?Sized> UnsafeCell<T> {
    /// Calls `f` with a pointer for reading; the access lasts as long as `f`.
    ///
    /// Reading through it is sound while no thread writes.
    #[inline(always)]
    #[cfg_attr(rast_shuttle, track_caller)]
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        #[cfg(rast_shuttle)]
        let _access = crate::scheduled::Access::read(self);
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing; the access lasts as long as `f`.
    ///
    /// Writing through it is sound while nothing else reads or writes.
    #[inline(always)]
    #[cfg_attr(rast_shuttle, track_caller)]
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        #[cfg(rast_shuttle)]
        let _access = crate::scheduled::Access::write(self);
        f(self.0.get())
    }
}
