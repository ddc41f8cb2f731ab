//! A node of the list: the pointer to an item, a link, and the counts that say when the node may be
//! freed.
//!
//! ```text
//!   data    null ──────► item             written once, by a push
//!               └──────► CLOSED           written once, by a close
//!   next    null ──────► the next node    written once, and only if data is an item
//!
//!   state   63 ........................ 2 1 ..... 0
//!          +-----------------------------+---------+
//!          |   internal, wraps           | sources |
//!          +-----------------------------+---------+
//! ```
//!
//! A thread that moves the head or the tail off the node adds the count of that word to the state.
//! This addition is called a *promise*.
//!
//! | part of the state | meaning | changed by |
//! | --- | --- | --- |
//! | sources | how many of the two words, head and tail, may still give out references to the node. For the two nodes that are part of the queue itself, the number is one higher, so that they are never freed | a promise subtracts one |
//! | internal | references that promises added, less the references that were released | a promise adds the count of its word, a release subtracts one |
//!
//! `internal` wraps at 2^`INTERNAL_BITS`; the counts in head and tail wrap at this value or a
//! multiple of it. `internal` is in the upper bits, so its overflow never changes the sources. When
//! no source is left, `internal` is the number of references that threads have, and each thread has
//! at most one. So it is zero exactly when no thread has a reference, however often the counts have
//! wrapped.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use crate::primitive::{WideTaggedPtr, constructor};

/// An item of the queue. Its address is even, so `CLOSED` is never the address of an item.
#[repr(align(2))]
pub(super) struct Item<T>(pub(super) T);

/// What is in `data` of the last node of a closed queue.
const CLOSED: usize = 1;

const _: () = assert!(!CLOSED.is_multiple_of(align_of::<Item<()>>()));

pub(super) struct Node<T> {
    data: AtomicPtr<Item<T>>,
    next: AtomicPtr<Node<T>>,
    state: AtomicUsize,
    /// Of size zero; in a model it records each use of the node as a read, and its end as a write.
    life: UnsafeCell<()>,
    /// The list owns the item that is here.
    owns: PhantomData<T>,
}

/// What is in a node.
pub(super) enum Data<T> {
    /// Nothing yet: this is the last node.
    Nothing,
    /// An item, at this address.
    Item(NonNull<Item<T>>),
    /// The end of a closed queue: this always stays the last node.
    Closed,
}

impl<T> Node<T> {
    /// Width of `internal`: at most that of the counts in the words, and such that two bits remain
    /// for the sources.
    const INTERNAL_BITS: u32 = {
        let counts = WideTaggedPtr::<Self>::COUNT_BITS;
        let room = usize::BITS - 2;
        if counts < room { counts } else { room }
    };

    /// One reference in the state; the bits below are the sources.
    const REFERENCE: usize = 1 << (usize::BITS - Self::INTERNAL_BITS);

    const SOURCE: usize = 1;

    /// Number of sources of an allocated node: the head and the tail of the queue.
    pub(super) const PASSING: usize = 2 * Self::SOURCE;

    /// Number of sources of a node that is part of the queue: the queue is a third source, which
    /// never promises.
    pub(super) const STANDING: usize = 3 * Self::SOURCE;

    constructor! {
        /// A place for an item, with a number of sources.
        pub(super) fn new(sources: usize) -> Self {
            Self {
                data: AtomicPtr::new(ptr::null_mut()),
                next: AtomicPtr::new(ptr::null_mut()),
                state: AtomicUsize::new(sources),
                life: UnsafeCell::new(()),
                owns: PhantomData,
            }
        }
    }

    constructor! {
        /// The last node of a queue that was closed while it had no place for an item.
        pub(super) fn closed() -> Self {
            let mut node = Self::new(Self::STANDING);
            node.data = AtomicPtr::new(ptr::without_provenance_mut(CLOSED));
            node
        }
    }

    /// Stores `item` in the node, which then owns it, if nothing was stored before. Otherwise
    /// returns what is stored.
    #[inline]
    pub(super) fn put(&self, item: NonNull<Item<T>>) -> Result<(), Data<T>> {
        self.set(item.as_ptr())
    }

    /// Stores the mark of the end, if nothing was stored before; otherwise returns what is stored.
    pub(super) fn put_closed(&self) -> Result<(), Data<T>> {
        self.set(ptr::without_provenance_mut(CLOSED))
    }

    #[inline]
    fn set(&self, data: *mut Item<T>) -> Result<(), Data<T>> {
        // Release: pairs with the Acquire in data; publishes the item, and what the thread did
        // before it pushed or closed. Nothing is read through the null that was stored. [LQ1]
        let outcome =
            self.data
                .compare_exchange(ptr::null_mut(), data, Ordering::Release, Ordering::Relaxed);
        match outcome {
            Ok(_) => Ok(()),
            Err(_) => Err(self.data()),
        }
    }

    /// Returns what is stored; except for `Nothing` it never changes.
    #[inline]
    pub(super) fn data(&self) -> Data<T> {
        // Acquire: pairs with the Release in set; the item is visible, and what the closing thread
        // did before. [LQ2]
        let data = self.data.load(Ordering::Acquire);
        match NonNull::new(data) {
            None => Data::Nothing,
            Some(data) if data.addr().get() == CLOSED => Data::Closed,
            Some(item) => Data::Item(item),
        }
    }

    /// Links `node` behind this one, if no node was linked before; returns whether it did.
    #[inline]
    pub(super) fn link(&self, node: NonNull<Self>) -> bool {
        // Release: pairs with the Acquire in next; publishes the new node. [LQ3]
        let outcome = self.next.compare_exchange(
            ptr::null_mut(),
            node.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        outcome.is_ok()
    }

    /// Returns the node behind this one; once there is one, it never changes.
    #[inline]
    pub(super) fn next(&self) -> Option<NonNull<Self>> {
        // Acquire: pairs with the Release in link; the thread that stores the node's address in the
        // head or the tail publishes the node with it. [LQ4]
        NonNull::new(self.next.load(Ordering::Acquire))
    }

    /// Adds the `count` references that one source gave out. The source gives out no more: the
    /// nocopy promise of the original design.
    ///
    /// The caller holds a reference, so this never ends the node.
    #[inline]
    pub(super) fn promise(&self, count: u64) {
        // Only the low bits matter: the others overflow, here and in every release.
        let handed_over = (count as usize).wrapping_mul(Self::REFERENCE);
        // Relaxed: the sum alone matters; the caller's use of the node ends with its release,
        // later. [LQ5]
        let before = self
            .state
            .fetch_add(handed_over.wrapping_sub(Self::SOURCE), Ordering::Relaxed);
        debug_assert!(
            before & (Self::REFERENCE - 1) != 0,
            "list: rule 3: a word gave a node up twice"
        );
    }

    /// Releases one reference. Returns `true` if the caller must free the node: the reference was
    /// the last one, and no source (head or tail) can give out another one.
    ///
    /// After `false` another thread may free the node, even before this call returns. So the
    /// argument is an address and not a reference, and this function borrows one field at a time.
    ///
    /// # Safety
    ///
    /// The caller has a reference to the node, which this call releases.
    #[inline]
    #[must_use]
    pub(super) unsafe fn release(node: *const Self) -> bool {
        // SAFETY: the reference keeps the node until the subtraction below.
        let life = unsafe { &(*node).life };
        life.with(|_| ());
        // SAFETY: as above.
        let state = unsafe { &(*node).state };
        // AcqRel: pairs with itself; all accesses of other threads to the node happen before the
        // thread that ends it frees it. [LQ6]
        let before = state.fetch_sub(Self::REFERENCE, Ordering::AcqRel);
        before == Self::REFERENCE
    }

    /// Marks a use of the node, for a model.
    #[inline]
    pub(super) fn used(&self) {
        self.life.with(|_| ());
    }

    /// Marks the end of the node, for a model.
    #[inline]
    pub(super) fn ended(&self) {
        self.life.with_mut(|_| ());
    }

    /// Returns whether the counts are those of a node to which no thread has a reference. `given`
    /// is the sum of the counts of the words that point to it, and `sources` is the number of words
    /// that have not left it.
    pub(super) fn is_at_rest(&self, given: u64, sources: usize) -> bool {
        let given = (given as usize).wrapping_mul(Self::REFERENCE);
        // Relaxed: the caller has the queue to itself. [LQ7]
        self.state.load(Ordering::Relaxed).wrapping_add(given) == sources
    }
}

#[cfg(all(test, not(rast_loom)))]
impl<T> Node<T> {
    /// Changes the counts as if `count` references had been given out and released.
    pub(super) fn preset_given_back(&self, count: u64) {
        let references = (count as usize).wrapping_mul(Self::REFERENCE);
        self.state.fetch_sub(references, Ordering::Relaxed);
    }
}
