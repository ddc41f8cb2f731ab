//! Which heap is the thread's: found without a lock or a registration, and left when the thread ends.
//!
//! | the thread's cell | state | what a call does |
//! | --- | --- | --- |
//! | [`NOBODY`] | the thread has not allocated yet | adopts a heap and asks to be told of the thread's end |
//! | a heap | it is the thread's | uses it |
//! | [`GONE`] | the thread has ended but for what runs after its destructors | borrows a heap for one call |
//!
//! The cell is a thread-local that is initialised by a constant and has no destructor, so it stands before the first and
//! after the last code of a thread; reading it registers nothing and allocates nothing.
//! `NOBODY` and `GONE` are heaps whose lists are empty and which own no segment, so the fast paths need no test for them.
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
    if !core::ptr::eq(heap, &NOBODY) && !core::ptr::eq(heap, &GONE) {
        return Some(f(heap));
    }
    with_slow(heap, f)
}

#[cold]
fn with_slow<R>(heap: &'static ThreadHeap, f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
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
fn ended(heap: &'static ThreadHeap) {
    HERE.set(&GONE);
    heap.leave();
}

#[cfg(unix)]
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

    unsafe extern "C" fn destructor(heap: *mut c_void) {
        // SAFETY: the library passes what `watch` stored, which lives as long as the program.
        super::ended(unsafe { &*heap.cast::<ThreadHeap>() });
    }
}

#[cfg(not(unix))]
mod end {
    //! The end of a thread, by std's destructor of a thread-local.

    use super::ThreadHeap;
    use crate::primitive;
    use core::cell::Cell;

    struct End(Cell<Option<&'static ThreadHeap>>);

    impl Drop for End {
        fn drop(&mut self) {
            if let Some(heap) = self.0.take() {
                super::ended(heap);
            }
        }
    }

    primitive::thread_local! {
        static END: End = const { End(Cell::new(None)) };
    }

    /// Asks that [`super::ended`] be called at the end of this thread.
    pub(super) fn watch(heap: &'static ThreadHeap) -> bool {
        END.try_with(|end| end.0.set(Some(heap))).is_ok()
    }
}
