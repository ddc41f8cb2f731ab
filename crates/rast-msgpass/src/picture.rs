//! Pictures of a graph, in the languages of Graphviz and Mermaid.

use core::fmt::Write;

use crate::graph::{EdgeInfo, EdgeKind, End, Graph, ProcessorInfo};

fn name<G: Graph>(end: End) -> &'static str {
    match end {
        End::Ingress => "ingress",
        End::Egress => "egress",
        End::Processor(index) => G::PROCESSORS[index].name,
    }
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

fn doors<G: Graph>() -> impl Iterator<Item = End> {
    let used = |end: End| {
        G::EDGES
            .iter()
            .any(|edge| edge.from == end || edge.to == end)
    };
    [End::Ingress, End::Egress]
        .into_iter()
        .filter(move |&end| used(end))
}

/// A processor with its type and the number of its replicas.
fn shown(processor: &ProcessorInfo) -> String {
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
    let mut text = format!("digraph {} {{\n  rankdir=LR;\n", G::NAME);
    for processor in G::PROCESSORS {
        let shown = shown(processor);
        let _ = writeln!(text, "  {:?} [shape=box, label={shown:?}];", processor.name);
    }
    for end in doors::<G>() {
        let _ = writeln!(text, "  {:?} [shape=plaintext];", name::<G>(end));
    }
    for edge in G::EDGES {
        let (from, to) = (name::<G>(edge.from), name::<G>(edge.to));
        let _ = writeln!(text, "  {from:?} -> {to:?} [label={:?}];", label(edge));
    }
    text.push_str("}\n");
    text
}

/// Draws graph `G` for Mermaid.
#[must_use]
pub fn mermaid<G: Graph>() -> String {
    let escape = |text: String| {
        text.replace('"', "#quot;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let mut text = "flowchart LR\n".to_owned();
    for processor in G::PROCESSORS {
        let shown = shown(processor);
        let _ = writeln!(text, "  {}[\"{}\"]", processor.name, escape(shown));
    }
    for end in doors::<G>() {
        let _ = writeln!(text, "  {}([{}])", name::<G>(end), name::<G>(end));
    }
    for edge in G::EDGES {
        let (from, to) = (name::<G>(edge.from), name::<G>(edge.to));
        let _ = writeln!(text, "  {from} -->|\"{}\"| {to}", escape(label(edge)));
    }
    text
}
