//! Messages that are left in an inbox when its graph is dropped.

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
