//! Buffers whose methods use the stream that reads into them, and buffers that panic.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rast_reactor::executor::yield_now;
use rast_reactor::io::{Backend, TcpStream};
use rast_reactor::spawn_local;

use super::{build, builder, on_both, poll_once, run_on, tcp_pair};
use crate::support::io::{Hook, Hooked, counted};

/// Reads a byte of the stream in each method of its buffer, or gives that read up.
struct Meddles {
    /// Weak, because the stream may have the buffer of a read that was given up.
    stream: Weak<TcpStream>,
    seen: Rc<RefCell<Vec<u8>>>,
    is_reading: Rc<Cell<bool>>,
}

impl Meddles {
    fn meddle(&self) {
        let Some(stream) = self.stream.upgrade() else {
            return;
        };
        if self.is_reading.replace(true) {
            return;
        }
        {
            let read = pin!(stream.read(Vec::with_capacity(1)));
            if let Poll::Ready((count, byte)) = read.poll(&mut Context::from_waker(Waker::noop())) {
                count.unwrap();
                self.seen.borrow_mut().extend(byte);
            }
        }
        self.is_reading.set(false);
    }
}

impl Hook for Meddles {
    fn asked(&self) {
        self.meddle();
    }

    fn filled(&self) {
        self.meddle();
    }
}

#[test]
fn a_buffer_may_read_its_stream_in_its_methods() {
    on_both(
        || builder().chunks(8, 16),
        || async {
            for by_chunks in [false, true] {
                let (a, b) = tcp_pair().await;
                let a = Rc::new(a);
                let (seen, is_reading) = (Rc::default(), Rc::default());
                if by_chunks {
                    // From now on the stream receives chunks.
                    assert!(poll_once(a.chunk()).await.is_none());
                }
                let sent: Vec<u8> = (0..=255).collect();
                b.write_all(sent.clone()).await.0.unwrap();
                let is_over = || {
                    let seen: &RefCell<Vec<u8>> = &seen;
                    seen.borrow().len() == sent.len()
                };
                while !is_over() {
                    let meddles = Meddles {
                        stream: Rc::downgrade(&a),
                        seen: Rc::clone(&seen),
                        is_reading: Rc::clone(&is_reading),
                    };
                    let mut read = pin!(a.read(Hooked::new(3, meddles)));
                    // The buffer may read the last byte, and then this read does not end.
                    while !is_over() {
                        if let Some((count, buffer)) = poll_once(read.as_mut()).await {
                            count.unwrap();
                            seen.borrow_mut().extend_from_slice(&buffer.bytes);
                            break;
                        }
                        yield_now().await;
                    }
                }
                seen.borrow_mut().sort_unstable();
                assert!(*seen.borrow() == sent, "each byte is read once");
            }
        },
    );
}

/// Panics when bytes were read.
struct Refuses;

impl Hook for Refuses {
    fn filled(&self) {
        resume_unwind(Box::new("no bytes"));
    }
}

#[test]
fn bytes_that_were_left_stay_although_a_buffer_panics() {
    let Some(reactors) = build(builder(), Backend::Uring) else {
        return;
    };
    run_on(&reactors, || async {
        let (a, b) = tcp_pair().await;
        let a = Rc::new(a);
        assert!(poll_once(a.chunk()).await.is_none());
        b.write_all("0123456789").await.0.unwrap();
        let (count, bytes) = a.read(Vec::with_capacity(2)).await;
        assert_eq!((count.unwrap(), bytes), (2, b"01".to_vec()));
        for _ in 0..3 {
            let theirs = Rc::clone(&a);
            let refuses =
                spawn_local(async move { drop(theirs.read(Hooked::new(4, Refuses)).await) });
            assert!(refuses.await.is_err(), "it panics");
        }
        let (count, bytes) = a.read(Vec::with_capacity(16)).await;
        assert_eq!((count.unwrap(), bytes), (8, b"23456789".to_vec()));
    });
    assert!(reactors.stop(Duration::from_secs(60)).is_clean());
}

#[test]
fn a_buffer_of_a_dropped_read_panics_in_no_other_read() {
    const ROUNDS: usize = 100;
    let Some(reactors) = build(builder(), Backend::Uring) else {
        return;
    };
    run_on(&reactors, || async {
        let drops = Arc::new(AtomicUsize::new(0));
        let (a, b) = tcp_pair().await;
        for round in 0..ROUNDS {
            let mut read = Box::pin(a.read(counted(8, &drops, true)));
            assert!(poll_once(read.as_mut()).await.is_none());
            b.write_all("late").await.0.unwrap();
            // In some rounds the read has taken the bytes when it is dropped.
            for _ in 0..round % 4 {
                yield_now().await;
            }
            drop(read);
            let mut received = Vec::new();
            while received.len() < 4 {
                let (count, bytes) = a.read(Vec::with_capacity(3)).await;
                assert_ne!(count.unwrap(), 0);
                received.extend(bytes);
            }
            assert_eq!(received, b"late");
        }
        assert_eq!(drops.load(Ordering::Relaxed), ROUNDS);
    });
    assert!(reactors.stop(Duration::from_secs(60)).is_clean());
}

/// Of two reads that were given up one has found the end. The next reads return the bytes of the
/// other one, in whichever order the two were given up.
#[test]
fn the_end_hides_no_bytes_of_a_read_that_was_given_up() {
    let Some(reactors) = build(builder(), Backend::Uring) else {
        return;
    };
    run_on(&reactors, || async {
        for is_first_dropped_first in [false, true] {
            let (a, b) = tcp_pair().await;
            let mut first = Box::pin(a.read(Vec::with_capacity(8)));
            let mut second = Box::pin(a.read(Vec::with_capacity(8)));
            assert!(poll_once(first.as_mut()).await.is_none());
            assert!(poll_once(second.as_mut()).await.is_none());
            yield_now().await;
            b.write_all("bytes").await.0.unwrap();
            drop(b);
            // The kernel completes both: one takes the bytes, the other finds the end.
            for _ in 0..1000 {
                yield_now().await;
            }
            if is_first_dropped_first {
                drop((first, second));
            } else {
                drop((second, first));
            }
            let mut received = Vec::new();
            loop {
                let (count, bytes) = a.read(Vec::with_capacity(8)).await;
                if count.unwrap() == 0 {
                    break;
                }
                received.extend(bytes);
            }
            assert_eq!(received, b"bytes");
        }
    });
    assert!(reactors.stop(Duration::from_secs(60)).is_clean());
}
