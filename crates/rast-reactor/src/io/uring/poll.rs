//! Waits until a descriptor can be read, without reading it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std_alloc::rc::Rc;

use io_uring::opcode;
use io_uring::types::Fd;

use super::op::Target;
use super::ring::Ring;
use crate::io::faults::Attempt;

/// Waits until `fd` can be read, or has an error. Dropping the future loses nothing.
pub(crate) async fn readable(ring: &Rc<Ring>, fd: &Rc<OwnedFd>) -> io::Result<()> {
    let number = Fd(fd.as_raw_fd());
    let entry = |(): &mut (), _: usize| opcode::PollAdd::new(number, libc::POLLIN as u32).build();
    let target = Target::plain(ring, fd, Attempt::Other);
    // SAFETY: it has no memory, and the descriptor is the target's.
    let (polled, ()) = unsafe { target.run((), 0, entry) }.await;
    polled.map(|_| ())
}
