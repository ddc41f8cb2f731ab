//! The memory of a task, and the only pointer that may move it.
//!
//! ```text
//!   Cell<B>  ┌────────┬──────────────────────────────────────────┬───────┬──────┐
//!            │ Header │ link │ status │ vtable │ home │ due │ .. │ joint │ body │
//!            └────────┴──────────────────────────────────────────┴───────┴──────┘
//! ```
//!
//! | field | written by | read by |
//! | --- | --- | --- |
//! | `link` | the front queue that has the task | the same |
//! | `status` | any thread with a reference | the same |
//! | `home`: the scheduler in which the task waits | the worker that has the role, before the task waits | the thread that claims the waiting task |
//! | `due`, `class`, `expired` | the holder of the `Owned` | the same |
//! | `slot`, `generation`: the entry in the wait store | the worker that has the role of `home` | the same |
//! | `joint`: state shared with the joiner | the step that ends the task, and the joiner | the same, under its lock |
//! | `body` | the holder of the `Owned` | the same |
//!
//! A task is allocated once, and freed with its last reference. Its body is dropped when it ends.

use core::fmt;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::pin::Pin;
use core::ptr::NonNull;
use std::any::Any;
use std::boxed::Box;

use rast_timers::primitive::cell::UnsafeCell;
use rast_timers::queue::mpsc::{Link, Pointer};
use rast_timers::{Handle, Instant};

use crate::cx::Cx;
use crate::next::{Next, Priority};
use crate::primitive::panics::{contain, discard};
use crate::shared::Shared;
use crate::status::Status;

/// The code of a task, and the state that its joiner needs.
pub(crate) trait Body: Send + 'static {
    /// What outlives the body.
    type Joint: Joint;

    /// Runs one step; [`Next::Exit`] ends the task.
    fn step(self: Pin<&mut Self>, joint: &Self::Joint, cx: &mut Cx<'_>) -> Next;
}

/// The state through which a joiner gets the result.
pub(crate) trait Joint: Send + Sync + 'static {
    /// `true` if there can be a joiner.
    const IS_JOINED: bool;

    /// Stores that the task ended without a result.
    fn fail(&self, payload: Option<Box<dyn Any + Send>>);

    /// Announces to the joiner that the task is finished.
    fn announce(&self);
}

/// The joint of a task without a joiner.
impl Joint for () {
    const IS_JOINED: bool = false;

    fn fail(&self, payload: Option<Box<dyn Any + Send>>) {
        discard(payload);
    }

    fn announce(&self) {}
}

/// The part of a task that does not depend on its body.
#[repr(C)]
pub(crate) struct Header {
    link: Link,
    status: Status,
    vtable: &'static Vtable,
    home: UnsafeCell<*const Shared>,
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
struct Vtable {
    run: unsafe fn(NonNull<Header>, &mut Cx<'_>) -> Ran,
    cancel: unsafe fn(NonNull<Header>),
    announce: Option<unsafe fn(NonNull<Header>)>,
    free: unsafe fn(NonNull<Header>),
    joint: unsafe fn(NonNull<Header>) -> NonNull<()>,
}

/// Result of a step.
pub(crate) enum Ran {
    /// It returned, and the task continues.
    On(Next),
    /// The task ended, and its body is dropped.
    Ended { panicked: bool },
}

/// A task with its body.
#[repr(C)]
struct Cell<B: Body> {
    header: Header,
    joint: B::Joint,
    body: UnsafeCell<MaybeUninit<B>>,
}

impl<B: Body> Cell<B> {
    const VTABLE: &'static Vtable = &Vtable {
        run: Self::run,
        cancel: Self::cancel,
        announce: if B::Joint::IS_JOINED {
            Some(Self::announce)
        } else {
            None
        },
        free: Self::free,
        joint: Self::joint,
    };

    /// # Safety
    ///
    /// 1. `header` is that of a live `Cell<B>`.
    /// 2. The caller has its `Owned`, and the body was not dropped.
    unsafe fn run(header: NonNull<Header>, cx: &mut Cx<'_>) -> Ran {
        // SAFETY: by (1); the cell begins with the header, whose pointer has the provenance of all
        // of it.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        let step = || {
            cell.body.with_mut(|body| {
                // SAFETY: by (2) only this thread accesses the body.
                let body = unsafe { &mut *body };
                // SAFETY: by (2) it is initialised.
                let body = unsafe { body.assume_init_mut() };
                // SAFETY: a cell is on the heap and is not moved; the body is dropped in place.
                let body = unsafe { Pin::new_unchecked(body) };
                body.step(&cell.joint, cx)
            })
        };
        let panicked = match contain(step) {
            Ok(Next::Exit) => false,
            Ok(next) => return Ran::On(next),
            Err(payload) => {
                cell.joint.fail(Some(payload));
                true
            }
        };
        // SAFETY: by (2); it is dropped here, once, as the task ends.
        unsafe { cell.drop_body() };
        Ran::Ended { panicked }
    }

    /// # Safety
    ///
    /// As [`run`](Self::run).
    unsafe fn cancel(header: NonNull<Header>) {
        // SAFETY: as in `run`.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        cell.joint.fail(None);
        // SAFETY: as in `run`.
        unsafe { cell.drop_body() };
    }

    /// # Safety
    ///
    /// The caller has the body, and drops it here for the only time.
    unsafe fn drop_body(&self) {
        let dropped = contain(|| {
            self.body.with_mut(|body| {
                // SAFETY: by the caller.
                let body = unsafe { &mut *body };
                // SAFETY: by the caller.
                unsafe { body.assume_init_drop() };
            });
        });
        discard(dropped.err());
    }

    /// # Safety
    ///
    /// `header` is that of a live `Cell<B>`.
    unsafe fn announce(header: NonNull<Header>) {
        // SAFETY: by the caller.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        cell.joint.announce();
    }

    /// # Safety
    ///
    /// `header` is that of a `Cell<B>` of which no reference is left, and the body was dropped.
    unsafe fn free(header: NonNull<Header>) {
        // SAFETY: by the caller it came from `Box::into_raw` in `Owned::new`, and nothing uses it.
        let cell = unsafe { Box::from_raw(header.cast::<Self>().as_ptr()) };
        discard(Some(cell));
    }

    /// # Safety
    ///
    /// `header` is that of a live `Cell<B>`.
    unsafe fn joint(header: NonNull<Header>) -> NonNull<()> {
        // SAFETY: by the caller.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        NonNull::from(&cell.joint).cast()
    }
}

/// Any pointer to a task that counts as a reference.
///
/// # Safety
///
/// All users guarantee that the pointer came from [`Owned::new`], and that a reference is held.
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
    /// Allocates a task.
    pub(crate) fn new<B: Body>(body: B, joint: B::Joint) -> Self {
        let cell = Box::new(Cell {
            header: Header {
                link: Link::new(),
                status: Status::new(),
                vtable: Cell::<B>::VTABLE,
                home: UnsafeCell::new(core::ptr::null()),
                due: UnsafeCell::new(NOW),
                slot: UnsafeCell::new(NOWHERE),
                generation: UnsafeCell::new(0),
                class: UnsafeCell::new(Priority::Normal),
                expired: UnsafeCell::new(true),
            },
            joint,
            body: UnsafeCell::new(MaybeUninit::new(body)),
        });
        // SAFETY: a box is not null.
        Self(unsafe { NonNull::new_unchecked(Box::into_raw(cell)) }.cast())
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        header!(self.0)
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
        let set = |expired: *mut bool| {
            // SAFETY: as in `due`.
            unsafe { *expired = to }
        };
        self.header().expired.with_mut(set);
    }

    /// Runs one step.
    ///
    /// # Safety
    ///
    /// No other call runs, and no call has returned [`Ran::Ended`].
    #[inline]
    pub(crate) unsafe fn run(&self, cx: &mut Cx<'_>) -> Ran {
        let run = self.header().vtable.run;
        // SAFETY: (1) the vtable is the cell's. (2) By the caller.
        unsafe { run(self.0, cx) }
    }

    /// Returns a reference that is not counted, for the duration of the borrow.
    #[inline]
    pub(crate) fn lend(&self) -> ManuallyDrop<Reference> {
        ManuallyDrop::new(Reference(self.0))
    }

    /// Passes the task to its status word; returns the `Owned` if a flag asks for a step.
    ///
    /// Only the role of `home`, which keeps an entry for the task in its store, may call it.
    #[inline]
    pub(crate) fn wait(self, home: *const Shared) -> Option<Self> {
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
        // SAFETY: as in `run`; the `Owned` ends here.
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
    #[inline]
    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// Returns the scheduler that a task waited in. Only the thread that claimed it may call it.
    #[inline]
    pub(crate) fn home(&self) -> *const Shared {
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
            let set = |word: *mut u32| {
                // SAFETY: as above.
                unsafe { *word = entry.generation() }
            };
            self.generation.with_mut(set);
        }
    }
}

/// The address of a task in the wait store.
///
/// While it is in the store the task is alive: it waits, or is on its way to the front queue of the
/// store's role. The role removes the address before the task can end, and before it closes that
/// queue.
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
