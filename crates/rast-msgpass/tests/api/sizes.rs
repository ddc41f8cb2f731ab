//! Numbers of replicas that the builder gets.

use rast_msgpass::{
    BuildError, Cx, Egress, Ingress, PAIRS_MAX, Process, Receive, Single, graph, replica_of,
    shard_of,
};

graph! {
    graph Sizes {
        processors { front: Front, part: [Part; _], pair: [Pair; 2..=3], last: Last }
        edges {
            ingress -> front: u64;
            ingress -> part: u64;
            front -> part: u64;
            part -> pair: u64;
            pair -> part: u32 [reply = u64];
            part -> egress: u64;
            pair -> last: u64;
        }
    }
}

struct Front;
#[derive(Default)]
struct Part {
    seen: Vec<u64>,
    answers: u64,
}
#[derive(Default)]
struct Pair;
#[derive(Default)]
struct Last(u64);

impl Process<Sizes> for Front {}
impl Receive<Sizes, Ingress, u64> for Front {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Sizes, Self>) {
        cx.to::<Part>().key(number).send(number);
    }
}
impl Process<Sizes> for Part {}
impl Receive<Sizes, Front, u64> for Part {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Sizes, Self>) {
        self.seen.push(number);
        cx.to::<Pair>().any().send(number);
    }
}
impl Receive<Sizes, Ingress, u64> for Part {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Sizes, Self>) {
        cx.to::<Egress>().send(number);
    }
}
impl Receive<Sizes, Pair, u32> for Part {
    fn receive(&mut self, _: u32, _: &mut Cx<'_, Sizes, Self>) {
        self.answers += 1;
    }
}
impl Process<Sizes> for Pair {}
impl Receive<Sizes, Part, u64> for Pair {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Sizes, Self>) {
        let part = cx.sender();
        cx.to::<Part>().at(part).send(number as u32);
        cx.to::<Last>().send(number);
    }
}
impl Process<Sizes> for Last {}
impl Receive<Sizes, Pair, u64> for Last {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, Sizes, Self>) {
        self.0 += number;
    }
}

fn parts(count: usize) -> impl Iterator<Item = Part> {
    (0..count).map(|_| Part::default())
}

fn pairs(count: usize) -> impl Iterator<Item = Pair> {
    (0..count).map(|_| Pair)
}

/// Numbers reach the part of their key, each is answered, and the states come back by replica.
fn runs(count: usize) {
    let app = Sizes::builder(Front, parts(count), pairs(3), Last(0))
        .workers(2)
        .pin::<Part>(count - 1, 1)
        .start()
        .unwrap();
    assert_eq!((app.replicas::<Part>(), app.replicas::<Pair>()), (count, 3));
    assert_eq!(app.shard_of::<Pair>(0).index(), 1 + count);
    assert_eq!(app.shard_of::<Last>(0).index(), 1 + count + 3);
    let (front, doors) = (app.ingress::<Front, u64>(), app.ingress::<Part, u64>());
    assert_eq!(doors.replicas(), count);
    let mut out = app.egress::<Part, u64>(0);
    doors.at(count - 1).send(7).unwrap();
    assert_eq!(out.recv(), Ok(7));
    let numbers = 0..1_000_u64;
    numbers
        .clone()
        .for_each(|number| front.send(number).unwrap());
    let report = app.drain(crate::LONG).unwrap();
    let parts = report.take_states::<Sizes, Part>();
    assert_eq!(parts.len(), count);
    for (replica, part) in parts.iter().enumerate() {
        let own = numbers
            .clone()
            .filter(|&number| replica_of(number, count) == replica);
        assert_eq!(part.seen, own.collect::<Vec<_>>());
        assert_eq!(part.answers, part.seen.len() as u64);
    }
    let last = report.take_states::<Sizes, Last>();
    assert_eq!(last[0].0, numbers.sum::<u64>());
    assert_eq!(report.take_states::<Sizes, Pair>().len(), 3);
}

#[test]
fn a_graph_has_as_many_replicas_as_it_is_given() {
    [1, 2, 5].into_iter().for_each(runs);
}

#[test]
fn many_replicas_share_inboxes() {
    let many = PAIRS_MAX / 3 + 1;
    assert!(Sizes::EDGES[3].by_pair, "for the minimum");
    runs(many);
    runs(many - 1);
    runs(PAIRS_MAX + 1);
}

#[test]
fn another_number_is_an_error_that_says_which() {
    let check = |part, pair| Sizes::builder(Front, parts(part), pairs(pair), Last(0)).check();
    assert!(check(1, 2).is_ok() && check(1, 3).is_ok());
    let none = check(0, 2).unwrap_err();
    let text = "processor `part` is declared with at least 1 replicas and was given 0";
    assert_eq!(none.to_string(), text);
    let few = check(1, 1).unwrap_err();
    let text = "processor `pair` is declared with 2 to 3 replicas and was given 1";
    assert_eq!(few.to_string(), text);
    assert!(matches!(
        check(1, 4).unwrap_err(),
        BuildError::Replicas {
            processor: "pair",
            least: 2,
            most: 3,
            given: 4,
            ..
        }
    ));
}

#[test]
fn a_pin_of_a_replica_that_is_not_given_is_an_error() {
    let builder = Sizes::builder(Front, parts(2), pairs(2), Last(0)).workers(1);
    let error = builder.pin::<Part>(2, 0).check().unwrap_err();
    let text = "processor `part` was given 2 replicas, so replica 2 cannot be pinned";
    assert_eq!(error.to_string(), text);
}

#[test]
#[should_panic(expected = "use `Handle::shard_of` for what is declared after it")]
fn shards_after_such_a_processor_have_no_constant_number() {
    assert_eq!(shard_of::<Sizes, Part>(1).index(), 2);
    let _ = shard_of::<Sizes, Pair>(0);
}

#[test]
fn tables_have_the_bounds() {
    let bounds = Sizes::PROCESSORS.iter();
    let bounds: Vec<_> = bounds
        .map(|info| (info.replicas, info.replicas_max))
        .collect();
    assert_eq!(bounds, [(1, 1), (1, usize::MAX), (2, 3), (1, 1)]);
    assert!(Sizes::dot().contains("part: Part x 1.."));
    assert!(Sizes::mermaid().contains("pair: Pair x 2..=3"));
    fn is_single<G: Single<P>, P>() {}
    is_single::<Sizes, Last>();
}

/// Its parameter may name references, and borrows nothing.
struct Map<F>(F);

graph! {
    graph Pointers {
        processors { map: Map<fn(&str) -> &str> }
        edges { ingress -> map: &'static str; map -> egress: usize; }
    }
}

impl Process<Pointers> for Map<fn(&str) -> &str> {}
impl Receive<Pointers, Ingress, &'static str> for Map<fn(&str) -> &str> {
    fn receive(&mut self, text: &'static str, cx: &mut Cx<'_, Pointers, Self>) {
        cx.to::<Egress>().send((self.0)(text).len());
    }
}

#[test]
fn a_processor_may_have_a_function_of_references() {
    let app = Pointers::builder(Map(str::trim as fn(&str) -> &str))
        .start()
        .unwrap();
    let mut lengths = app.egress::<Map<fn(&str) -> &str>, usize>(0);
    let into = app.ingress::<Map<fn(&str) -> &str>, &'static str>();
    into.send(" one ").unwrap();
    assert_eq!(lengths.recv(), Ok(3));
}
