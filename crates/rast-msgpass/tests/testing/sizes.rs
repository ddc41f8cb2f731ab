//! Numbers of replicas that the builder gets, by a seed.

use rast_msgpass::testing::{TestCx, for_each_seed};
use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph, replica_of};

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
fn a_feed_is_done_when_nothing_is_left_or_the_door_has_closed() {
    for_each_seed(0..100, |seed| {
        let parts = || [Part::default()];
        let mut app = Keyed::builder(Front, parts()).test(seed).unwrap();
        assert!(app.feed::<Front, u64>([]).is_done());
        app.pause::<Front>(0);
        let feed = app.feed::<Front, u64>([7]);
        assert!(!feed.is_done());
        assert!(app.run_until(|_| feed.is_done()));
        assert_eq!(feed.accepted(), 1);
        // The door has room for one more.
        let [late, later] = [2, 9].map(|count| app.feed::<Front, u64>(0..count));
        app.run_until_idle();
        assert!(!late.is_done() && !later.is_done());
        let _ = app.stop();
        assert!(late.is_done() && later.is_done());
        assert_eq!(late.accepted() + later.accepted(), 1);
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

/// Sends two of each number out.
struct Twice;

graph! {
    graph Wide {
        processors { twice: [Twice; _] }
        edges {
            ingress -> twice: u64;
            twice -> egress: u64 [cap = 4, burst = 2];
        }
    }
}

impl Process<Wide> for Twice {}
impl Receive<Wide, Ingress, u64> for Twice {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Wide, Self>) {
        (0..2).for_each(|_| cx.to::<Egress>().send(number));
    }
}

/// Sends each number out.
struct Once;

graph! {
    graph Declared {
        processors { once: [Once; 300] }
        edges {
            ingress -> once: u64;
            once -> egress: u64;
        }
    }
}

impl Process<Declared> for Once {}
impl Receive<Declared, Ingress, u64> for Once {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Declared, Self>) {
        cx.to::<Egress>().send(number);
    }
}

#[test]
fn each_sender_of_a_lane_has_a_ring_of_its_own_however_many_there_are() {
    let out = &Declared::EDGES[1];
    assert_eq!((out.by_pair, out.capacity), (true, 256));
    for count in [1, 300, 3000] {
        let mut app = Wide::builder((0..count).map(|_| Twice)).test(1).unwrap();
        let out = app.collect::<Twice, u64>(0);
        let door = app.handle().ingress::<Twice, u64>();
        (0..count).for_each(|replica| door.at(replica).try_send(replica as u64).unwrap());
        app.run_until_idle();
        assert_eq!(out.len(), 2 * count);
    }
}
