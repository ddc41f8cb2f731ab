//! Asking a graph, and sending and receiving as tasks.

use core::panic::AssertUnwindSafe;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::task::Wake;
use std::thread;
use std::time::Duration;

use rast_msgpass::{
    AnswerError, Ask, AskError, Cx, Egress, EndedBy, Handle, Ingress, Process, Receive, Reply,
    graph,
};

use crate::LONG;
use crate::task::{bell, block_on, until};

/// Answers even numbers, keeps replies of odd ones, panics at 100, drops the reply of 200.
#[derive(Default)]
struct Server {
    kept: Vec<Reply<u64>>,
}
struct Answer;

type Question = Ask<u64, u64>;

graph! {
    graph Asked {
        processors { server: [Server; _] }
        edges {
            ingress -> server: Question [cap = 2];
            ingress -> server: Answer;
        }
    }
}

impl Process<Asked> for Server {}
impl Receive<Asked, Ingress, Question> for Server {
    fn receive(&mut self, ask: Question, _: &mut Cx<'_, Asked, Self>) {
        let number = *ask.request();
        assert_ne!(number, 100, "a number that panics");
        let (number, reply) = ask.into_parts();
        match number % 2 {
            _ if number == 200 => drop(reply),
            0 => reply.send(number + 1).unwrap_or_default(),
            _ => self.kept.push(reply),
        }
    }
}
impl Receive<Asked, Ingress, Answer> for Server {
    fn receive(&mut self, _: Answer, _: &mut Cx<'_, Asked, Self>) {
        for reply in self.kept.drain(..) {
            let _ = reply.send(7);
        }
    }
}

fn start(replicas: usize) -> Handle<Asked> {
    let servers = (0..replicas).map(|_| Server::default());
    Asked::builder(servers).workers(2).start().unwrap()
}

/// Calls `done` again and again until it returns `true`.
#[test]
fn threads_ask_and_each_gets_its_answer() {
    let app = start(3);
    let server = app.ingress::<Server, Question>();
    thread::scope(|scope| {
        for first in 0..4_u64 {
            let server = server.clone();
            scope.spawn(move || {
                for number in (0..200).filter(|number| number % 4 != 3) {
                    let number = 1_000 * (first + 1) + 2 * number;
                    let answer = server.key(number).ask(number, LONG);
                    assert_eq!(answer, Ok(number + 1));
                }
            });
        }
    });
    assert_eq!(server.at(1).ask(100, LONG), Err(AskError::Dropped));
    assert_eq!(server.at(1).ask(200, LONG), Err(AskError::Dropped));
    assert_eq!(server.at(1).ask(2, LONG), Ok(3));
    assert_eq!(app.stop().panics[0].count, 1);
}

#[test]
fn an_ask_ends_in_time_and_the_answer_comes_back() {
    let app = start(1);
    let server = app.ingress::<Server, Question>();
    let asked = server.at(0).ask(1, Duration::from_millis(1));
    // The door has room, so the request was accepted.
    assert_eq!(asked, Err(AskError::Elapsed));
    // It is answered later, and no thread waits.
    app.ingress::<Server, Answer>().at(0).send(Answer).unwrap();
    assert_eq!(server.at(0).ask(2, LONG), Ok(3));

    let (ask, mut answer) = Ask::new(1);
    server.at(0).send(ask).unwrap();
    assert_eq!(answer.try_take(), Err(AnswerError::Pending));
    until(|| app.metrics().edges[0].received == 3);
    app.ingress::<Server, Answer>().at(0).send(Answer).unwrap();
    assert_eq!(answer.wait(LONG), Ok(7));
}

#[test]
fn a_reply_knows_whether_it_is_wanted() {
    let (ask, answer) = Ask::<u8, u8>::new(1);
    let (_, reply) = ask.into_parts();
    assert!(reply.is_wanted());
    drop(answer);
    assert!(!reply.is_wanted());
    assert_eq!(reply.send(5), Err(5));

    let (ask, mut answer) = Ask::<u8, u8>::new(1);
    assert_eq!(ask.answer(9), Ok(()));
    assert_eq!(answer.try_take(), Ok(9));
    // It was taken.
    assert_eq!(answer.try_take(), Err(AnswerError::Dropped));
    assert_eq!(answer.wait(LONG), Err(AnswerError::Dropped));
}

#[test]
fn the_end_of_a_graph_ends_every_ask() {
    let app = start(1);
    let server = app.ingress::<Server, Question>();
    let asking = thread::spawn({
        let server = server.clone();
        move || server.at(0).ask(1, LONG)
    });
    until(|| app.metrics().edges[0].received == 1);
    // The reply is in the state, which is dropped with the report.
    drop(app.stop());
    assert_eq!(asking.join().unwrap(), Err(AskError::Dropped));
    let refused = server.at(0).ask(3, LONG).unwrap_err();
    assert_eq!(refused.into_inner(), Some(3));
    assert_eq!(AskError::<u64>::Dropped.into_inner(), None);
    let AskError::Closed(closed) = refused else {
        panic!("the door is closed");
    };
    assert_eq!(closed.ended_by(), EndedBy::Stop);
    assert_eq!(closed.into_inner(), 3);
}

/// Panics when it wakes.
struct Alarm;

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        panic!("the waker");
    }
}

#[test]
fn a_reply_that_is_dropped_contains_the_panic_of_a_waker() {
    let waker = Waker::from(Arc::new(Alarm));
    let mut cx = Context::from_waker(&waker);
    for unwinds in [false, true] {
        let (ask, answer) = Ask::<u8, u8>::new(1);
        let mut answer = pin!(answer);
        assert!(answer.as_mut().poll(&mut cx).is_pending());
        let handled = catch_unwind(AssertUnwindSafe(move || {
            let _reply = ask.into_parts().1;
            assert!(!unwinds, "the handler");
        }));
        let text = handled.map_err(|payload| *payload.downcast::<&str>().unwrap());
        assert_eq!(text, if unwinds { Err("the handler") } else { Ok(()) });
        assert!(answer.poll(&mut cx).is_ready());
    }
}

#[test]
fn tasks_ask_as_threads_do() {
    let app = start(2);
    let server = app.ingress::<Server, Question>();
    thread::scope(|scope| {
        for first in 1..=4 {
            let server = &server;
            scope.spawn(move || {
                block_on(async {
                    for number in 0..200 {
                        let number = 1_000 * first + 2 * number;
                        let answer = server.key(number).ask_async(number).await;
                        assert_eq!(answer, Ok(number + 1));
                    }
                });
            });
        }
    });
    assert_eq!(
        block_on(server.at(0).ask_async(200)),
        Err(AskError::Dropped)
    );
    drop(app);
    let refused = block_on(server.at(0).ask_async(4));
    assert!(matches!(refused, Err(AskError::Closed(_))));
}

struct Echo;

graph! {
    graph Echoes {
        processors { echo: Echo }
        edges {
            ingress -> echo: u64 [cap = 1];
            echo -> egress: u64 [cap = 2];
        }
    }
}
impl Process<Echoes> for Echo {}
impl Receive<Echoes, Ingress, u64> for Echo {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Echoes, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn tasks_send_and_receive_beside_threads() {
    const EACH: u64 = 300;
    let app = Echoes::builder(Echo).workers(2).start().unwrap();
    let door = app.ingress::<Echo, u64>();
    let mut lane = app.egress::<Echo, u64>(0);
    thread::scope(|scope| {
        for task in 0..3 {
            let door = &door;
            scope.spawn(move || {
                block_on(async {
                    for number in 0..EACH {
                        door.send_async(10_000 * task + number).await.unwrap();
                    }
                });
            });
        }
        scope.spawn(|| (0..EACH).for_each(|number| door.send(30_000 + number).unwrap()));
        let mut next = [0; 4];
        for _ in 0..4 * EACH {
            let number = block_on(lane.recv_async()).unwrap();
            let sender = &mut next[(number / 10_000) as usize];
            assert_eq!(number % 10_000, *sender, "the order of one sender");
            *sender += 1;
        }
    });
    app.drain(LONG).unwrap();
    assert!(block_on(lane.recv_async()).is_err());
}

/// Fills the lane, the handler's edge and the door.
fn fill(app: &Handle<Echoes>) -> u64 {
    let door = app.ingress::<Echo, u64>();
    let mut sent = 0;
    until(|| {
        sent += u64::from(door.try_send(sent).is_ok());
        app.metrics().edges[1].depth == 2 && door.try_send(sent).is_err()
    });
    sent
}

#[test]
fn a_task_that_gives_up_passes_its_wake_up_on() {
    let app = Echoes::builder(Echo).workers(1).start().unwrap();
    let mut lane = app.egress::<Echo, u64>(0);
    fill(&app);
    let door = app.ingress::<Echo, u64>();
    let (bell, waker) = bell();
    let mut cx = Context::from_waker(&waker);
    let mut first = Box::pin(door.send_async(100));
    let mut second = Box::pin(door.send_async(101));
    assert!(first.as_mut().poll(&mut cx).is_pending());
    let (other, other_waker) = crate::task::bell();
    let mut other_cx = Context::from_waker(&other_waker);
    assert!(second.as_mut().poll(&mut other_cx).is_pending());
    lane.recv().unwrap();
    until(|| bell.rings() == 1);
    drop(first);
    until(|| other.rings() == 1);
    until(|| matches!(second.as_mut().poll(&mut other_cx), Poll::Ready(Ok(()))));
    // One that was not woken only leaves the list.
    let mut third = Box::pin(door.send_async(102));
    until(|| match third.as_mut().poll(&mut cx) {
        Poll::Pending => true,
        Poll::Ready(sent) => {
            sent.unwrap();
            third = Box::pin(door.send_async(102));
            false
        }
    });
    drop(third);
    drop(app);
}

#[test]
fn the_end_wakes_tasks_that_wait() {
    let app = Echoes::builder(Echo).workers(1).start().unwrap();
    let mut lane = app.egress::<Echo, u64>(0);
    fill(&app);
    let door = app.ingress::<Echo, u64>();
    let sending = thread::scope(|scope| {
        let sending = scope.spawn(|| block_on(door.send_async(100)));
        drop(app.stop());
        sending.join().unwrap()
    });
    assert_eq!(sending.unwrap_err().into_inner(), 100);
    let mut left = 0;
    while block_on(lane.recv_async()).is_ok() {
        left += 1;
    }
    assert_eq!(left, 2);
}

#[cfg(feature = "async")]
#[test]
fn a_lane_is_a_stream() {
    use futures_core::Stream;

    let app = Echoes::builder(Echo).workers(1).start().unwrap();
    let mut lane = pin!(app.egress::<Echo, u64>(0));
    let door = app.ingress::<Echo, u64>();
    let sender = thread::spawn(move || (0..50).for_each(|number| door.send(number).unwrap()));
    for number in 0..50 {
        let next = block_on(core::future::poll_fn(|cx| lane.as_mut().poll_next(cx)));
        assert_eq!(next, Some(number));
    }
    sender.join().unwrap();
    drop(app);
    let next = block_on(core::future::poll_fn(|cx| lane.as_mut().poll_next(cx)));
    assert_eq!(next, None);
}
