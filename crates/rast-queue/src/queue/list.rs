//! The list of segments under the lock of a queue.
//!
//! ```text
//!   front ─► [ · · a b c d ] ─► [ e f · · · · ] ◄─ back     spare ─► [ · · · · · · ]
//!                 ▲ front_slot        ▲ back_slot
//! ```
//!
//! Rules:
//!
//! 1. `front` and `back` are both there or both not; if they are one segment, `front_slot <= back_slot`.
//! 2. Items stand in the slots from (`front`, `front_slot`) to before (`back`, `back_slot`); the others hold nothing.
//! 3. The list touches no allocator: memory comes in by `ready` and goes out by `pop` and `take_segment`.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::alloc::{AllocError, Allocator, Layout};

/// Slots of a segment; two under loom, so that a short run crosses a border.
const SLOTS: usize = if cfg!(rast_loom) { 2 } else { 32 };

struct Node<T> {
    next: Option<Segment<T>>,
    slots: [MaybeUninit<T>; SLOTS],
}

/// A piece of memory for `SLOTS` items, owned by whoever holds this; it must be given back to its allocator.
pub(super) struct Segment<T> {
    node: NonNull<Node<T>>,
    owns: PhantomData<T>,
}

impl<T> Segment<T> {
    /// What a segment asks of the allocator.
    pub(super) const LAYOUT: Layout = Layout::new::<Node<T>>();

    /// Takes memory for a segment without items.
    pub(super) fn allocate<A: Allocator>(alloc: &A) -> Result<Self, AllocError> {
        let node = alloc.allocate(Self::LAYOUT)?.cast::<Node<T>>();
        // SAFETY: the memory is new, ours alone, and has the layout of a node, so its field lies inside.
        let next = unsafe { &raw mut (*node.as_ptr()).next };
        // SAFETY: the field is aligned and ours alone. The slots hold nothing and need no writing.
        unsafe { next.write(None) };
        Ok(Self {
            node,
            owns: PhantomData,
        })
    }

    /// Gives the memory back to `alloc`, which it came from.
    pub(super) fn deallocate<A: Allocator>(self, alloc: &A) {
        // SAFETY: all segments of a queue are allocated with this layout from the queue's one allocator, and this is the
        // only handle on it.
        unsafe { alloc.deallocate(self.node.cast(), Self::LAYOUT) };
    }

    /// The field that links to the next segment.
    fn next(&mut self) -> &mut Option<Self> {
        // SAFETY: the node is initialised and lives until `deallocate` takes this handle; the handle is borrowed
        // exclusively.
        unsafe { &mut (*self.node.as_ptr()).next }
    }

    /// A handle that does not own: the end of the list.
    fn alias(&self) -> NonNull<Node<T>> {
        self.node
    }
}

/// The slot `index` of `node`, for a write or for a move out.
///
/// # Safety
///
/// 1. `node` is a live segment.
/// 2. `index < SLOTS`.
unsafe fn slot<T>(node: NonNull<Node<T>>, index: usize) -> *mut T {
    debug_assert!(index < SLOTS);
    // SAFETY: by (1) the node is live, so its field lies inside.
    let slots = unsafe { &raw mut (*node.as_ptr()).slots };
    // SAFETY: by (2) the slot lies inside the array.
    unsafe { slots.cast::<T>().add(index) }
}

/// The items of a queue. It has no lock of its own.
pub(super) struct List<T> {
    front: Option<Segment<T>>,
    /// The last segment of those that `front` leads to; owned by the list through `front`.
    back: Option<NonNull<Node<T>>>,
    front_slot: usize,
    back_slot: usize,
    /// A used segment kept for the next push that needs one.
    spare: Option<Segment<T>>,
}

// SAFETY: the list owns its segments and the items in them, and shares neither; items of a type that is Send may be moved
// and dropped on another thread.
unsafe impl<T: Send> Send for List<T> {}

impl<T> List<T> {
    /// A list of nothing.
    pub(super) const fn new() -> Self {
        Self {
            front: None,
            back: None,
            front_slot: 0,
            back_slot: 0,
            spare: None,
        }
    }

    /// Sees to it that a slot stands for the next `push`, by the spare segment or else by `fresh`; gives false if both
    /// are missing.
    pub(super) fn ready(&mut self, fresh: &mut Option<Segment<T>>) -> bool {
        if self.back.is_some() && self.back_slot < SLOTS {
            return true;
        }
        let Some(segment) = self.spare.take().or_else(|| fresh.take()) else {
            return false;
        };
        let alias = segment.alias();
        match self.back {
            Some(mut back) => {
                // SAFETY: by rule 1 `back` is the last live segment of the list; the list is borrowed exclusively, and
                // no other borrow of the node lives.
                unsafe { back.as_mut() }.next = Some(segment);
            }
            None => {
                self.front = Some(segment);
                self.front_slot = 0;
            }
        }
        self.back = Some(alias);
        self.back_slot = 0;
        true
    }

    /// Puts `item` at the back.
    ///
    /// # Panics
    ///
    /// If `ready` did not give true just before.
    pub(super) fn push(&mut self, item: T) {
        let back = self.back.expect("queue: push without ready");
        assert!(self.back_slot < SLOTS, "queue: push without ready");
        // SAFETY: (1) by rule 1 `back` is live; (2) just asserted.
        let slot = unsafe { slot(back, self.back_slot) };
        // SAFETY: by rule 2 the slot at `back_slot` holds nothing; the list is borrowed exclusively.
        unsafe { slot.write(item) };
        self.back_slot += 1;
    }

    /// Takes the item at the front, and a segment to be freed if one is left over; gives `None` if the list is empty.
    pub(super) fn pop(&mut self) -> Option<(T, Option<Segment<T>>)> {
        let front = self.front.as_ref()?.alias();
        if Some(front) == self.back && self.front_slot == self.back_slot {
            return None;
        }
        // SAFETY: (1) by rule 1 `front` is live; (2) `front_slot` is below SLOTS, since `advance` leaves a segment that
        // is used up.
        let slot = unsafe { slot(front, self.front_slot) };
        // SAFETY: the list is not empty, so by rule 2 an item stands here; `front_slot` moves past it.
        let item = unsafe { slot.read() };
        self.front_slot += 1;
        Some((item, self.advance()))
    }

    /// Leaves the front segment if it is used up; gives a segment back if a spare one is there already.
    fn advance(&mut self) -> Option<Segment<T>> {
        let is_last = self.front.as_ref().map(Segment::alias) == self.back;
        if is_last && self.front_slot == self.back_slot {
            // The only segment holds nothing more: begin it anew.
            self.front_slot = 0;
            self.back_slot = 0;
            return None;
        }
        if self.front_slot < SLOTS {
            return None;
        }
        let mut used = self.front.take()?;
        self.front = used.next().take();
        self.front_slot = 0;
        match self.spare {
            Some(_) => Some(used),
            None => {
                self.spare = Some(used);
                None
            }
        }
    }

    /// Asserts rule 1, and that the list is empty or not as its user thinks; in debug builds only.
    pub(super) fn check_invariants(&self, is_empty: bool) {
        debug_assert_eq!(
            self.front.is_some(),
            self.back.is_some(),
            "queue: list rule 1"
        );
        let is_one = self.front.as_ref().map(Segment::alias) == self.back;
        debug_assert!(
            !is_one || self.front_slot <= self.back_slot,
            "queue: list rule 1"
        );
        debug_assert!(
            self.front_slot < SLOTS && self.back_slot <= SLOTS,
            "queue: list slots"
        );
        let holds_none = is_one && self.front_slot == self.back_slot;
        debug_assert_eq!(holds_none, is_empty, "queue: rule 1");
    }

    /// Takes one of the segments of a list without items, to be freed.
    pub(super) fn take_segment(&mut self) -> Option<Segment<T>> {
        if let Some(spare) = self.spare.take() {
            return Some(spare);
        }
        let mut segment = self.front.take()?;
        self.front = segment.next().take();
        if self.front.is_none() {
            self.back = None;
        }
        Some(segment)
    }
}

const _: () = {
    assert!(SLOTS >= 2);
    // An array of `MaybeUninit<T>` lies like an array of `T`.
    assert!(size_of::<[MaybeUninit<u64>; SLOTS]>() == SLOTS * size_of::<u64>());
};
