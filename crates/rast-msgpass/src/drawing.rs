//! Pictures of a graph as it runs, in the languages of Graphviz and Mermaid.
//!
//! ```text
//!   colour     the worker
//!   strength   the load: the share of the time since the start that the instance was busy
//!   edge       sent, queued, dropped, and the 99th percentile of the waiting time
//! ```
//!
//! An instance is a box, and the replicas of a processor are in a box together. Identifiers are
//! made of numbers, so that none is mistaken for a keyword.

use core::fmt::Write;

use crate::graph::{End, ProcessorInfo};
use crate::picture::{doors, escaped, quoted, shown};
use crate::report::{EdgeMetrics, InstanceMetrics, Metrics};
use crate::timers::Nanos;
use crate::timings::Timings;

/// What is drawn.
pub(crate) struct Drawing {
    pub(crate) graph: &'static str,
    pub(crate) processors: &'static [ProcessorInfo],
    pub(crate) metrics: Metrics,
    pub(crate) timings: Option<Timings>,
    /// The time since the start.
    pub(crate) elapsed: Nanos,
}

impl Drawing {
    /// Returns the share of the time that an instance was busy.
    fn load(&self, instance: &InstanceMetrics) -> f64 {
        let elapsed = self.elapsed.as_nanos().max(1);
        (instance.busy.as_nanos() as f64 / elapsed as f64).min(1.0)
    }

    /// Returns the text in the box of an instance.
    fn text_of(&self, instance: &InstanceMetrics) -> String {
        let info = &self.processors[instance.processor];
        let mut text = match info.replicated {
            true => format!("{}", instance.replica),
            false => shown(info),
        };
        let load = (self.load(instance) * 100.0).round();
        let _ = write!(text, "\nworker {}, {load} %", instance.worker);
        if instance.restarts > 0 {
            let _ = write!(text, "\n{} restarts", instance.restarts);
        }
        if instance.is_retired {
            text.push_str("\nretired");
        }
        text
    }

    /// Returns the colour of an instance.
    fn colour_of(&self, instance: &InstanceMetrics) -> String {
        if instance.is_retired {
            return "#cccccc".to_owned();
        }
        // A turn of the golden ratio: neighbours differ, and no two workers are equal.
        let hue = instance.worker as f64 * 0.618_034 % 1.0;
        colour(hue, 0.15 + 0.6 * self.load(instance))
    }

    fn text_of_edge(&self, index: usize, edge: &EdgeMetrics) -> String {
        let mut text = format!(
            "{}\n{} sent, {} queued",
            edge.edge.message, edge.sent, edge.depth
        );
        if edge.dropped > 0 {
            let _ = write!(text, ", {} dropped", edge.dropped);
        }
        let waiting = self.timings.as_ref().map(|all| &all.edges[index].waiting);
        if let Some(waiting) = waiting.filter(|waiting| !waiting.is_empty()) {
            let p99 = Nanos::from_nanos(waiting.quantile(0.99));
            let _ = write!(text, "\np99 {p99:.1}");
        }
        text
    }

    /// Returns the instances of each processor, with their shards.
    fn instances(&self) -> impl Iterator<Item = Vec<(usize, &InstanceMetrics)>> {
        let of = |processor| {
            let all = self.metrics.instances.iter().enumerate();
            all.filter(|(_, one)| one.processor == processor).collect()
        };
        (0..self.processors.len()).map(of)
    }

    fn doors(&self) -> impl Iterator<Item = End> {
        doors(self.metrics.edges.iter().map(|edge| edge.edge))
    }

    /// Returns the first shard of a processor, and whether it has replicas.
    fn first(&self, processor: usize) -> (usize, bool) {
        let mut instances = self.metrics.instances.iter();
        let first = instances.position(|one| one.processor == processor);
        (first.unwrap_or(0), self.processors[processor].replicated)
    }

    /// Draws for Graphviz.
    pub(crate) fn dot(&self) -> String {
        let mut text = format!(
            "digraph {} {{\n  rankdir=LR;\n  compound=true;\n  node [shape=box, style=filled];\n",
            quoted(self.graph)
        );
        for (processor, instances) in self.instances().enumerate() {
            let info = &self.processors[processor];
            if info.replicated {
                let title = quoted(&shown(info));
                let _ = writeln!(text, "  subgraph cluster_{processor} {{\n  label={title};");
            }
            for (shard, instance) in instances {
                let label = quoted(&self.text_of(instance));
                let colour = self.colour_of(instance);
                let _ = writeln!(text, "  i{shard} [label={label}, fillcolor=\"{colour}\"];");
            }
            if info.replicated {
                text.push_str("  }\n");
            }
        }
        for end in self.doors() {
            let name = door(end);
            let _ = writeln!(text, "  {name} [shape=plaintext, style=\"\"];");
        }
        for (index, edge) in self.metrics.edges.iter().enumerate() {
            let mut attributes = format!("label={}", quoted(&self.text_of_edge(index, edge)));
            let mut name = |end: End, attribute: &str| match end.processor() {
                None => door(end).to_owned(),
                Some(processor) => {
                    let (first, replicated) = self.first(processor);
                    if replicated {
                        let _ = write!(attributes, ", {attribute}=cluster_{processor}");
                    }
                    format!("i{first}")
                }
            };
            let (from, to) = (name(edge.edge.from, "ltail"), name(edge.edge.to, "lhead"));
            let _ = writeln!(text, "  {from} -> {to} [{attributes}];");
        }
        text.push_str("}\n");
        text
    }

    /// Draws for Mermaid.
    pub(crate) fn mermaid(&self) -> String {
        let mut text = "flowchart LR\n".to_owned();
        let mut styles = String::new();
        for (processor, instances) in self.instances().enumerate() {
            let info = &self.processors[processor];
            if info.replicated {
                let title = escaped(&shown(info));
                let _ = writeln!(text, "  subgraph p{processor}[{title}]");
            }
            for (shard, instance) in instances {
                let label = escaped(&self.text_of(instance));
                let _ = writeln!(text, "  i{shard}[{label}]");
                let colour = self.colour_of(instance);
                let _ = writeln!(styles, "  style i{shard} fill:{colour},color:#000000");
            }
            if info.replicated {
                text.push_str("  end\n");
            }
        }
        for end in self.doors() {
            let _ = writeln!(text, "  {0}([{0}])", door(end));
        }
        for (index, edge) in self.metrics.edges.iter().enumerate() {
            let name = |end: End| match end.processor() {
                None => door(end).to_owned(),
                Some(processor) => match self.first(processor) {
                    (_, true) => format!("p{processor}"),
                    (first, false) => format!("i{first}"),
                },
            };
            let [from, to] = [edge.edge.from, edge.edge.to].map(name);
            let label = escaped(&self.text_of_edge(index, edge));
            let _ = writeln!(text, "  {from} -->|{label}| {to}");
        }
        text + &styles
    }
}

fn door(end: End) -> &'static str {
    match end {
        End::Ingress => "ingress",
        End::Egress | End::Processor(_) => "egress",
    }
}

/// Returns a colour of a hue, from 0 to 1, and of a strength, from 0 (white) to 1.
fn colour(hue: f64, strength: f64) -> String {
    let channel = |turn: f64| {
        let distance = (((hue + turn) % 1.0) * 6.0 - 3.0).abs() - 1.0;
        let light = 1.0 - strength * (1.0 - distance.clamp(0.0, 1.0));
        (light * 255.0).round() as u8
    };
    let [red, green, blue] = [0.0, 2.0 / 3.0, 1.0 / 3.0].map(channel);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn colours_go_from_white_to_their_hue() {
        assert_eq!(colour(0.3, 0.0), "#ffffff");
        assert_eq!(colour(0.0, 1.0), "#ff0000");
        assert_eq!(colour(1.0 / 3.0, 1.0), "#00ff00");
        assert_eq!(colour(2.0 / 3.0, 1.0), "#0000ff");
    }
}
