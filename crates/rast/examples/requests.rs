//! Requests: threads ask a cache. The cache asks a slow store once per key, even if many threads
//! wait for the key.
//!
//! `cargo run --release --example requests`
//!
//! An `Ask` is a request from outside with a slot for its answer. Inside the graph, an edge marked
//! `reply` carries the answers of another edge; each request reserves the room for its answer.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use rast::msgpass::{Ask, Cx, Ingress, Process, Receive, Reply, ReplyTo, Timer, graph};

struct Fetch(u64);
struct Fetched(u64, String);

graph! {
    graph App {
        processors { cache: Cache, store: Store }
        edges {
            ingress -> cache: Ask<u64, String>;
            cache -> store: Fetch;
            store -> cache: Fetched [reply = Fetch];
        }
    }
}

#[derive(Default)]
struct Cache {
    known: HashMap<u64, String>,
    waiting: HashMap<u64, Vec<Reply<String>>>,
}
impl Process<App> for Cache {}
impl Receive<App, Ingress, Ask<u64, String>> for Cache {
    fn receive(&mut self, ask: Ask<u64, String>, cx: &mut Cx<'_, App, Self>) {
        let (key, reply) = ask.into_parts();
        if let Some(value) = self.known.get(&key) {
            // An error returns the answer: the asking thread has gone.
            let _ = reply.send(value.clone());
            return;
        }
        let waiting = self.waiting.entry(key).or_default();
        waiting.push(reply);
        if waiting.len() == 1 {
            cx.to::<Store>().send(Fetch(key));
        }
    }
}
impl Receive<App, Store, Fetched> for Cache {
    fn receive(&mut self, Fetched(key, value): Fetched, _: &mut Cx<'_, App, Self>) {
        for reply in self.waiting.remove(&key).into_iter().flatten() {
            let _ = reply.send(value.clone());
        }
        self.known.insert(key, value);
    }
}

/// Answers after ten milliseconds. No handler waits: the right to answer travels in a timer.
#[derive(Default)]
struct Store {
    fetched: u64,
}
struct Ready(u64, ReplyTo<App, Cache, Store, Fetch>);
impl Process<App> for Store {}
impl Receive<App, Cache, Fetch> for Store {
    fn receive(&mut self, Fetch(key): Fetch, cx: &mut Cx<'_, App, Self>) {
        self.fetched += 1;
        let reply = cx.reply_to();
        cx.after(Duration::from_millis(10), Ready(key, reply));
    }
}
impl Receive<App, Timer, Ready> for Store {
    fn receive(&mut self, Ready(key, reply): Ready, cx: &mut Cx<'_, App, Self>) {
        reply.send(Fetched(key, format!("value {key}")), cx);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let app = App::builder(Cache::default(), Store::default()).start()?;
    let cache = app.ingress::<Cache, Ask<u64, String>>();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in (0..10).chain(0..10) {
                    let value = cache.ask(key, Duration::from_secs(10)).expect("it answers");
                    assert_eq!(value, format!("value {key}"));
                }
            });
        }
    });
    let report = app.drain(Duration::from_secs(10))?;
    let stores = report.take_states::<App, Store>();
    println!("80 questions, {} fetches", stores[0].fetched);
    assert_eq!(stores[0].fetched, 10);
    println!("{report}");
    Ok(())
}
