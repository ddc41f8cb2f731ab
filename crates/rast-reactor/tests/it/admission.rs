//! Listeners of several reactors at one address, with admission by active requests.
#![cfg(all(feature = "io", not(any(rast_loom, rast_shuttle))))]

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use crate::support::{LONG, builder, on};
use crate::waker;
use rast_reactor::executor::{LocalExecutor, yield_now};
use rast_reactor::io::{Active, Backend, GroupListener, ListenerGroup, Requests, Watermarks};
use rast_reactor::{BuildError, Reactors, Spawned, spawn_local};

const MARKS: Watermarks = Watermarks { low: 2, high: 3 };

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn backends(number: usize) -> impl Iterator<Item = Reactors> {
    let build = move |backend| match builder(number).backend(backend).build() {
        Ok(reactors) => Some(reactors),
        Err(BuildError::Io(error)) if backend == Backend::Uring => {
            println!("not run: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    };
    [Backend::Uring, Backend::Readiness]
        .into_iter()
        .filter_map(build)
}

/// What a reactor of a test has: its listener, requests that the test began, accepted connections.
#[derive(Default)]
struct Place {
    listener: RefCell<Option<Rc<GroupListener>>>,
    requests: RefCell<Option<Requests>>,
    active: RefCell<Vec<Active>>,
    accepts: RefCell<Option<Spawned<()>>>,
    accepted: Cell<usize>,
}

thread_local! {
    static PLACE: Rc<Place> = Rc::default();
}

fn at<R: Send + 'static>(
    reactors: &Reactors,
    index: usize,
    work: impl FnOnce(&Place) -> R + Send + 'static,
) -> R {
    on(reactors, index, move || async move {
        work(&PLACE.with(Rc::clone))
    })
}

fn listen(reactors: &Reactors, index: usize, group: &ListenerGroup) {
    let group = group.clone();
    at(reactors, index, move |place| {
        let listener = group.listener().unwrap();
        place.requests.replace(Some(listener.requests()));
        place.listener.replace(Some(Rc::new(listener)));
    });
}

/// Sends the number of the reactor on each connection, from now on.
fn accept(reactors: &Reactors, index: usize) {
    at(reactors, index, move |place| {
        let listener = Rc::clone(place.listener.borrow().as_ref().unwrap());
        let accepts = spawn_local(async move {
            let place = PLACE.with(Rc::clone);
            loop {
                let stream = listener.accept().await.unwrap();
                place.accepted.set(place.accepted.get() + 1);
                stream.write_all(vec![index as u8]).await.0.unwrap();
            }
        });
        place.accepts.replace(Some(accepts));
    });
}

/// Drops the listener; the connections in its queue are for the others.
fn leave(reactors: &Reactors, index: usize) {
    on(reactors, index, || async {
        let place = PLACE.with(Rc::clone);
        let accepts = place.accepts.take();
        if let Some(accepts) = accepts {
            accepts.abort();
            assert!(accepts.await.is_err());
        }
        place.listener.replace(None);
    });
}

fn begin(reactors: &Reactors, index: usize, count: usize) {
    at(reactors, index, move |place| {
        let requests = place.requests.borrow();
        let requests = requests.as_ref().unwrap();
        place
            .active
            .borrow_mut()
            .extend((0..count).map(|_| requests.begin()));
    });
}

fn end(reactors: &Reactors, index: usize, count: usize) {
    at(reactors, index, move |place| {
        let mut active = place.active.borrow_mut();
        let left = active.len() - count;
        active.truncate(left);
    });
}

fn is_open(reactors: &Reactors, index: usize) -> bool {
    at(reactors, index, |place| {
        place.listener.borrow().as_ref().unwrap().is_open()
    })
}

fn accepted(reactors: &Reactors, index: usize) -> usize {
    at(reactors, index, |place| place.accepted.get())
}

/// The thread-local of each reactor lets go of its listener before the reactor ends.
fn finish(reactors: Reactors) {
    for index in 0..reactors.number() {
        leave(&reactors, index);
        at(&reactors, index, |place| {
            place.active.take();
            place.requests.replace(None);
        });
    }
    assert!(reactors.stop(LONG).is_clean());
}

fn connect(group: &ListenerGroup, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let client = TcpStream::connect(group.local_addr()).unwrap();
        client.set_read_timeout(Some(LONG)).unwrap();
        client
    };
    (0..count).map(connect).collect()
}

/// The number of the reactor that answered.
fn answer(client: &mut TcpStream) -> io::Result<usize> {
    let mut byte = [0];
    client.read_exact(&mut byte)?;
    Ok(byte[0].into())
}

fn answers(clients: &mut [TcpStream]) -> Vec<usize> {
    clients
        .iter_mut()
        .map(|client| answer(client).unwrap())
        .collect()
}

/// Lets a reactor run so many turns that an accept would have ended.
fn turns(reactors: &Reactors, index: usize) {
    on(reactors, index, || async {
        for _ in 0..1000 {
            yield_now().await;
        }
    });
}

/// A group on two reactors, by each backend, steered and shared.
fn on_each(test: impl Fn(&Reactors, &ListenerGroup)) {
    for is_shared in [false, true] {
        for reactors in backends(2) {
            println!("{} shared: {is_shared}", reactors.backend(0).unwrap());
            let group = if is_shared {
                ListenerGroup::bind_shared(any_port(), MARKS)
            } else {
                ListenerGroup::bind(any_port(), MARKS)
            };
            let group = group.unwrap();
            test(&reactors, &group);
            finish(reactors);
        }
    }
}

#[cfg(target_os = "linux")]
mod fault {
    use super::answer;
    use socket2::{Domain, Socket, Type};
    use std::io::{ErrorKind, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;

    fn reuse_port(address: std::net::SocketAddr) -> TcpListener {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let one: libc::c_int = 1;
        let bytes = size_of_val(&one) as libc::socklen_t;
        let begin = (&raw const one).cast();
        // SAFETY: the descriptor is open, and the value has so many bytes.
        let set = unsafe {
            let option = libc::SO_REUSEPORT;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, begin, bytes)
        };
        assert_eq!(set, 0);
        socket.bind(&address.into()).unwrap();
        socket.listen(128).unwrap();
        socket.into()
    }

    fn has_queued(listener: &TcpListener) -> bool {
        let mut poll = libc::pollfd {
            fd: listener.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: the pointer is that of one entry.
        unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
    }

    /// The original design: a reactor with too many requests closes its socket.
    #[test]
    fn closing_a_socket_resets_the_connections_in_its_queue() {
        let closes = reuse_port(super::any_port());
        let address = closes.local_addr().unwrap();
        let stays = reuse_port(address);
        let mut clients = Vec::new();
        // The kernel chooses by a hash, so some connection comes to the first socket.
        while !has_queued(&closes) {
            clients.push(TcpStream::connect(address).unwrap());
        }
        drop(closes);
        stays.set_nonblocking(true).unwrap();
        while let Ok((mut stream, _)) = stays.accept() {
            stream.write_all(&[1]).unwrap();
        }
        let migrates = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_migrate_req");
        if migrates.is_ok_and(|text| text.trim() == "1") {
            println!("not run: this kernel gives the queue to the other sockets");
            return;
        }
        let last = answer(clients.last_mut().unwrap()).unwrap_err();
        assert_eq!(last.kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn what_a_reactor_that_is_turned_away_has_queued_is_accepted() {
    for reactors in backends(2) {
        let group = ListenerGroup::bind(any_port(), MARKS).unwrap();
        if !group.is_steered() {
            println!("not run: the kernel takes no program");
            return;
        }
        // The only listener gets all.
        listen(&reactors, 0, &group);
        let mut before = connect(&group, 8);
        listen(&reactors, 1, &group);
        begin(&reactors, 0, 4);
        assert_eq!(group.open(), 1);
        let mut after = connect(&group, 8);
        accept(&reactors, 0);
        accept(&reactors, 1);
        assert_eq!(answers(&mut before), [0; 8]);
        assert_eq!(answers(&mut after), [1; 8]);
        // Open again, and the other one turned away.
        end(&reactors, 0, 3);
        begin(&reactors, 1, 4);
        assert_eq!(answers(&mut connect(&group, 8)), [0; 8]);
        finish(reactors);
    }
}

#[test]
fn a_reactor_returns_below_the_low_mark_only() {
    on_each(|reactors, group| {
        listen(reactors, 0, group);
        listen(reactors, 1, group);
        begin(reactors, 0, 3);
        assert!(is_open(reactors, 0), "high is allowed");
        begin(reactors, 0, 1);
        assert!(!is_open(reactors, 0));
        end(reactors, 0, 2);
        assert!(!is_open(reactors, 0), "low is not below low");
        end(reactors, 0, 1);
        assert!(is_open(reactors, 0));
        begin(reactors, 0, 2);
        assert!(is_open(reactors, 0));
        assert_eq!(group.open(), 2);
    });
}

#[test]
fn connections_wait_while_all_are_turned_away() {
    on_each(|reactors, group| {
        for index in 0..2 {
            listen(reactors, index, group);
            begin(reactors, index, 4);
            accept(reactors, index);
        }
        assert_eq!(group.open(), 0);
        let mut clients = connect(group, 16);
        for index in 0..2 {
            turns(reactors, index);
            assert_eq!(accepted(reactors, index), 0);
        }
        end(reactors, 1, 3);
        let answers = answers(&mut clients);
        let mine = answers.iter().filter(|&&index| index == 0).count();
        assert_eq!(accepted(reactors, 0), mine);
        if !group.is_steered() {
            assert_eq!(mine, 0, "the one that is open accepts");
        }
    });
}

#[test]
fn another_reactor_accepts_what_a_listener_leaves() {
    on_each(|reactors, group| {
        // All are queued at the reactor that leaves.
        listen(reactors, 1, group);
        let mut clients = connect(group, 8);
        listen(reactors, 0, group);
        accept(reactors, 0);
        accept(reactors, 1);
        begin(reactors, 1, 1);
        leave(reactors, 1);
        clients.extend(connect(group, 8));
        for client in &mut clients {
            answer(client).unwrap();
        }
        // The requests of a listener that is gone change nothing.
        begin(reactors, 1, 8);
        end(reactors, 1, 8);
        assert_eq!(group.open(), 1);
        // Another listener on the same socket.
        listen(reactors, 1, group);
        accept(reactors, 1);
        begin(reactors, 0, 4);
        for client in &mut connect(group, 8) {
            answer(client).unwrap();
        }
    });
}

#[test]
fn a_reactor_that_stops_leaves_its_queue_to_another_set() {
    for group in [ListenerGroup::bind, ListenerGroup::bind_shared] {
        for stops in backends(1) {
            let group = group(any_port(), MARKS).unwrap();
            listen(&stops, 0, &group);
            let mut clients = connect(&group, 8);
            // The listener is dropped with the thread.
            drop(stops);
            let stays = builder(1).build().unwrap();
            listen(&stays, 0, &group);
            accept(&stays, 0);
            assert_eq!(answers(&mut clients), [0; 8]);
            finish(stays);
        }
    }
}

#[test]
fn an_accept_that_is_dropped_loses_no_connection() {
    on_each(|reactors, group| {
        listen(reactors, 0, group);
        let mut clients = connect(group, 4);
        on(reactors, 0, || async {
            let listener = PLACE.with(|place| Rc::clone(place.listener.borrow().as_ref().unwrap()));
            // Polled and dropped in turns, until one of them accepts.
            let mut streams = Vec::new();
            while streams.len() < 4 {
                let accepts = spawn_local({
                    let listener = Rc::clone(&listener);
                    async move { listener.accept().await.unwrap() }
                });
                yield_now().await;
                if accepts.is_finished() {
                    streams.push(accepts.await.unwrap());
                } else {
                    accepts.abort();
                    if let Ok(stream) = accepts.await {
                        streams.push(stream);
                    }
                }
            }
            for stream in streams {
                stream.write_all(vec![0]).await.0.unwrap();
            }
        });
        assert_eq!(answers(&mut clients), [0; 4]);
    });
}

#[test]
fn an_accept_that_is_given_up_leaves_no_waker_behind() {
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    on_each(|reactors, group| {
        listen(reactors, 0, group);
        on(reactors, 0, || async {
            let listener = PLACE.with(|place| Rc::clone(place.listener.borrow().as_ref().unwrap()));
            let idle = Arc::new(Idle);
            for _ in 0..10 {
                let mut accepts = Box::pin(listener.accept());
                let waker = Waker::from(Arc::clone(&idle));
                let mut cx = Context::from_waker(&waker);
                assert!(accepts.as_mut().poll(&mut cx).is_pending());
            }
            // An operation of the ring that is given up ends in a later turn.
            for _ in 0..100_000 {
                if Arc::strong_count(&idle) == 1 {
                    return;
                }
                yield_now().await;
            }
            panic!("{} wakers are left", Arc::strong_count(&idle) - 1);
        });
    });
}

#[test]
fn an_accept_has_one_waker_and_wakes_no_task_when_it_ends() {
    on_each(|reactors, group| {
        listen(reactors, 0, group);
        on(reactors, 0, || async {
            let listener = PLACE.with(|place| Rc::clone(place.listener.borrow().as_ref().unwrap()));
            let odd = Arc::default();
            let waker = waker::waker(&odd);
            let mut cx = Context::from_waker(&waker);
            let mut accepts = Box::pin(listener.accept());
            for _ in 0..100 {
                assert!(accepts.as_mut().poll(&mut cx).is_pending());
            }
            // One in the list of the group, and one for the socket.
            assert_eq!(odd.alive(), 1 + 2);
            drop(accepts);
            // Two accepts of one task leave each other's wakers alone.
            let mut two = [(); 2].map(|()| Box::pin(listener.accept()));
            for accepts in &mut two {
                assert!(accepts.as_mut().poll(&mut cx).is_pending());
            }
            let [stays, ends] = two;
            drop(ends);
            assert_eq!(odd.alive(), 1 + 2);
            drop(stays);
            assert_eq!((odd.alive(), odd.wakes()), (1, 0));
        });
    });
}

#[test]
fn bad_marks_and_a_port_in_use_are_errors() {
    for (low, high) in [(0, 1), (2, 1), (0, 0)] {
        let error = ListenerGroup::bind(any_port(), Watermarks { low, high }).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
    let reactors = builder(1).build().unwrap();
    let group = ListenerGroup::bind(any_port(), MARKS).unwrap();
    listen(&reactors, 0, &group);
    let again = ListenerGroup::bind(group.local_addr(), MARKS).unwrap_err();
    assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
    finish(reactors);
}

#[test]
#[should_panic(expected = "no reactor runs on this thread")]
fn a_listener_outside_of_a_reactor_panics() {
    let group = ListenerGroup::bind(any_port(), MARKS).unwrap();
    LocalExecutor::new().run(async { drop(group.listener()) });
}
