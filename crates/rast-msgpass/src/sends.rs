//! Which edges the handler of an incoming edge may send on. The inlet (the receiver's end) of the
//! incoming edge waits until these outgoing edges have room.
//!
//! ```text
//!   ingress -> front: Put [sends = (Job)]      waits for room in front -> worker: Job only
//!   ingress -> front: Look [sends = ()]        never waits
//!   worker -> front: Done                      waits for every edge that leaves front
//! ```
//!
//! Rules:
//! 1. The messages of an inlet are handled only while each edge that its handler sends on has room.
//! 2. Without `sends` a handler may send on every edge that leaves its processor. There is one
//!    exception, for the handler of a request from a client. It must not `send` a request to the
//!    client, or to a processor from which bounded edges lead to the client. Otherwise the handler
//!    and the client could wait for each other's credit.
//! 3. Answers use the room that their request reserved, never wait, and are not listed.
//! 4. `send` on an edge that rules 1 to 3 do not allow panics; `try_send` sends if there is room.
//!
//! The lists are constants, so a handler that may send on every edge needs no check at run time.

use core::marker::PhantomData;

use crate::graph::{Edge, EdgeInfo, EdgeKind, End, MOST, Node, Sends, gating, same_end};

/// Returns the edge that answers the requests of `edge`, if one does.
pub(crate) const fn answers_to(edges: &[EdgeInfo], edge: usize) -> Option<usize> {
    let mut index = 0;
    while index < edges.len() {
        if let EdgeKind::Reply { request } = edges[index].kind
            && request == edge
        {
            return Some(index);
        }
        index += 1;
    }
    None
}

/// Returns `true` if the handler of edge `of` may `send` on edge `on`, which leaves its
/// processor.
pub(crate) const fn may_send(edges: &[EdgeInfo], of: usize, on: usize) -> bool {
    if matches!(edges[on].kind, EdgeKind::Reply { .. }) {
        return true;
    }
    match edges[of].sends {
        Sends::Listed(list) => {
            let mut index = 0;
            while index < list.len() {
                if list[index].names(&edges[on]) {
                    return true;
                }
                index += 1;
            }
            false
        }
        Sends::Undeclared => {
            answers_to(edges, of).is_none()
                || answers_to(edges, on).is_none()
                || !leads(edges, edges[on].to, edges[of].from)
        }
    }
}

/// Returns `true` if bounded edges lead from one processor to another, or if both are the same.
const fn leads(edges: &[EdgeInfo], from: End, to: End) -> bool {
    let (Some(from), Some(to)) = (from.processor(), to.processor()) else {
        return false;
    };
    let mut reached = [false; MOST];
    reached[from] = true;
    let mut changed = true;
    while changed && !reached[to] {
        changed = false;
        let mut index = 0;
        while index < edges.len() {
            if let Some((one, other)) = gating(&edges[index])
                && reached[one]
                && !reached[other]
            {
                reached[other] = true;
                changed = true;
            }
            index += 1;
        }
    }
    reached[to]
}

/// Returns `true` if some handler of the processor at `end` may not `send` on every edge that
/// leaves it.
pub(crate) const fn is_restricted(edges: &[EdgeInfo], end: End) -> bool {
    let mut of = 0;
    while of < edges.len() {
        if same_end(edges[of].to, end) {
            if matches!(edges[of].sends, Sends::Listed(_)) {
                return true;
            }
            let mut on = 0;
            while on < edges.len() && answers_to(edges, of).is_some() {
                if same_end(edges[on].from, end) && !may_send(edges, of, on) {
                    return true;
                }
                on += 1;
            }
        }
        of += 1;
    }
    false
}

/// Constants of an end of a graph.
///
/// Each is a loop over all edges. The compiler evaluates an associated constant once, but a `const`
/// block in each instance of its function.
pub(crate) struct OfEnd<G, P>(PhantomData<fn(G, P)>);

impl<G: Node<P>, P> OfEnd<G, P> {
    /// Whether some handler of the end may not `send` on every edge that leaves it.
    pub(crate) const IS_RESTRICTED: bool = is_restricted(G::EDGES, G::END);
}

/// The same for an edge.
pub(crate) struct OfEdge<G, F, T, M>(PhantomData<fn(G, F, T, M)>);

impl<G: Node<F> + Node<T>, F, T, M: Edge<G, F, T>> OfEdge<G, F, T, M> {
    /// Whether its messages are requests, which another edge answers.
    pub(crate) const IS_REQUEST: bool = answers_to(G::EDGES, M::ID).is_some();
}

/// The outlets for whose room an inlet waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// All outlets of its processor.
    All,
    /// The outlets with these indices, in order.
    For(Box<[u32]>),
}

impl Waits {
    /// Returns the outlets for which the inlet of an edge waits.
    pub(crate) fn of(edges: &[EdgeInfo], of: usize) -> Self {
        let leaving = || (0..edges.len()).filter(|&on| edges[on].from == edges[of].to);
        let sends = (0_u32..)
            .zip(leaving())
            .filter(|&(_, on)| may_send(edges, of, on));
        let sends: Box<[u32]> = sends.map(|(index, _)| index).collect();
        match sends.len() == leaving().count() {
            true => Self::All,
            false => Self::For(sends),
        }
    }

    /// Returns `true` if the outlet is one of them.
    pub(crate) fn has(&self, out: usize) -> bool {
        match self {
            Self::All => true,
            Self::For(outs) => outs.binary_search(&(out as u32)).is_ok(),
        }
    }
}
