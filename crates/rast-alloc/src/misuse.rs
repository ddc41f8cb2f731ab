//! What happens when a caller breaks the allocator's contract and it is seen: a message, and the end of the process.
//!
//! An allocator must not unwind, and whoever called it wrongly cannot be helped by an error.

use std::io::Write;

/// Ends the process with a message.
#[cold]
pub(crate) fn end(what: &'static str) -> ! {
    // One write, without a buffer that would have to be allocated; nothing can be done if it fails.
    let mut stderr = std::io::stderr();
    let _ = stderr.write_all(b"rast-alloc: ");
    let _ = stderr.write_all(what.as_bytes());
    let _ = stderr.write_all(b"\n");
    std::process::abort()
}
