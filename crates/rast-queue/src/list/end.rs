//! The drop of a queue: it follows links and ignores counts, since no other thread has access.

use crate::alloc::Allocator;

use super::ListQueue;
use super::block::Block;
use super::node::Data;
use super::source::Place;

impl<T, A: Allocator> Drop for ListQueue<T, A> {
    fn drop(&mut self) {
        self.check_invariants();
        let mut rest = Rest {
            place: Some(self.head.at_rest().0),
            queue: self,
        };
        // If the drop of an item panics, the drop of `rest` drops the others while the panic
        // unwinds.
        while rest.drop_next() {}
    }
}

/// Walks the links, drops the queued items and frees the nodes, even while a panic unwinds.
struct Rest<'a, T, A: Allocator> {
    queue: &'a ListQueue<T, A>,
    place: Option<Place<T>>,
}

impl<T, A: Allocator> Rest<'_, T, A> {
    /// Frees the node at hand and drops its item; returns false if there was no node.
    fn drop_next(&mut self) -> bool {
        let Some(place) = self.place else {
            return false;
        };
        let node = self.queue.nodes.resolve(place);
        let (data, next) = {
            // SAFETY: the queue is being dropped, so nothing else uses it; its list consists of
            // live nodes.
            let node = unsafe { node.as_ref() };
            node.used();
            (node.data(), node.next())
        };
        self.place = next.map(Place::of_link);
        if let Place::Allocated(node) = place {
            // SAFETY: (1) the thread that linked the node leaked it, from this queue's allocator;
            // (2) nothing else uses the queue, and `place` has moved on.
            let node = unsafe { Block::from_leaked(node, &self.queue.nodes.alloc) };
            node.ended();
        }
        if let Data::Item(item) = data {
            // SAFETY: (1) a push leaked the item, from this queue's allocator; (2) it is queued
            // from the head on, so no pop has taken it, and `place` has moved on.
            drop(unsafe { Block::from_leaked(item, &self.queue.nodes.alloc) });
        }
        true
    }
}

impl<T, A: Allocator> Drop for Rest<'_, T, A> {
    fn drop(&mut self) {
        while self.drop_next() {}
    }
}

impl<T, A: Allocator> ListQueue<T, A> {
    /// Asserts, in debug builds, that every reference was released and that the tail is at the end
    /// of the list.
    pub(super) fn check_invariants(&mut self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let (head, from_head) = self.head.at_rest();
        let (tail, from_tail) = self.tail.at_rest();
        let mut place = head;
        loop {
            let node = self.nodes.resolve(place);
            // SAFETY: the queue is borrowed exclusively, and its list consists of live nodes.
            let node = unsafe { node.as_ref() };
            let standing = if matches!(place, Place::Allocated(_)) {
                0
            } else {
                1
            };
            let given = if place == head { from_head } else { 0 };
            if place == tail {
                assert!(
                    node.is_at_rest(given.wrapping_add(from_tail), 2 + standing),
                    "list: rule 3 at the tail"
                );
                assert!(node.next().is_none(), "list: the tail lags at rest");
                return;
            }
            // The tail has left this node, and the head has not.
            assert!(node.is_at_rest(given, 1 + standing), "list: rule 3");
            let Some(next) = node.next() else {
                panic!("list: the tail is not in the list");
            };
            place = Place::of_link(next);
        }
    }
}
