//! Pictures of a graph as it is declared, in the languages of Graphviz and Mermaid.
//!
//! In Graphviz every name is a quoted string, so that keywords (`graph`, `node`, `edge`) are names
//! like others. Mermaid has no quoted names: a keyword gets underscores at its end.

use core::fmt::Write;

use crate::graph::{EdgeInfo, EdgeKind, End, Graph, ProcessorInfo};

fn name<G: Graph>(end: End) -> &'static str {
    match end {
        End::Ingress => "ingress",
        End::Egress => "egress",
        End::Processor(index) => G::PROCESSORS[index].name,
    }
}

/// Returns a text as a string of Graphviz.
pub(crate) fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('\n', "\\n"))
}

/// Returns a text as a string of Mermaid.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('#', "#35;");
    let text = text.replace('"', "#quot;").replace('<', "&lt;");
    format!("\"{}\"", text.replace('>', "&gt;").replace('\n', "<br/>"))
}

/// Words that are no names in Mermaid, in lower case.
const RESERVED: [&str; 16] = [
    "call",
    "class",
    "classdef",
    "click",
    "default",
    "direction",
    "end",
    "flowchart",
    "graph",
    "href",
    "interpolate",
    "linkstyle",
    "node",
    "style",
    "subgraph",
    "update",
];

/// Returns the name of an end in Mermaid, which no other end has.
fn plain_name<G: Graph>(end: End) -> String {
    let letter = |letter: char| match letter.is_alphanumeric() || letter == '_' {
        true => letter,
        false => '_',
    };
    let name = name::<G>(end);
    let mut plain: String = name.chars().map(letter).collect();
    if plain != name || RESERVED.contains(&name.to_lowercase().as_str()) {
        plain.push('_');
        while G::PROCESSORS.iter().any(|other| other.name == plain) {
            plain.push('_');
        }
    }
    plain
}

fn label(edge: &EdgeInfo) -> String {
    let rule = match edge.kind {
        EdgeKind::Bounded => format!("{}", edge.capacity),
        EdgeKind::Unbounded => "unbounded".to_owned(),
        EdgeKind::Reply { .. } => "reply".to_owned(),
        EdgeKind::Reject => format!("{}, reject", edge.capacity),
        EdgeKind::DropNewest => format!("{}, drop newest", edge.capacity),
        EdgeKind::DropOldest => format!("{}, drop oldest", edge.capacity),
        EdgeKind::Latest => "latest".to_owned(),
    };
    let any = if edge.any { ", any" } else { "" };
    let high = if edge.high { ", high" } else { "" };
    let bytes = match edge.bytes {
        usize::MAX => String::new(),
        bytes => format!(", {bytes} bytes"),
    };
    format!("{} [{rule}{bytes}{any}{high}]", edge.message)
}

/// Returns those of ingress and egress that some edge has.
pub(crate) fn doors<'a>(
    edges: impl Iterator<Item = &'a EdgeInfo> + Clone,
) -> impl Iterator<Item = End> {
    let is_used = move |&end: &End| {
        edges
            .clone()
            .any(|edge| [edge.from, edge.to].contains(&end))
    };
    [End::Ingress, End::Egress].into_iter().filter(is_used)
}

/// A processor with its type and the number of its replicas.
pub(crate) fn shown(processor: &ProcessorInfo) -> String {
    let mut shown = format!("{}: {}", processor.name, processor.type_name);
    if processor.replicated {
        let _ = match (processor.replicas, processor.replicas_max) {
            (least, usize::MAX) => write!(shown, " x {least}.."),
            (least, most) if least == most => write!(shown, " x {least}"),
            (least, most) => write!(shown, " x {least}..={most}"),
        };
    }
    shown
}

/// Draws graph `G` for Graphviz.
#[must_use]
pub fn dot<G: Graph>() -> String {
    let mut text = format!("digraph {} {{\n  rankdir=LR;\n", quoted(G::NAME));
    for processor in G::PROCESSORS {
        let (name, shown) = (quoted(processor.name), quoted(&shown(processor)));
        let _ = writeln!(text, "  {name} [shape=box, label={shown}];");
    }
    for end in doors(G::EDGES.iter()) {
        let _ = writeln!(text, "  {} [shape=plaintext];", quoted(name::<G>(end)));
    }
    for edge in G::EDGES {
        let [from, to] = [edge.from, edge.to].map(|end| quoted(name::<G>(end)));
        let _ = writeln!(text, "  {from} -> {to} [label={}];", quoted(&label(edge)));
    }
    text.push_str("}\n");
    text
}

/// Draws graph `G` for Mermaid.
#[must_use]
pub fn mermaid<G: Graph>() -> String {
    let mut text = "flowchart LR\n".to_owned();
    for (index, processor) in G::PROCESSORS.iter().enumerate() {
        let name = plain_name::<G>(End::Processor(index));
        let _ = writeln!(text, "  {name}[{}]", escaped(&shown(processor)));
    }
    for end in doors(G::EDGES.iter()) {
        let _ = writeln!(text, "  {0}([{0}])", name::<G>(end));
    }
    for edge in G::EDGES {
        let [from, to] = [edge.from, edge.to].map(plain_name::<G>);
        let _ = writeln!(text, "  {from} -->|{}| {to}", escaped(&label(edge)));
    }
    text
}
