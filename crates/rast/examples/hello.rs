//! A first graph: lines come in, words are counted by four replicas, counts come out.
//!
//! `cargo run --release --example hello`

use std::{collections::HashMap, error::Error, time::Duration};

use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

graph! {
    graph App {
        processors { split: Split, count: [Count; 4] }
        edges {
            ingress -> split: String;           // from any thread outside the graph
            split -> count: Word [burst = 16];  // a line leads to at most 16 words
            count -> egress: Seen;              // to any thread outside the graph
        }
    }
}

struct Word(String);
struct Seen(String, u32);

struct Split;
impl Process<App> for Split {}
impl Receive<App, Ingress, String> for Split {
    fn receive(&mut self, line: String, cx: &mut Cx<'_, App, Self>) {
        for word in line.split_whitespace().take(16) {
            // Words with the same first letter go to the same replica, which alone counts them.
            let key = u64::from(word.as_bytes()[0]);
            cx.to::<Count>().key(key).send(Word(word.to_owned()));
        }
    }
}

#[derive(Default)]
struct Count(HashMap<String, u32>);
impl Process<App> for Count {}
impl Receive<App, Split, Word> for Count {
    fn receive(&mut self, Word(word): Word, cx: &mut Cx<'_, App, Self>) {
        let times = self.0.entry(word.clone()).or_default();
        *times += 1;
        cx.to::<Egress>().send(Seen(word, *times));
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // One argument per processor; for replicas, an iterator over them.
    let handle = App::builder(Split, (0..4).map(|_| Count::default())).start()?;
    let lines = handle.ingress::<Split, String>();
    let mut counts = handle.egress::<Count, Seen>(0);

    lines.send("a rose is a rose".to_owned())?;
    lines.send("is a rose".to_owned())?;
    // Closes the ingress, and waits until every accepted message has been handled.
    let report = handle.drain(Duration::from_secs(10))?;

    let mut seen = HashMap::new();
    while let Ok(Seen(word, times)) = counts.recv() {
        println!("{word}: {times}");
        seen.insert(word, times);
    }
    assert_eq!((seen["a"], seen["rose"], seen["is"]), (3, 3, 2));
    println!("{report}");
    println!("{}", App::mermaid());
    Ok(())
}
