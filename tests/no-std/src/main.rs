//! A program without std that links the lower layers and runs them.
//!
//! Under `cfg(rast_no_std)` this file is `no_std` and `no_main`. It has its own panic handler and
//! an allocator over a static buffer, and takes from the C library only the entry point and
//! `abort`. If a layer used std, the program would have two panic handlers, which rustc refuses
//! (E0152).
//!
//! Without the cfg it is an ordinary program, because in a build of the whole workspace other
//! members enable the std features. The README of this crate has the command.
#![cfg_attr(rast_no_std, no_std, no_main)]

#[cfg(not(rast_no_std))]
fn main() -> std::process::ExitCode {
    match no_std::exercise() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(broken) => {
            eprintln!("{broken}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(rast_no_std)]
mod bare {
    //! What std would bring: an entry, an allocator, a panic handler.

    use core::alloc::{GlobalAlloc, Layout};
    use core::cell::UnsafeCell;
    use core::ffi::{c_char, c_int};
    use core::panic::PanicInfo;
    use core::ptr;
    use core::sync::atomic::{AtomicUsize, Ordering};

    // SAFETY: `abort` has this signature in every C library and may be called at any time.
    #[link(name = "c")]
    unsafe extern "C" {
        safe fn abort() -> !;
    }

    const SIZE: usize = 1 << 20;

    /// A bump allocator over a static buffer: it gives each byte once and takes none back.
    #[repr(align(4096))]
    struct Arena {
        bytes: UnsafeCell<[u8; SIZE]>,
        used: AtomicUsize,
    }

    // SAFETY: `used` gives each byte of `bytes` to one caller only, and nothing else touches them.
    unsafe impl Sync for Arena {}

    // SAFETY: a block lies inside the buffer at an aligned offset and never overlaps another one,
    // because each compare-and-exchange moves `used` past the block that it claims; `dealloc`
    // keeps the bytes, so a block is valid for ever.
    unsafe impl GlobalAlloc for Arena {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let mut used = self.used.load(Ordering::Relaxed);
            loop {
                // The buffer itself is aligned to a page; wider demands are refused.
                if layout.align() > 4096 {
                    return ptr::null_mut();
                }
                let start = used.next_multiple_of(layout.align());
                let Some(end) = start.checked_add(layout.size()) else {
                    return ptr::null_mut();
                };
                if end > SIZE {
                    return ptr::null_mut();
                }
                match self
                    .used
                    .compare_exchange(used, end, Ordering::Relaxed, Ordering::Relaxed)
                {
                    Ok(_) => return self.bytes.get().cast::<u8>().wrapping_add(start),
                    Err(now) => used = now,
                }
            }
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
    }

    #[global_allocator]
    static ARENA: Arena = Arena {
        bytes: UnsafeCell::new([0; SIZE]),
        used: AtomicUsize::new(0),
    };

    #[panic_handler]
    fn panic(_: &PanicInfo<'_>) -> ! {
        abort()
    }

    /// The unwinder's hook, which the prebuilt `core` names although `panic = "abort"` never
    /// calls it.
    // SAFETY: the name is reserved for exactly this, and without std nothing else defines it.
    #[unsafe(no_mangle)]
    extern "C" fn rust_eh_personality() {}

    /// The entry point that the C library calls.
    // SAFETY: this program has no other `main`, and the signature is the one of C.
    #[unsafe(no_mangle)]
    extern "C" fn main(_argc: c_int, _argv: *const *const c_char) -> c_int {
        match no_std::exercise() {
            Ok(()) => 0,
            Err(_) => 1,
        }
    }
}
