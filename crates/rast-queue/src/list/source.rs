//! The head and the tail: words that give out references to the node that they point to, and count
//! them.

use core::ptr::{self, NonNull};

use crate::primitive::sync::atomic::Ordering;
use crate::primitive::{AtomicWideTaggedPtr, WideTaggedPtr, constructor};

use super::node::Node;

/// Where a word points.
///
/// Two nodes are fields of the queue and move with it, so they have names instead of addresses.
pub(super) enum Place<T> {
    /// The node that a new queue begins with.
    First,
    /// The node that ends a queue that was closed while it had no place for an item.
    Last,
    /// A node in memory of its own.
    Allocated(NonNull<Node<T>>),
}

impl<T> Clone for Place<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> PartialEq for Place<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::First, Self::First) | (Self::Last, Self::Last) => true,
            (Self::Allocated(one), Self::Allocated(other)) => one == other,
            _ => false,
        }
    }
}

/// Something that has an address of its own, aligned as a node is.
#[repr(align(16))]
struct Mark(#[expect(dead_code, reason = "gives the mark a size")] u8);

static LAST: Mark = Mark(0);

impl<T> Place<T> {
    /// The address that names the last node; no node is queued there. Nothing is read or written
    /// through it.
    pub(super) fn last_mark() -> NonNull<Node<T>> {
        const { assert!(align_of::<Mark>() >= align_of::<Node<T>>()) };
        NonNull::from(&LAST).cast()
    }

    #[inline]
    pub(super) fn of_link(node: NonNull<Node<T>>) -> Self {
        if node == Self::last_mark() {
            Self::Last
        } else {
            Self::Allocated(node)
        }
    }

    #[inline]
    fn of_word(word: WideTaggedPtr<Node<T>>) -> Self {
        match NonNull::new(word.ptr()) {
            None => Self::First,
            Some(node) => Self::of_link(node),
        }
    }

    /// Returns the word that names the place and has given out `count` references to it.
    #[inline]
    fn to_word(self, count: u64) -> WideTaggedPtr<Node<T>> {
        let node = match self {
            Self::First => ptr::null_mut(),
            Self::Last => Self::last_mark().as_ptr(),
            Self::Allocated(node) => node.as_ptr(),
        };
        WideTaggedPtr::new(node, count)
    }
}

/// The head or the tail: the place of a node, and how many references to it this word has given
/// out.
pub(super) struct Source<T>(AtomicWideTaggedPtr<Node<T>>);

impl<T> Source<T> {
    constructor! {
        /// Points to the first node.
        pub(super) fn new() -> Self {
            Self(AtomicWideTaggedPtr::new(WideTaggedPtr::null()))
        }
    }

    /// Gives out a reference to the node that this word points to, which must be released by
    /// `Node::release`.
    ///
    /// Returns how many the word has now given out to that node.
    #[inline]
    pub(super) fn refer(&self) -> (Place<T>, u64) {
        // Acquire: pairs with the Release in pass; the node is visible. Additions of other threads
        // since then continue the release sequence of that store. [LQ8]
        let word = self.0.fetch_add_count(1, Ordering::Acquire);
        (Place::of_word(word), word.count().wrapping_add(1))
    }

    /// Moves this word, the head or the tail, from the node at `from` to the next node, at `to`.
    /// Does nothing if the word has left `from` already.
    ///
    /// If this call moved the word, returns how many references to the old node the word has given
    /// out. `count` is the caller's guess of that number. The caller has a reference to the old
    /// node, so meanwhile that node is not freed and its address is not reused.
    ///
    /// Liveness: apart from spurious failures and a wrong first guess, the compare-exchange fails
    /// for two reasons. Either another thread has moved the word, which ends the loop, or another
    /// thread has acquired a reference. Before a thread acquires a second reference to the same
    /// node, it completes an operation, such as `is_empty`. So while the loop repeats, other
    /// threads complete operations: the call is lock-free.
    #[inline]
    pub(super) fn pass(&self, from: Place<T>, count: u64, to: Place<T>) -> Option<u64> {
        let mut seen = from.to_word(count);
        loop {
            // Release: pairs with the Acquire in refer; the next node, which the caller acquired or
            // made, is visible to threads that get a reference from this word. [LQ9]
            let outcome = self.0.compare_exchange_weak(
                seen,
                to.to_word(0),
                Ordering::Release,
                Ordering::Relaxed,
            );
            match outcome {
                Ok(_) => return Some(seen.count()),
                Err(current) if Place::of_word(current) != from => return None,
                Err(current) => seen = current,
            }
        }
    }

    /// Returns the place, and how many references to it were given out; only for a thread with
    /// exclusive access to the queue.
    pub(super) fn at_rest(&self) -> (Place<T>, u64) {
        // Relaxed: the caller has the queue to itself. [LQ10]
        let word = self.0.load(Ordering::Relaxed);
        (Place::of_word(word), word.count())
    }
}

#[cfg(all(test, not(rast_loom)))]
impl<T> Source<T> {
    /// Adds `count` to the references that this word has given out.
    pub(super) fn preset_given_out(&self, count: u64) {
        self.0.fetch_add_count(count, Ordering::Relaxed);
    }
}
