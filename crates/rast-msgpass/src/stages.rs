//! The order in which a drain lets processors flush: upstream first.
//!
//! ```text
//!   reader ──► parser ◄──► cache          stages: [reader] [parser, cache] [sink]
//!                 └──────► sink                            a cycle repeats
//! ```
//!
//! Processors that reach each other along edges, or one that reaches itself, form a component. The
//! flush of one member may give another member something to flush, so a component flushes
//! repeatedly, until a pass sends nothing. Each component is a stage of its own. If a processor
//! outside of the component were in the same stage, the passes might not end, because its flush may
//! send something in each pass. The other processors are ordered by the length of the longest path
//! that leads to each of them. Those with an equal length are one stage, and flush at the same
//! time.

use crate::graph::{EdgeInfo, End};

/// Processors that flush together.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stage {
    pub(crate) processors: Vec<usize>,
    /// Whether some of them reach each other, or themselves.
    pub(crate) is_cyclic: bool,
}

/// Returns the stages of a graph of this many processors.
pub(crate) fn stages(processors: usize, edges: &[EdgeInfo]) -> Vec<Stage> {
    let pairs = edges.iter().filter_map(|edge| match (edge.from, edge.to) {
        (End::Processor(from), End::Processor(to)) => Some((from, to)),
        _ => None,
    });
    of(processors, &pairs.collect::<Vec<_>>())
}

fn of(count: usize, edges: &[(usize, usize)]) -> Vec<Stage> {
    // The processors that are reached from each processor, by one step or more.
    let mut reach = vec![vec![false; count]; count];
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); count];
    for &(from, to) in edges {
        next[from].push(to);
    }
    for (start, reached) in reach.iter_mut().enumerate() {
        let mut left = vec![start];
        while let Some(at) = left.pop() {
            for &to in &next[at] {
                if !core::mem::replace(&mut reached[to], true) {
                    left.push(to);
                }
            }
        }
    }
    let is_one = |a: usize, b: usize| a == b || (reach[a][b] && reach[b][a]);
    // No path is longer than the number of processors.
    let mut depth = vec![0_usize; count];
    loop {
        let mut has_changed = false;
        for &(from, to) in edges {
            let least = depth[from] + usize::from(!is_one(from, to));
            if depth[to] < least {
                depth[to] = least;
                has_changed = true;
            }
        }
        if !has_changed {
            break;
        }
    }
    let mut stages = Vec::new();
    for at in 0..=depth.iter().copied().max().unwrap_or(0) {
        let nodes = (0..count).filter(|&node| depth[node] == at);
        let (mut cyclic, others): (Vec<_>, Vec<_>) = nodes.partition(|&node| reach[node][node]);
        if !others.is_empty() {
            stages.push(Stage {
                processors: others,
                is_cyclic: false,
            });
        }
        while let Some(&first) = cyclic.first() {
            let component = cyclic.extract_if(.., |node| is_one(first, *node));
            stages.push(Stage {
                processors: component.collect(),
                is_cyclic: true,
            });
        }
    }
    stages
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn stages_go_downstream_and_a_cycle_is_one() {
        let edges = [
            (0, 1),
            (1, 2),
            (2, 1),
            (1, 3),
            (0, 3),
            (4, 4),
            (5, 5),
            (0, 6),
        ];
        let found = of(7, &edges);
        let found: Vec<_> = found
            .iter()
            .map(|stage| (&*stage.processors, stage.is_cyclic))
            .collect();
        let expected = [
            (&[0][..], false),
            (&[4], true),
            (&[5], true),
            (&[6], false),
            (&[1, 2], true),
            (&[3], false),
        ];
        assert_eq!(found, expected);
        assert_eq!(of(0, &[]), []);
        assert_eq!(of(2, &[])[0].processors, [0, 1]);
    }
}
