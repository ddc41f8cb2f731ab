//! Memory that an operation owns.

use core::fmt;
use core::ops::{Bound, RangeBounds};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::string::String;
use std_alloc::sync::Arc;
use std_alloc::vec::Vec;

/// Bytes that an operation can write from.
///
/// # Safety
///
/// 1. The first [`len`](Self::len) bytes from [`as_ptr`](Self::as_ptr) on are initialised, and may
///    be read until the value is dropped or changed, on any thread.
/// 2. They keep their address while the value is moved, and if it is forgotten.
/// 3. The methods return the same results until the value is changed.
pub unsafe trait Buffer: 'static {
    /// Where the bytes begin.
    fn as_ptr(&self) -> *const u8;

    /// How many bytes are initialised.
    fn len(&self) -> usize;

    /// Returns `true` if no byte is initialised.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A part of the bytes, as a buffer: see [`Slice`].
    ///
    /// # Panics
    ///
    /// If the range ends behind its begin, or begins behind the initialised bytes.
    fn slice(self, range: impl RangeBounds<usize>) -> Slice<Self>
    where
        Self: Sized,
    {
        Slice::new(self, range)
    }
}

/// Memory that an operation can read into.
///
/// # Safety
///
/// 1. The first [`capacity`](Self::capacity) bytes from [`as_mut_ptr`](Self::as_mut_ptr) on may be
///    written until the value is dropped or changed. Until then nothing else uses them, even if the
///    value is moved.
/// 2. Rules 2 and 3 of [`Buffer`] hold for this memory too. `as_ptr` and `as_mut_ptr` return the
///    same address.
pub unsafe trait BufferMut: Buffer {
    /// Where the memory begins.
    fn as_mut_ptr(&mut self) -> *mut u8;

    /// How many bytes it has, initialised or not.
    fn capacity(&self) -> usize;

    /// States that the first `len` bytes are initialised and are what an operation has read.
    ///
    /// # Safety
    ///
    /// The first `len` bytes are initialised, and `len` is at most the capacity.
    unsafe fn set_len(&mut self, len: usize);
}

// SAFETY: 1. and 2. a vector's elements are on the heap, and stay there while it is moved or
// forgotten. 3. They change by `&mut` alone.
unsafe impl Buffer for Vec<u8> {
    fn as_ptr(&self) -> *const u8 {
        Self::as_ptr(self)
    }

    fn len(&self) -> usize {
        Self::len(self)
    }
}

// SAFETY: as above; the vector owns its memory up to its capacity.
unsafe impl BufferMut for Vec<u8> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        Self::as_mut_ptr(self)
    }

    fn capacity(&self) -> usize {
        Self::capacity(self)
    }

    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: by the caller.
        unsafe { Self::set_len(self, len) };
    }
}

// SAFETY: as for the vector.
unsafe impl Buffer for Box<[u8]> {
    fn as_ptr(&self) -> *const u8 {
        <[u8]>::as_ptr(self)
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

// SAFETY: as above. All of it is initialised, so there is no length to set.
unsafe impl BufferMut for Box<[u8]> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        <[u8]>::as_mut_ptr(self)
    }

    fn capacity(&self) -> usize {
        <[u8]>::len(self)
    }

    unsafe fn set_len(&mut self, _: usize) {}
}

/// Buffers that are only read.
macro_rules! shared {
    ($($buffer:ty),*) => {$(
        // SAFETY: 1. to 3. the bytes are behind a pointer that is kept, and nothing changes them.
        unsafe impl Buffer for $buffer {
            fn as_ptr(&self) -> *const u8 {
                AsRef::<[u8]>::as_ref(self).as_ptr()
            }

            fn len(&self) -> usize {
                AsRef::<[u8]>::as_ref(self).len()
            }
        }
    )*};
}

shared!(&'static [u8], &'static str, String, Arc<[u8]>, Rc<[u8]>);

// SAFETY: as for the slice that it is.
unsafe impl<const N: usize> Buffer for &'static [u8; N] {
    fn as_ptr(&self) -> *const u8 {
        <[u8]>::as_ptr(*self)
    }

    fn len(&self) -> usize {
        N
    }
}

/// A part of a buffer. An operation on it reads or writes only this part.
///
/// ```
/// use rast_reactor::io::Buffer;
///
/// let part = Vec::from("hello").slice(1..3);
/// assert_eq!(part.len(), 2);
/// assert_eq!(part.into_inner(), b"hello");
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Slice<B> {
    buffer: B,
    begin: usize,
    /// At most so many bytes, also of the capacity.
    most: usize,
}

impl<B: Buffer> Slice<B> {
    fn new(buffer: B, range: impl RangeBounds<usize>) -> Self {
        let begin = match range.start_bound() {
            Bound::Included(&begin) => begin,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last + 1,
            Bound::Excluded(&end) => end,
            Bound::Unbounded => usize::MAX,
        };
        assert!(
            begin <= buffer.len() && begin <= end,
            "slice: {begin}..{end} of a buffer of {} bytes",
            buffer.len()
        );
        Self {
            buffer,
            begin,
            most: end - begin,
        }
    }

    /// Returns the whole buffer.
    pub fn into_inner(self) -> B {
        self.buffer
    }
}

// SAFETY: 1. to 3. it is a part of what the buffer's own implementation vouches for: the begin is
// within its initialised bytes, which a `Slice` never makes fewer.
unsafe impl<B: Buffer> Buffer for Slice<B> {
    fn as_ptr(&self) -> *const u8 {
        // SAFETY: the begin is at most the length.
        unsafe { self.buffer.as_ptr().add(self.begin) }
    }

    fn len(&self) -> usize {
        (self.buffer.len() - self.begin).min(self.most)
    }
}

// SAFETY: as above.
unsafe impl<B: BufferMut> BufferMut for Slice<B> {
    fn as_mut_ptr(&mut self) -> *mut u8 {
        // SAFETY: the begin is at most the length.
        unsafe { self.buffer.as_mut_ptr().add(self.begin) }
    }

    fn capacity(&self) -> usize {
        (self.buffer.capacity() - self.begin).min(self.most)
    }

    unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the bytes before the begin are initialised, and by the caller those after it.
        unsafe { self.buffer.set_len(self.begin + len) };
    }
}

impl<B: Buffer> fmt::Debug for Slice<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slice")
            .field("begin", &self.begin)
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
