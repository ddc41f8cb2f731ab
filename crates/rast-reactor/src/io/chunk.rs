//! Buffers of a reactor for receives, shared by all its connections.
//!
//! ```text
//!   memory  │ 0 │ 1 │ 2 │ ... │ number - 1 │      `bytes` each
//!
//!   free ──a receive takes it──► chunk of the user ──dropped──► free
//! ```
//!
//! With io_uring the kernel takes free chunks from a ring; with readiness they are in a list. If no
//! chunk is free, a receive allocates memory, so a task that keeps all chunks delays no other task.

use core::cell::RefCell;
use core::fmt;
use core::ops::Deref;
use core::ptr::NonNull;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use super::buffer::Buffer;
use super::pages::Pages;

/// What has the free buffers.
pub(crate) enum Free {
    List(RefCell<Vec<u16>>),
    #[cfg(target_os = "linux")]
    Ring(super::uring::Provided),
}

/// The buffers.
pub(crate) struct Chunks {
    memory: Pages,
    bytes: usize,
    free: Free,
}

impl Chunks {
    pub(crate) fn new(number: u16, bytes: usize, free: impl FnOnce(&Self) -> Free) -> Rc<Self> {
        let mut this = Self {
            memory: Pages::new(usize::from(number) * bytes),
            bytes,
            free: Free::List(RefCell::new(Vec::new())),
        };
        this.free = free(&this);
        Rc::new(this)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where a buffer begins.
    pub(crate) fn address(&self, id: u16) -> NonNull<u8> {
        // SAFETY: ids are below the number of buffers: the memory has so many bytes.
        unsafe { self.memory.begin().add(usize::from(id) * self.bytes) }
    }

    /// Takes a free buffer from the list.
    pub(crate) fn take(&self) -> Option<u16> {
        match &self.free {
            Free::List(list) => list.borrow_mut().pop(),
            #[cfg(target_os = "linux")]
            Free::Ring(_) => None,
        }
    }

    pub(crate) fn give_back(&self, id: u16) {
        match &self.free {
            Free::List(list) => list.borrow_mut().push(id),
            #[cfg(target_os = "linux")]
            Free::Ring(ring) => ring.give_back(id, self.address(id), self.bytes),
        }
    }
}

/// What a chunk is in.
enum Memory {
    Taken { chunks: Rc<Chunks>, id: u16 },
    Own(Box<[u8]>),
}

/// Bytes that were received, in memory of the reactor, which gets it back when this is dropped.
///
/// It is a [`Buffer`], so it can be written as it is.
pub struct Chunk {
    memory: Memory,
    begin: usize,
    end: usize,
}

impl Chunk {
    /// The first `len` bytes of a buffer that was taken.
    pub(crate) fn taken(chunks: &Rc<Chunks>, id: u16, len: usize) -> Self {
        debug_assert!(len <= chunks.bytes, "a receive stays within its buffer");
        Self {
            memory: Memory::Taken {
                chunks: Rc::clone(chunks),
                id,
            },
            begin: 0,
            end: len.min(chunks.bytes),
        }
    }

    /// States that the first `len` bytes were written.
    pub(crate) fn filled(mut self, len: usize) -> Self {
        self.end = len;
        self
    }

    /// The first `len` bytes of memory of its own.
    pub(crate) fn own(bytes: Box<[u8]>, len: usize) -> Self {
        Self {
            end: len.min(bytes.len()),
            memory: Memory::Own(bytes),
            begin: 0,
        }
    }

    /// Removes the first `count` bytes.
    ///
    /// # Panics
    ///
    /// If there are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(count <= self.len(), "advance: {count} of {}", self.len());
        self.begin += count;
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let begin = match &self.memory {
            Memory::Taken { chunks, id } => chunks.address(*id).as_ptr().cast_const(),
            Memory::Own(bytes) => bytes.as_ptr(),
        };
        // SAFETY: the begin is at most the end, which is within the buffer.
        let begin = unsafe { begin.add(self.begin) };
        // SAFETY: the bytes up to the end are initialised, and this chunk alone has the buffer.
        unsafe { core::slice::from_raw_parts(begin, self.end - self.begin) }
    }
}

// SAFETY: 1. to 3. the bytes are in memory that does not move, and change by `advance` alone.
unsafe impl Buffer for Chunk {
    fn as_ptr(&self) -> *const u8 {
        <[u8]>::as_ptr(self)
    }

    fn len(&self) -> usize {
        <[u8]>::len(self)
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Memory::Taken { chunks, id } = &self.memory {
            chunks.give_back(*id);
        }
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chunk").field(&&**self).finish()
    }
}
