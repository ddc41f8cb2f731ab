//! The end of the program, for counts that would run over: nothing may unwind past them and go on.

use core::fmt;

/// Prints `message` and aborts, by a panic within a panic: without `std` there is no other way.
#[cold]
#[inline(never)]
pub(crate) fn abort(message: fmt::Arguments<'_>) -> ! {
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            panic!("queue: a second panic aborts");
        }
    }
    let _abort = Abort;
    panic!("{message}");
}
