//! One lane for many receivers: threads, tasks, streams, wake-ups that are passed on, the end.

use core::task::{Context, Poll};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures::future::{Either, select};
use rast_msgpass::__private::{EgressReceiver, Lane, Wake};
use rast_msgpass::queue::spsc::{self, Producer};
use rast_msgpass::sharder::ShardId;
use rast_msgpass::{
    Cx, Egress, EndedBy, Ingress, Process, Receive, RecvError, RecvTimeoutError, SharedReceiver,
    TryRecvError, graph,
};

use crate::LONG;
use crate::task::{bell, block_on};

struct Deaf;

impl Wake for Deaf {
    fn wake(&self, _: ShardId) {}
}

/// A lane with one sender, which this test plays.
struct Sender {
    ring: Producer<u32>,
    lane: Arc<Lane>,
}

impl Sender {
    fn new() -> (Self, SharedReceiver<u32, Deaf>) {
        let lane = Arc::new(Lane::new(1));
        let (ring, end) = spsc::ring(8);
        let receiver = EgressReceiver::from_rings(vec![end], Arc::clone(&lane), 1, Deaf);
        (Self { ring, lane }, receiver.share())
    }

    /// Sends messages, and announces them once.
    fn send(&mut self, messages: impl IntoIterator<Item = u32>) {
        for message in messages {
            self.ring.push(message).unwrap();
        }
        self.lane.announce(0);
    }
}

#[test]
fn a_future_that_is_dropped_hands_its_wake_up_on() {
    let (mut sender, out) = Sender::new();
    let ((first_bell, first_waker), (second_bell, second_waker)) = (bell(), bell());
    let mut first = Box::pin(out.recv_async());
    let mut second = pin!(out.recv_async());
    let mut cx = Context::from_waker(&second_waker);
    assert!(
        first
            .as_mut()
            .poll(&mut Context::from_waker(&first_waker))
            .is_pending()
    );
    assert!(second.as_mut().poll(&mut cx).is_pending());
    sender.send([7]);
    assert_eq!((first_bell.rings(), second_bell.rings()), (1, 0));
    drop(first);
    assert_eq!(second_bell.rings(), 1);
    assert_eq!(second.poll(&mut cx), Poll::Ready(Ok(7)));
    // One that was not woken hands nothing on.
    let mut third = Box::pin(out.recv_async());
    assert!(third.as_mut().poll(&mut cx).is_pending());
    drop(third);
    assert_eq!(second_bell.rings(), 1);
}

#[test]
fn a_receiver_that_leaves_more_behind_wakes_the_next() {
    let (mut sender, out) = Sender::new();
    let bells: Vec<_> = (0..3).map(|_| bell()).collect();
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(out.recv_async())).collect();
    for (one, (_, waker)) in waiting.iter_mut().zip(&bells) {
        let poll = one.as_mut().poll(&mut Context::from_waker(waker));
        assert!(poll.is_pending());
    }
    let rings = || {
        bells
            .iter()
            .map(|(bell, _)| bell.rings())
            .collect::<Vec<_>>()
    };
    sender.send([1, 2]);
    assert_eq!(rings(), [1, 0, 0]);
    let poll = waiting[0]
        .as_mut()
        .poll(&mut Context::from_waker(&bells[0].1));
    assert_eq!(poll, Poll::Ready(Ok(1)));
    assert_eq!(rings(), [1, 1, 0]);
    let poll = waiting[1]
        .as_mut()
        .poll(&mut Context::from_waker(&bells[1].1));
    assert_eq!(poll, Poll::Ready(Ok(2)));
    // The lane is empty, and tells of the next message.
    assert_eq!(rings(), [1, 1, 0]);
    sender.send([3, 4]);
    assert_eq!(rings(), [1, 1, 1]);
    // One that waits for nothing takes it; the other one is left, and is not there to be woken.
    assert_eq!((out.try_recv(), out.try_recv()), (Ok(3), Ok(4)));
    let poll = waiting[2]
        .as_mut()
        .poll(&mut Context::from_waker(&bells[2].1));
    assert!(poll.is_pending());
    sender.send([5]);
    assert_eq!(rings(), [1, 1, 2]);
    let mut all = Vec::new();
    assert_eq!(out.recv_many(&mut all, 8), 1);
    assert_eq!(all, [5]);
}

#[test]
fn a_wake_up_that_comes_while_a_receiver_looks_is_not_used_up() {
    let (mut sender, out) = Sender::new();
    let ((_, first_waker), (second_bell, second_waker)) = (bell(), bell());
    let mut first = Box::pin(out.recv_async());
    let mut second = pin!(out.recv_async());
    let mut first_cx = Context::from_waker(&first_waker);
    let mut second_cx = Context::from_waker(&second_waker);
    assert!(first.as_mut().poll(&mut first_cx).is_pending());
    assert!(second.as_mut().poll(&mut second_cx).is_pending());
    // The first is woken for one message, and takes one of two.
    sender.send([1]);
    sender.send([2]);
    assert_eq!(first.as_mut().poll(&mut first_cx), Poll::Ready(Ok(1)));
    assert_eq!(second_bell.rings(), 1);
    assert_eq!(second.poll(&mut second_cx), Poll::Ready(Ok(2)));
}

#[test]
fn the_end_wakes_all() {
    let (sender, out) = Sender::new();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let out = out.clone();
            thread::spawn(move || out.recv())
        })
        .collect();
    let task = thread::spawn({
        let out = out.clone();
        move || block_on(out.recv_async())
    });
    let timed = thread::spawn({
        let out = out.clone();
        move || out.recv_timeout(LONG)
    });
    sender.lane.end();
    let end = RecvError(EndedBy::Fault);
    for thread in threads {
        assert_eq!(thread.join().unwrap(), Err(end));
    }
    assert_eq!(task.join().unwrap(), Err(end));
    let closed = RecvTimeoutError::Closed(EndedBy::Fault);
    assert_eq!(timed.join().unwrap(), Err(closed));
    assert!(out.is_closed());
    assert_eq!(out.try_recv(), Err(TryRecvError::Closed(EndedBy::Fault)));
}

#[test]
fn a_wait_ends_in_time() {
    let (mut sender, out) = Sender::new();
    let short = Duration::from_millis(1);
    assert_eq!(out.recv_timeout(short), Err(RecvTimeoutError::Elapsed));
    sender.send([1]);
    assert_eq!(out.recv_timeout(Duration::ZERO), Ok(1));
    assert_eq!(out.try_recv(), Err(TryRecvError::Empty));
}

struct Part;
#[derive(Debug)]
struct Put {
    from: usize,
    number: u64,
}

graph! {
    graph Store {
        processors { part: [Part; 3] }
        edges {
            ingress -> part: u64 [cap = 8];
            part -> egress: Put [cap = 4];
        }
    }
}

impl Process<Store> for Part {}
impl Receive<Store, Ingress, u64> for Part {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Store, Self>) {
        let from = cx.replica();
        cx.to::<Egress>().send(Put { from, number });
    }
}

/// What one receiver took: the numbers of each sender, in order.
type Taken = HashMap<usize, Vec<u64>>;

fn note(taken: &mut Taken, put: Put) {
    let numbers = taken.entry(put.from).or_default();
    assert!(numbers.last().is_none_or(|&last| last < put.number));
    numbers.push(put.number);
}

/// The ways to receive.
const WAYS: usize = 6;

fn receive(way: usize, out: SharedReceiver<Put>) -> Taken {
    let mut taken = Taken::new();
    match way {
        0 => {
            while let Ok(put) = out.recv() {
                note(&mut taken, put);
            }
        }
        1 => loop {
            match out.recv_timeout(Duration::from_micros(50)) {
                Ok(put) => note(&mut taken, put),
                Err(RecvTimeoutError::Elapsed) => {}
                Err(RecvTimeoutError::Closed(_)) => break,
            }
        },
        2 => loop {
            match out.try_recv() {
                Ok(put) => note(&mut taken, put),
                Err(TryRecvError::Empty) => thread::yield_now(),
                Err(TryRecvError::Closed(_)) => break,
            }
        },
        3 => block_on(async {
            while let Ok(put) = out.recv_async().await {
                note(&mut taken, put);
            }
        }),
        4 => {
            let mut some = Vec::new();
            while let Ok(put) = out.recv() {
                note(&mut taken, put);
                out.recv_many(&mut some, 3);
                some.drain(..).for_each(|put| note(&mut taken, put));
            }
        }
        _ => block_on(async {
            // As under `select!`: receives are dropped, woken or not, when another branch is
            // ready.
            loop {
                let other = core::future::ready(());
                if let Either::Left((Ok(put), _)) = select(out.recv_async(), other).await {
                    note(&mut taken, put);
                }
                let one_of_two = select(out.recv_async(), out.recv_async()).await;
                match one_of_two.factor_first().0 {
                    Ok(put) => note(&mut taken, put),
                    Err(_) => break,
                }
            }
        }),
    }
    taken
}

#[test]
fn each_message_goes_to_one_receiver() {
    let each = if cfg!(miri) { 20 } else { 3_000 };
    for chosen in 0..=WAYS {
        let app = Store::builder([Part, Part, Part])
            .workers(2)
            .start()
            .unwrap();
        let out = app.egress::<Part, Put>(0).share();
        let into = app.ingress::<Part, u64>();
        let receivers: Vec<_> = (0..WAYS)
            .map(|way| {
                // All ways at once, or one of them by all.
                let way = if chosen == WAYS { way } else { chosen };
                let out = out.clone();
                thread::spawn(move || receive(way, out))
            })
            .collect();
        drop(out);
        thread::scope(|scope| {
            for part in 0..3 {
                let into = &into;
                scope.spawn(move || (0..each).for_each(|n| into.at(part).send(n).unwrap()));
            }
        });
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.undelivered_total(), 0);
        let taken: Vec<Taken> = receivers
            .into_iter()
            .map(|one| one.join().unwrap())
            .collect();
        for part in 0..3 {
            let numbers = taken.iter().filter_map(|taken| taken.get(&part));
            let mut numbers: Vec<u64> = numbers.flatten().copied().collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..each).collect::<Vec<_>>(), "way {chosen}");
        }
    }
}

#[test]
fn receivers_that_are_gone_gate_no_sender() {
    let app = Store::builder([Part, Part, Part])
        .workers(1)
        .start()
        .unwrap();
    let out = app.egress::<Part, Put>(0).share();
    let into = app.ingress::<Part, u64>();
    let other = out.clone();
    drop(out);
    into.at(0).send(1).unwrap();
    assert_eq!(other.recv().unwrap().number, 1);
    drop(other);
    (0..100).for_each(|number| into.at(1).send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.received_total(), 101);
    assert_eq!(report.undelivered_total(), 100);
}

#[test]
fn shared_receivers_are_for_any_thread() {
    fn any_thread<T: Send + Sync + Clone>() {}
    any_thread::<SharedReceiver<Put>>();
}

#[cfg(feature = "async")]
mod streams {
    use super::*;
    use crate::task::until;
    use futures::StreamExt;

    #[test]
    fn a_stream_that_is_not_polled_keeps_no_wake_up() {
        let (mut sender, out) = Sender::new();
        let ((kept_bell, kept_waker), (other_bell, other_waker)) = (bell(), bell());
        let mut kept = out.clone();
        let poll = kept.poll_next_unpin(&mut Context::from_waker(&kept_waker));
        assert!(poll.is_pending());
        let mut other = pin!(out.recv_async());
        let mut cx = Context::from_waker(&other_waker);
        assert!(other.as_mut().poll(&mut cx).is_pending());
        sender.send([1]);
        assert_eq!((kept_bell.rings(), other_bell.rings()), (1, 1));
        assert_eq!(other.poll(&mut cx), Poll::Ready(Ok(1)));
        // Polled again, it waits again.
        let mut cx = Context::from_waker(&kept_waker);
        assert!(kept.poll_next_unpin(&mut cx).is_pending());
        sender.send([2]);
        assert_eq!(kept_bell.rings(), 2);
        assert_eq!(kept.poll_next_unpin(&mut cx), Poll::Ready(Some(2)));
    }

    #[test]
    fn streams_share_a_lane() {
        let app = Store::builder([Part, Part, Part])
            .workers(2)
            .start()
            .unwrap();
        let out = app.egress::<Part, Put>(0).share();
        let into = app.ingress::<Part, u64>();
        let receivers = [0, 1].map(|_| {
            let out = out.clone();
            thread::spawn(move || block_on(out.map(|put| put.number).collect::<Vec<_>>()))
        });
        (0..500).for_each(|number| into.at(number as usize % 3).send(number).unwrap());
        app.drain(LONG).unwrap();
        let mut all = receivers.map(|one| one.join().unwrap()).concat();
        all.sort_unstable();
        assert_eq!(all, (0..500).collect::<Vec<_>>());
        until(|| out.is_closed());
    }
}
