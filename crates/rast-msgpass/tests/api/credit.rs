//! Credit of several request edges at once: handling an answer brings credit
//! back, so it must not wait for credit, whichever edge it is of.

use std::time::Duration;

use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

use crate::LONG;

/// Longer than a door stays full when the graph goes on.
const SOON: Duration = Duration::from_secs(20);

mod scatter {
    //! One processor asks two others for each input.
    use super::*;

    pub(super) struct Front;
    pub(super) struct Left;
    pub(super) struct Right;
    pub(super) struct Ask;
    pub(super) struct Answer;

    graph! {
        pub(super) graph Scatter {
            processors { front: Front, left: Left, right: Right }
            edges {
                ingress -> front: u64;
                front -> left: Ask [cap = 4];
                left -> front: Answer [cap = 2, reply = Ask];
                front -> right: Ask [cap = 4];
                right -> front: Answer [cap = 2, reply = Ask];
            }
        }
    }

    impl Process<Scatter> for Front {}
    impl Receive<Scatter, Ingress, u64> for Front {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Scatter, Self>) {
            cx.to::<Left>().send(Ask);
            cx.to::<Right>().send(Ask);
        }
    }
    impl<F> Receive<Scatter, F, Answer> for Front {
        fn receive(&mut self, _: Answer, _: &mut Cx<'_, Scatter, Self>) {}
    }
    impl Process<Scatter> for Left {}
    impl Receive<Scatter, Front, Ask> for Left {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Scatter, Self>) {
            cx.to::<Front>().send(Answer);
        }
    }
    impl Process<Scatter> for Right {}
    impl Receive<Scatter, Front, Ask> for Right {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Scatter, Self>) {
            cx.to::<Front>().send(Answer);
        }
    }
}

#[test]
fn answers_are_handled_when_all_credits_are_used_up() {
    use scatter::{Front, Left, Right, Scatter};
    for workers in [1, 3] {
        let app = Scatter::builder(Front, Left, Right)
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        for number in 0..500 {
            into.send_timeout(number, SOON).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.metrics.instances[0].received, 500 * 3);
    }
}

mod chain {
    //! Answers of one processor are asked on to another, with less credit.
    use super::*;

    pub(super) struct Front;
    pub(super) struct Wide;
    pub(super) struct Tight;
    pub(super) struct First;
    pub(super) struct Second;

    graph! {
        pub(super) graph Chain {
            processors { front: Front, wide: Wide, tight: Tight }
            edges {
                ingress -> front: u64 [cap = 4096];
                front -> wide: First [cap = 256];
                wide -> front: First [cap = 256, reply = First];
                front -> tight: Second [cap = 256];
                tight -> front: Second [cap = 2, reply = Second];
            }
        }
    }

    impl Process<Chain> for Front {}
    impl Receive<Chain, Ingress, u64> for Front {
        fn receive(&mut self, _: u64, cx: &mut Cx<'_, Chain, Self>) {
            cx.to::<Wide>().send(First);
        }
    }
    impl Receive<Chain, Wide, First> for Front {
        fn receive(&mut self, _: First, cx: &mut Cx<'_, Chain, Self>) {
            cx.to::<Tight>().send(Second);
        }
    }
    impl Receive<Chain, Tight, Second> for Front {
        fn receive(&mut self, _: Second, _: &mut Cx<'_, Chain, Self>) {}
    }
    impl Process<Chain> for Wide {}
    impl Receive<Chain, Front, First> for Wide {
        fn receive(&mut self, ask: First, cx: &mut Cx<'_, Chain, Self>) {
            cx.to::<Front>().send(ask);
        }
    }
    impl Process<Chain> for Tight {}
    impl Receive<Chain, Front, Second> for Tight {
        fn receive(&mut self, ask: Second, cx: &mut Cx<'_, Chain, Self>) {
            cx.to::<Front>().send(ask);
        }
    }
}

#[test]
fn answers_that_ask_on_wait_for_room_in_the_next_credit() {
    use chain::{Chain, Front, Tight, Wide};
    for workers in [1, 2, 3] {
        let app = Chain::builder(Front, Wide, Tight)
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        for number in 0..3000 {
            into.send_timeout(number, SOON).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.panics, []);
        assert_eq!(report.metrics.instances[0].received, 3000 * 3);
    }
}

mod skew {
    //! Follow-up requests that all go to one of many, or to two.
    use super::*;

    pub(super) struct Front {
        pub(super) left: u64,
        pub(super) hot: usize,
    }
    pub(super) struct Back;
    pub(super) struct Ask;
    pub(super) struct Answer;

    graph! {
        pub(super) graph Skew {
            processors { front: Front, back: [Back; 6] }
            edges {
                ingress -> front: u64 [cap = 4096];
                front -> back: Ask [cap = 64];
                back -> front: Answer [cap = 8, reply = Ask];
            }
        }
    }

    impl Process<Skew> for Front {}
    impl Receive<Skew, Ingress, u64> for Front {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Skew, Self>) {
            cx.to::<Back>().key(number).send(Ask);
        }
    }
    impl Receive<Skew, Back, Answer> for Front {
        fn receive(&mut self, _: Answer, cx: &mut Cx<'_, Skew, Self>) {
            if self.left > 0 {
                self.left -= 1;
                let one = (self.left.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63) as usize;
                cx.to::<Back>().at(one * self.hot).send(Ask);
            }
        }
    }
    impl Process<Skew> for Back {}
    impl Receive<Skew, Front, Ask> for Back {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Skew, Self>) {
            cx.to::<Front>().send(Answer);
        }
    }
}

#[test]
fn requests_that_follow_answers_may_all_go_to_one_replica_or_two() {
    use skew::{Back, Front, Skew};
    for (workers, hot) in [(1, 0), (2, 0), (3, 0), (1, 1), (2, 5), (3, 1)] {
        let front = Front { left: 20_000, hot };
        let app = Skew::builder(front, (0..6).map(|_| Back))
            .workers(workers)
            .start()
            .unwrap();
        let into = app.ingress::<Front, u64>();
        for number in 0..3000 {
            into.send_timeout(number, SOON).unwrap();
        }
        let report = app.drain(LONG).unwrap();
        assert_eq!(report.panics, []);
    }
}

mod timed {
    //! A client whose batches end by their time while it handles answers without credit.
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use rast_msgpass::timers::{ManualClock, Nanos};
    use rast_msgpass::{Next, ReplyTo};

    use super::*;

    pub(super) struct Ask;
    pub(super) struct Answer;
    pub(super) struct Client {
        pub(super) clock: ManualClock,
        pub(super) owed: u64,
        /// The most that was owed when a ping began.
        pub(super) most: Arc<AtomicU64>,
        pub(super) answers: Arc<AtomicU64>,
    }
    pub(super) struct Server(pub(super) Vec<ReplyTo<Timed, Client, Server, Ask>>);

    graph! {
        pub(super) graph Timed {
            processors { client: Client [source], server: Server }
            edges {
                client -> server: Ask [cap = 8, burst = 2];
                server -> client: Answer [reply = Ask, cap = 4];
            }
        }
    }
    impl Process<Timed> for Client {
        fn ping(&mut self, cx: &mut Cx<'_, Timed, Self>) -> Next {
            self.most.fetch_max(self.owed, SeqCst);
            for _ in 0..2 {
                cx.to::<Server>().send(Ask);
                self.owed += 1;
            }
            Next::Again
        }
    }
    impl Receive<Timed, Server, Answer> for Client {
        fn receive(&mut self, _: Answer, _: &mut Cx<'_, Timed, Self>) {
            self.owed -= 1;
            self.clock.advance(Nanos::from_millis(1));
            self.answers.fetch_add(1, SeqCst);
        }
    }
    impl Process<Timed> for Server {
        fn ping(&mut self, cx: &mut Cx<'_, Timed, Self>) -> Next {
            if let Some(token) = self.0.pop() {
                token.send(Answer, cx);
            }
            Next::Again
        }
    }
    impl Receive<Timed, Client, Ask> for Server {
        fn receive(&mut self, _: Ask, cx: &mut Cx<'_, Timed, Self>) {
            self.0.push(cx.reply_to());
        }
    }
}

#[test]
fn a_batch_that_ends_by_its_time_keeps_a_client_without_credit_waiting() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use rast_msgpass::Batch;
    use rast_msgpass::timers::ManualClock;
    use timed::{Client, Server, Timed};

    let clock = ManualClock::new();
    let (most, answers): (Arc<AtomicU64>, Arc<AtomicU64>) = Default::default();
    let client = Client {
        clock: clock.clone(),
        owed: 0,
        most: most.clone(),
        answers: answers.clone(),
    };
    let app = Timed::builder(client, Server(Vec::new()))
        .workers(1)
        .clock(clock)
        .batch_of::<Client>(Batch::messages(64).time(Duration::from_micros(1)))
        .start()
        .unwrap();
    while answers.load(SeqCst) < 1_000 {
        std::thread::yield_now();
    }
    let report = app.stop();
    assert!(report.panics.is_empty(), "{report}");
    // A burst of two below the four of the edge.
    assert_eq!(most.load(SeqCst), 2);
}
