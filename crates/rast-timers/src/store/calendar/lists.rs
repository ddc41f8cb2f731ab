//! Many doubly linked lists over one slab of small nodes.
//!
//! ```text
//!  nodes, 16 bytes each
//!  ┌──────────────┬──────────────┬─────┬──────────────┬──────────────┬─────
//!  │ head of 0    │ head of 1    │ ... │ entry        │ entry        │ ...
//!  │ prev next    │ prev next    │     │ prev next at │ prev next at │
//!  └──────────────┴──────────────┴─────┴──────────────┴──────────────┴─────
//!   0              1                    HEADS          HEADS + 1
//! ```
//!
//! 1. The list of a head is a ring through it: `next` goes from the first
//!    entry to the last, `prev` back; an empty list's head names itself.
//! 2. So an entry leaves its list by its two neighbours alone, and need not
//!    know which list that is; if both are the same head, that list is now
//!    empty.
//! 3. An entry outside of all lists may use `prev` and `next` for something
//!    else.
//!
//! The payload lies elsewhere: what moves entries from list to list walks over
//! 16 bytes each, four to a cache line.

use std_alloc::vec::Vec;

/// A node's place in the slab.
pub(super) type Index = u32;

/// One node: an entry, or the head of a list.
#[derive(Clone, Copy)]
pub(super) struct Node {
    pub(super) prev: Index,
    pub(super) next: Index,
    /// The deadline of an entry.
    pub(super) at: u64,
}

const _: () = assert!(size_of::<Node>() == 16, "four nodes to a cache line");

/// The slab: `HEADS` heads, then the entries.
pub(super) struct Lists<const HEADS: u32> {
    nodes: Vec<Node>,
}

impl<const HEADS: u32> Lists<HEADS> {
    /// Makes a slab without memory; [`init`](Self::init) comes before use.
    pub(super) const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Makes room for `entries` more and puts the heads in place.
    pub(super) fn reserve(&mut self, entries: usize) {
        if self.nodes.is_empty() {
            self.nodes.reserve_exact(HEADS as usize + entries);
            self.nodes.extend((0..HEADS).map(|head| Node {
                prev: head,
                next: head,
                at: 0,
            }));
        } else {
            self.nodes.reserve(entries);
        }
    }

    /// Returns how many entries fit without new memory.
    pub(super) fn capacity(&self) -> usize {
        self.nodes.capacity().saturating_sub(HEADS as usize)
    }

    /// Adds an entry outside of all lists and returns its index.
    pub(super) fn grow(&mut self) -> Index {
        let index = self.nodes.len() as Index;
        self.nodes.push(Node {
            prev: index,
            next: index,
            at: 0,
        });
        index
    }

    #[inline(always)]
    pub(super) fn node(&self, index: Index) -> &Node {
        &self.nodes[index as usize]
    }

    #[inline(always)]
    pub(super) fn node_mut(&mut self, index: Index) -> &mut Node {
        &mut self.nodes[index as usize]
    }

    /// The first entry of a list.
    #[inline(always)]
    pub(super) fn first(&self, head: Index) -> Option<Index> {
        let first = self.nodes.get(head as usize)?.next;
        (first != head).then_some(first)
    }

    /// Appends an entry, which is in no list, with its deadline.
    #[inline(always)]
    pub(super) fn push_back(&mut self, head: Index, entry: Index, at: u64) {
        let head_node = &mut self.nodes[head as usize];
        let last = core::mem::replace(&mut head_node.prev, entry);
        self.nodes[last as usize].next = entry;
        self.nodes[entry as usize] = Node {
            prev: last,
            next: head,
            at,
        };
    }

    /// Takes an entry out of its list; returns the list's head if the list is
    /// empty now.
    #[inline(always)]
    pub(super) fn unlink(&mut self, entry: Index) -> Option<Index> {
        let Node { prev, next, .. } = self.nodes[entry as usize];
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        // Rule 2: only a head stands on both sides of a list's last entry.
        (prev == next).then_some(prev)
    }

    /// Moves what stands from `first` to `last` at the front of one list to the
    /// end of another.
    #[inline(always)]
    pub(super) fn splice(&mut self, from: Index, first: Index, last: Index, to: Index) {
        let rest = self.node(last).next;
        self.node_mut(from).next = rest;
        self.node_mut(rest).prev = from;
        let tail = core::mem::replace(&mut self.node_mut(to).prev, last);
        self.node_mut(tail).next = first;
        self.node_mut(first).prev = tail;
        self.node_mut(last).next = to;
    }

    /// Walks a list from its first entry.
    pub(super) fn iter(&self, head: Index) -> impl Iterator<Item = (Index, u64)> {
        let mut next = self.first(head);
        core::iter::from_fn(move || {
            let entry = next?;
            let node = self.node(entry);
            next = (node.next != head).then_some(node.next);
            Some((entry, node.at))
        })
    }

    /// Checks the ring of a list and returns its length.
    pub(super) fn check(&self, head: Index) -> usize {
        let (mut last, mut count) = (head, 0);
        for (entry, _) in self.iter(head) {
            assert!(entry >= HEADS, "rule 1: between heads stand entries");
            assert_eq!(self.node(entry).prev, last, "rule 1: prev undoes next");
            (last, count) = (entry, count + 1);
        }
        assert_eq!(self.node(head).prev, last, "rule 1: the ring is closed");
        count
    }
}
