//! Connections that a ring makes.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;

use io_uring::types::Fd;
use io_uring::{opcode, squeue};
use socket2::{SockAddr, Socket, Type};

use super::op::Target;
use super::ring::Ring;
use super::stream::Stream;
use crate::io::faults::Attempt;

/// Connects a new socket to the address.
pub(crate) async fn connect(ring: &Rc<Ring>, address: SockAddr) -> io::Result<Stream> {
    let fd: Rc<OwnedFd> = Rc::new(Socket::new(address.domain(), Type::STREAM, None)?.into());
    let number = Fd(fd.as_raw_fd());
    let target = Target::plain(ring, &fd, Attempt::Other);
    let entry = |address: &mut Box<SockAddr>, _: usize| -> squeue::Entry {
        opcode::Connect::new(number, address.as_ptr().cast(), address.len()).build()
    };
    // SAFETY: the address is on the heap, and keeps its place.
    let (connected, _) = unsafe { target.run(Box::new(address), 0, entry) }.await;
    connected?;
    Ok(Stream::new(ring, fd))
}
