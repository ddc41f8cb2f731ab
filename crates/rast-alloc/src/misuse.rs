//! Detected misuse of the allocator: a message, and the end of the process.
//!
//! An allocator must not unwind, and an error value would not help a thread that called it wrongly.

use core::fmt::{self, Write};

/// Ends the process with a message.
#[cold]
#[inline(never)]
pub(crate) fn end(what: fmt::Arguments<'_>) -> ! {
    let mut line = Line {
        bytes: [0; 256],
        length: 0,
    };
    // Text that does not fit is cut off.
    let _ = writeln!(line, "rast-alloc: {what}");
    write_stderr(&line.bytes[..line.length]);
    std::process::abort()
}

/// One line in a buffer, so that nothing is allocated and one write suffices.
struct Line {
    bytes: [u8; 256],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let length = text.len().min(room.len());
        room[..length].copy_from_slice(&text.as_bytes()[..length]);
        self.length += length;
        if length < text.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// Writes to the standard error; nothing can be done if that fails.
#[cfg(unix)]
fn write_stderr(text: &[u8]) {
    // The call by itself: std's handle may be in use by the very thread that allocates here.
    // SAFETY: the text is this long.
    let _ = unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}

/// Writes to the standard error; nothing can be done if that fails.
#[cfg(not(unix))]
fn write_stderr(text: &[u8]) {
    let _ = std::io::Write::write_all(&mut std::io::stderr(), text);
}
