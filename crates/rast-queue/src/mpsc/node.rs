//! What a user's type needs to be queued without an allocation: a link inside, and a pointer that
//! owns it.

use core::pin::Pin;
use core::ptr::NonNull;
use std_alloc::boxed::Box;

use super::stack::RawLink;
use crate::primitive::constructor;
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicBool, Ordering};

/// The link of a node in an [`intrusive::Queue`](super::intrusive::Queue): a field of the user's
/// type.
///
/// Its size is two words. It does not record which queue the node is in. A node that is not queued
/// may be moved; a queued node is owned by the queue.
///
/// ```
/// use rast_queue::mpsc::Link;
///
/// struct Task {
///     link: Link,
///     name: &'static str,
/// }
/// rast_queue::impl_node!(Task { link });
///
/// let task = Task { link: Link::new(), name: "first" };
/// # assert_eq!(task.name, "first");
/// # let _ = task.link;
/// ```
#[repr(C)]
pub struct Link {
    raw: RawLink,
    /// Whether the node is queued; used only for pointers that can be cloned.
    queued: AtomicBool,
}

// SAFETY: shared access to a link reaches only `queued`, which is atomic. Only the queue accesses
// the rest, and it owns the node meanwhile.
unsafe impl Sync for Link {}
// SAFETY: only the thread that owns the queued node follows the pointer inside; the pointer of a
// link that is not queued is never followed.
unsafe impl Send for Link {}

impl Link {
    constructor! {
        /// Makes a link that is in no queue.
        #[must_use]
        pub fn new() -> Self {
            Self {
                raw: RawLink::new(),
                queued: AtomicBool::new(false),
            }
        }
    }

    /// Marks a node, which other pointers may reach, as queued. Returns `false` if it is marked
    /// already.
    #[inline]
    pub(super) fn mark(&self) -> bool {
        // AcqRel: pairs with the AcqRel in unmark; the consumer's last use of the link happens
        // before our first. If the node is marked, this swap still writes, so that what we did
        // before is visible to the thread that pops the node. [MQ7]
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// Clears the mark, so that the node can be queued again.
    #[inline]
    pub(super) fn unmark(&self) {
        // AcqRel: pairs with the AcqRel in mark; our use of the link is over, and what pushes that
        // failed did before is visible. [MQ8]
        self.queued.swap(false, Ordering::AcqRel);
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Link").finish_non_exhaustive()
    }
}

/// A type with a [`Link`] in it; implement it with [`impl_node!`](crate::impl_node).
///
/// # Safety
///
/// 1. [`link`](Self::link) always returns the address of the same field of type [`Link`] inside the
///    node, derived from its argument.
/// 2. [`node`](Self::node) is its inverse.
/// 3. Neither function reads or writes the node. While another pointer can reach the node, nothing
///    except the queue writes or swaps that link.
pub unsafe trait Node {
    /// The address of the link of the node at `node`.
    ///
    /// # Safety
    ///
    /// `node` points to a live node.
    unsafe fn link(node: NonNull<Self>) -> NonNull<Link>;

    /// The address of the node whose link is at `link`.
    ///
    /// # Safety
    ///
    /// `link` came from [`link`](Self::link), with its provenance.
    unsafe fn node(link: NonNull<Link>) -> NonNull<Self>;
}

/// Implements [`mpsc::Node`](crate::mpsc::Node) for a struct by the name of its field of type
/// [`mpsc::Link`](crate::mpsc::Link).
///
/// ```
/// struct Job<T> {
///     link: rast_queue::mpsc::Link,
///     payload: T,
/// }
/// rast_queue::impl_node!(<T> Job<T> { link });
/// # let _ = Job { link: Default::default(), payload: 1 }.payload;
/// ```
///
/// The field must have exactly that type:
///
/// ```compile_fail
/// struct Job {
///     link: Box<rast_queue::mpsc::Link>,
/// }
/// rast_queue::impl_node!(Job { link });
/// ```
#[macro_export]
macro_rules! impl_node {
    (<$($param:tt),* $(,)?> $node:ident<$($arg:tt),*> { $field:tt }) => {
        $crate::impl_node!(@impl [$($param),*] [$node<$($arg),*>] $field);
    };
    ($node:ident { $field:tt }) => {
        $crate::impl_node!(@impl [] [$node] $field);
    };
    (@impl [$($param:tt),*] [$node:ty] $field:tt) => {
        // SAFETY: both functions move between the struct and one field by its fixed offset; the raw
        // pointer has the field's type, without coercion, so the field is a link; nothing is read
        // or written.
        unsafe impl<$($param),*> $crate::mpsc::Node for $node {
            #[inline(always)]
            unsafe fn link(
                node: ::core::ptr::NonNull<Self>,
            ) -> ::core::ptr::NonNull<$crate::mpsc::Link> {
                const {
                    assert!(
                        ::core::mem::offset_of!(Self, $field)
                            % ::core::mem::align_of::<$crate::mpsc::Link>()
                            == 0
                            && ::core::mem::align_of::<Self>()
                                >= ::core::mem::align_of::<$crate::mpsc::Link>(),
                        "impl_node: the link of a packed struct is not aligned"
                    );
                }
                // SAFETY: the node is alive, so its field is inside it.
                let link: *mut $crate::mpsc::Link = unsafe { &raw mut (*node.as_ptr()).$field };
                // SAFETY: a field of a live node is not at null.
                unsafe { ::core::ptr::NonNull::new_unchecked(link) }
            }

            #[inline(always)]
            unsafe fn node(
                link: ::core::ptr::NonNull<$crate::mpsc::Link>,
            ) -> ::core::ptr::NonNull<Self> {
                let offset = ::core::mem::offset_of!(Self, $field);
                // SAFETY: `link` lies so far inside a node, with the provenance of all of it.
                unsafe { link.byte_sub(offset).cast() }
            }
        }
    };
}

/// A pointer that owns a node and can be converted to a raw address.
///
/// Implemented for `Box` and `Arc`, for both of them pinned, and for `&'static` references.
///
/// # Safety
///
/// 1. Between [`into_raw`](Self::into_raw) and [`from_raw`](Self::from_raw) the node is alive and
///    does not move, and no thread has exclusive access to it.
/// 2. The address from `into_raw` is valid for the whole node, and the link may be written through
///    it.
/// 3. If a second pointer to the node can exist meanwhile, [`IS_SHARED`](Self::IS_SHARED) is true.
pub unsafe trait Pointer: Sized {
    /// What it points to.
    type Node: Node;

    /// Whether several pointers to one node can exist; a push then checks that the node is in no
    /// queue.
    const IS_SHARED: bool;

    /// Converts the pointer to an address, without a drop.
    fn into_raw(self) -> NonNull<Self::Node>;

    /// Converts the address back to a pointer.
    ///
    /// # Safety
    ///
    /// `node` came from [`into_raw`](Self::into_raw) of this type, and this is the first `from_raw`
    /// after it.
    unsafe fn from_raw(node: NonNull<Self::Node>) -> Self;
}

/// A [`Pointer`] type that excludes a second pointer to the same node. So the node of such a
/// pointer is in no queue.
///
/// # Safety
///
/// [`Pointer::IS_SHARED`] is false.
pub unsafe trait UniquePointer: Pointer {}

// SAFETY: (1, 2) a box that is given up is its address, with the provenance of the node, until it
// is taken back; (3) it is the only pointer.
unsafe impl<N: Node> Pointer for Box<N> {
    type Node = N;
    const IS_SHARED: bool = false;

    #[inline]
    fn into_raw(self) -> NonNull<N> {
        // SAFETY: a box is not null.
        unsafe { NonNull::new_unchecked(Box::into_raw(self)) }
    }

    #[inline]
    unsafe fn from_raw(node: NonNull<N>) -> Self {
        // SAFETY: by the caller it came from `Box::into_raw`, once.
        unsafe { Box::from_raw(node.as_ptr()) }
    }
}

// SAFETY: not shared.
unsafe impl<N: Node> UniquePointer for Box<N> {}

// SAFETY: as for `Box`; the node is neither moved nor handed out unpinned.
unsafe impl<N: Node> Pointer for Pin<Box<N>> {
    type Node = N;
    const IS_SHARED: bool = false;

    #[inline]
    fn into_raw(self) -> NonNull<N> {
        // SAFETY: the box only becomes an address, which becomes a pinned box again; nothing moves
        // the node.
        let owner = unsafe { Pin::into_inner_unchecked(self) };
        owner.into_raw()
    }

    #[inline]
    unsafe fn from_raw(node: NonNull<N>) -> Self {
        // SAFETY: by the caller it came from `into_raw` above, once.
        let owner: Box<N> = unsafe { Pointer::from_raw(node) };
        // SAFETY: it was pinned before, and has not moved.
        unsafe { Pin::new_unchecked(owner) }
    }
}

// SAFETY: not shared.
unsafe impl<N: Node> UniquePointer for Pin<Box<N>> {}

// SAFETY: (1) the reference count of the raw `Arc` keeps the node alive, and while it is counted
// `Arc` gives no thread exclusive access; (2) the address is that of the node, and the link is
// written through its own cell; (3) `IS_SHARED` is true.
unsafe impl<N: Node> Pointer for Arc<N> {
    type Node = N;
    const IS_SHARED: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<N> {
        // SAFETY: an `Arc` is not null.
        unsafe { NonNull::new_unchecked(Arc::into_raw(self).cast_mut()) }
    }

    #[inline]
    unsafe fn from_raw(node: NonNull<N>) -> Self {
        // SAFETY: by the caller it came from `Arc::into_raw`, once.
        unsafe { Arc::from_raw(node.as_ptr()) }
    }
}

// SAFETY: as for `Arc`; the node is neither moved nor handed out unpinned.
unsafe impl<N: Node> Pointer for Pin<Arc<N>> {
    type Node = N;
    const IS_SHARED: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<N> {
        // SAFETY: the `Arc` only becomes an address, which becomes a pinned one again; nothing
        // moves the node.
        let owner = unsafe { Pin::into_inner_unchecked(self) };
        owner.into_raw()
    }

    #[inline]
    unsafe fn from_raw(node: NonNull<N>) -> Self {
        // SAFETY: by the caller it came from `into_raw` above, once.
        let owner: Arc<N> = unsafe { Pointer::from_raw(node) };
        // SAFETY: it was pinned before, and has not moved.
        unsafe { Pin::new_unchecked(owner) }
    }
}

// SAFETY: (1) a static reference is valid for ever, and excludes exclusive access; (2) the link is
// written through its own cell; (3) `IS_SHARED` is true.
unsafe impl<N: Node> Pointer for &'static N {
    type Node = N;
    const IS_SHARED: bool = true;

    #[inline]
    fn into_raw(self) -> NonNull<N> {
        NonNull::from(self)
    }

    #[inline]
    unsafe fn from_raw(node: NonNull<N>) -> Self {
        // SAFETY: by the caller it came from a static reference.
        unsafe { node.as_ref() }
    }
}
