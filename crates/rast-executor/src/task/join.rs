//! The handle of a task: its output, its abort.

use core::any::Any;
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll, RawWakerVTable, Waker};
use std_alloc::boxed::Box;

use super::header::{Header, TaskRef};
use super::state::Left;
use crate::budget;
use crate::primitive::panics::{drop_each, quietly};

/// Why a task has no output: it was cancelled, or it panicked.
///
/// ```
/// use rast_executor::{LocalExecutor, spawn_local};
///
/// let error = LocalExecutor::new().run(async {
///     spawn_local(async { panic!("no") }).await.unwrap_err()
/// });
/// assert!(error.is_panic() && !error.is_cancelled());
/// assert_eq!(error.into_panic().unwrap().downcast_ref(), Some(&"no"));
/// ```
pub struct JoinError {
    /// A thin pointer, for small outputs.
    panic: Option<Box<Box<dyn Any + Send>>>,
}

impl JoinError {
    pub(crate) const fn cancelled() -> Self {
        Self { panic: None }
    }

    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self {
            panic: Some(Box::new(payload)),
        }
    }

    /// Returns `true` if the task was aborted, or its runtime was shut down.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        self.panic.is_none()
    }

    /// Returns `true` if the future panicked: in a poll, or while it was dropped.
    #[must_use]
    pub const fn is_panic(&self) -> bool {
        self.panic.is_some()
    }

    /// Returns the panic payload, for `std::panic::resume_unwind`; `None` if the task was
    /// cancelled.
    #[must_use]
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        self.panic.map(|payload| *payload)
    }
}

// SAFETY: the payload is accessible only by value.
unsafe impl Sync for JoinError {}
impl UnwindSafe for JoinError {}
impl RefUnwindSafe for JoinError {}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_panic() {
            "Panic"
        } else {
            "Cancelled"
        };
        f.debug_tuple("JoinError").field(&kind).finish()
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_panic() {
            "the task panicked"
        } else {
            "the task was cancelled"
        })
    }
}

impl core::error::Error for JoinError {}

/// The handle of a spawned task: a future of its output.
///
/// Dropping the handle detaches the task, which continues. Any thread and any executor may await
/// it. Cost of a poll: at most two read-modify-writes, none if the same task polls it again.
///
/// # Panics
///
/// If it is polled after it returned the output.
///
/// # Examples
///
/// ```
/// use rast_executor::Runtime;
///
/// let runtime = Runtime::new().unwrap();
/// let handle = runtime.spawn(async { 6 * 7 });
/// assert_eq!(runtime.block_on(handle).unwrap(), 42);
/// ```
#[must_use = "dropping a handle detaches the task; call `detach` to say so"]
pub struct JoinHandle<T> {
    raw: NonNull<Header>,
    /// The waker that the task has: data and table, compared by address, never called. The table is
    /// `NO_WAKER` or `TAKEN` if there is none. All fields are words, because a flag with padding
    /// would be copied by overlapping moves, which delay a later load.
    waker: (*const (), *const RawWakerVTable),
    output: PhantomData<T>,
}

/// Table of a handle whose task has no waker of it.
const NO_WAKER: *const RawWakerVTable = core::ptr::null();
/// Table of a handle that has returned the output. Tables are aligned, so none has this address.
const TAKEN: *const RawWakerVTable = core::ptr::without_provenance(1);

// SAFETY: the handle moves the output to its own thread; the task is reached by counted references.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: a shared reference only allows loading the state and requesting an abort.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Makes the handle from its reference.
    ///
    /// # Safety
    ///
    /// The task must have the output `T`, and its interest must belong to this handle.
    pub(super) const unsafe fn new(raw: NonNull<Header>) -> Self {
        Self {
            raw,
            waker: (core::ptr::null(), NO_WAKER),
            output: PhantomData,
        }
    }

    fn is_taken(&self) -> bool {
        self.waker.1 == TAKEN
    }

    fn header(&self) -> &Header {
        // SAFETY: the handle has a reference.
        unsafe { self.raw.as_ref() }
    }

    /// Makes the executor drop the future when it next runs the task, without polling the future.
    ///
    /// If the task completes first, the handle returns its output, otherwise an error. The future
    /// is dropped after this call, by a thread of its executor. Lock-free: one read-modify-write,
    /// and a wake-up if the task waits.
    ///
    /// ```
    /// use rast_executor::Runtime;
    ///
    /// let runtime = Runtime::new().unwrap();
    /// let handle = runtime.spawn(std::future::pending::<()>());
    /// handle.abort();
    /// assert!(runtime.block_on(handle).unwrap_err().is_cancelled());
    /// ```
    pub fn abort(&self) {
        self.task().abort();
    }

    /// Returns a handle that can only abort, and may outlive this one.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle(self.task())
    }

    /// Drops the handle; the task continues.
    pub fn detach(self) {
        drop(self);
    }

    /// Returns `true` if the task is complete, so that the handle is ready. Wait-free.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.header().state.load().is_complete()
    }

    fn task(&self) -> TaskRef {
        // SAFETY: the handle keeps the task.
        unsafe { TaskRef::of(self.raw) }
    }

    /// Stores the waker in the task; `false` if the task is complete.
    fn leave_waker(&mut self, waker: &Waker) -> bool {
        let seen = self.header().state.load();
        if seen.is_complete() {
            return false;
        }
        let address = |waker: &Waker| (waker.data(), core::ptr::from_ref(waker.vtable()));
        if self.waker == address(waker) {
            // The waker that the task has is alive, so an equal address is the same waker.
            return true;
        }
        // Clone first, because user code runs here. The address is that of the clone: the waker of
        // a poll may be valid only during the poll, and then a clone has another address.
        let waker = waker.clone();
        let address = address(&waker);
        if seen.has_join_waker() && !self.header().state.lend_join_waker(false) {
            return false;
        }
        self.waker.1 = NO_WAKER;
        let old = self.header().join_waker.with_mut(|place| {
            // SAFETY: by rule 5 of the state the waker is the handle's.
            unsafe { (*place).replace(waker) }
        });
        let is_lent = self.header().state.lend_join_waker(true);
        let unused = if is_lent {
            self.waker = address;
            None
        } else {
            self.take_waker()
        };
        // Last, because their destructors may panic. A panic before the new waker is lent would
        // leave it in the task, and the thread that frees the task would drop it.
        let mut wakers = [old, unused].into_iter().flatten();
        drop_each(|| wakers.next());
        is_lent
    }

    /// Removes the join waker.
    fn take_waker(&self) -> Option<Waker> {
        self.header().join_waker.with_mut(|place| {
            // SAFETY: by rule 5 of the state the waker is the handle's, as each caller argues.
            unsafe { (*place).take() }
        })
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        assert!(
            !self.is_taken(),
            "a JoinHandle is polled after it was ready"
        );
        if self.leave_waker(cx.waker()) {
            return Poll::Pending;
        }
        if budget::spend(cx).is_pending() {
            return Poll::Pending;
        }
        self.waker.1 = TAKEN;
        let mut place = MaybeUninit::<Result<T, JoinError>>::uninit();
        // SAFETY: the task is complete, and by rule 4 of the state the output is the handle's; it
        // is taken once; the place is of its type.
        unsafe { (self.header().vtable.take_output)(self.raw, place.as_mut_ptr().cast()) };
        // SAFETY: it was written above.
        Poll::Ready(unsafe { place.assume_init() })
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // Dropped even if the destructor of the waker panics.
        // SAFETY: the handle's reference, taken once.
        let reference = || unsafe { TaskRef::from_raw(self.raw) };
        if self.is_taken() {
            drop(reference());
            return;
        }
        match self.header().state.leave() {
            Left::Done => {}
            Left::Waker => {
                let _reference = reference();
                // Interest and waker flag are cleared, so the waker belongs to the handle.
                drop(self.take_waker());
            }
            Left::Output => {
                let _reference = reference();
                // A panic of the destructor stays in the task, whichever of the runner and this
                // handle comes last and drops the output.
                quietly(|| {
                    // SAFETY: the task is complete, the output is the handle's and was not taken.
                    unsafe { (self.header().vtable.drop_output)(self.raw) }
                });
            }
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("name", &self.task().name())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}

/// Aborts a task; cloneable, usable on any thread, and valid as long as it exists.
#[derive(Clone)]
pub struct AbortHandle(TaskRef);

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.0.abort();
    }

    /// Returns `true` if the task is complete.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_complete()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field("name", &self.0.name())
            .field("is_finished", &self.is_finished())
            .finish()
    }
}
