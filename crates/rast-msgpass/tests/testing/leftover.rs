//! What is left when a graph is dropped: messages in an inbox, and processors.

use std::panic::catch_unwind;

use rast_msgpass::testing::TestCx;
use rast_msgpass::{Cx, Ingress, Process, Receive, Stopped, graph};

struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("the destructor of a bomb");
    }
}

struct Go;
struct Thrower;
struct Leaf;

graph! {
    graph Field {
        processors { thrower: Thrower, leaf: [Leaf; 300] }
        edges {
            ingress -> thrower: Go;
            thrower -> leaf: Bomb [burst = 2];
        }
    }
}

impl Process<Field> for Thrower {}
impl Receive<Field, Ingress, Go> for Thrower {
    fn receive(&mut self, _: Go, cx: &mut Cx<'_, Field, Self>) {
        (0..2).for_each(|_| cx.to::<Leaf>().at(0).send(Bomb));
    }
}
impl Process<Field> for Leaf {}
impl Receive<Field, Thrower, Bomb> for Leaf {
    fn receive(&mut self, bomb: Bomb, _: &mut Cx<'_, Field, Self>) {
        std::mem::forget(bomb);
    }
}

#[test]
fn messages_left_in_an_inbox_may_panic_when_they_are_dropped() {
    let mut thrower = TestCx::<Field, Thrower>::new(Thrower);
    thrower.graph().pause::<Leaf>(0);
    thrower.receive::<Ingress, Go>(Go);
    drop(thrower);
}

#[test]
fn messages_that_a_test_did_not_take_may_panic_when_they_are_dropped() {
    let mut thrower = TestCx::<Field, Thrower>::new(Thrower);
    thrower.receive::<Ingress, Go>(Go);
    drop(thrower);
}

struct Fragile;

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("the destructor of a processor");
    }
}

graph! {
    graph Frail {
        processors { fragile: [Fragile; 2] }
        edges { ingress -> fragile: Go; }
    }
}

impl Process<Frail> for Fragile {}
impl Receive<Frail, Ingress, Go> for Fragile {
    fn receive(&mut self, _: Go, _: &mut Cx<'_, Frail, Self>) {}
}

#[test]
fn processors_of_a_graph_that_is_dropped_may_panic() {
    let builder = || Frail::builder([Fragile, Fragile]);
    drop(builder().start().unwrap());
    drop(builder().test(1).unwrap());
    drop(TestCx::<Frail, Fragile>::new(Fragile));
}

#[test]
fn a_test_that_fails_drops_processors_that_panic() {
    let failed = catch_unwind(|| {
        let _app = Frail::builder([Fragile, Fragile]).test(1).unwrap();
        panic!("the test has failed");
    });
    let text = failed.unwrap_err();
    assert_eq!(text.downcast_ref(), Some(&"the test has failed"));
}

graph! {
    graph Yard {
        processors { thrower: Thrower, leaf: Leaf }
        edges {
            ingress -> thrower: Go;
            ingress -> leaf: Bomb [cap = 1];
            thrower -> leaf: Bomb [drop_oldest, cap = 4];
        }
    }
}

impl Process<Yard> for Thrower {}
impl Receive<Yard, Ingress, Go> for Thrower {
    fn receive(&mut self, _: Go, cx: &mut Cx<'_, Yard, Self>) {
        (0..2).for_each(|_| cx.to::<Leaf>().send(Bomb));
    }
}
impl Process<Yard> for Leaf {}
impl<F> Receive<Yard, F, Bomb> for Leaf {
    fn receive(&mut self, bomb: Bomb, _: &mut Cx<'_, Yard, Self>) {
        std::mem::forget(bomb);
    }
}

#[test]
fn messages_left_in_a_queue_under_a_lock_may_panic_when_they_are_dropped() {
    let mut thrower = TestCx::<Yard, Thrower>::new(Thrower);
    thrower.graph().pause::<Leaf>(0);
    thrower.receive::<Ingress, Go>(Go);
    drop(thrower);
}

#[test]
fn messages_that_a_stub_did_not_send_may_panic_when_they_are_dropped() {
    let mut leaf = TestCx::<Yard, Leaf>::new(Leaf);
    leaf.graph().pause::<Thrower>(0);
    (0..2).for_each(|_| leaf.receive::<Thrower, Bomb>(Bomb));
    drop(leaf);
}

#[test]
fn messages_that_feeds_did_not_send_may_panic_in_a_test_that_fails() {
    let failed = catch_unwind(|| {
        let mut app = Yard::builder(Thrower, Leaf).test(1).unwrap();
        app.pause::<Leaf>(0);
        // The door has room for one.
        for _ in 0..2 {
            app.feed::<Leaf, Bomb>([Bomb, Bomb]);
        }
        app.run_until_idle();
        panic!("the test has failed");
    });
    let text = failed.unwrap_err();
    assert_eq!(text.downcast_ref(), Some(&"the test has failed"));
}

/// As `Bomb`, on another edge.
struct Spark {
    _bomb: Bomb,
}

graph! {
    graph Grove {
        processors { leaf: [Leaf; 2], thrower: Thrower }
        edges {
            ingress -> thrower: Go;
            thrower -> leaf: Bomb [drop_oldest, cap = 4];
            thrower -> leaf: Spark [burst = 2];
        }
    }
}

impl Process<Grove> for Thrower {}
impl Receive<Grove, Ingress, Go> for Thrower {
    fn receive(&mut self, _: Go, cx: &mut Cx<'_, Grove, Self>) {
        for leaf in 0..2 {
            cx.to::<Leaf>().at(leaf).send(Bomb);
            cx.to::<Leaf>().at(leaf).send(Spark { _bomb: Bomb });
        }
    }
}
impl Process<Grove> for Leaf {}
impl<M> Receive<Grove, Thrower, M> for Leaf {
    fn receive(&mut self, message: M, _: &mut Cx<'_, Grove, Self>) {
        std::mem::forget(message);
    }
}

#[test]
fn messages_at_several_paused_stubs_may_panic_when_they_are_dropped() {
    let mut thrower = TestCx::<Grove, Thrower>::new(Thrower);
    (0..2).for_each(|leaf| thrower.graph().pause::<Leaf>(leaf));
    thrower.receive::<Ingress, Go>(Go);
    drop(thrower);
}

/// Panics when it stops, and when it is dropped.
struct Stopper;

impl Drop for Stopper {
    fn drop(&mut self) {
        panic!("the destructor of a processor");
    }
}

graph! {
    graph Halt {
        processors { stopper: Stopper }
        edges { ingress -> stopper: Go; }
    }
}

impl Process<Halt> for Stopper {
    fn on_stop(&mut self, _: Stopped) {
        panic!("the stop");
    }
}
impl Receive<Halt, Ingress, Go> for Stopper {
    fn receive(&mut self, _: Go, _: &mut Cx<'_, Halt, Self>) {}
}

#[test]
fn a_processor_that_panics_as_it_stops_may_panic_when_it_is_dropped() {
    let stopped = catch_unwind(|| TestCx::<Halt, Stopper>::new(Stopper).into_inner());
    let text = stopped.map(std::mem::forget).unwrap_err();
    let text = text.downcast_ref::<String>().unwrap();
    assert!(text.contains("the stop"), "{text}");
}
