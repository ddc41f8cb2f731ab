//! Supervision: a processor that panics is replaced, and the message on which it panicked is kept.
//!
//! `cargo run --release --example supervision`

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, Restart, graph};

graph! {
    graph App {
        processors { parser: Parser, total: Total }
        edges {
            // `keep` clones each message before its handler, for the hook `on_failure`.
            ingress -> parser: String [keep];
            parser -> total: u64;
            total -> egress: u64;
        }
    }
}

/// Has a fault: it panics on what is no number.
struct Parser;
impl Process<App> for Parser {
    fn on_start(&mut self, cx: &mut Cx<'_, App, Self>) {
        if cx.restarts() > 0 {
            println!("parser: restart {}", cx.restarts());
        }
    }
}
impl Receive<App, Ingress, String> for Parser {
    fn receive(&mut self, line: String, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Total>()
            .send(line.parse::<u64>().expect("a number"));
    }
}

struct Total(u64);
impl Process<App> for Total {
    /// Sends the result once all messages have been handled.
    fn flush(&mut self, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(self.0);
    }
}
impl Receive<App, Parser, u64> for Total {
    fn receive(&mut self, number: u64, _: &mut Cx<'_, App, Self>) {
        self.0 += number;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dead = Arc::new(Mutex::new(Vec::new()));
    let letters = Arc::clone(&dead);
    let ms = Duration::from_millis;
    let app = App::builder(Parser, Total(0))
        // The fourth panic within ten seconds would stop the graph.
        .restart(Restart::new().limit(3, ms(10_000)).delay(ms(1), ms(100)).or_stop(), |_| Parser)
        .on_failure(move |failure| {
            let line = failure.message.and_then(|message| message.downcast::<String>().ok());
            letters.lock().unwrap().extend(line);
        })
        .start()?;
    let lines = app.ingress::<Parser, String>();
    let mut totals = app.egress::<Total, u64>(0);
    for line in ["1", "two", "3", "four", "5"] {
        lines.send(line.to_owned())?;
    }
    // Waits for the restarts too. The panics are in the report, equal ones as one.
    let report = app.drain(Duration::from_secs(10))?;
    println!("{report}");
    assert_eq!(totals.recv(), Ok(9));
    let dead = dead.lock().unwrap();
    println!("not handled: {dead:?}");
    assert!(dead.iter().map(|line| line.as_str()).eq(["two", "four"]));
    Ok(())
}
