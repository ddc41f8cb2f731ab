//! A reference to a node, from its acquisition to its release: the access protocol of the
//! multi-counters.

use core::ops::Deref;

use crate::alloc::Allocator;

use super::block::Block;
use super::node::Node;
use super::nodes::Nodes;
use super::source::{Place, Source};

/// A reference to a node, counted in the word that gave it out: while it exists the node is not
/// freed.
pub(super) struct Reference<'a, T, A: Allocator> {
    nodes: &'a Nodes<T, A>,
    pub(super) place: Place<T>,
    /// Number of references that the word had given out, with this one.
    pub(super) count: u64,
}

impl<'a, T, A: Allocator> Reference<'a, T, A> {
    /// Acquires a reference to the node that `source` points to: the head or the tail of the queue
    /// of `nodes`.
    #[inline]
    pub(super) fn take(nodes: &'a Nodes<T, A>, source: &Source<T>) -> Self {
        let (place, count) = source.refer();
        let reference = Self {
            nodes,
            place,
            count,
        };
        reference.used();
        reference
    }
}

impl<T, A: Allocator> Deref for Reference<'_, T, A> {
    type Target = Node<T>;

    #[inline]
    fn deref(&self) -> &Node<T> {
        let node = self.nodes.resolve(self.place);
        // SAFETY: a node was initialised before it was linked, and by rule 4 it is not freed before
        // the drop releases this reference. Nodes change only through atomics.
        unsafe { node.as_ref() }
    }
}

impl<T, A: Allocator> Drop for Reference<'_, T, A> {
    #[inline]
    fn drop(&mut self) {
        let node = self.nodes.resolve(self.place);
        // SAFETY: this is the reference, which ends here.
        if !unsafe { Node::release(node.as_ptr()) } {
            return;
        }
        let Place::Allocated(node) = self.place else {
            unreachable!("list: rule 4: a node of the queue itself has ended");
        };
        // SAFETY: (1) the thread that linked the node leaked it, from this queue's allocator; (2)
        // the release just said that no thread has a reference or can get one.
        let node = unsafe { Block::from_leaked(node, &self.nodes.alloc) };
        node.ended();
    }
}
