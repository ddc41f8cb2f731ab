//! Edges that drop, weigh and rank, on threads; and hashes of the user.

use core::hash::BuildHasherDefault;
use std::hash::DefaultHasher;

use rast_msgpass::{
    Cx, Egress, Ingress, Next, Process, Receive, Weight, consistent_replica_of, graph,
};

use crate::LONG;

struct Tick(u64);
struct Text(String);
struct Done(u64);

impl Weight for Text {
    fn weight(&self) -> usize {
        self.0.weight()
    }
}

const TICKS: u64 = 20_000;

/// Sends ticks as fast as it can, and then that it is done.
struct Ticker(u64);
#[derive(Default)]
struct Reader {
    last: u64,
    ticks: u64,
    bytes: usize,
}

graph! {
    graph Ticks {
        processors { ticker: Ticker [source], reader: [Reader; 3] }
        edges {
            ticker -> reader: Tick [latest];
            ticker -> reader: Text [bytes = 4_096];
            ticker -> reader: Done [high, burst = 3];
            reader -> egress: Done;
        }
    }
}

impl Process<Ticks> for Ticker {
    fn ping(&mut self, cx: &mut Cx<'_, Ticks, Self>) -> Next {
        if self.0 == TICKS {
            return Next::Idle;
        }
        self.0 += 1;
        let number = self.0;
        for reader in 0..3 {
            cx.to::<Reader>().at(reader).send(Tick(number));
        }
        let text = "x".repeat(number as usize % 700);
        cx.to::<Reader>().key(number).send(Text(text));
        if number == TICKS {
            (0..3).for_each(|reader| cx.to::<Reader>().at(reader).send(Done(number)));
        }
        Next::Again
    }
}
impl Process<Ticks> for Reader {}
impl Receive<Ticks, Ticker, Tick> for Reader {
    fn receive(&mut self, Tick(number): Tick, _: &mut Cx<'_, Ticks, Self>) {
        assert!(self.last < number, "a tick is older than the one before");
        (self.last, self.ticks) = (number, self.ticks + 1);
    }
}
impl Receive<Ticks, Ticker, Text> for Reader {
    fn receive(&mut self, text: Text, _: &mut Cx<'_, Ticks, Self>) {
        self.bytes += text.0.len();
    }
}
impl Receive<Ticks, Ticker, Done> for Reader {
    fn receive(&mut self, done: Done, cx: &mut Cx<'_, Ticks, Self>) {
        cx.to::<Egress>().send(done);
    }
}

#[test]
fn the_latest_tick_always_comes_and_no_text_is_lost() {
    for workers in [1, 2, 3] {
        let readers = [Reader::default(), Reader::default(), Reader::default()];
        let app = Ticks::builder(Ticker(0), readers).workers(workers);
        let app = app.start().unwrap();
        let mut done = app.egress::<Reader, Done>(0);
        (0..3).for_each(|_| assert_eq!(done.recv().unwrap().0, TICKS));
        let report = app.drain(LONG).unwrap();
        let [ticks, texts, ..] = &report.metrics.edges[..] else {
            panic!("there are four edges");
        };
        assert_eq!(ticks.sent + ticks.dropped, 3 * TICKS);
        assert_eq!((texts.received, texts.dropped), (TICKS, 0));
        let readers = report.take_states::<Ticks, Reader>();
        assert!(readers.iter().all(|reader| reader.last == TICKS));
        let handled: u64 = readers.iter().map(|reader| reader.ticks).sum();
        assert_eq!(handled, ticks.received);
        let bytes: usize = readers.iter().map(|reader| reader.bytes).sum();
        assert_eq!(bytes, (1..=TICKS as usize).map(|number| number % 700).sum());
    }
}

struct Router;
struct Shelf;

graph! {
    graph Library {
        processors { router: Router, shelf: [Shelf; _] }
        edges {
            ingress -> router: String;
            ingress -> shelf: String;
            router -> shelf: String;
            shelf -> egress: (String, usize);
        }
    }
}

type Fixed = BuildHasherDefault<DefaultHasher>;

impl Process<Library> for Router {}
impl Receive<Library, Ingress, String> for Router {
    fn receive(&mut self, title: String, cx: &mut Cx<'_, Library, Self>) {
        cx.to::<Shelf>()
            .hashed(&title, &Fixed::default())
            .send(title);
    }
}
impl Process<Library> for Shelf {}
impl<F> Receive<Library, F, String> for Shelf {
    fn receive(&mut self, title: String, cx: &mut Cx<'_, Library, Self>) {
        let own = cx.replica();
        cx.to::<Egress>().send((title, own));
    }
}

#[test]
fn equal_keys_meet_within_and_from_outside() {
    use core::hash::BuildHasher;

    let app = Library::builder(Router, (0..5).map(|_| Shelf))
        .start()
        .unwrap();
    let mut places = app.egress::<Shelf, (String, usize)>(0);
    let (router, shelf) = (
        app.ingress::<Router, String>(),
        app.ingress::<Shelf, String>(),
    );
    for number in 0..100 {
        let title = format!("title {number}");
        router.send(title.clone()).unwrap();
        let (_, within) = places.recv().unwrap();
        let port = shelf.hashed(&title, &Fixed::default());
        port.send(title.clone()).unwrap();
        assert_eq!(places.recv(), Ok((title.clone(), within)));
        let hash = Fixed::default().hash_one(&title);
        assert_eq!(within, consistent_replica_of(hash, 5));
    }
}

#[test]
fn a_further_replica_takes_its_share_and_moves_nothing_else() {
    const KEYS: u64 = 20_000;
    let hash = |key: u64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (key << 7);
    for replicas in [1, 2, 3, 7, 16, 100] {
        let mut counts = vec![0; replicas + 1];
        for key in 0..KEYS {
            let before = consistent_replica_of(hash(key), replicas);
            let after = consistent_replica_of(hash(key), replicas + 1);
            assert!(after == before || after == replicas);
            counts[after] += 1;
        }
        let share = KEYS / (replicas as u64 + 1);
        assert!(
            counts
                .iter()
                .all(|count| (share / 2..=2 * share).contains(count))
        );
    }
}
