//! Counting and ping-pong on one thread with tokio's channels, and counting with the actors of
//! actix, ractor and kameo.
//!
//! After each burst the counting task lets the other tasks run, as the processor of the graph does.
//! The actors are started as in their documentation, with the default mailbox. The mailboxes of
//! actix and kameo are bounded, that of ractor is not. `do_send` of actix ignores the bound, and
//! kameo's `tell` waits for room.

use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use super::expected;
use crate::workers::Sample;

fn on_one_thread<T>(task: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(task)
}

/// Counting through an unbounded channel, `burst` sends between two turns.
pub(super) fn tokio_count(ops: u64, burst: u64) -> Sample {
    on_one_thread(async move {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        let start = Instant::now();
        let source = async move {
            for first in (0..ops).step_by(burst as usize) {
                for value in first..ops.min(first + burst) {
                    sender.send(value).expect("the receiver is there");
                }
                tokio::task::yield_now().await;
            }
        };
        let local = tokio::task::LocalSet::new();
        let sum = local
            .run_until(async move {
                let source = tokio::task::spawn_local(source);
                let mut sum = 0_u64;
                while let Some(value) = receiver.recv().await {
                    sum = sum.wrapping_add(value);
                }
                source.await.expect("it sent");
                sum
            })
            .await;
        assert_eq!(sum, expected(ops));
        Sample::new(ops, start.elapsed())
    })
}

/// Round trips through two bounded channels.
pub(super) fn tokio_ping_pong(ops: u64) -> Sample {
    on_one_thread(async move {
        let (there, mut far) = mpsc::channel::<u64>(256);
        let (back, mut near) = mpsc::channel::<u64>(256);
        let local = tokio::task::LocalSet::new();
        let start = Instant::now();
        local
            .run_until(async move {
                let echo = tokio::task::spawn_local(async move {
                    while let Some(ball) = far.recv().await {
                        back.send(ball + 1).await.expect("the other side is there");
                    }
                });
                for ball in 0..ops {
                    there.send(ball).await.expect("the other side is there");
                    near.recv().await.expect("the ball comes back");
                }
                drop(there);
                echo.await.expect("it echoed");
            })
            .await;
        Sample::new(ops, start.elapsed())
    })
}

/// The sum of an actor, and the time at which the last message had come.
struct Sum {
    sum: u64,
    left: u64,
    ended: Option<oneshot::Sender<(Instant, u64)>>,
}

impl Sum {
    fn new(ops: u64) -> (Self, oneshot::Receiver<(Instant, u64)>) {
        let (ended, end) = oneshot::channel();
        let sum = Self {
            sum: 0,
            left: ops,
            ended: Some(ended),
        };
        (sum, end)
    }

    fn add(&mut self, value: u64) {
        self.sum = self.sum.wrapping_add(value);
        self.left -= 1;
        if self.left == 0 {
            let ended = self.ended.take().expect("it ends once");
            ended
                .send((Instant::now(), self.sum))
                .expect("the bench waits");
        }
    }
}

/// Waits for the sum.
async fn finish(ops: u64, start: Instant, end: oneshot::Receiver<(Instant, u64)>) -> Sample {
    let (end, sum) = end.await.expect("the actor gets everything");
    assert_eq!(sum, expected(ops));
    Sample::new(ops, end - start)
}

mod of_actix {
    use super::*;
    use actix::{Actor, Context, Handler, Message, System};

    struct Number(u64);

    impl Message for Number {
        type Result = ();
    }

    impl Actor for Sum {
        type Context = Context<Self>;
    }

    impl Handler<Number> for Sum {
        type Result = ();

        fn handle(&mut self, number: Number, _: &mut Context<Self>) {
            self.add(number.0);
        }
    }

    pub(in super::super) fn count(ops: u64) -> Sample {
        System::new().block_on(async move {
            let (sum, end) = Sum::new(ops);
            let sink = sum.start();
            let start = Instant::now();
            actix::spawn(async move {
                for value in 0..ops {
                    sink.do_send(Number(value));
                    tokio::task::yield_now().await;
                }
            });
            finish(ops, start, end).await
        })
    }
}

mod of_ractor {
    use super::*;
    use ractor::{Actor, ActorProcessingErr, ActorRef};

    struct Sink;

    impl Actor for Sink {
        type Msg = u64;
        type State = Sum;
        type Arguments = Sum;

        async fn pre_start(&self, _: ActorRef<u64>, sum: Sum) -> Result<Sum, ActorProcessingErr> {
            Ok(sum)
        }

        async fn handle(
            &self,
            _: ActorRef<u64>,
            number: u64,
            sum: &mut Sum,
        ) -> Result<(), ActorProcessingErr> {
            sum.add(number);
            Ok(())
        }
    }

    pub(in super::super) fn count(ops: u64) -> Sample {
        on_one_thread(async move {
            let (sum, end) = Sum::new(ops);
            let (sink, join) = Sink::spawn(None, Sink, sum).await.expect("it starts");
            let start = Instant::now();
            let theirs = sink.clone();
            tokio::spawn(async move {
                for value in 0..ops {
                    theirs.cast(value).expect("the actor is there");
                    tokio::task::yield_now().await;
                }
            });
            let sample = finish(ops, start, end).await;
            sink.stop(None);
            join.await.expect("it ends");
            sample
        })
    }
}

mod of_kameo {
    use super::*;
    use kameo::actor::{Actor, ActorRef, Spawn};
    use kameo::error::Infallible;
    use kameo::message::{Context, Message};

    impl Actor for Sum {
        type Args = Self;
        type Error = Infallible;

        async fn on_start(sum: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
            Ok(sum)
        }
    }

    impl Message<u64> for Sum {
        type Reply = ();

        async fn handle(&mut self, number: u64, _: &mut Context<Self, ()>) {
            self.add(number);
        }
    }

    pub(in super::super) fn count(ops: u64) -> Sample {
        on_one_thread(async move {
            let (sum, end) = Sum::new(ops);
            let sink = Sum::spawn(sum);
            let start = Instant::now();
            let theirs = sink.clone();
            tokio::spawn(async move {
                for value in 0..ops {
                    theirs.tell(value).await.expect("the actor is there");
                    tokio::task::yield_now().await;
                }
            });
            let sample = finish(ops, start, end).await;
            sink.stop_gracefully().await.expect("it is told");
            sample
        })
    }
}

pub(super) use of_actix::count as actix_count;
pub(super) use of_kameo::count as kameo_count;
pub(super) use of_ractor::count as ractor_count;
