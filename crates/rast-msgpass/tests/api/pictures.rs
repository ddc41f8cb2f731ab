//! Pictures of graphs whose names and messages are words of the languages of the pictures.

use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};

struct Node;
struct End;
/// A message whose name holds quotes.
struct Text<const C: char>;

graph! {
    graph Digraph {
        processors { node: Node, end: [End; 2], end_: Edge }
        edges {
            ingress -> node: u64;
            node -> end: Text<'"'>;
            end -> end_: [u8; 4];
            end_ -> egress: Text<'\\'>;
        }
    }
}
struct Edge;

impl Process<Digraph> for Node {}
impl Receive<Digraph, Ingress, u64> for Node {
    fn receive(&mut self, number: u64, cx: &mut Cx<'_, Digraph, Self>) {
        cx.to::<End>().key(number).send(Text);
    }
}
impl Process<Digraph> for End {}
impl Receive<Digraph, Node, Text<'"'>> for End {
    fn receive(&mut self, _: Text<'"'>, cx: &mut Cx<'_, Digraph, Self>) {
        cx.to::<Edge>().send([0; 4]);
    }
}
impl Process<Digraph> for Edge {}
impl Receive<Digraph, End, [u8; 4]> for Edge {
    fn receive(&mut self, _: [u8; 4], cx: &mut Cx<'_, Digraph, Self>) {
        cx.to::<Egress>().send(Text);
    }
}

/// Reads a text of Graphviz: what is left without its strings, each of which is one word.
fn without_strings(dot: &str) -> String {
    let (mut left, mut letters) = (String::new(), dot.chars());
    while let Some(letter) = letters.next() {
        if letter != '"' {
            left.push(letter);
            continue;
        }
        left.push('S');
        loop {
            match letters.next() {
                Some('"') => break,
                Some('\\') => assert!(matches!(letters.next(), Some('"' | '\\' | 'n'))),
                Some('\n') => panic!("a line ends in a string: {dot}"),
                Some(_) => {}
                None => panic!("a string does not end: {dot}"),
            }
        }
    }
    left
}

#[test]
fn keywords_and_quotes_are_names_and_texts_in_graphviz() {
    let dot = Digraph::dot();
    let left = without_strings(&dot);
    assert_eq!(left.matches("S -> S [label=S];").count(), 4, "{dot}");
    assert!(left.starts_with("digraph S {"), "{dot}");
    assert!(
        dot.contains("\"node\" -> \"end\" [label=\"Text<'\\\"'>"),
        "{dot}"
    );
}

#[test]
fn keywords_and_quotes_are_names_and_texts_in_mermaid() {
    let mermaid = Digraph::mermaid();
    // `end_` is the name of another processor.
    assert!(mermaid.contains("\n  node_[\"node: Node\"]"), "{mermaid}");
    assert!(mermaid.contains("\n  end__[\"end: End x 2\"]"), "{mermaid}");
    assert!(
        mermaid.contains("  node_ -->|\"Text&lt;'#quot;'&gt;"),
        "{mermaid}"
    );
    assert!(mermaid.contains("| end_\n"), "{mermaid}");
    assert!(
        !mermaid.lines().any(|line| line.trim() == "end"),
        "{mermaid}"
    );
    assert!(
        mermaid
            .lines()
            .all(|line| line.matches('"').count() % 2 == 0),
        "{mermaid}"
    );
}

#[test]
fn a_picture_of_a_running_graph_shows_workers_loads_and_waiting_times() {
    let ends = [End, End];
    let builder = Digraph::builder(Node, ends, Edge).workers(2).sample(1);
    let app = builder.pin::<End>(0, 0).pin::<End>(1, 1).start().unwrap();
    let viewer = app.viewer();
    let mut texts = app.egress::<Edge, Text<'\\'>>(0);
    let numbers = app.ingress::<Node, u64>();
    (0..10).for_each(|number| numbers.send(number).unwrap());
    for _ in 0..10 {
        texts.recv().unwrap();
    }
    // What was handled is counted at the end of a batch, after what it sent has left.
    while (viewer.metrics().edges.iter()).any(|edge| edge.received < 10) {
        std::thread::yield_now();
    }
    let (dot, mermaid) = (viewer.dot(), viewer.mermaid());
    let left = without_strings(&dot);
    assert!(left.starts_with("digraph S {"), "{dot}");
    assert_eq!(left.matches("label=S").count(), 4 + 1 + 4, "{dot}");
    assert!(
        left.contains("ltail=cluster_1") && left.contains("lhead=cluster_1"),
        "{dot}"
    );
    for picture in [&dot, &mermaid] {
        assert!(
            picture.contains("worker 0, ") && picture.contains("worker 1, "),
            "{picture}"
        );
        assert_eq!(picture.matches("10 sent, 0 queued").count(), 4, "{picture}");
        assert_eq!(picture.matches("p99 ").count(), 4, "{picture}");
    }
    // The replicas are on workers of their own, so their colours differ.
    let colour = |shard: &str| {
        let line = mermaid.lines().find(|line| line.contains(shard));
        line.unwrap().rsplit_once("fill:").unwrap().1.to_owned()
    };
    assert_ne!(colour("style i1 "), colour("style i2 "));
    assert_eq!(mermaid.matches("\n  subgraph p1[").count(), 1, "{mermaid}");
    assert!(
        mermaid
            .lines()
            .all(|line| line.matches('"').count() % 2 == 0),
        "{mermaid}"
    );
}
