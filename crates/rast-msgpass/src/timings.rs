//! How long messages wait, and how long their handlers run: a sample of the messages, by the
//! graph's clock.

use core::fmt;

use crate::graph::EdgeInfo;
use crate::timers::Nanos;
use crate::times::Histogram;

/// How long the messages of one edge waited.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EdgeTimings {
    /// The edge.
    pub edge: &'static EdgeInfo,
    /// From the call that sent a message to the call of its handler; to egress, until a receiver
    /// took it. Time in which a sender outside waited for room counts, except between the calls of
    /// [`IngressSender::try_send`](crate::IngressSender::try_send).
    pub waiting: Histogram,
}

/// How long the handlers of one processor took.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessorTimings {
    /// The index of the processor in `PROCESSORS`.
    pub processor: usize,
    /// The name of the processor in `graph!`.
    pub name: &'static str,
    /// From the call of a message's handler to its return or panic, over all replicas.
    pub handling: Histogram,
}

/// The measurements since the start, by [`Builder::sample`](crate::Builder::sample).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Timings {
    /// One message in this number is measured.
    pub one_in: u32,
    /// Per edge, in the order of the declaration.
    pub edges: Vec<EdgeTimings>,
    /// Per processor, in the order of the declaration.
    pub processors: Vec<ProcessorTimings>,
}

impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges = self.edges.iter();
        let edges = edges.map(|edge| (edge.edge.to_string(), &edge.waiting));
        let processors = self.processors.iter();
        let processors = processors.map(|one| (one.name.to_owned(), &one.handling));
        let title = format!("waiting (1 in {})", self.one_in);
        rows(f, &title, &edges.collect::<Vec<_>>())?;
        f.write_str("\n")?;
        rows(f, "handling", &processors.collect::<Vec<_>>())
    }
}

/// Writes a line for each histogram.
fn rows(f: &mut fmt::Formatter<'_>, title: &str, rows: &[(String, &Histogram)]) -> fmt::Result {
    let names = rows.iter().map(|(name, _)| name.len());
    let width = names.max().unwrap_or(0).max(title.len());
    let heads = ["measured", "p50", "p99", "p99.9", "max"];
    write!(f, "{title:width$}")?;
    heads.iter().try_for_each(|head| write!(f, "  {head:>9}"))?;
    for (name, histogram) in rows {
        write!(f, "\n{name:width$}  {:>9}", histogram.count())?;
        for share in [0.5, 0.99, 0.999, 1.0] {
            let nanos = Nanos::from_nanos(histogram.quantile(share));
            write!(f, "  {:>9}", format!("{nanos:.1}"))?;
        }
    }
    Ok(())
}
