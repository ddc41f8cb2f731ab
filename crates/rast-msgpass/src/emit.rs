//! The functions that `graph!` calls to make the tables of a graph.
//!
//! The macro writes one call per entry, with constants as arguments, so its output is short.
//! Attributes of an edge that contradict each other do not compile; `check.rs` has the checks that
//! need all tables.

use crate::check::{fault, layout};
use crate::graph::{EdgeInfo, EdgeKind, End, Graph, Node, ProcessorInfo, Sends, SendsTo};

/// Default maximum number of messages without room that a sender of an unbounded edge keeps.
const CEILING: usize = 1 << 20;

/// The attributes of an edge.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    capacity: Option<usize>,
    burst: Option<usize>,
    lanes: Option<usize>,
    unbounded: Option<()>,
    ceiling: Option<usize>,
    reply: Option<usize>,
    sends: Option<&'static [SendsTo]>,
    any: Option<()>,
    keep: Option<()>,
    high: Option<()>,
    bytes: Option<usize>,
    lossy: Option<EdgeKind>,
    rings: bool,
}

#[allow(clippy::new_without_default, missing_docs)]
impl Spec {
    pub const fn new() -> Self {
        Self {
            capacity: None,
            burst: None,
            lanes: None,
            unbounded: None,
            ceiling: None,
            reply: None,
            sends: None,
            any: None,
            keep: None,
            high: None,
            bytes: None,
            lossy: None,
            rings: false,
        }
    }

    pub const fn capacity(mut self, capacity: usize) -> Self {
        self.capacity = Some(capacity);
        self
    }

    pub const fn burst(mut self, burst: usize) -> Self {
        self.burst = Some(burst);
        self
    }

    pub const fn lanes(mut self, lanes: usize) -> Self {
        self.lanes = Some(lanes);
        self
    }

    pub const fn unbounded(mut self) -> Self {
        self.unbounded = Some(());
        self
    }

    pub const fn ceiling(mut self, ceiling: usize) -> Self {
        self.ceiling = Some(ceiling);
        self
    }

    pub const fn reply(mut self, request: usize) -> Self {
        self.reply = Some(request);
        self
    }

    pub const fn sends(mut self, sends: &'static [SendsTo]) -> Self {
        self.sends = Some(sends);
        self
    }

    pub const fn any(mut self) -> Self {
        self.any = Some(());
        self
    }

    pub const fn rings(mut self) -> Self {
        self.rings = true;
        self
    }

    pub const fn keep(mut self) -> Self {
        self.keep = Some(());
        self
    }

    pub const fn high(mut self) -> Self {
        self.high = Some(());
        self
    }

    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    pub const fn reject(mut self) -> Self {
        self.lossy = Some(EdgeKind::Reject);
        self
    }

    pub const fn drop_newest(mut self) -> Self {
        self.lossy = Some(EdgeKind::DropNewest);
        self
    }

    pub const fn drop_oldest(mut self) -> Self {
        self.lossy = Some(EdgeKind::DropOldest);
        self
    }

    pub const fn latest(mut self) -> Self {
        self.lossy = Some(EdgeKind::Latest);
        self.capacity = Some(1);
        self
    }
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
            || matches!(spec.lossy, Some(EdgeKind::DropOldest | EdgeKind::Latest))
            || spec.bytes.is_some(),
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
        kind: match (spec.reply, spec.unbounded, spec.lossy) {
            (Some(request), ..) => EdgeKind::Reply { request },
            (None, Some(()), _) => EdgeKind::Unbounded,
            (None, None, Some(kind)) => kind,
            (None, None, None) => EdgeKind::Bounded,
        },
        ceiling: match (spec.ceiling, spec.unbounded) {
            (Some(ceiling), _) => ceiling,
            (None, Some(())) => CEILING,
            (None, None) => usize::MAX,
        },
        sends: match spec.sends {
            Some(list) => Sends::Listed(list),
            None => Sends::Undeclared,
        },
        any: spec.any.is_some(),
        high: spec.high.is_some(),
        bytes: match spec.bytes {
            Some(bytes) => bytes,
            None => usize::MAX,
        },
        keep: spec.keep.is_some(),
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
