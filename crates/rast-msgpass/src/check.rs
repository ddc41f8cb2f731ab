//! The checks of the tables of a graph, at compile time.
//!
//! Everything here is `const fn`. The check for cycles considers the edges that can keep their
//! sender from running. First it repeatedly removes processors that no such edge enters, or that no
//! such edge leaves. Then it considers the edges between the remaining processors, and repeatedly
//! removes those that wait for no other edge (`waits`). If edges remain, they contain a cycle,
//! which the message shows. The text is built byte by byte, because a constant cannot allocate.

use crate::graph::{EdgeInfo, EdgeKind, End, Graph, MOST, PAIRS_MAX, gating, same_end};
use crate::sends::{answers_to, may_send};

/// Default capacity of a queue of an edge; an inbox has at least two bursts of each of its senders.
const CAPACITY: usize = 256;

/// Returns whether an edge has a ring per pair, and the capacity of its queues. `is_by_pair`: its
/// declaration says so.
pub(crate) const fn layout(
    declared: Option<usize>,
    burst: usize,
    senders: usize,
    receivers: usize,
    is_by_pair: bool,
) -> (bool, usize) {
    let by_pair = is_by_pair || senders.saturating_mul(receivers) <= PAIRS_MAX;
    let bursts = burst.saturating_mul(2).saturating_mul(senders);
    let capacity = match declared {
        Some(capacity) => capacity,
        None if !by_pair && bursts > CAPACITY => bursts,
        None => CAPACITY,
    };
    (by_pair, capacity)
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
/// An edge gets room when its receiver handles a message. For that, the receiver waits for the room
/// and credit of the edges that the handler sends on. A client gets credit when the request and its
/// answer have been handled. The handler of answers waits for room and not for credit.
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

/// Removes the waits that depend on no other wait; what remains leads to a cycle.
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
pub(crate) const fn fault<G: Graph>(edge: &EdgeInfo, what: &str) -> ! {
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
