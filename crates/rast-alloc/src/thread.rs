//! Which heap is the thread's: found without a lock or a registration, and left when the thread ends.
//!
//! | the thread's cell | state | what a call does |
//! | --- | --- | --- |
//! | [`NOBODY`] | the thread has not allocated yet | adopts a heap and asks to be told of the thread's end |
//! | [`NOBODY`], and [`PARKED`] names a heap | the thread said that it goes idle | claims that heap again, or adopts one |
//! | a heap | it is the thread's | uses it |
//! | [`GONE`] | the thread has ended but for what runs after its destructors | borrows a heap for one call |
//!
//! The cell is a thread-local that is initialised by a constant and has no destructor, so it stands before the first and
//! after the last code of a thread; reading it registers nothing and allocates nothing.
//! `NOBODY` and `GONE` are heaps whose lists are empty and which own no segment, so the fast paths need no test for them.
//!
//! A thread that says it goes idle releases its heap, so that others may purge it, and its cell says `NOBODY`: so its next
//! call misses the fast path, whose lists are those of the cell's heap, and claims the heap again before it touches it.
//! Nothing of the heap need be moved for that.
//!
//! The end of a thread comes from the C library (a key with a destructor), not from std, whose destructors of
//! thread-locals run before: what they allocate and free is served as ever.
//! Other keys' destructors may run after ours; for these there is `GONE`.
//!
//! In the child of a `fork` only the thread that forked lives on, with its heap; heaps of the other threads are held by
//! nobody that runs, so they stay as they are. No lock can be left held, as there is none.

use core::cell::Cell;

use crate::primitive;
use crate::thread_heap::ThreadHeap;

static NOBODY: ThreadHeap = ThreadHeap::new();
static GONE: ThreadHeap = ThreadHeap::new();

primitive::thread_local! {
    static HERE: Cell<&'static ThreadHeap> = const { Cell::new(&NOBODY) };
    /// The heap that this thread released until its next call.
    static PARKED: Cell<Option<&'static ThreadHeap>> = const { Cell::new(None) };
}

/// The heap that the thread's cell names; not to be used for more than the fast paths.
#[inline(always)]
pub(crate) fn here() -> &'static ThreadHeap {
    HERE.with(Cell::get)
}

/// Calls `f` with a heap that this thread holds; `None` if the system has no memory for one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
    let heap = here();
    if is_held(heap) {
        return Some(f(heap));
    }
    with_slow(heap, f)
}

/// Whether the heap that the thread's cell names is one that this thread holds.
#[inline]
fn is_held(heap: &'static ThreadHeap) -> bool {
    !core::ptr::eq(heap, &NOBODY) && !core::ptr::eq(heap, &GONE)
}

/// Does what a thread does at idle, and releases its heap until its next call; nothing if it has none.
pub(crate) fn park() {
    let heap = here();
    if !is_held(heap) {
        return;
    }
    heap.idle();
    // First the cells: once the heap is released, nothing of it may be touched.
    PARKED.set(Some(heap));
    HERE.set(&NOBODY);
    heap.park();
}

#[cold]
fn with_slow<R>(heap: &'static ThreadHeap, f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
    if let Some(parked) = PARKED.take()
        && parked.unpark()
    {
        HERE.set(parked);
        return Some(f(parked));
    }
    let adopted = ThreadHeap::adopt()?;
    if core::ptr::eq(heap, &NOBODY) {
        // First the cell: watching may allocate.
        HERE.set(adopted);
        if end::watch(adopted) {
            return Some(f(adopted));
        }
        // Nobody would tell of the thread's end: from now on each call borrows a heap.
        HERE.set(&GONE);
    }
    let result = f(adopted);
    adopted.leave();
    Some(result)
}

/// Leaves the thread's heap to others.
fn ended() {
    let heap = HERE.replace(&GONE);
    if is_held(heap) {
        heap.leave();
    } else if let Some(parked) = PARKED.take() {
        parked.abandon();
    }
}

#[cfg(all(unix, not(rast_system_segments)))]
mod end {
    //! The end of a thread, by a key of the C library.

    use super::ThreadHeap;
    use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
    use core::ffi::c_void;
    use core::ptr;

    /// The key plus one; 0 while there is none.
    static KEY: AtomicUsize = AtomicUsize::new(0);

    /// Asks that [`super::ended`] be called at the end of this thread.
    pub(super) fn watch(heap: &'static ThreadHeap) -> bool {
        let Some(key) = key() else { return false };
        // SAFETY: the key was made by `key` and is never deleted.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(heap).cast::<c_void>()) == 0 }
    }

    fn key() -> Option<libc::pthread_key_t> {
        // Acquire: pairs with the Release of [AK2]; what the library wrote for the key is seen. [AK1]
        let known = KEY.load(Ordering::Acquire);
        if known != 0 {
            return Some((known - 1) as libc::pthread_key_t);
        }
        let mut key = 0;
        // SAFETY: `key` is writable, and the destructor has the signature that the library wants.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) } != 0 {
            return None;
        }
        // AcqRel: publishes the key for [AK1], or takes another thread's; who comes first decides. [AK2]
        let won = KEY.compare_exchange(0, key as usize + 1, Ordering::AcqRel, Ordering::Acquire);
        match won {
            Ok(_) => Some(key),
            Err(known) => {
                // SAFETY: the key was made above, and nobody else knows it.
                unsafe { libc::pthread_key_delete(key) };
                Some((known - 1) as libc::pthread_key_t)
            }
        }
    }

    unsafe extern "C" fn destructor(_: *mut c_void) {
        super::ended();
    }
}

#[cfg(any(not(unix), rast_system_segments))]
mod end {
    //! The end of a thread, by std's destructor of a thread-local.

    use super::ThreadHeap;
    use crate::primitive;
    use core::cell::Cell;

    struct End(Cell<bool>);

    impl Drop for End {
        fn drop(&mut self) {
            if self.0.get() {
                super::ended();
            }
        }
    }

    primitive::thread_local! {
        static END: End = const { End(Cell::new(false)) };
    }

    /// Asks that [`super::ended`] be called at the end of this thread.
    pub(super) fn watch(_: &'static ThreadHeap) -> bool {
        END.try_with(|end| end.0.set(true)).is_ok()
    }
}
