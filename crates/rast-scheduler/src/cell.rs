//! The body of a task: its code, and the functions that depend on its type.

use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;
use std::any::Any;
use std::boxed::Box;

use rast_timers::primitive::cell::UnsafeCell;
use rast_timers::queue::mpsc::Pointer;

use crate::cx::Cx;
use crate::next::Next;
use crate::owned::{Header, Owned, Vtable};
use crate::primitive::panics::{contain, discard};

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

/// Result of a step.
pub(crate) enum Ran {
    /// It returned, and the task continues.
    On(Next),
    /// The task ended, and its body is dropped.
    Ended { panicked: bool },
}

/// Runs one step of a task.
type Run = unsafe fn(NonNull<Header>, &mut Cx<'_>) -> Ran;

/// A task with its body.
#[repr(C)]
struct Cell<B: Body> {
    header: Header,
    joint: B::Joint,
    body: UnsafeCell<MaybeUninit<B>>,
}

impl<B: Body> Cell<B> {
    const VTABLE: &'static Vtable = &Vtable {
        // SAFETY: all function pointers have one representation, and this one is converted back to
        // a `Run` before it is called.
        run: unsafe { core::mem::transmute::<Run, unsafe fn()>(Self::run) },
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

impl Owned {
    /// Allocates a task.
    pub(crate) fn new<B: Body>(body: B, joint: B::Joint) -> Self {
        let cell = Box::new(Cell {
            header: Header::new(Cell::<B>::VTABLE),
            joint,
            body: UnsafeCell::new(MaybeUninit::new(body)),
        });
        // SAFETY: a box is not null.
        let cell = unsafe { NonNull::new_unchecked(Box::into_raw(cell)) };
        // SAFETY: the status begins with the reference and the right of the one `Owned`.
        unsafe { Self::from_raw(cell.cast()) }
    }

    /// Runs one step.
    ///
    /// # Safety
    ///
    /// No other call runs, and no call has returned [`Ran::Ended`].
    #[inline]
    pub(crate) unsafe fn run(&self, cx: &mut Cx<'_>) -> Ran {
        let run = self.header().vtable().run;
        // SAFETY: it is a `Run`, from the vtable of a cell.
        let run = unsafe { core::mem::transmute::<unsafe fn(), Run>(run) };
        // SAFETY: (1) the vtable is the cell's. (2) By the caller.
        unsafe { run(self.raw(), cx) }
    }
}
