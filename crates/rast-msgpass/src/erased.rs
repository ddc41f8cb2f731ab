//! An outlet without the type of its message, and the way back to it.
//!
//! `Any` finds the type by a virtual call for each message, whose result takes
//! a detour through memory: 8 ns where a message takes 10 (2026-11-23). So the
//! type is beside the outlet, and is compared in place.

use core::any::TypeId;
use core::ops::{Deref, DerefMut};

use crate::outlet::{Out, Outlet};

/// An outlet whose message type is known to those that ask for it.
pub(crate) struct Erased {
    /// That of the message.
    message: TypeId,
    /// An `Out` of that message.
    out: Box<dyn Outlet>,
}

impl Erased {
    pub(crate) fn new<M: Send + 'static>(out: Out<M>) -> Self {
        Self {
            message: TypeId::of::<M>(),
            out: Box::new(out),
        }
    }

    /// Returns the outlet by its type.
    ///
    /// # Panics
    ///
    /// If it carries other messages: an edge's outlet is made for its message.
    #[inline]
    pub(crate) fn of<M: Send + 'static>(&mut self) -> &mut Out<M> {
        assert!(
            self.message == TypeId::of::<M>(),
            "an edge's outlet is made for its message"
        );
        let out: *mut dyn Outlet = &raw mut *self.out;
        // SAFETY: `new` alone makes the two fields, and neither is replaced: the box holds an
        // `Out<M>`, and it is borrowed for as long as the result.
        unsafe { &mut *out.cast::<Out<M>>() }
    }
}

impl Deref for Erased {
    type Target = dyn Outlet;

    fn deref(&self) -> &(dyn Outlet + 'static) {
        &*self.out
    }
}

impl DerefMut for Erased {
    fn deref_mut(&mut self) -> &mut (dyn Outlet + 'static) {
        &mut *self.out
    }
}
