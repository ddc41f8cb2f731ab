//! Many futures wait for one socket: an edge wakes one, each result the next, and a future that is
//! dropped passes its wake-up on.
#![cfg(all(feature = "io", unix, not(any(rast_loom, rast_shuttle))))]

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt as _;
use futures::channel::oneshot;
use rast_executor::io::{PollDriver, TcpListener, UdpSocket, UnixDatagram, UnixStream};
use rast_executor::timers::MonotonicClock;
use rast_executor::{LocalExecutor, Runtime, spawn, spawn_local, yield_now};

fn local<T>(future: impl Future<Output = T>) -> T {
    let driver = PollDriver::new().unwrap();
    LocalExecutor::with_driver(MonotonicClock::new(), driver).run(future)
}

/// Counts how often a waker is used.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A waker for futures that a test polls itself.
#[derive(Default)]
struct Woken(Arc<Count>);

impl Woken {
    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.0));
        future.poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.0.0.load(Ordering::Relaxed) > 0
    }

    /// Lets the executor look at the sockets until the waker was used.
    async fn wait(&self) {
        while !self.is_woken() {
            yield_now().await;
        }
    }
}

/// Counts the polls of a future.
async fn counted<F: Future>(future: F, polls: &Cell<usize>) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.set(polls.get() + 1);
        future.as_mut().poll(cx)
    })
    .await
}

/// Sends a datagram to each of `TASKS` tasks that wait for one, and the next one after each answer.
#[test]
fn a_datagram_costs_two_polls_however_many_tasks_wait() {
    const TASKS: usize = 64;
    local(async {
        let polls = Rc::new(Cell::new(0));
        let socket = Rc::new(UdpSocket::bind("127.0.0.1:0").unwrap());
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (socket, polls) = (Rc::clone(&socket), Rc::clone(&polls));
                spawn_local(async move {
                    let mut bytes = [0; 8];
                    let received = counted(socket.recv_from(&mut bytes), &polls).await;
                    let (count, from) = received.unwrap();
                    socket.send_to(&bytes[..count], from).await.unwrap();
                })
            })
            .collect();
        while polls.get() < TASKS {
            yield_now().await;
        }
        let to = socket.local_addr().unwrap();
        for n in 0..TASKS {
            sender.send_to(&[n as u8], to).await.unwrap();
            let mut bytes = [0; 8];
            assert_eq!(sender.recv(&mut bytes).await.unwrap(), 1);
            assert_eq!(bytes[0], n as u8);
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(polls.get() <= 4 * TASKS, "{} polls", polls.get());
    });
}

/// One edge may announce many datagrams, or connections.
#[test]
fn one_edge_serves_all_that_wait() {
    const TASKS: usize = 16;
    local(async {
        let (a, b) = UnixDatagram::pair().unwrap();
        let b = Rc::new(b);
        let listener = Rc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let address = listener.local_addr().unwrap();
        let waiting = Rc::new(Cell::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let (b, listener) = (Rc::clone(&b), Rc::clone(&listener));
                let waiting = Rc::clone(&waiting);
                spawn_local(async move {
                    waiting.set(waiting.get() + 1);
                    b.recv(&mut [0; 8]).await.unwrap();
                    listener.accept().await.unwrap();
                })
            })
            .collect();
        while waiting.get() < TASKS {
            yield_now().await;
        }
        for _ in 0..TASKS {
            // Without a wait, so no task runs in between.
            assert!(a.send(b"x").now_or_never().is_some());
        }
        let connections = (0..TASKS).map(|_| std::net::TcpStream::connect(address).unwrap());
        let connections: Vec<_> = connections.collect();
        for task in tasks {
            task.await.unwrap();
        }
        drop(connections);
    });
}

#[test]
fn a_woken_future_that_is_dropped_passes_the_wake_up_on() {
    local(async {
        let (a, b) = UnixDatagram::pair().unwrap();
        let woken: [Woken; 3] = Default::default();
        let (mut first, mut second, mut third) = ([0; 8], [0; 8], [0; 8]);
        let mut first = Box::pin(b.recv(&mut first));
        let mut second = Box::pin(b.recv(&mut second));
        let mut third = Box::pin(b.recv(&mut third));
        assert!(woken[0].poll(first.as_mut()).is_pending());
        assert!(woken[1].poll(second.as_mut()).is_pending());
        assert!(woken[2].poll(third.as_mut()).is_pending());
        a.send(b"one").await.unwrap();
        woken[0].wait().await;
        assert!(!woken[1].is_woken() && !woken[2].is_woken());
        drop(first);
        assert!(woken[1].is_woken() && !woken[2].is_woken());
        let Poll::Ready(received) = woken[1].poll(second.as_mut()) else {
            panic!("the datagram is there")
        };
        assert_eq!(received.unwrap(), 3);
        // There may be a second one, which only an operation finds out.
        assert!(woken[2].is_woken());
        assert!(woken[2].poll(third.as_mut()).is_pending());
    });
}

#[test]
fn a_select_that_takes_another_branch_passes_the_wake_up_on() {
    local(async {
        let (a, b) = UnixDatagram::pair().unwrap();
        let (cancel, cancelled) = oneshot::channel::<()>();
        let (mut ours, mut theirs) = ([0; 8], [0; 8]);
        let mut selects = Box::pin(async {
            let mut cancelled = cancelled.fuse();
            futures::select_biased! {
                _ = cancelled => false,
                received = pin!(b.recv(&mut ours).fuse()) => received.is_ok(),
            }
        });
        let mut waits = Box::pin(b.recv(&mut theirs));
        let woken: [Woken; 2] = Default::default();
        assert!(woken[0].poll(selects.as_mut()).is_pending());
        assert!(woken[1].poll(waits.as_mut()).is_pending());
        a.send(b"one").await.unwrap();
        woken[0].wait().await;
        assert!(!woken[1].is_woken());
        cancel.send(()).unwrap();
        assert_eq!(woken[0].poll(selects.as_mut()), Poll::Ready(false));
        assert!(woken[1].is_woken(), "the datagram is for the other one");
        let received = woken[1].poll(waits.as_mut());
        assert!(matches!(received, Poll::Ready(Ok(3))), "{received:?}");
    });
}

#[test]
fn an_end_is_found_by_all_that_wait() {
    local(async {
        let (a, b) = UnixStream::pair().unwrap();
        let b = Rc::new(b);
        let waiting = Rc::new(Cell::new(0));
        let tasks: Vec<_> = (0..8)
            .map(|_| {
                let (b, waiting) = (Rc::clone(&b), Rc::clone(&waiting));
                spawn_local(async move {
                    waiting.set(waiting.get() + 1);
                    b.read(&mut [0; 8]).await.unwrap()
                })
            })
            .collect();
        while waiting.get() < 8 {
            yield_now().await;
        }
        drop(a);
        for task in tasks {
            assert_eq!(task.await.unwrap(), 0);
        }
    });
}

/// A caller of a poll method that has gone away keeps no wake-up from the others.
#[cfg(feature = "futures-io")]
#[test]
fn a_poller_takes_no_wake_up_from_a_future() {
    local(async {
        let (a, mut b) = UnixStream::pair().unwrap();
        let (poller, future) = (Woken::default(), Woken::default());
        let waker = Waker::from(Arc::clone(&poller.0));
        let polled = futures_io::AsyncRead::poll_read(
            Pin::new(&mut b),
            &mut Context::from_waker(&waker),
            &mut [0; 8],
        );
        assert!(polled.is_pending());
        let mut bytes = [0; 8];
        let mut read = Box::pin(b.read(&mut bytes));
        assert!(future.poll(read.as_mut()).is_pending());
        a.write_all(b"one").await.unwrap();
        future.wait().await;
        assert!(poller.is_woken());
        let read = future.poll(read.as_mut());
        assert!(matches!(read, Poll::Ready(Ok(3))), "{read:?}");
    });
}

/// Some tasks give their wait up all the time, on several threads. Every datagram is received,
/// although the sender waits for that before it sends the next one.
#[test]
fn no_wake_up_is_lost_among_futures_that_come_and_go() {
    const DATAGRAMS: usize = 2_000;
    let runtime = Runtime::builder().workers(3).build().unwrap();
    runtime.block_on(async {
        let (a, b) = UnixDatagram::pair().unwrap();
        let (a, b) = (Arc::new(a), Arc::new(b));
        let tasks: Vec<_> = (0..8)
            .map(|n| {
                let b = Arc::clone(&b);
                spawn(async move {
                    let mut bytes = [0; 8];
                    loop {
                        if n % 2 == 0 {
                            let mut given_up = pin!(yield_now().fuse());
                            futures::select_biased! {
                                received = pin!(b.recv(&mut bytes).fuse()) => received.unwrap(),
                                () = given_up => continue,
                            };
                        } else {
                            b.recv(&mut bytes).await.unwrap();
                        }
                        b.send(&bytes).await.unwrap();
                    }
                })
            })
            .collect();
        for n in 0..DATAGRAMS {
            a.send(&n.to_le_bytes()).await.unwrap();
            let mut bytes = [0; 8];
            a.recv(&mut bytes).await.unwrap();
            assert_eq!(usize::from_le_bytes(bytes), n);
        }
        for task in tasks {
            task.abort();
        }
    });
}
