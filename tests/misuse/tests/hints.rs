//! The hints for edges that are missing are what has to be written: the graph below has them.
#![cfg(not(rast_loom))]

use rast::msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

struct Split;
struct Count;
struct Line(u64);

graph! {
    graph App {
        processors { split: Split, count: Count }
        edges {
            ingress -> split: String;
            split -> count: Line;
            count -> egress: u64;
            // The two hints, with an attribute for the cycle.
            split -> count: String;
            count -> split: Line [unbounded];
        }
    }
}

impl Process<App> for Split {}
impl Process<App> for Count {}
impl Receive<App, Ingress, String> for Split {
    fn receive(&mut self, text: String, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Count>().send(text);
    }
}
impl Receive<App, Count, Line> for Split {
    fn receive(&mut self, _: Line, _: &mut Cx<'_, App, Self>) {}
}
impl Receive<App, Split, String> for Count {
    fn receive(&mut self, text: String, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(text.len() as u64);
    }
}
impl Receive<App, Split, Line> for Count {
    fn receive(&mut self, line: Line, cx: &mut Cx<'_, App, Self>) {
        cx.to::<Egress>().send(line.0);
        cx.to::<Split>().send(line);
    }
}

#[test]
fn the_hints_can_be_pasted() {
    let said = include_str!("ui/graph_missing_edge.stderr");
    let hints = said.lines().filter_map(|line| {
        let (_, hint) = line.split_once("under `edges` in `graph!`:  ")?;
        hint.strip_suffix(';')
    });
    let hints: Vec<&str> = hints.collect();
    assert_eq!(hints, ["split -> count: String", "count -> split: Line"]);
    let written = include_str!("hints.rs");
    for hint in hints {
        let line = |line: &str| line.trim_start().starts_with(hint);
        assert!(written.lines().any(line), "{hint}");
    }
    assert_eq!(App::EDGES.len(), 5);
}

/// The processors of `ui/graph_unreached.rs`, with the two hints.
mod sources {
    use rast::msgpass::{Cx, Process, Receive, graph};

    struct Split;
    struct Tick;
    struct Ping;
    struct Pong;

    graph! {
        graph App {
            processors {
                split: Split,
                tick: [Tick; 2] [source],
                ping: Ping [source],
                pong: Pong,
            }
            edges {
                ingress -> split: String;
                tick -> split: u8;
                ping -> pong: u8;
                pong -> ping: u8 [unbounded];
                pong -> split: u16;
            }
        }
    }
    impl Process<App> for Split {}
    impl Process<App> for Tick {}
    impl Process<App> for Ping {}
    impl Process<App> for Pong {}
    impl<F, M> Receive<App, F, M> for Split {
        fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
    }
    impl<F, M> Receive<App, F, M> for Ping {
        fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
    }
    impl<F, M> Receive<App, F, M> for Pong {
        fn receive(&mut self, _: M, _: &mut Cx<'_, App, Self>) {}
    }

    #[test]
    fn the_hints_for_sources_can_be_pasted() {
        let said = include_str!("ui/graph_unreached.stderr");
        let hints = said.lines().filter_map(|line| {
            let (_, hint) = line.split_once("from a source: write `")?;
            hint.split_once('`').map(|(hint, _)| hint)
        });
        let hints: Vec<&str> = hints.collect();
        assert_eq!(hints, ["tick: [Tick; 2] [source]", "ping: Ping [source]"]);
        let written = include_str!("hints.rs");
        for hint in hints {
            let line = |line: &str| line.trim_start().starts_with(hint);
            assert!(written.lines().any(line), "{hint}");
        }
        let sources = App::PROCESSORS.iter().filter(|processor| processor.source);
        assert_eq!(sources.count(), 2);
        let _ = App::builder(Split, [Tick, Tick], Ping, Pong);
    }
}
