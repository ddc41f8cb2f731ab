//! A kernel that refuses io_uring, played by a filter of system calls.
#![cfg(all(feature = "io", target_os = "linux", not(any(rast_loom, rast_shuttle))))]

use std::time::Duration;

use rast_reactor::executor::block_on;
use rast_reactor::io::{Backend, UnixStream};
use rast_reactor::{BuildError, Builder, Pool, Reactors};

/// Has the system refuse `io_uring_setup` to this thread, and to those that it starts.
fn refuse(error: i32) {
    let op = |code: u32, jt: u8, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let number = libc::SYS_io_uring_setup as u32;
    let mut filter = [
        // The number of the call is the first word.
        op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        op(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, number),
        op(
            libc::BPF_RET | libc::BPF_K,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | error as u32,
        ),
        op(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: a call without memory.
    let set = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the program lives until the call returns.
    let set = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            &raw const program,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn builder() -> Builder {
    let pool = Pool::builder().threads([0, 0, 1]);
    Reactors::builder().number(2).pool(pool)
}

#[test]
fn auto_takes_readiness_and_says_why_and_a_forced_ring_is_an_error() {
    for (error, why) in [(libc::EPERM, "forbids"), (libc::ENOSYS, "has no io_uring")] {
        let thread = std::thread::spawn(move || {
            refuse(error);
            let reactors = builder().backend(Backend::Auto).build().unwrap();
            for reactor in 0..2 {
                let chosen = reactors.backend(reactor).unwrap();
                assert_eq!(chosen.backend, Backend::Readiness);
                assert!(chosen.why.contains(why), "{chosen}");
            }
            let task = reactors.reactor(0).unwrap().spawn(|| async {
                let (a, b) = UnixStream::pair().unwrap();
                a.write_all("served").await.0.unwrap();
                b.read_exact(vec![0; 6]).await.1
            });
            assert_eq!(block_on(task).unwrap(), b"served");
            assert!(reactors.stop(Duration::from_secs(60)).is_clean());
            match builder().backend(Backend::Uring).build() {
                Err(BuildError::Io(error)) => assert!(error.to_string().contains(why), "{error}"),
                other => panic!("{other:?}"),
            }
        });
        thread.join().unwrap();
    }
}
