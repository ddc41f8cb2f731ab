//! Memory whose address the kernel is given.

use core::ptr::NonNull;
use std_alloc::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};

/// Where memory of the kernel's ring begins: a page.
pub(crate) const PAGE: usize = 4096;

/// Memory from the allocator, zeroed and at the begin of a page.
pub(crate) struct Pages {
    begin: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes.max(1), PAGE).expect("chunks: too many bytes");
        // SAFETY: the layout has at least one byte.
        let begin = unsafe { alloc_zeroed(layout) };
        let begin = NonNull::new(begin).unwrap_or_else(|| handle_alloc_error(layout));
        Self { begin, layout }
    }

    pub(crate) fn begin(&self) -> NonNull<u8> {
        self.begin
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.begin.as_ptr(), self.layout) };
    }
}
