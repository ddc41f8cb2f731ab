//! What is left when a graph is dropped: messages in an inbox, and processors.

use std::panic::catch_unwind;

use rast_msgpass::testing::TestCx;
use rast_msgpass::{Cx, Ingress, Process, Receive, graph};

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
