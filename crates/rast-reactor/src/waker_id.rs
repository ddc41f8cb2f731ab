//! The identity of a waker, without a reference to it.

use core::task::{RawWakerVTable, Waker};

/// Names a waker for as long as something has it. Later, another waker may have the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WakerId {
    data: *const (),
    vtable: *const RawWakerVTable,
}

impl WakerId {
    pub(crate) fn of(waker: &Waker) -> Self {
        Self {
            data: waker.data(),
            vtable: waker.vtable(),
        }
    }
}

impl PartialEq for WakerId {
    fn eq(&self, other: &Self) -> bool {
        self.data == other.data && core::ptr::eq(self.vtable, other.vtable)
    }
}
