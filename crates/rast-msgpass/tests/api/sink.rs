//! A way in as a sink: reservations, back-pressure, the end.

use core::task::{Context, Poll};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::thread;

use futures::{Sink, SinkExt, StreamExt, stream};
use rast_msgpass::{
    Cx, Egress, EndedBy, Ingress, IngressSink, Process, Receive, TrySendError, graph,
};

use crate::LONG;
use crate::task::{bell, block_on, until};

struct Echo;

graph! {
    graph Echoes {
        processors { echo: [Echo; 2] }
        edges {
            ingress -> echo: u64 [cap = 1];
            echo -> egress: u64 [cap = 1];
        }
    }
}
impl Process<Echoes> for Echo {}
impl Receive<Echoes, Ingress, u64> for Echo {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Echoes, Self>) {
        cx.to::<Egress>().send(number);
    }
}

type Handle = rast_msgpass::Handle<Echoes>;

fn start() -> Handle {
    Echoes::builder([Echo, Echo]).workers(2).start().unwrap()
}

fn ready(sink: &mut IngressSink<u64>, cx: &mut Context<'_>) -> Poll<bool> {
    Pin::new(sink).poll_ready(cx).map(|ready| ready.is_ok())
}

fn close(sink: &mut IngressSink<u64>, cx: &mut Context<'_>) -> Poll<bool> {
    Pin::new(sink).poll_close(cx).map(|closed| closed.is_ok())
}

/// Fills the lane and the door of a replica.
fn fill(app: &Handle, replica: usize) {
    let door = app.ingress::<Echo, u64>();
    until(|| {
        let is_full = door.at(replica).try_send(0).is_err();
        // One is in the lane for good, as no thread takes it.
        is_full && app.metrics().edges[1].depth >= 1 && door.at(replica).try_send(0).is_err()
    });
}

#[test]
fn a_reservation_is_a_place_that_returns() {
    let app = start();
    let door = app.ingress::<Echo, u64>();
    let (_, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    let (other_bell, other_waker) = bell();
    let mut other_cx = Context::from_waker(&other_waker);
    for way in 0..3 {
        let mut first = door.at(0).sink();
        let mut second = first.clone();
        assert_eq!(ready(&mut first, &mut cx), Poll::Ready(true));
        // Ready again, it has reserved no second place.
        assert_eq!(ready(&mut first, &mut cx), Poll::Ready(true));
        assert_eq!(door.at(0).try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(door.at(0).len(), 0);
        let before = other_bell.rings();
        assert!(ready(&mut second, &mut other_cx).is_pending());
        match way {
            0 => drop(first),
            1 => assert_eq!(close(&mut first, &mut cx), Poll::Ready(true)),
            _ => drop(first.clone()),
        }
        if way == 2 {
            // A clone holds nothing.
            assert_eq!(other_bell.rings(), before);
            assert!(ready(&mut second, &mut other_cx).is_pending());
            continue;
        }
        assert_eq!(other_bell.rings(), before + 1);
        assert_eq!(ready(&mut second, &mut other_cx), Poll::Ready(true));
    }
    // All have returned.
    let mut sink = door.at(0).sink();
    assert_eq!(ready(&mut sink, &mut cx), Poll::Ready(true));
}

#[test]
fn a_full_door_slows_the_task_and_room_wakes_it() {
    let app = start();
    let mut lane = app.egress::<Echo, u64>(0);
    fill(&app, 1);
    let mut sink = app.ingress::<Echo, u64>().at(1).sink();
    let (bell, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    assert!(ready(&mut sink, &mut cx).is_pending());
    lane.recv().unwrap();
    until(|| bell.rings() > 0);
    // The room may have been for what a try in `fill` left.
    until(|| {
        let _ = lane.try_recv();
        ready(&mut sink, &mut cx) == Poll::Ready(true)
    });
    Pin::new(&mut sink).start_send(9).unwrap();
    assert_eq!(block_on(sink.flush()), Ok(()));
    until(|| lane.try_recv() == Ok(9));
}

#[test]
fn an_idle_reservation_holds_no_drain_up() {
    let app = start();
    let door = app.ingress::<Echo, u64>();
    let (_, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    let (mut first, mut second) = (door.at(0).sink(), door.at(1).sink());
    assert_eq!(ready(&mut first, &mut cx), Poll::Ready(true));
    assert_eq!(ready(&mut second, &mut cx), Poll::Ready(true));
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.received_total(), 0);
    // One is told before it sends, the other gets its message back.
    let error = match Pin::new(&mut first).poll_ready(&mut cx) {
        Poll::Ready(Err(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (error.ended_by(), error.into_inner()),
        (EndedBy::Drain, None)
    );
    let error = Pin::new(&mut second).start_send(7).unwrap_err();
    assert_eq!(error.into_inner(), Some(7));
    assert!(block_on(second.send(8)).is_err());
    assert_eq!((door.at(0).len(), door.at(1).len()), (0, 0));
}

#[test]
fn the_end_wakes_a_sink_that_waits() {
    let app = start();
    fill(&app, 0);
    let mut sink = app.ingress::<Echo, u64>().at(0).sink();
    let sending = thread::spawn(move || block_on(sink.send(7)).map_err(|error| error.ended_by()));
    drop(app.stop());
    assert_eq!(sending.join().unwrap(), Err(EndedBy::Stop));
}

#[test]
fn a_sink_that_is_not_polled_keeps_no_wake_up() {
    let app = start();
    let door = app.ingress::<Echo, u64>();
    let (_, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    let ((kept_bell, kept_waker), (other_bell, other_waker)) = (bell(), bell());
    let (mut holds, mut kept) = (door.at(0).sink(), door.at(0).sink());
    assert_eq!(ready(&mut holds, &mut cx), Poll::Ready(true));
    assert!(ready(&mut kept, &mut Context::from_waker(&kept_waker)).is_pending());
    let mut sending = pin!(door.at(0).send_async(5));
    let mut cx = Context::from_waker(&other_waker);
    assert!(sending.as_mut().poll(&mut cx).is_pending());
    drop(holds);
    assert_eq!((kept_bell.rings(), other_bell.rings()), (1, 1));
    assert_eq!(sending.poll(&mut cx), Poll::Ready(Ok(())));
}

#[test]
fn a_message_without_a_reservation_is_refused() {
    let app = start();
    let mut sink = app.ingress::<Echo, u64>().at(0).sink();
    let sent = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut sink).start_send(1)));
    assert!(sent.is_err());
    // And it holds no place.
    assert!(app.ingress::<Echo, u64>().at(0).try_send(1).is_ok());
}

#[test]
fn sinks_and_senders_share_a_door_and_lose_nothing() {
    let each = if cfg!(miri) { 20 } else { 1_000 };
    let app = start();
    let lane = app.egress::<Echo, u64>(0).share();
    let into = app.ingress::<Echo, u64>();
    let all = thread::scope(|scope| {
        for sender in 0..4 {
            let mut sink = into.at(sender % 2).sink();
            let first = sender as u64 * each;
            scope.spawn(move || {
                let numbers = stream::iter(first..first + each);
                block_on(numbers.map(Ok).forward(&mut sink)).unwrap();
            });
        }
        let into = &into;
        scope.spawn(move || {
            (4 * each..5 * each).for_each(|number| into.at(0).send(number).unwrap());
        });
        scope.spawn(move || {
            block_on(async {
                for number in 5 * each..6 * each {
                    into.at(1).send_async(number).await.unwrap();
                }
            });
        });
        (0..6 * each)
            .map(|_| lane.recv().unwrap())
            .collect::<Vec<_>>()
    });
    let mut all = all;
    all.sort_unstable();
    assert_eq!(all, (0..6 * each).collect::<Vec<_>>());
    assert_eq!(app.drain(LONG).unwrap().received_total(), 6 * each);
}
