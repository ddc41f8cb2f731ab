//! The functions that `graph!` calls to make the tables of a graph.
//!
//! Attributes of an edge that contradict each other do not compile; `check.rs` has the checks that
//! need all tables.

use crate::check::{fault, layout};
use crate::graph::{EdgeInfo, EdgeKind, End, Graph, Node, ProcessorInfo, Sends, is_buffered};

/// Default maximum number of messages without room that a sender of an unbounded edge keeps.
const CEILING: usize = 1 << 20;

/// The attributes of an edge.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::exhaustive_structs,
    missing_docs,
    reason = "made by graph!, in a constant"
)]
pub struct Spec {
    pub capacity: Option<usize>,
    pub burst: Option<usize>,
    pub lanes: Option<usize>,
    pub ceiling: Option<usize>,
    pub kind: EdgeKind,
    pub sends: Sends,
    pub any: bool,
    pub keep: bool,
    pub high: bool,
    pub rings: bool,
    pub bytes: usize,
}

impl Spec {
    /// Those of an edge without any.
    pub const NONE: Self = Self {
        capacity: None,
        burst: None,
        lanes: None,
        ceiling: None,
        kind: EdgeKind::Bounded,
        sends: Sends::Undeclared,
        any: false,
        keep: false,
        high: false,
        rings: false,
        bytes: usize::MAX,
    };
}

/// Returns the bounds for a declared number of replicas.
pub const fn exactly(count: usize) -> (usize, usize) {
    (count, count)
}

/// Makes the entry of a processor, with its minimum and maximum number of replicas.
pub const fn processor_info(
    name: &'static str,
    type_name: &'static str,
    (replicas, replicas_max): (usize, usize),
    replicated: bool,
    source: bool,
) -> ProcessorInfo {
    ProcessorInfo {
        name,
        type_name,
        replicas,
        replicas_max,
        replicated,
        source,
    }
}

/// Makes the entry of an edge.
pub const fn edge_info<G: Node<F> + Node<T>, F, T>(message: &'static str, spec: Spec) -> EdgeInfo {
    let burst = match spec.burst {
        Some(burst) => burst,
        None => 1,
    };
    let (by_pair, capacity) = layout(
        spec.capacity,
        burst,
        replicas::<G>(<G as Node<F>>::END),
        replicas::<G>(<G as Node<T>>::END),
        spec.rings
            || matches!(<G as Node<T>>::END, End::Egress)
            || is_buffered(spec.kind, spec.bytes),
    );
    let info = EdgeInfo {
        from: <G as Node<F>>::END,
        to: <G as Node<T>>::END,
        from_type: <G as Node<F>>::TYPE_NAME,
        to_type: <G as Node<T>>::TYPE_NAME,
        message,
        by_pair,
        capacity,
        has_cap: spec.capacity.is_some(),
        has_rings: spec.rings,
        burst,
        lanes: match spec.lanes {
            Some(lanes) => lanes,
            None => 1,
        },
        kind: spec.kind,
        ceiling: match (spec.ceiling, spec.kind) {
            (Some(ceiling), _) => ceiling,
            (None, EdgeKind::Unbounded) => CEILING,
            (None, _) => usize::MAX,
        },
        sends: spec.sends,
        any: spec.any,
        high: spec.high,
        bytes: spec.bytes,
        keep: spec.keep,
    };
    if spec.burst.is_some() && !matches!(info.kind, EdgeKind::Bounded) {
        fault::<G>(
            &info,
            "has a `burst`, which says nothing on an edge that is `unbounded` or a `reply`",
        );
    }
    if spec.lanes.is_some() && !matches!(info.to, End::Egress) {
        fault::<G>(&info, "has `lanes`, which only edges to egress have");
    }
    if info.keep && matches!(info.to, End::Egress) {
        fault::<G>(&info, "has `keep`, and its messages have no handler");
    }
    if spec.ceiling.is_some() {
        if !matches!(info.kind, EdgeKind::Unbounded) {
            fault::<G>(&info, "has a `ceiling`, which only an `unbounded` edge has");
        }
        if info.ceiling == 0 {
            fault::<G>(&info, "has `ceiling = 0`: a message needs room");
        }
        if info.ceiling < info.capacity && !matches!(info.from, End::Ingress) {
            fault::<G>(
                &info,
                "has a `ceiling` less than its `cap`: raise `ceiling` or lower `cap`",
            );
        }
    }
    if info.any {
        if !matches!(info.kind, EdgeKind::Bounded) {
            fault::<G>(
                &info,
                "has `route = any`, which says nothing on an edge that is `unbounded` or a `reply`",
            );
        }
        if !matches!(info.from, End::Processor(_)) {
            fault::<G>(
                &info,
                "has `route = any`, and senders outside choose themselves",
            );
        }
        match info.to {
            End::Processor(to) if G::PROCESSORS[to].replicated => {}
            _ => fault::<G>(&info, "has `route = any`, and its receiver has no replicas"),
        }
    }
    info
}

/// Returns the number of instances of an end; 1 for ingress and egress, which have their own
/// queues.
const fn replicas<G: Graph>(end: End) -> usize {
    match end {
        End::Processor(index) => G::PROCESSORS[index].replicas,
        End::Ingress | End::Egress => 1,
    }
}
