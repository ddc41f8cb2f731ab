//! Numbers of replicas that the builder gets, by a seed.

use rast_msgpass::testing::{TestCx, for_each_seed};
use rast_msgpass::{Cx, Ingress, Process, Receive, graph, replica_of};

graph! {
    graph Keyed {
        processors { front: Front, part: [Part; _] }
        edges {
            ingress -> front: u64 [cap = 2];
            front -> part: u64 [cap = 2];
        }
    }
}

struct Front;
#[derive(Default)]
struct Part(Vec<u64>);

impl Process<Keyed> for Front {}
impl Receive<Keyed, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Keyed, Self>) {
        cx.to::<Part>().key(number).send(number);
    }
}
impl Process<Keyed> for Part {}
impl Receive<Keyed, Front, u64> for Part {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Keyed, Self>) {
        self.0.push(number);
    }
}

#[test]
fn keys_find_their_replicas_in_every_order() {
    for_each_seed(0..1_000, |seed| {
        let count = 1 + seed as usize % 6;
        let parts = (0..count).map(|_| Part::default());
        let mut app = Keyed::builder(Front, parts).test(seed).unwrap();
        let feed = app.feed::<Front, u64>(0..40);
        app.run_until_idle();
        assert_eq!(feed.accepted(), 40);
        for replica in 0..count {
            let own: Vec<u64> = (0..40)
                .filter(|&key| replica_of(key, count) == replica)
                .collect();
            assert_eq!(app.processor::<Part>(replica).0, own);
        }
    });
}

#[test]
fn a_processor_alone_is_the_replica_that_the_test_names() {
    let mut alone = TestCx::<Keyed, Part>::at(6, Part::default());
    alone.receive::<Front, u64>(9);
    assert_eq!(alone.into_inner().0, [9]);
    let mut front = TestCx::<Keyed, Front>::new(Front);
    front.receive::<Ingress, u64>(9);
    assert_eq!(front.passed::<Part, u64>()[0].receiver, 0);
}
