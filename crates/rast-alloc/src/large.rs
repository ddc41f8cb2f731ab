//! Large blocks: one mapping per block.
//!
//! The mapping starts at the block, and its length follows from the block's layout. So nothing is
//! stored beside the block, and any thread may free it. An arena that is freed as a whole *tracks*
//! its large blocks in a list, whose links are in a page before each block:
//!
//! ```text
//!   untracked    │ block, whole pages            │
//!   tracked      │ links │ (up to the alignment) │ block, whole pages │
//! ```

use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::Layout;
use crate::block::Block;
use crate::geometry::HARDENED;
use crate::hardened::{end, page_map, register};
use crate::level::LARGE;
use crate::misuse;
use crate::os::{self, Access, CAN_CACHE, GUARD, PAGE};

/// The links of a tracked block, at the start of its mapping.
#[repr(C)]
struct Head {
    /// The link of a freed block in transit to its owner.
    message: Cell<*mut Block>,
    owner: *const (),
    previous: Cell<*const Head>,
    next: Cell<*const Head>,
    bytes: usize,
    align: usize,
}

/// The large blocks of one owner, in a list if they are tracked.
pub(crate) struct LargeBlocks {
    is_tracked: bool,
    first: Cell<*const Head>,
    /// The owner that the headers name.
    owner: Cell<*const ()>,
}

impl LargeBlocks {
    /// No list: the thread that has a block frees it.
    pub(crate) const fn untracked() -> Self {
        Self {
            is_tracked: false,
            first: Cell::new(ptr::null()),
            owner: Cell::new(ptr::null()),
        }
    }

    /// With a list, by which all blocks can be freed.
    pub(crate) const fn tracked() -> Self {
        Self {
            is_tracked: true,
            ..Self::untracked()
        }
    }

    /// Returns `true` if these are blocks of a thread's heap, in no list.
    #[inline]
    pub(crate) const fn is_untracked(&self) -> bool {
        !self.is_tracked
    }

    /// The page map entry of segments beside these blocks, if their arena has no number.
    pub(crate) fn unit(&self) -> u16 {
        if self.is_tracked {
            page_map::OWN
        } else {
            page_map::MANY
        }
    }

    /// Returns `true` if a block of this layout may be cached when it is freed, and allocated from
    /// the cache. Its mapping must have nothing before or behind it, and only the alignment of a
    /// page.
    pub(crate) fn is_cacheable(&self, layout: Layout) -> bool {
        CAN_CACHE && !self.is_tracked && layout.align() <= PAGE
    }

    /// Sets the owner that headers will name.
    pub(crate) fn set_owner(&self, owner: *const ()) {
        self.owner.set(owner);
    }

    /// The header of a tracked block.
    ///
    /// # Safety
    ///
    /// 1. `block` is a tracked block with this layout.
    unsafe fn head_of(block: NonNull<u8>, layout: Layout) -> NonNull<Head> {
        // SAFETY: the mapping starts that far before the block, obligation 1.
        unsafe { block.sub(layout.align().max(PAGE)) }.cast()
    }

    /// The owner of a tracked block. Any thread that has the block may call it.
    ///
    /// # Safety
    ///
    /// 1. As for [`LargeBlocks::head_of`].
    pub(crate) unsafe fn owner_of(block: NonNull<u8>, layout: Layout) -> *const () {
        // SAFETY: obligation 1.
        let head = unsafe { Self::head_of(block, layout) }.as_ptr();
        // SAFETY: a tracked mapping starts with its header, whose owner is written before the block
        // is allocated; no reference is made to the header, since its links belong to the owner's
        // holder.
        unsafe { (*head).owner }
    }

    /// Starts to free a tracked block, from any thread. Returns its header, to be linked and passed
    /// to [`unmap_head`](Self::unmap_head).
    ///
    /// # Safety
    ///
    /// 1. `block` is a tracked block of this owner with this layout, and the caller gives it up.
    pub(crate) unsafe fn give_up(&self, block: NonNull<u8>, layout: Layout) -> *mut Block {
        if HARDENED {
            self.retire(block, layout);
        }
        // SAFETY: obligation 1.
        unsafe { Self::head_of(block, layout) }.as_ptr().cast()
    }

    /// Frees the block of a header; returns the length of its mapping.
    ///
    /// # Safety
    ///
    /// 1. `head` came from [`give_up`](Self::give_up) of this value, whose lists the caller alone
    ///    has.
    pub(crate) unsafe fn unmap_head(&self, head: *mut Block) -> usize {
        // SAFETY: obligation 1: blocks are never null.
        let start = unsafe { NonNull::new_unchecked(head) }.cast::<u8>();
        // SAFETY: a tracked mapping starts with its head.
        let head = unsafe { start.cast::<Head>().as_ref() };
        let (bytes, align) = (head.bytes, head.align);
        self.unlink(start);
        // SAFETY: the mapping is whole, and no thread uses it, obligation 1.
        unsafe { os::unmap(start, bytes + GUARD, align) };
        bytes + GUARD
    }

    /// Returns `true` if the register has a block of this layout for this list.
    pub(crate) fn knows(&self, block: *mut u8, layout: Layout) -> bool {
        let bytes = layout.size().next_multiple_of(PAGE);
        register::knows(block.addr(), bytes, self.register_name())
    }

    /// The distance of the block from the start of its mapping.
    fn offset(&self, layout: Layout) -> usize {
        if self.is_tracked {
            layout.align().max(PAGE)
        } else {
            0
        }
    }

    /// The length of a block's mapping; `None` if it exceeds the address space.
    pub(crate) fn bytes(&self, layout: Layout) -> Option<usize> {
        layout
            .size()
            .checked_next_multiple_of(PAGE)?
            .checked_add(self.offset(layout))
    }

    /// The length of a block's mapping with its guard page; `None` if it exceeds the address space.
    pub(crate) fn mapped(&self, layout: Layout) -> Option<usize> {
        self.bytes(layout)?.checked_add(GUARD)
    }

    /// Maps a block; its bytes are zero.
    pub(crate) fn map(&self, layout: Layout) -> Option<NonNull<u8>> {
        let (bytes, align) = (self.bytes(layout)?, layout.align().max(PAGE));
        let start = os::map(bytes.checked_add(GUARD)?, align)?;
        // SAFETY: the offset is less than the mapping's length.
        let block = unsafe { start.add(self.offset(layout)) };
        if HARDENED {
            if !self.enter(block, layout) {
                // SAFETY: the mapping was made above, and no thread knows it.
                unsafe { os::unmap(start, bytes + GUARD, align) };
                return None;
            }
            guard(start, bytes, Access::Forbidden);
        }
        self.link(start, bytes, align);
        Some(block)
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// 1. `block` has this layout and is given up. It is of this owner, or of another one if
    ///    neither tracks its blocks.
    pub(crate) unsafe fn unmap(&self, block: NonNull<u8>, layout: Layout) {
        if HARDENED {
            self.retire(block, layout);
        }
        // SAFETY: the mapping starts that far before the block.
        let start = unsafe { block.sub(self.offset(layout)) };
        self.unlink(start);
        let bytes = self.bytes(layout).unwrap_or_default();
        // SAFETY: the mapping is whole, by obligation 1, and no thread uses it.
        unsafe { os::unmap(start, bytes + GUARD, layout.align().max(PAGE)) };
    }

    /// Changes the length of a block if the system can. Returns `None`, and changes nothing, if it
    /// cannot.
    ///
    /// # Safety
    ///
    /// 1. As for [`LargeBlocks::unmap`], but the caller gives `block` up only if the call succeeds.
    pub(crate) unsafe fn remap(
        &self,
        block: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Option<NonNull<u8>> {
        let (old_bytes, new_bytes) = (self.bytes(old)?, self.bytes(new)?);
        if old_bytes == new_bytes {
            return Some(block);
        }
        if old.align() > PAGE {
            // A mapping that moves keeps only the alignment of a page.
            return None;
        }
        // SAFETY: the mapping starts that far before the block.
        let start = unsafe { block.sub(self.offset(old)) };
        if HARDENED {
            self.retire(block, old);
            guard(start, old_bytes, Access::Allowed);
        }
        self.unlink(start);
        // SAFETY: the mapping is whole, obligation 1; the old start is forgotten if it moves.
        let moved = unsafe { os::remap(start, old_bytes + GUARD, new_bytes + GUARD) };
        let (start, bytes, layout) = match moved {
            Some(moved) => (moved, new_bytes, new),
            None => (start, old_bytes, old),
        };
        // SAFETY: the offset is less than the mapping's length.
        let block = unsafe { start.add(self.offset(layout)) };
        if HARDENED {
            guard(start, bytes, Access::Forbidden);
            self.enter_again(block, layout);
        }
        self.link(start, bytes, PAGE);
        moved.is_some().then_some(block)
    }

    /// The owner in the register: this list, or none.
    fn register_name(&self) -> usize {
        if self.is_tracked {
            ptr::from_ref(self).addr()
        } else {
            0
        }
    }

    /// Enters a block in use into the register; `false` if the register is full.
    pub(crate) fn enter(&self, block: NonNull<u8>, layout: Layout) -> bool {
        let bytes = layout.size().next_multiple_of(PAGE);
        register::enter(block.addr().get(), bytes, self.register_name())
    }

    /// Enters a block again that was in use with another layout or at another address.
    pub(crate) fn enter_again(&self, block: NonNull<u8>, layout: Layout) {
        if !self.enter(block, layout) {
            misuse::end(format_args!("more mappings than can be watched over"));
        }
    }

    /// Removes a block from the register; ends the process unless this list has a block with this
    /// layout in use.
    pub(crate) fn retire(&self, block: NonNull<u8>, layout: Layout) {
        let bytes = layout.size().next_multiple_of(PAGE);
        if !register::take(block.addr().get(), bytes, self.register_name()) {
            end(block.as_ptr(), LARGE, layout.size());
        }
    }

    fn link(&self, start: NonNull<u8>, bytes: usize, align: usize) {
        if !self.is_tracked {
            return;
        }
        let head = start.cast::<Head>();
        let value = Head {
            message: Cell::new(ptr::null_mut()),
            owner: self.owner.get(),
            previous: Cell::new(ptr::null()),
            next: Cell::new(self.first.get()),
            bytes,
            align,
        };
        // SAFETY: a tracked mapping starts with a page that is no part of the block.
        unsafe { head.write(value) };
        // SAFETY: linked heads are mapped and this owner's.
        if let Some(next) = unsafe { self.first.get().as_ref() } {
            next.previous.set(head.as_ptr());
        }
        self.first.set(head.as_ptr());
    }

    fn unlink(&self, start: NonNull<u8>) {
        if !self.is_tracked {
            return;
        }
        // SAFETY: the mapping starts with the head that `link` wrote.
        let head = unsafe { start.cast::<Head>().as_ref() };
        let (previous, next) = (head.previous.get(), head.next.get());
        // SAFETY: linked heads are mapped and this owner's.
        match unsafe { previous.as_ref() } {
            Some(previous) => previous.next.set(next),
            None => self.first.set(next),
        }
        // SAFETY: as above.
        if let Some(next) = unsafe { next.as_ref() } {
            next.previous.set(previous);
        }
    }

    /// Unmaps all blocks of the list.
    pub(crate) fn clear(&self) {
        let mut next = self.first.replace(ptr::null());
        // SAFETY: linked heads are mapped and this owner's.
        while let Some(head) = unsafe { next.as_ref() } {
            let (start, bytes, align) = (NonNull::from(head).cast(), head.bytes, head.align);
            next = head.next.get();
            if HARDENED {
                let block = start.addr().get() + align;
                register::take(block, bytes - align, self.register_name());
            }
            // SAFETY: the mapping is whole; the caller ensures that no thread uses the blocks.
            unsafe { os::unmap(start, bytes + GUARD, align) };
        }
    }
}

/// Forbids or allows access to the page behind the `bytes` of a mapping.
fn guard(start: NonNull<u8>, bytes: usize, access: Access) {
    // SAFETY: a mapping is longer than its bytes by the guard.
    let page = unsafe { start.add(bytes) };
    // SAFETY: the page is the mapping's, and no part of the block.
    let _ = unsafe { os::protect(page, GUARD, access) };
}
