//! A process whose descriptors are used up, and descriptors of operations that were given up. A
//! test binary of its own: the limit and the count are those of the process.
#![cfg(all(feature = "io", target_os = "linux", not(any(rast_loom, rast_shuttle))))]

#[path = "support/io.rs"]
mod support;

use std::fs::File;
use std::time::{Duration, Instant};

use rast_reactor::executor::{block_on, yield_now};
use rast_reactor::io::{Backend, OpenOptions, TcpListener, TcpStream, UnixStream};
use rast_reactor::{BuildError, Builder, CallError, Pool, Reactors};

use support::{build, poll_once};

const LONG: Duration = Duration::from_secs(120);

fn builder() -> Builder {
    let pool = Pool::builder().threads([1, 0, 1]);
    Reactors::builder().number(2).pool(pool)
}

fn open() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Opens files until the system refuses.
fn use_up() -> Vec<File> {
    let mut files = Vec::new();
    loop {
        match File::open("/dev/null") {
            Ok(file) => files.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
                return files;
            }
        }
    }
}

fn limit(number: u64) {
    let limit = libc::rlimit {
        rlim_cur: number,
        rlim_max: number,
    };
    // SAFETY: the memory lives until the call returns.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

/// Gives up operations of all kinds that make descriptors or keep them.
async fn given_up() {
    for round in 0..50_usize {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut peers = Vec::new();
        let mut accepts: Vec<_> = (0..4).map(|_| Box::pin(listener.accept())).collect();
        for accept in &mut accepts {
            assert!(poll_once(accept.as_mut()).await.is_none());
        }
        for _ in 0..6 {
            peers.push(std::net::TcpStream::connect(address).unwrap());
        }
        let mut connect = Box::pin(TcpStream::connect(address));
        let _ = poll_once(connect.as_mut()).await;
        let mut open = Box::pin(OpenOptions::new().open("/dev/null"));
        let _ = poll_once(open.as_mut()).await;
        for _ in 0..round % 3 {
            yield_now().await;
        }
        drop((accepts, connect, open));
        let mut incoming = listener.incoming();
        let _ = poll_once(incoming.next()).await;
        for _ in 0..round % 5 {
            yield_now().await;
        }
        let (a, b) = UnixStream::pair().unwrap();
        let _ = poll_once(a.chunk()).await;
        let _ = poll_once(b.read(Vec::with_capacity(8))).await;
    }
}

/// Accepts while the process has no descriptor left.
async fn lack() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let files = use_up();
    let begin = Instant::now();
    let mut incoming = listener.incoming();
    for _ in 0..5 {
        for accepted in [listener.accept().await, incoming.next().await] {
            let error = accepted.unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        }
    }
    // Ten errors with a rest after each but the last.
    assert!(begin.elapsed() >= Duration::from_millis(90));
    drop(files);
    let stream = incoming.next().await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), peer.local_addr().unwrap());
}

#[test]
fn descriptors_return_and_their_lack_keeps_no_core_busy() {
    limit(1024);
    for backend in [Backend::Uring, Backend::Readiness] {
        let before = open();
        let Some(reactors) = build(builder(), backend) else {
            continue;
        };
        println!("{backend:?}");
        block_on(reactors.reactor(0).unwrap().spawn(lack)).unwrap();
        block_on(reactors.reactor(0).unwrap().spawn(given_up)).unwrap();
        // The end of a reactor in the middle of them.
        let task = reactors.reactor(1).unwrap().spawn(|| async {
            loop {
                given_up().await;
            }
        });
        let _ = reactors.stop(Duration::from_millis(20));
        assert!(matches!(block_on(task), Err(CallError::Stopped)));
        // A reactor that was preempted may still end.
        let begin = Instant::now();
        while open() > before && begin.elapsed() < LONG {
            std::thread::yield_now();
        }
        assert_eq!(open(), before, "{backend:?}");
    }
    // No descriptor for a reactor: an error, and no thread is left behind.
    let files = use_up();
    for backend in [Backend::Auto, Backend::Uring, Backend::Readiness] {
        match builder().backend(backend).build() {
            Err(BuildError::Io(error)) => println!("{backend:?}: {error}"),
            other => panic!("{other:?}"),
        }
    }
    drop(files);
}
