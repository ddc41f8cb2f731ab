//! Which heap is the thread's: found without a lock or a registration, and left when the thread
//! ends.
//!
//! | the thread's cell | state | what a call does |
//! | --- | --- | --- |
//! | [`NOBODY`] | the thread has not allocated yet | adopts a heap and asks to be told of the thread's end |
//! | a heap | it is the thread's, or parked | uses it; claims it again, or adopts another one |
//! | [`GONE`] | the thread has ended except for what runs after its destructors | borrows a heap for one call |
//!
//! The cell is a thread-local that is initialised by a constant and has no destructor, so it exists
//! before the first and after the last code of a thread; reading it registers nothing and allocates
//! nothing.
//!
//! Each call enters the heap that the cell names ([`crate::hold`]), which fails if another thread
//! has taken it meanwhile, or if the thread parked it. `NOBODY` and `GONE` are heaps that no thread
//! can enter, so the fast paths need no test for them. A call that enters has the heap until it
//! exits; calls are not nested, so no signal handler may allocate.
//!
//! The end of a thread comes from the C library (a key with a destructor), not from std, whose
//! destructors of thread-locals run before: what they allocate and free is served as ever. Other
//! keys' destructors may run after ours; for these there is `GONE`.
//!
//! In the child of a `fork` only the thread that forked lives on, with its heap, or with another
//! one if some thread tended that just then. Heaps of threads that were in no call may be tended
//! there; the others stay as they are. No lock can be left held, as there is none.

use core::cell::Cell;

use crate::primitive;
use crate::purge_thread;
use crate::thread_heap::ThreadHeap;

static NOBODY: ThreadHeap = ThreadHeap::none();
static GONE: ThreadHeap = ThreadHeap::none();

primitive::thread_local! {
    static HERE: Cell<&'static ThreadHeap> = const { Cell::new(&NOBODY) };
}

/// The heap that the thread's cell names; nothing of it may be used before it is entered.
#[inline(always)]
pub(crate) fn here() -> &'static ThreadHeap {
    HERE.with(Cell::get)
}

/// Calls `f` with a heap that this thread holds and is inside of; `None` if the system has no
/// memory for one.
#[inline]
pub(crate) fn with<R>(f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
    let heap = here();
    if heap.hold.enter() {
        return Some(inside(heap, f));
    }
    with_slow(heap, f)
}

/// Calls `f` with a heap that was entered, and exits.
#[inline]
fn inside<R>(heap: &'static ThreadHeap, f: impl FnOnce(&'static ThreadHeap) -> R) -> R {
    let result = f(heap);
    heap.report();
    heap.hold.exit();
    purge_thread::start_if_wanted();
    result
}

/// Whether a heap is one that has memory, and not a static one.
#[inline]
fn is_real(heap: &'static ThreadHeap) -> bool {
    !core::ptr::eq(heap, &NOBODY) && !core::ptr::eq(heap, &GONE)
}

/// Does what a thread does at idle, and releases its heap until its next call; nothing if it has
/// none.
pub(crate) fn park() {
    let heap = here();
    if is_real(heap) && (heap.hold.enter() || heap.enter_slow()) {
        heap.idle();
        heap.park();
    }
}

#[cold]
fn with_slow<R>(heap: &'static ThreadHeap, f: impl FnOnce(&'static ThreadHeap) -> R) -> Option<R> {
    if is_real(heap) {
        if heap.enter_slow() || heap.come_back() {
            return Some(inside(heap, f));
        }
        // Its end is told of already, by the heap that the thread had first.
        let adopted = ThreadHeap::adopt();
        HERE.set(adopted.unwrap_or(&NOBODY));
        return adopted.map(|adopted| inside(adopted, f));
    }
    let adopted = ThreadHeap::adopt()?;
    if core::ptr::eq(heap, &NOBODY) {
        HERE.set(adopted);
        // Outside: it may allocate.
        adopted.hold.exit();
        if end::watch(adopted) {
            return with(f);
        }
        // No thread would tell of the thread's end: from now on each call borrows a heap.
        ended();
        return with_slow(&GONE, f);
    }
    let result = f(adopted);
    adopted.abandon();
    Some(result)
}

/// Leaves the thread's heap to others.
fn ended() {
    let heap = HERE.replace(&GONE);
    if !is_real(heap) {
        return;
    }
    if heap.hold.enter() || heap.enter_slow() {
        heap.abandon();
    } else {
        heap.abandon_parked();
    }
}

#[cfg(all(unix, not(rast_system_segments)))]
mod end {
    //! The end of a thread, by a key of the C library.

    use super::ThreadHeap;
    use crate::primitive::sync::atomic::{AtomicUsize, Ordering};
    use core::ffi::c_void;
    use core::ptr;

    /// The key plus one; 0 while there is none, [`CLOSED`] when there shall be none any more.
    static KEY: AtomicUsize = AtomicUsize::new(0);
    const CLOSED: usize = usize::MAX;

    /// Run when the library that this code is in is unloaded, and when the process ends by `exit`.
    #[used]
    #[cfg_attr(
        target_vendor = "apple",
        unsafe(link_section = "__DATA,__mod_term_func")
    )]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".fini_array"))]
    static UNLOADED: extern "C" fn() = unloaded;

    /// Takes back all that would call this code later: the background thread and the key. From then
    /// on a thread that has no heap yet borrows one for each call.
    extern "C" fn unloaded() {
        crate::purge_thread::close();
        // Acquire: pairs with the Release of [AK2], as for [AK1]. [AK3]
        let known = KEY.swap(CLOSED, Ordering::Acquire);
        if known != 0 && known != CLOSED {
            // SAFETY: the key was made by `key`, and this alone deletes it.
            unsafe { libc::pthread_key_delete((known - 1) as libc::pthread_key_t) };
        }
    }

    /// Asks that [`super::ended`] be called at the end of this thread.
    pub(super) fn watch(heap: &'static ThreadHeap) -> bool {
        let Some(key) = key() else { return false };
        // SAFETY: the key was made by `key`; where it is deleted meanwhile the call fails.
        unsafe { libc::pthread_setspecific(key, ptr::from_ref(heap).cast::<c_void>()) == 0 }
    }

    fn key() -> Option<libc::pthread_key_t> {
        // Acquire: pairs with the Release of [AK2]; what the library wrote for the key is seen.
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
        // AcqRel: publishes the key for [AK1], or takes another thread's; who comes first decides.
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
