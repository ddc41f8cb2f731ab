//! The drop of a queue: it follows links and ignores counts, since no other thread has access.

use crate::alloc::Allocator;
use crate::primitive::panics::drop_each;

use super::ListQueue;
use super::block::Block;
use super::node::{Data, Item};
use super::source::Place;

impl<T, A: Allocator> Drop for ListQueue<T, A> {
    fn drop(&mut self) {
        self.check_invariants();
        let mut rest = Rest {
            place: Some(self.head.at_rest().0),
            queue: self,
        };
        drop_each(|| rest.next());
    }
}

/// Walks the links and frees the nodes.
struct Rest<'a, T, A: Allocator> {
    queue: &'a ListQueue<T, A>,
    place: Option<Place<T>>,
}

impl<'a, T, A: Allocator> Rest<'a, T, A> {
    /// Frees the node at hand, and returns the item that was in it, if any. Returns `None` if
    /// there was no node.
    fn next(&mut self) -> Option<Option<Block<'a, Item<T>, A>>> {
        let place = self.place?;
        let alloc = &self.queue.nodes.alloc;
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
            let node = unsafe { Block::from_leaked(node, alloc) };
            node.ended();
        }
        Some(match data {
            // SAFETY: (1) a push leaked the item, from this queue's allocator; (2) it is queued
            // from the head on, so no pop has taken it, and `place` has moved on.
            Data::Item(item) => Some(unsafe { Block::from_leaked(item, alloc) }),
            Data::Nothing | Data::Closed => None,
        })
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
