//! The tables of a graph, made and checked at compile time.
//!
//! Everything here is `const fn`. The check for cycles repeatedly removes processors that no
//! plainly bounded edge enters, or that none leaves. What remains, if anything, contains a cycle,
//! which the message shows. The text is built byte by byte, because a constant cannot allocate.

use crate::graph::{EdgeInfo, EdgeKind, End, Graph, Node, PAIRS_MAX, ProcessorInfo};
use crate::sends::{Sends, SendsTo, answers_to, may_send};

/// Default capacity of a queue of an edge; an inbox has at least two bursts of each of its senders.
const CAPACITY: usize = 256;

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

/// Makes the entry of a processor with at least and at most so many replicas.
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

/// Returns whether an edge has a ring per pair, and the capacity of its queues.
pub(crate) const fn layout(
    declared: Option<usize>,
    burst: usize,
    senders: usize,
    receivers: usize,
    is_buffered: bool,
) -> (bool, usize) {
    let by_pair = is_buffered || senders.saturating_mul(receivers) <= PAIRS_MAX;
    let bursts = (2 * burst).saturating_mul(senders);
    let capacity = match declared {
        Some(capacity) => capacity,
        None if !by_pair && bursts > CAPACITY => bursts,
        None => CAPACITY,
    };
    (by_pair, capacity)
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
        matches!(spec.lossy, Some(EdgeKind::DropOldest | EdgeKind::Latest)) || spec.bytes.is_some(),
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

/// Counts the edges before `id` that leave the same processor.
pub(crate) const fn outgoing_before(edges: &[EdgeInfo], id: usize) -> usize {
    let (mut index, mut count) = (0, 0);
    while index < id {
        count += same_end(edges[index].from, edges[id].from) as usize;
        index += 1;
    }
    count
}

pub(crate) const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut index = 0;
    while index < a.len() {
        if a[index] != b[index] {
            return false;
        }
        index += 1;
    }
    true
}

pub(crate) const fn same_end(a: End, b: End) -> bool {
    match (a, b) {
        (End::Ingress, End::Ingress) | (End::Egress, End::Egress) => true,
        (End::Processor(a), End::Processor(b)) => a == b,
        _ => false,
    }
}

/// Checks all conditions on a graph that need all of its tables.
pub const fn check<G: Graph>() {
    let (processors, edges) = (G::PROCESSORS, G::EDGES);
    let mut index = 0;
    while index < processors.len() {
        let (least, most) = (processors[index].replicas, processors[index].replicas_max);
        if least == 0 || least > most {
            let text = Text::new()
                .add("graph `")
                .add(G::NAME)
                .add("`: the processor `")
                .add(processors[index].name)
                .add(match least {
                    0 => "` has no replicas: declare one at least",
                    _ => "` has an empty range of replicas: write the smaller number first",
                });
            panic!("{}", text.as_str());
        }
        index += 1;
    }
    index = 0;
    while index < edges.len() {
        check_edge::<G>(&edges[index]);
        index += 1;
    }
    check_cycles::<G>();
}

const fn check_edge<G: Graph>(edge: &EdgeInfo) {
    if edge.capacity == 0 {
        fault::<G>(edge, "has `cap = 0`: a message needs room");
    }
    if edge.bytes == 0 {
        fault::<G>(edge, "has `bytes = 0`: a message needs room");
    }
    if edge.burst == 0 {
        fault::<G>(edge, "has `burst = 0`: its sender could never send");
    }
    if edge.lanes == 0 {
        fault::<G>(edge, "has `lanes = 0`: no processor could receive");
    }
    if edge.burst > edge.capacity {
        fault::<G>(
            edge,
            "has a `burst` past its `cap`, so that its sender could never run: raise `cap` or lower `burst`",
        );
    }
    if matches!(edge.from, End::Ingress) && edge.burst != 1 {
        fault::<G>(edge, "has a `burst`, which edges from ingress have not");
    }
    if let EdgeKind::Reply { request } = edge.kind {
        let asked = &G::EDGES[request];
        if !matches!(asked.kind, EdgeKind::Bounded) {
            fault::<G>(edge, "answers an edge that is not plainly bounded");
        }
        if asked.burst > edge.capacity {
            fault::<G>(
                edge,
                "has less room than its requests have `burst`: raise its `cap`",
            );
        }
        let mut index = 0;
        let mut answers = 0;
        while index < G::EDGES.len() {
            if let EdgeKind::Reply { request: other } = G::EDGES[index].kind {
                answers += (other == request) as usize;
            }
            index += 1;
        }
        if answers > 1 {
            fault::<G>(edge, "answers requests that another edge answers too");
        }
    }
}

/// Returns the ends of an edge that can gate its sender within the graph.
pub(crate) const fn gating(edge: &EdgeInfo) -> Option<(usize, usize)> {
    match (edge.kind, edge.from, edge.to) {
        (EdgeKind::Bounded, End::Processor(from), End::Processor(to)) => Some((from, to)),
        _ => None,
    }
}

/// Maximum number of processors, and of edges, of one graph.
pub(crate) const MOST: usize = 4096;

/// Removes processors that no gating edge enters, or that none leaves. What remains contains all
/// cycles, and is empty in most graphs; otherwise the edges are checked.
const fn check_cycles<G: Graph>() {
    let count = G::PROCESSORS.len();
    assert!(count <= MOST, "a graph has at most 4096 processors");
    let mut gone = [false; MOST];
    let mut changed = true;
    while changed {
        changed = false;
        // One pass removes processors that no edge enters, the other those that none leaves.
        let mut entered = [false; MOST];
        let mut left = [false; MOST];
        let mut index = 0;
        while index < G::EDGES.len() {
            if let Some((from, to)) = gating(&G::EDGES[index])
                && !gone[from]
                && !gone[to]
            {
                entered[to] = true;
                left[from] = true;
            }
            index += 1;
        }
        index = 0;
        while index < count {
            let is_between = entered[index] && left[index];
            if !gone[index] && !is_between {
                gone[index] = true;
                changed = true;
            }
            index += 1;
        }
    }
    let mut index = 0;
    while index < count {
        if !gone[index] {
            return check_waits::<G>(&gone);
        }
        index += 1;
    }
}

/// A condition for which a sender waits: the number of an edge, for room, or that number plus
/// `MOST`, for credit.
type Wait = usize;

/// Returns `true` if the wait `of` can last until the wait `on` ends.
///
/// Room in an edge comes when its inlet is delivered, which waits for the room and credit of the
/// edges that its handler sends on. Credit comes when the request and the answer were delivered;
/// the inlet of answers waits for room and not for credit.
const fn waits(edges: &[EdgeInfo], of: Wait, on: Wait) -> bool {
    let (edge, needed) = (of % MOST, on % MOST);
    if gating(&edges[needed]).is_none() {
        return false;
    }
    if on >= MOST && answers_to(edges, needed).is_none() {
        return false;
    }
    if same_end(edges[edge].to, edges[needed].from) && may_send(edges, edge, needed) {
        return true;
    }
    if of < MOST || on >= MOST || !same_end(edges[edge].from, edges[needed].from) {
        return false;
    }
    match answers_to(edges, edge) {
        Some(answers) => may_send(edges, answers, needed),
        None => false,
    }
}

/// Removes the waits that last until no other ends; what remains leads to a cycle.
const fn check_waits<G: Graph>(gone: &[bool; MOST]) {
    let edges = G::EDGES;
    assert!(
        edges.len() <= MOST,
        "a graph with such cycles has at most 4096 edges"
    );
    let mut open = [false; 2 * MOST];
    let mut index = 0;
    while index < edges.len() {
        if let Some((from, to)) = gating(&edges[index]) {
            open[index] = !gone[from] && !gone[to];
            open[index + MOST] = open[index] && answers_to(edges, index).is_some();
        }
        index += 1;
    }
    let mut changed = true;
    while changed {
        changed = false;
        let mut of = 0;
        while of < 2 * MOST {
            if of % MOST >= edges.len() {
                of += MOST - of % MOST;
                continue;
            }
            if open[of] && next(edges, &open, of).is_none() {
                open[of] = false;
                changed = true;
            }
            of += 1;
        }
    }
    let mut of = 0;
    while of < edges.len() {
        if open[of] {
            cycle_fault::<G>(&open, of);
        }
        if open[of + MOST] {
            cycle_fault::<G>(&open, of + MOST);
        }
        of += 1;
    }
}

/// Returns an open wait until whose end `of` can last.
const fn next(edges: &[EdgeInfo], open: &[bool; 2 * MOST], of: Wait) -> Option<Wait> {
    let mut on = 0;
    while on < edges.len() {
        if open[on] && waits(edges, of, on) {
            return Some(on);
        }
        if open[on + MOST] && waits(edges, of, on + MOST) {
            return Some(on + MOST);
        }
        on += 1;
    }
    None
}

#[cold]
const fn cycle_fault<G: Graph>(open: &[bool; 2 * MOST], start: Wait) -> ! {
    let edges = G::EDGES;
    // After as many steps as there are waits the walk is on a cycle.
    let mut at = start;
    let mut steps = 0;
    while steps < 2 * edges.len() {
        at = onward(edges, open, at);
        steps += 1;
    }
    let first = at;
    let mut text = Text::new()
        .add("graph `")
        .add(G::NAME)
        .add("` has a cycle of bounded edges: ");
    loop {
        let edge = &edges[at % MOST];
        text = text
            .add(edge.from_type)
            .add(" -> ")
            .add(edge.to_type)
            .add(": ")
            .add(edge.message);
        at = onward(edges, open, at);
        if at == first {
            break;
        }
        text = text.add(", ");
    }
    let text = text
        .add("; when all of them are full no processor can go on. Mark one edge of it `[unbounded]`, or one that answers another `[reply = Request]`, or list by `[sends = (..)]` what the handlers of one send, if they do not send on the next");
    panic!("{}", text.as_str())
}

const fn onward(edges: &[EdgeInfo], open: &[bool; 2 * MOST], at: Wait) -> Wait {
    match next(edges, open, at) {
        Some(on) => on,
        None => panic!("a wait that remains leads to another"),
    }
}

#[cold]
const fn fault<G: Graph>(edge: &EdgeInfo, what: &str) -> ! {
    let text = Text::new()
        .add("graph `")
        .add(G::NAME)
        .add("`: the edge `")
        .add(edge.from_type)
        .add("` -> `")
        .add(edge.to_type)
        .add("` for message `")
        .add(edge.message)
        .add("` ")
        .add(what);
    panic!("{}", text.as_str())
}

/// A text being built; what does not fit is cut off.
struct Text {
    bytes: [u8; 2048],
    len: usize,
}

impl Text {
    const fn new() -> Self {
        Self {
            bytes: [0; 2048],
            len: 0,
        }
    }

    const fn add(mut self, part: &str) -> Self {
        let part = part.as_bytes();
        if self.len + part.len() <= self.bytes.len() {
            let mut index = 0;
            while index < part.len() {
                self.bytes[self.len] = part[index];
                self.len += 1;
                index += 1;
            }
        }
        self
    }

    const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("whole strings make a string"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_the_parts_in_order() {
        let text = Text::new().add("graph `").add("App").add("`");
        assert_eq!(text.as_str(), "graph `App`");
    }
}
