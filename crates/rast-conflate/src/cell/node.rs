//! A cell for any value type and any number of producers. A producer swaps a node of its own for
//! the node of the cell.
//!
//! ```text
//!   cell: pointer to a node | FULL        spare of a producer or consumer: an empty node
//!
//!   put:   write the value to the spare, swap(spare | FULL); what comes back is the new spare
//!   take:  swap(empty spare); if FULL comes back, its node holds the value;
//!          the node is the new spare
//! ```
//!
//! Every node has one owner at any time, the cell or the thread whose spare it is, and only a swap
//! changes the owner. So no node is freed while it is in use, there is no ABA problem, and no pool
//! of nodes is needed. A cell allocates its node when it gets its first key. Otherwise puts and
//! takes allocate nothing.

use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use std::boxed::Box;

use super::{Cell, Put, Taken};
use crate::primitive::cell::UnsafeCell;
use crate::primitive::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Relaxed},
};

/// The node holds a value.
const FULL: usize = 1;

/// Memory for one value; aligned so that the lowest bit of its address is free.
#[repr(align(8))]
pub(super) struct Node<V>(UnsafeCell<MaybeUninit<V>>);

/// An empty node that a producer or a consumer owns.
pub struct Spare<V>(NonNull<Node<V>>);

/// A cell that owns a node; null until it is opened.
pub struct NodeCell<V>(AtomicPtr<Node<V>>);

// SAFETY: a spare is an empty node with one owner; swaps order the values of `V` that go through
// it.
unsafe impl<V: Send> Send for Spare<V> {}
// SAFETY: the cell gives each value to one thread, so values are sent and never shared.
unsafe impl<V: Send> Sync for NodeCell<V> {}
// SAFETY: as above.
unsafe impl<V: Send> Send for NodeCell<V> {}

impl<V> Node<V> {
    fn allocate() -> NonNull<Self> {
        let node = Self(UnsafeCell::new(MaybeUninit::uninit()));
        NonNull::from(Box::leak(Box::new(node)))
    }

    /// Writes a value to an empty node.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the node.
    unsafe fn write(node: NonNull<Self>, value: V) {
        // SAFETY: by 1 the node is alive and no other thread has it.
        let node = unsafe { node.as_ref() };
        node.0.with_mut(|place| {
            // SAFETY: as above; the memory is valid for writes.
            unsafe { (*place).write(value) };
        });
    }

    /// Moves the value out of a full node, which is then empty.
    ///
    /// # Safety
    ///
    /// 1. The caller owns the node.
    /// 2. The node holds a value.
    unsafe fn read(node: NonNull<Self>) -> V {
        // SAFETY: by 1 the node is alive and no other thread has it.
        let node = unsafe { node.as_ref() };
        node.0.with_mut(|place| {
            // SAFETY: by 2 it is initialised, and it counts as empty from here on.
            unsafe { place.cast::<V>().read() }
        })
    }
}

impl<V> Default for Spare<V> {
    fn default() -> Self {
        Self(Node::allocate())
    }
}

impl<V> Drop for Spare<V> {
    fn drop(&mut self) {
        // SAFETY: the spare owns its node, which came from a box.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

fn full<V>(node: NonNull<Node<V>>) -> *mut Node<V> {
    node.as_ptr().map_addr(|address| address | FULL)
}

/// Splits the word of a cell into its node and the FULL bit.
#[inline(always)]
fn split<V>(word: *mut Node<V>) -> (NonNull<Node<V>>, bool) {
    let node = NonNull::new(word.map_addr(|address| address & !FULL));
    let node = node.expect("an open cell owns a node");
    (node, word.addr() & FULL != 0)
}

impl<V: Send> Cell<V> for NodeCell<V> {
    type Spare = Spare<V>;

    fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn open(&self) {
        // Relaxed: only the thread that claimed the cell accesses it now. [CN1]
        if self.0.load(Relaxed).is_null() {
            // Relaxed: published with the key, through which a put finds the cell. [CN2]
            self.0.store(Node::allocate().as_ptr(), Relaxed);
        }
    }

    #[inline(always)]
    fn put(&self, spare: &mut Spare<V>, value: V) -> Put<V> {
        // SAFETY: 1: the spare owns its node.
        unsafe { Node::write(spare.0, value) };
        // AcqRel: publishes the value to the take or put that gets the node. The accesses of the
        // thread that swapped the returned node in happen-before its reuse here. [CN3]
        let old = self.0.swap(full(spare.0), AcqRel);
        let (node, was_full) = split(old);
        spare.0 = node;
        let replaced = was_full.then(|| {
            // SAFETY: 1: the swap made this thread the owner. 2: the bit says that it has a value.
            unsafe { Node::read(node) }
        });
        Put {
            conflated: u64::from(was_full),
            replaced,
            panic: None,
        }
    }

    #[inline(always)]
    fn take(&self, spare: &mut Spare<V>) -> Option<Taken<V>> {
        if !self.is_full() {
            return None;
        }
        // AcqRel: acquires the value that a put published, and releases the empty spare. [CN4]
        let old = self.0.swap(spare.0.as_ptr(), AcqRel);
        let (node, was_full) = split(old);
        spare.0 = node;
        was_full.then(|| {
            // SAFETY: 1: the swap made this thread the owner. 2: the bit says that it has a value.
            Taken::new(unsafe { Node::read(node) })
        })
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        // Relaxed: the swap that follows decides. A consumer checks after it has cleared the mark
        // and fenced, so it sees the put of a producer that found the mark set. [CN5]
        self.0.load(Relaxed).addr() & FULL != 0
    }
}

impl<V> Drop for NodeCell<V> {
    fn drop(&mut self) {
        // Relaxed: the last owner drops the table; its reference count orders all earlier accesses.
        // [CN6]
        let word = self.0.load(Relaxed);
        if word.is_null() {
            return;
        }
        let (node, is_full) = split(word);
        let owner = Spare(node);
        if is_full {
            // SAFETY: 1: the cell owns its node, and is dropped. 2: the bit says that it has a
            // value.
            drop(unsafe { Node::read(owner.0) });
        }
    }
}
