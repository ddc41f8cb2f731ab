//! The header of a task, and `Owned`, the only pointer that may run or move the task. `cell.rs`
//! defines the cell with the body.
//!
//! ```text
//!   Cell<B>  ┌────────┬──────────────────────────────────────────┬───────┬──────┐
//!            │ Header │ link │ status │ vtable │ home │ due │ .. │ joint │ body │
//!            └────────┴──────────────────────────────────────────┴───────┴──────┘
//! ```
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | `link` | the front queue that contains the task | the same |
//! | `status` | any thread with a reference | the same |
//! | `home`: the scheduler in which the task waits | the worker that has the role, before the task waits | the thread that claims the waiting task |
//! | `due`, `class`, `expired` | the holder of the `Owned` | the same |
//! | `slot`, `generation`: the entry in the wait store | the worker that has the role of `home` | the same |
//! | `joint`: state shared with the joiner | the step that ends the task, and the joiner | the same, under its lock |
//! | `body` | the holder of the `Owned` | the same |
//!
//! The *role* is the right to use the wait store ([`crate::plan`]). The body is dropped when the
//! task ends.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

use rast_timers::primitive::cell::UnsafeCell;
use rast_timers::queue::mpsc::{Link, Pointer};
use rast_timers::{Handle, Instant};

use crate::priority::Priority;
use crate::status::Status;

/// The part of a task that does not depend on its body.
#[repr(C)]
pub(crate) struct Header {
    link: Link,
    status: Status,
    vtable: &'static Vtable,
    home: UnsafeCell<*const ()>,
    due: UnsafeCell<u64>,
    slot: UnsafeCell<u32>,
    generation: UnsafeCell<u32>,
    class: UnsafeCell<Priority>,
    expired: UnsafeCell<bool>,
}

rast_timers::queue::impl_node!(Header { link });

/// The documented size of a task without its body.
#[cfg(all(target_pointer_width = "64", not(rast_loom)))]
const _: () = assert!(size_of::<Header>() <= 64);

/// No entry in the wait store; no store uses this slot.
const NOWHERE: u32 = u32::MAX;

/// Deadlines that mean "at once" and "only by a wake-up". The second is `u64::MAX - 1`, because a
/// store never returns a value with the deadline [`Instant::MAX`].
pub(crate) const NOW: u64 = 0;
pub(crate) const NEVER: u64 = u64::MAX - 1;

/// Functions that depend on the type of the body.
pub(crate) struct Vtable {
    /// A `Run` of `cell.rs`, under another type, because this file cannot name its arguments.
    pub(crate) run: unsafe fn(),
    pub(crate) cancel: unsafe fn(NonNull<Header>),
    pub(crate) announce: Option<unsafe fn(NonNull<Header>)>,
    pub(crate) free: unsafe fn(NonNull<Header>),
    pub(crate) joint: unsafe fn(NonNull<Header>) -> NonNull<()>,
}

/// Any pointer to a task that counts as a reference.
///
/// # Safety
///
/// All users guarantee that the pointer came from `Owned::new` in `cell.rs`, and that a reference
/// is held.
macro_rules! header {
    ($pointer:expr) => {
        // SAFETY: the caller holds a reference, so the task is alive.
        unsafe { $pointer.as_ref() }
    };
}

/// The only pointer that may move a task: post it, run it, end it. Dropping it ends the task.
pub(crate) struct Owned(NonNull<Header>);

// SAFETY: a body is Send, a joint is Send and Sync, and the rules of the header protect the rest.
unsafe impl Send for Owned {}
// SAFETY: a shared `Owned` gives access to the status alone, and to words that only `&mut` changes.
unsafe impl Sync for Owned {}

// SAFETY: (1) the reference that was given up keeps the task, which is not moved; (2) it is the
// address of the whole allocation; (3) there is one `Owned` per task.
unsafe impl Pointer for Owned {
    type Node = Header;
    const IS_SHARED: bool = false;

    #[inline]
    fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    #[inline]
    unsafe fn from_raw(node: NonNull<Header>) -> Self {
        Self(node)
    }
}

// SAFETY: not shared.
unsafe impl rast_timers::queue::mpsc::UniquePointer for Owned {}

impl Owned {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        header!(self.0)
    }

    /// Returns the address of the task, for a function of its vtable.
    #[inline]
    pub(crate) fn raw(&self) -> NonNull<Header> {
        self.0
    }

    #[inline]
    pub(crate) fn reference(&self) -> Reference {
        self.header().status.share();
        Reference(self.0)
    }

    /// Returns an address for the wait store; it does not count as a reference.
    #[inline]
    pub(crate) fn address(&self) -> Address {
        Address(self.0)
    }

    #[inline]
    pub(crate) fn due(&self) -> u64 {
        // SAFETY: only the holder of the `Owned` accesses the word.
        self.header().due.with(|due| unsafe { *due })
    }

    #[inline]
    pub(crate) fn set_due(&mut self, at: u64) {
        // SAFETY: as in `due`.
        self.header().due.with_mut(|due| unsafe { *due = at });
    }

    #[inline]
    pub(crate) fn class(&self) -> Priority {
        // SAFETY: as in `due`.
        self.header().class.with(|class| unsafe { *class })
    }

    pub(crate) fn set_class(&mut self, to: Priority) {
        // SAFETY: as in `due`.
        self.header().class.with_mut(|class| unsafe { *class = to });
    }

    #[inline]
    pub(crate) fn is_expired(&self) -> bool {
        // SAFETY: as in `due`.
        self.header().expired.with(|expired| unsafe { *expired })
    }

    #[inline]
    pub(crate) fn set_expired(&mut self, to: bool) {
        let expired = &self.header().expired;
        // SAFETY: as in `due`.
        expired.with_mut(|expired| unsafe { *expired = to });
    }

    /// Returns a reference that is not counted, for the duration of the borrow.
    #[inline]
    pub(crate) fn lend(&self) -> ManuallyDrop<Reference> {
        ManuallyDrop::new(Reference(self.0))
    }

    /// Gives up the `Owned`, so that the task waits; returns the `Owned` if a flag requires a step.
    ///
    /// # Safety
    ///
    /// `home` is the address of the `Shared` in an `Arc`, and this call is given one reference to
    /// it. The caller has the role of `home`, and keeps an entry for the task in its store.
    #[inline]
    pub(crate) unsafe fn wait(self, home: *const ()) -> Option<Self> {
        // SAFETY: the holder of the `Owned` writes; the thread that claims the waiting task reads.
        self.header().home.with_mut(|word| unsafe { *word = home });
        let this = ManuallyDrop::new(self);
        if header!(this.0).status.wait() {
            return None;
        }
        Some(ManuallyDrop::into_inner(this))
    }

    /// Ends a task whose body was dropped by the step that ended it.
    #[inline]
    pub(crate) fn end(self) {
        let this = ManuallyDrop::new(self).0;
        let header = header!(this);
        if let Some(announce) = header.vtable.announce {
            header.status.finish();
            // SAFETY: the vtable is the cell's, and our reference keeps it.
            unsafe { announce(this) };
            drop(Reference(this));
        } else if header.status.is_sole() || header.status.release(true) {
            let free = header.vtable.free;
            // SAFETY: no other reference is left, and the body was dropped.
            unsafe { free(this) };
        }
    }
}

impl Drop for Owned {
    /// Ends the task without another step: its body is dropped here.
    fn drop(&mut self) {
        let cancel = self.header().vtable.cancel;
        // SAFETY: as in `Owned::run` in `cell.rs`; the `Owned` ends here.
        unsafe { cancel(self.0) };
        Self(self.0).end();
    }
}

impl fmt::Debug for Owned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owned").field(&self.0).finish()
    }
}

impl Header {
    /// Makes the header of a task that is not posted.
    pub(crate) fn new(vtable: &'static Vtable) -> Self {
        Self {
            link: Link::new(),
            status: Status::new(),
            vtable,
            home: UnsafeCell::new(core::ptr::null()),
            due: UnsafeCell::new(NOW),
            slot: UnsafeCell::new(NOWHERE),
            generation: UnsafeCell::new(0),
            class: UnsafeCell::new(Priority::Normal),
            expired: UnsafeCell::new(true),
        }
    }

    #[inline]
    pub(crate) fn vtable(&self) -> &'static Vtable {
        self.vtable
    }

    #[inline]
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the address of the `Shared` of the scheduler that a task waited in. Only the thread
    /// that claimed the task may call it.
    #[inline]
    pub(crate) fn home(&self) -> *const () {
        // SAFETY: the task waits no longer, and the caller has its `Owned`.
        self.home.with(|home| unsafe { *home })
    }

    /// Returns the entry in the wait store. Only the role of the task's home may call it.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Handle> {
        // SAFETY: only the role accesses the word.
        let slot = self.slot.with(|slot| unsafe { *slot });
        if slot == NOWHERE {
            return None;
        }
        // SAFETY: as above.
        let generation = self.generation.with(|generation| unsafe { *generation });
        Some(Handle::new(slot, generation))
    }

    /// Stores the entry in the wait store. Only the role of the task's home may call it.
    #[inline]
    pub(crate) fn set_entry(&self, entry: Option<Handle>) {
        let slot = entry.map_or(NOWHERE, Handle::slot);
        // SAFETY: only the role accesses the word.
        self.slot.with_mut(|word| unsafe { *word = slot });
        if let Some(entry) = entry {
            let generation = entry.generation();
            // SAFETY: as above.
            self.generation
                .with_mut(|word| unsafe { *word = generation });
        }
    }
}

/// The address of a task in the wait store.
///
/// While the address is in the store the task is alive: it waits, or is on its way to a front queue
/// of the same scheduler. The worker with the role removes the address before the task can end, and
/// before it closes that queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address(NonNull<Header>);

// SAFETY: only the role dereferences an address, for the status and its own words.
unsafe impl Send for Address {}

impl Address {
    /// # Safety
    ///
    /// The address is in the store of the role that the caller has, or was taken out in this round.
    #[inline]
    pub(crate) unsafe fn header(&self) -> &Header {
        header!(self.0)
    }

    /// Claims the waiting task; `None` if another thread did.
    ///
    /// # Safety
    ///
    /// As [`header`](Self::header).
    #[inline]
    pub(crate) unsafe fn claim(self) -> Option<Owned> {
        header!(self.0).status.claim().then(|| Owned(self.0))
    }
}

/// A counted pointer to a task that cannot move it.
pub(crate) struct Reference(NonNull<Header>);

// SAFETY: as for `Owned`; what a reference reaches is the status, and the joint, which is Sync.
unsafe impl Send for Reference {}
// SAFETY: as above.
unsafe impl Sync for Reference {}

impl Reference {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        header!(self.0)
    }

    /// Makes the `Owned` of a waiting task that the caller has claimed.
    ///
    /// # Safety
    ///
    /// The caller's call of `raise` returned `Taken`, and this is its only call.
    #[inline]
    pub(crate) unsafe fn owned(&self) -> Owned {
        // The reference of the `Owned` was kept while the task waited.
        Owned(self.0)
    }

    /// Returns the joint of the task.
    pub(crate) fn joint(&self) -> NonNull<()> {
        let joint = self.header().vtable.joint;
        // SAFETY: the vtable is the cell's, which our reference keeps.
        unsafe { joint(self.0) }
    }

    /// Converts the reference to an address, for a waker.
    pub(crate) fn into_raw(self) -> *const () {
        ManuallyDrop::new(self).0.as_ptr().cast_const().cast()
    }

    /// # Safety
    ///
    /// `raw` came from `into_raw`, and the caller owns its reference.
    pub(crate) unsafe fn from_raw(raw: *const ()) -> Self {
        let header = raw.cast_mut().cast::<Header>();
        // SAFETY: it came from a pointer that is not null.
        Self(unsafe { NonNull::new_unchecked(header) })
    }
}

impl Clone for Reference {
    #[inline]
    fn clone(&self) -> Self {
        self.header().status.share();
        Self(self.0)
    }
}

impl Drop for Reference {
    #[inline]
    fn drop(&mut self) {
        let header = header!(self.0);
        if header.status.release(false) {
            let free = header.vtable.free;
            // SAFETY: no reference is left, not even that of the `Owned`, so the body was dropped.
            unsafe { free(self.0) };
        }
    }
}

/// Converts a task's deadline to an instant.
pub(crate) fn instant(due: u64) -> Option<Instant> {
    (due < NEVER).then(|| Instant::from_nanos(due))
}

/// Converts an instant to a task's deadline.
pub(crate) fn nanos(at: Instant) -> u64 {
    at.as_nanos().min(NEVER)
}
