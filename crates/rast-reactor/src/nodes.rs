//! The nodes of a wait-for graph, one per scope, in one table.
//!
//! ```text
//!   nodes │ 0: stamp 7, waits for W │ 1: free, next 3 │ 2: stamp 9, waits for nothing │ 3: free │
//!                                          ▲ free
//! ```
//!
//! A node is named by its index in the table and a stamp. A stamp is never used twice in a table,
//! so the name of a removed node names no later node. Therefore a lock can store the name of its
//! holder without a reference count. After the scope is dropped, a lookup of its name returns
//! "waits for nothing", which is then true.

use std_alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// Number of free places for which an empty table keeps memory.
const SMALL: usize = 64;

/// The name of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeId {
    place: u32,
    stamp: u64,
}

impl PartialEq for NodeId {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }
}

impl Eq for NodeId {}

impl NodeId {
    /// The name of no node.
    pub(crate) const NONE: Self = Self {
        place: NONE,
        stamp: 0,
    };
}

struct Node<W> {
    /// 0 if the place is free.
    stamp: u64,
    waits_for: Option<W>,
    /// Of a free place, the next free one.
    next: u32,
}

/// The nodes, each with what it waits for.
pub(crate) struct Nodes<W> {
    nodes: Vec<Node<W>>,
    free: u32,
    used: usize,
    stamp: u64,
}

impl<W> Nodes<W> {
    pub(crate) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            free: NONE,
            used: 0,
            stamp: 0,
        }
    }

    /// Adds a node that waits for nothing.
    #[inline]
    pub(crate) fn add(&mut self) -> NodeId {
        self.stamp += 1;
        self.used += 1;
        let (place, stamp) = (self.free, self.stamp);
        match self.nodes.get_mut(place as usize) {
            Some(node) => {
                self.free = node.next;
                node.stamp = stamp;
                NodeId { place, stamp }
            }
            None => self.grow(stamp),
        }
    }

    #[cold]
    fn grow(&mut self, stamp: u64) -> NodeId {
        let place = self.nodes.len() as u32;
        assert!(place < NONE, "nodes: there are more than 2^32 scopes");
        self.nodes.push(Node {
            stamp,
            waits_for: None,
            next: NONE,
        });
        NodeId { place, stamp }
    }

    /// Removes a node; returns what it waits for.
    #[inline]
    pub(crate) fn remove(&mut self, id: NodeId) -> Option<W> {
        let free = self.free;
        let node = self.node_mut(id)?;
        node.stamp = 0;
        node.next = free;
        let waits_for = node.waits_for.take();
        self.free = id.place;
        self.used -= 1;
        if self.used == 0 && self.nodes.len() > SMALL {
            self.nodes = Vec::new();
            self.free = NONE;
        }
        waits_for
    }

    /// What a node waits for; nothing if it was removed.
    pub(crate) fn waits_for(&self, id: NodeId) -> Option<&W> {
        let node = self.nodes.get(id.place as usize)?;
        node.waits_for.as_ref().filter(|_| node.stamp == id.stamp)
    }

    /// What a node waits for, to change it; `None` if it was removed.
    pub(crate) fn waits_for_mut(&mut self, id: NodeId) -> Option<&mut Option<W>> {
        self.node_mut(id).map(|node| &mut node.waits_for)
    }

    #[inline]
    fn node_mut(&mut self, id: NodeId) -> Option<&mut Node<W>> {
        let node = self.nodes.get_mut(id.place as usize)?;
        (node.stamp == id.stamp).then_some(node)
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_name_outlives_its_node_and_names_no_other() {
        let mut nodes = Nodes::new();
        let first = nodes.add();
        *nodes.waits_for_mut(first).unwrap() = Some('a');
        assert_eq!(nodes.waits_for(first), Some(&'a'));
        assert_eq!(nodes.remove(first), Some('a'));
        let second = nodes.add();
        assert_eq!(second.place, first.place, "the place is used again");
        assert_ne!(second, first);
        *nodes.waits_for_mut(second).unwrap() = Some('b');
        assert_eq!(nodes.waits_for(first), None);
        assert!(nodes.waits_for_mut(first).is_none());
        assert_eq!(nodes.remove(first), None, "it was removed");
        assert_eq!(nodes.waits_for(second), Some(&'b'));
        assert_eq!(nodes.waits_for(NodeId::NONE), None);
    }

    #[test]
    fn an_empty_table_frees_its_memory() {
        let mut nodes = Nodes::<()>::new();
        let ids: Vec<_> = (0..=SMALL).map(|_| nodes.add()).collect();
        for &id in &ids {
            nodes.remove(id);
        }
        assert_eq!(nodes.nodes.capacity(), 0);
        let id = nodes.add();
        assert!(!ids.contains(&id) && nodes.waits_for_mut(id).is_some());
    }
}
