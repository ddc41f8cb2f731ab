//! The nodes of a queue by their places.

use core::ptr::NonNull;

use super::node::Node;
use super::source::Place;

/// The two nodes that are part of a queue, and the allocator of all others.
pub(super) struct Nodes<T, A> {
    /// The first node of a new queue; in the list once, and never freed.
    pub(super) first: Node<T>,
    /// The last node of a queue that is closed between the two steps of a push; in the list at most
    /// once, and never freed.
    pub(super) last: Node<T>,
    pub(super) alloc: A,
}

impl<T, A> Nodes<T, A> {
    #[inline]
    pub(super) fn resolve(&self, place: Place<T>) -> NonNull<Node<T>> {
        match place {
            Place::First => NonNull::from(&self.first),
            Place::Last => NonNull::from(&self.last),
            Place::Allocated(node) => node,
        }
    }
}
