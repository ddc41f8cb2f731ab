//! A sender that waits for room, or for credit, sleeps until there is some, at
//! whichever target.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use rast_msgpass::{Cx, Egress, Graph, Handle, Ingress, Process, Receive, graph};

use crate::LONG;

/// Waits until the one worker has parked again, which it does only when no
/// instance wants a turn.
fn wait_for_park<G: Graph>(app: &Handle<G>) {
    let parks = || app.metrics().workers[0].parks;
    let (before, start) = (parks(), Instant::now());
    while parks() == before {
        assert!(start.elapsed() < LONG, "the worker never parks");
        // It may sleep already: a decision is a reason to wake.
        app.reshard();
        std::thread::yield_now();
    }
}

mod gated {
    //! A bounded way out, without a way back.
    use super::*;

    pub(super) struct Echo;
    graph! {
        pub(super) graph Gated {
            processors { echo: Echo }
            edges { ingress -> echo: u64 [cap = 4]; echo -> egress: u64 [cap = 8]; }
        }
    }
    impl Process<Gated> for Echo {}
    impl Receive<Gated, Ingress, u64> for Echo {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Gated, Self>) {
            cx.to::<Egress>().send(number);
        }
    }
}

#[test]
fn a_sender_without_room_sleeps() {
    use gated::{Echo, Gated};
    let app = Gated::builder(Echo).workers(1).start().unwrap();
    let mut out = app.egress::<Echo, u64>(0);
    let into = app.ingress::<Echo, u64>();
    // The last one is accepted when the way out is full.
    (0..12).for_each(|number| into.send(number).unwrap());
    wait_for_park(&app);
    (0..12).for_each(|number| assert_eq!(out.recv_timeout(LONG), Ok(number)));
    app.drain(LONG).unwrap();
}

mod keeping {
    //! Two processors, the first of which keeps what the second has no room for.
    use super::*;

    pub(super) struct Wide;
    pub(super) struct Tight;
    graph! {
        pub(super) graph Keeping {
            processors { wide: Wide, tight: Tight }
            edges {
                ingress -> wide: u64;
                wide -> tight: u64 [unbounded, cap = 4];
                tight -> egress: u64 [cap = 1];
            }
        }
    }
    impl Process<Keeping> for Wide {}
    impl Receive<Keeping, Ingress, u64> for Wide {
        fn receive(&mut self, count: u64, cx: &mut Cx<'_, Keeping, Self>) {
            (0..count).for_each(|number| cx.to::<Tight>().send(number));
        }
    }
    impl Process<Keeping> for Tight {}
    impl Receive<Keeping, Wide, u64> for Tight {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Keeping, Self>) {
            cx.to::<Egress>().send(number);
        }
    }
}

#[test]
fn a_sender_that_keeps_messages_sleeps() {
    use keeping::{Keeping, Tight, Wide};
    let app = Keeping::builder(Wide, Tight).workers(1).start().unwrap();
    let mut out = app.egress::<Tight, u64>(0);
    app.ingress::<Wide, u64>().send(100).unwrap();
    // The first one is there once the others were sent.
    assert_eq!(out.recv_timeout(LONG), Ok(0));
    wait_for_park(&app);
    (1..100).for_each(|number| assert_eq!(out.recv_timeout(LONG), Ok(number)));
    app.drain(LONG).unwrap();
}

mod asking {
    //! Requests, whose answers wait for a way out.
    use super::*;

    pub(super) struct Client;
    pub(super) struct Server;
    pub(super) struct Ask(pub(super) u64);
    pub(super) struct Answer;
    graph! {
        pub(super) graph Asking {
            processors { client: Client, server: Server }
            edges {
                ingress -> client: u64 [cap = 4];
                client -> server: Ask [cap = 64];
                server -> client: Answer [cap = 2, reply = Ask];
                server -> egress: u64 [cap = 1];
            }
        }
    }
    impl Process<Asking> for Client {}
    impl Receive<Asking, Ingress, u64> for Client {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, Asking, Self>) {
            cx.to::<Server>().send(Ask(number));
        }
    }
    impl Receive<Asking, Server, Answer> for Client {
        fn receive(&mut self, _: Answer, _: &mut Cx<'_, Asking, Self>) {}
    }
    impl Process<Asking> for Server {}
    impl Receive<Asking, Client, Ask> for Server {
        fn receive(&mut self, Ask(number): Ask, cx: &mut Cx<'_, Asking, Self>) {
            cx.to::<Egress>().send(number);
            cx.to::<Client>().send(Answer);
        }
    }
}

#[test]
fn a_client_without_credit_sleeps() {
    use asking::{Asking, Client, Server};
    let app = Asking::builder(Client, Server).workers(1).start().unwrap();
    let mut out = app.egress::<Server, u64>(0);
    let into = app.ingress::<Client, u64>();
    // One is on its way out, two have the credit, four fill the door.
    (0..7).for_each(|number| into.send(number).unwrap());
    wait_for_park(&app);
    (0..7).for_each(|number| assert_eq!(out.recv_timeout(LONG), Ok(number)));
    app.drain(LONG).unwrap();
}

mod two_lanes {
    //! One sender into two lanes.
    use super::*;

    /// It sends for the last number of so many.
    pub(super) const ROUND: u64 = 66;

    pub(super) struct Split;
    graph! {
        pub(super) graph TwoLanes {
            processors { split: Split }
            edges {
                ingress -> split: u64 [cap = 4096];
                split -> egress: u64 [cap = 2, burst = 2, lanes = 2];
            }
        }
    }
    impl Process<TwoLanes> for Split {}
    impl Receive<TwoLanes, Ingress, u64> for Split {
        fn receive(&mut self, number: u64, cx: &mut Cx<'_, TwoLanes, Self>) {
            if number % ROUND == ROUND - 1 {
                cx.to::<Egress>().lane(0).send(number);
                cx.to::<Egress>().lane(1).send(number);
            }
        }
    }
}

#[test]
fn targets_that_get_room_one_after_the_other_wake_the_sender() {
    use two_lanes::{ROUND, Split, TwoLanes};
    const ROUNDS: u64 = 20;
    let app = TwoLanes::builder(Split).workers(1).start().unwrap();
    let first = Arc::new(Mutex::new(app.egress::<Split, u64>(0)));
    let mut second = app.egress::<Split, u64>(1);
    let taken = Arc::new(Mutex::new(Vec::new()));
    // The worker calls it when it publishes. A turn of 64 numbers makes the sender quick, so
    // it publishes at the end of the turn that gated it: after its look, before it waits. So it
    // goes to wait at the first lane, and finds room there and none at the second.
    let waker = {
        let (first, taken) = (first.clone(), taken.clone());
        move || {
            // Not in the call that sets it.
            if let Ok(mut first) = first.try_lock() {
                first.drain(usize::MAX, |number| taken.lock().unwrap().push(number));
            }
        }
    };
    first.lock().unwrap().set_waker(waker);
    let into = app.ingress::<Split, u64>();
    (0..ROUND * ROUNDS).for_each(|number| into.send(number).unwrap());
    for round in 1..=ROUNDS {
        wait_for_park(&app);
        assert_eq!(second.recv_timeout(LONG), Ok(round * ROUND - 1));
    }
    app.drain(LONG).unwrap();
    let expected = (1..=ROUNDS).map(|round| round * ROUND - 1);
    assert!(taken.lock().unwrap().iter().copied().eq(expected));
}

mod started {
    use super::*;

    pub(super) struct Part;
    graph! {
        pub(super) graph Mill {
            processors { part: [Part; 3] }
            edges { ingress -> part: u64; }
        }
    }
    impl Process<Mill> for Part {}
    impl Receive<Mill, Ingress, u64> for Part {
        fn receive(&mut self, _: u64, _: &mut Cx<'_, Mill, Self>) {}
    }
}

#[test]
fn workers_start_with_a_hook_and_the_name_of_the_graph() {
    use started::{Mill, Part};
    type Seen = Vec<(usize, Option<String>)>;
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let list = Arc::clone(&seen);
    let builder = Mill::builder((0..3).map(|_| Part)).workers(3);
    #[cfg(feature = "affinity")]
    let builder = builder.pin_threads();
    let builder = builder.on_worker_start(move |worker| {
        let name = std::thread::current().name().map(ToString::to_string);
        list.lock().unwrap().push((worker.index(), name));
        assert_ne!(worker.index(), 1, "it goes wrong");
    });
    let app = builder.start().unwrap();
    let into = app.ingress::<Part, u64>();
    (0..9).for_each(|number| into.key(number).send(number).unwrap());
    let report = app.drain(LONG).unwrap();
    assert_eq!(report.received_total(), 9);
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    let names = ["rast-Mill", "rast-Mill-1", "rast-Mill-2"];
    let expected = names.map(|name| Some(name.to_string()));
    assert_eq!(seen, expected.into_iter().enumerate().collect::<Seen>());
    assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
    assert!(report.faults[0].contains("it goes wrong"));
}
