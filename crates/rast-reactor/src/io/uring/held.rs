//! Buffers while the kernel has them.

use core::mem::MaybeUninit;

use crate::io::buffer::BufferMut;

/// A value whose memory the kernel may use: moving it asserts nothing about that memory, as moving
/// a `Box` would.
pub(crate) struct Held<T>(MaybeUninit<T>);

impl<T> Held<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(MaybeUninit::new(value))
    }

    /// The value, before the kernel has it and after.
    pub(crate) fn get(&mut self) -> &mut T {
        // SAFETY: it was initialised in `new`; `into_inner` takes the whole `Held`.
        unsafe { self.0.assume_init_mut() }
    }

    pub(crate) fn into_inner(self) -> T {
        let this = core::mem::ManuallyDrop::new(self);
        // SAFETY: it was initialised, and is not used or dropped after this.
        unsafe { this.0.assume_init_read() }
    }
}

impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        // SAFETY: it was initialised, and is not used after this.
        unsafe { self.0.assume_init_drop() };
    }
}

/// Copies bytes into a buffer, as many as fit; returns how many.
pub(crate) fn fill(buffer: &mut impl BufferMut, bytes: &[u8]) -> usize {
    let count = bytes.len().min(buffer.capacity());
    // SAFETY: the buffer has so many bytes, and is borrowed alone.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.as_mut_ptr(), count) };
    // SAFETY: they were written above.
    unsafe { buffer.set_len(count) };
    count
}
