//! Which sockets of an SO_REUSEPORT group get new connections: a classic BPF program.
//!
//! The kernel runs the program for each new connection. Its result is the index of a socket, in the
//! order in which the sockets of the group began to listen. If there is no socket with this index,
//! the kernel chooses by a hash of the addresses.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std_alloc::vec;
use std_alloc::vec::Vec;

use libc::{c_int, c_void, sock_filter, sock_fprog, socklen_t};
use socket2::{Domain, Socket, Type};

/// Maximum number of sockets of a program, which has two instructions for each. The kernel accepts
/// 4,096 instructions.
pub(crate) const SOCKETS_MAX: usize = 1024;

/// An instruction; `jf` is how many instructions are skipped if a comparison fails.
fn instruction(code: u32, k: u32, jf: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    }
}

/// The program that chooses one of these sockets at random.
fn program(open: &[usize]) -> Vec<sock_filter> {
    let [before @ .., last] = open else {
        return Vec::new();
    };
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let give = |socket: usize| instruction(libc::BPF_RET | libc::BPF_K, socket as u32, 0);
    let mut program = vec![
        instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, random, 0),
        instruction(
            libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K,
            open.len() as u32,
            0,
        ),
    ];
    for (number, &socket) in before.iter().enumerate() {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(instruction(equal, number as u32, 1));
        program.push(give(socket));
    }
    program.push(give(*last));
    program
}

/// Sets an option of a socket to a value that is plain data.
fn set_option<T: Copy>(socket: BorrowedFd<'_>, option: c_int, value: &T) -> io::Result<()> {
    let bytes = size_of::<T>() as socklen_t;
    let begin = core::ptr::from_ref(value).cast::<c_void>();
    // SAFETY: the descriptor is open, and the value has so many bytes, which the call only reads.
    let set =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, begin, bytes) };
    if set == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Lets further sockets be bound to the address of this one.
pub(crate) fn share_port(socket: BorrowedFd<'_>) -> io::Result<()> {
    set_option(socket, libc::SO_REUSEPORT, &(1 as c_int))
}

/// Steers new connections of the socket's group to these sockets, which are at least one and at
/// most [`SOCKETS_MAX`].
pub(crate) fn steer(socket: BorrowedFd<'_>, open: &[usize]) -> io::Result<()> {
    debug_assert!(
        !open.is_empty() && open.len() <= SOCKETS_MAX,
        "steer: a program has sockets to choose from"
    );
    let mut program = program(open);
    let program = sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // The kernel copies the instructions, which live until the call returns.
    set_option(socket, libc::SO_ATTACH_REUSEPORT_CBPF, &program)
}

/// Returns `true` if the kernel accepts a program. Tries it with a new socket, which is then
/// closed.
pub(crate) fn is_served() -> bool {
    let attach = || {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        share_port(socket.as_fd())?;
        steer(socket.as_fd(), &[0])
    };
    attach().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program returns for a random number.
    fn run(program: &[sock_filter], random: u32) -> u32 {
        let mut register = 0;
        let mut next = 0;
        loop {
            let at = program[next];
            next += 1;
            match u32::from(at.code) & 0x07 {
                libc::BPF_LD => register = random,
                libc::BPF_ALU => register %= at.k,
                libc::BPF_JMP if register != at.k => next += usize::from(at.jf),
                libc::BPF_JMP => {}
                _ => return at.k,
            }
        }
    }

    #[test]
    fn each_open_socket_is_chosen_equally_often() {
        for open in [vec![0], vec![3], vec![0, 2, 5], (0..SOCKETS_MAX).collect()] {
            let program = program(&open);
            assert!(program.len() <= 4096);
            let chosen: Vec<_> = (0..2 * open.len())
                .map(|random| run(&program, random as u32) as usize)
                .collect();
            assert_eq!(chosen, [open.clone(), open].concat());
        }
    }
}
