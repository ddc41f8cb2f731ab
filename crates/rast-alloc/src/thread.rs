//! The thread's heap: found without a lock or a registration, and abandoned when the thread ends.
//!
//! | the thread's cell | state | what a call does |
//! | --- | --- | --- |
//! | [`UNASSIGNED`] | the thread has not allocated yet | adopts a heap, and registers for the thread's end |
//! | a heap | the thread has this heap, or the heap is parked | uses the heap; if it is parked, claims it again or adopts another one |
//! | [`ENDED`] | the thread has ended, and later destructors run | borrows a heap for one call |
//!
//! The cell is a thread-local with a constant initialiser and no destructor. So it exists before
//! the first and after the last code of a thread, and reading it registers and allocates nothing.
//!
//! Each call enters the heap that the cell names ([`crate::ownership`]). This fails if another
//! thread has taken the heap, or if this thread parked it. No thread can enter the static heaps
//! `UNASSIGNED` and `ENDED`, so the fast paths need no test for them. No other thread uses the heap
//! from the call's entry to its exit. Calls must not be nested, so a signal handler must not
//! allocate.
//!
//! When a thread ends, the C library calls the destructor of a `pthread` key. Destructors of std's
//! thread-locals run before this destructor, and may allocate as usual. Destructors of other keys
//! may run later, and then find `ENDED` in the cell.
//!
//! In the child of a `fork` only the forking thread exists. It keeps its heap, or adopts another
//! one if another thread was servicing its heap during the `fork`. The child can service the heaps
//! of threads that were in no call; the other heaps stay as they are. No lock can stay held, as the
//! allocator has none.

use core::cell::Cell;

use crate::primitive;
use crate::purge_thread;
use crate::thread_heap::ThreadHeap;

static UNASSIGNED: ThreadHeap = ThreadHeap::none();
static ENDED: ThreadHeap = ThreadHeap::none();

primitive::thread_local! {
    static HERE: Cell<&'static ThreadHeap> = const { Cell::new(&UNASSIGNED) };
}

/// The heap that the thread's cell names. It must be entered before it is used.
#[inline(always)]
pub(crate) fn here() -> &'static ThreadHeap {
    HERE.with(Cell::get)
}

/// Calls `f` with a heap that this thread holds and has entered; `None` if the system has no memory
/// for one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
    let heap = here();
    if heap.ownership.enter() {
        return Some(inside(heap, f));
    }
    with_slow(heap, f)
}

/// Calls `f` with an entered heap, and exits.
#[inline]
fn inside<R>(heap: &'static ThreadHeap, f: impl FnOnce(&'static ThreadHeap) -> R) -> R {
    let result = f(heap);
    heap.report();
    heap.ownership.exit();
    purge_thread::start_if_wanted();
    result
}

/// Returns `true` if a heap is not one of the static ones.
#[inline]
fn is_real(heap: &'static ThreadHeap) -> bool {
    !core::ptr::eq(heap, &UNASSIGNED) && !core::ptr::eq(heap, &ENDED)
}

/// Does the work of [`RastAlloc::on_idle`](crate::RastAlloc::on_idle), and parks the heap until the
/// thread's next call. Does nothing if the thread has no heap.
pub(crate) fn park() {
    let heap = here();
    if is_real(heap) && (heap.ownership.enter() || heap.enter_slow()) {
        heap.idle();
        heap.park();
    }
}

#[cold]
fn with_slow<R>(heap: &'static ThreadHeap, f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
    if is_real(heap) {
        if heap.enter_slow() || heap.reacquire() {
            return Some(inside(heap, f));
        }
        // The thread's first heap registered for its end.
        let adopted = ThreadHeap::adopt();
        HERE.set(adopted.unwrap_or(&UNASSIGNED));
        return adopted.map(|adopted| inside(adopted, f));
    }
    let adopted = ThreadHeap::adopt()?;
    if core::ptr::eq(heap, &UNASSIGNED) {
        HERE.set(adopted);
        // Outside: the registration may allocate.
        adopted.ownership.exit();
        if end::watch(adopted) {
            return with(f);
        }
        // The thread's end would not be reported: from now on each call borrows a heap.
        ended();
        return with_slow(&ENDED, f);
    }
    let result = f(adopted);
    adopted.abandon();
    Some(result)
}

/// Abandons the thread's heap.
fn ended() {
    let heap = HERE.replace(&ENDED);
    if !is_real(heap) {
        return;
    }
    if heap.ownership.enter() || heap.enter_slow() {
        heap.abandon();
    } else {
        heap.abandon_parked();
    }
}

#[cfg(all(unix, not(rast_system_segments)))]
mod end {
    //! The end of a thread, reported by a key of the C library.

    use super::ThreadHeap;
    use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
    use core::ffi::c_void;
    use core::ptr;

    /// The key plus one; 0 while there is none, [`CLOSED`] when no key may be made any more.
    static KEY: AtomicUsize = AtomicUsize::new(0);
    const CLOSED: usize = usize::MAX;

    /// Runs when the library with this code is unloaded, and when the process ends by `exit`.
    #[used]
    #[cfg_attr(
        target_vendor = "apple",
        unsafe(link_section = "__DATA,__mod_term_func")
    )]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".fini_array"))]
    static UNLOADED: extern "C" fn() = unloaded;

    /// Removes all that would call this code later: the background thread and the key. From then on
    /// a thread without a heap borrows one for each call.
    extern "C" fn unloaded() {
        crate::purge_thread::close();
        // Acquire: pairs with the Release of [AK2], as for [AK1]. [AK3]
        let known = KEY.swap(CLOSED, Ordering::Acquire);
        if known != 0 && known != CLOSED {
            // SAFETY: `key` made the key, and only this function deletes it.
            unsafe { libc::pthread_key_delete((known - 1) as libc::pthread_key_t) };
        }
    }

    /// Registers for a call of [`super::ended`] at the end of this thread.
    pub(super) fn watch(heap: &'static ThreadHeap) -> bool {
        let Some(key) = key() else { return false };
        // SAFETY: `key` made the key; if it is deleted meanwhile the call fails.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(heap).cast::<c_void>()) == 0 }
    }

    fn key() -> Option<libc::pthread_key_t> {
        // Acquire: pairs with the Release of [AK2]; what the library wrote for the key is visible.
        // [AK1]
        let known = KEY.load(Ordering::Acquire);
        if known == CLOSED {
            return None;
        }
        if known != 0 {
            return Some((known - 1) as libc::pthread_key_t);
        }
        let mut key = 0;
        // SAFETY: `key` is writable, and the destructor has the signature that the library wants.
        if unsafe { libc::pthread_key_create(&raw mut key, Some(destructor)) } != 0 {
            return None;
        }
        // AcqRel: publishes the key for [AK1], or takes another thread's; the first one decides.
        // [AK2]
        let won = KEY.compare_exchange(0, key as usize + 1, Ordering::AcqRel, Ordering::Acquire);
        match won {
            Ok(_) => Some(key),
            Err(known) => {
                // SAFETY: the key was made above, and nothing else knows it.
                unsafe { libc::pthread_key_delete(key) };
                (known != CLOSED).then_some((known - 1) as libc::pthread_key_t)
            }
        }
    }

    unsafe extern "C" fn destructor(_: *mut c_void) {
        super::ended();
    }
}

#[cfg(any(not(unix), rast_system_segments))]
mod end {
    //! The end of a thread, reported by std's destructor of a thread-local.

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

    /// Registers for a call of [`super::ended`] at the end of this thread.
    pub(super) fn watch(_: &'static ThreadHeap) -> bool {
        END.try_with(|end| end.0.set(true)).is_ok()
    }
}
