//! The list queue as the source describes it, algorithm 2.4 of the RAST document, with a switch for
//! each fault.
//!
//! Nodes are numbers in a table. A freed node is only marked, and every access checks the mark, so
//! a fault fails the test and is not undefined behaviour. Every ordering is the strongest, so each
//! failure is due to the steps and not to an ordering. With all switches off it passes the
//! scenarios of `ListQueue`; with one switch on it fails one of them, as the test expects. The
//! faults are numbered as in `docs/algorithms/queue-list.md`.

use crate::list::{self, Fifo};
use rast_queue::primitive::model::model;
use rast_queue::primitive::sync::Arc;
use rast_queue::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::atomic::{AtomicBool, AtomicUsize as StdUsize};

/// A fault of the source's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// S1: a pop takes a counted reference through the link before it asks whether the queue is
    /// empty, and so writes a count beside a null link, which a push then does not find null.
    CountsNull,
    /// S2: a pop takes the data out of the node, and a push that comes late finds a place there.
    TakesDataOut,
    /// S3: a push tries to move the tail once, and another thread's reference makes that fail.
    MovesTailOnce,
    /// S4: a pop that comes late takes a counted reference through a link that holds the special
    /// mark.
    CountsMark,
    /// S5: a pop reads the tail before it has a reference to the head.
    ReadsTailFirst,
    /// S6: the first node waits for the promise of a link that never led to it.
    ThreeSourcesForFirst,
    /// S7: the count beside a link moves into the head with the pointer, and counts twice.
    CarriesCount,
    /// S8: a count beside a pointer comes round, and that of the node does not.
    NarrowCount,
}

/// Nodes of a table; a scenario makes fewer.
const NODES: usize = 8;

// A word: which node, and in its upper half how many references were given out.
const NULL: u64 = 0;
const SPECIAL: u64 = 1;
const FIRST: u64 = 2;
const ONE: u64 = 1 << 32;

fn pointer(word: u64) -> u64 {
    word & (ONE - 1)
}

fn count(word: u64) -> u64 {
    word >> 32
}

struct Node {
    /// An item, or zero.
    data: AtomicUsize,
    next: AtomicU64,
    /// References in the upper half, sources in the lower.
    state: AtomicU64,
    /// Not seen by the model.
    freed: AtomicBool,
}

/// The queue, with the faults of `faults`.
struct Source {
    faults: &'static [Fault],
    nodes: Vec<Node>,
    made: StdUsize,
    freed: StdUsize,
    head: AtomicU64,
    tail: AtomicU64,
}

impl Source {
    fn new(faults: &'static [Fault]) -> Self {
        let node = |_| Node {
            data: AtomicUsize::new(0),
            next: AtomicU64::new(NULL),
            state: AtomicU64::new(3),
            freed: AtomicBool::new(false),
        };
        let queue = Self {
            faults,
            nodes: (0..NODES).map(node).collect(),
            made: StdUsize::new(1),
            freed: StdUsize::new(0),
            head: AtomicU64::new(FIRST),
            tail: AtomicU64::new(FIRST),
        };
        if !queue.has(Fault::ThreeSourcesForFirst) {
            queue.nodes[0].state.store(2, Ordering::Release);
        }
        queue
    }

    fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    fn make(&self) -> u64 {
        FIRST + self.made.fetch_add(1, Ordering::Relaxed) as u64
    }

    fn node(&self, word: u64) -> &Node {
        assert!(pointer(word) != NULL, "a use of no node");
        assert!(pointer(word) != SPECIAL, "a use of the special mark");
        let node = &self.nodes[(pointer(word) - FIRST) as usize];
        assert!(
            !node.freed.load(Ordering::Relaxed),
            "a use of a node after its end"
        );
        node
    }

    fn free(&self, word: u64) {
        let before = self.node(word).freed.swap(true, Ordering::Relaxed);
        assert!(!before, "a node ends twice");
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a reference through `word`, unless it leads to what must not be counted.
    fn copy(&self, word: &AtomicU64) -> Option<u64> {
        let mut seen = word.load(Ordering::Acquire);
        loop {
            match pointer(seen) {
                NULL if !self.has(Fault::CountsNull) => return None,
                SPECIAL if !self.has(Fault::CountsMark) => return None,
                _ => {}
            }
            let mut copied = seen.wrapping_add(ONE);
            if self.has(Fault::NarrowCount) {
                copied %= 8 * ONE;
            }
            match word.compare_exchange(seen, copied, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Some(copied),
                Err(current) => seen = current,
            }
        }
    }

    /// The end of a copy.
    fn release(&self, word: u64) {
        if pointer(word) == NULL {
            // Only a form that counts beside null comes here, and to skip it is the kindest
            // reading.
            return;
        }
        let before = self.node(word).state.fetch_sub(ONE, Ordering::AcqRel);
        if before.wrapping_sub(ONE) == 0 {
            self.free(word);
        }
    }

    /// The nocopy promise of a source that gave out `count` references.
    fn promise(&self, word: u64, count: u64) {
        let change = (count << 32).wrapping_sub(1);
        let before = self.node(word).state.fetch_add(change, Ordering::AcqRel);
        if before.wrapping_add(change) == 0 {
            self.free(word);
        }
    }

    /// Moves the tail from `copied`, by one try or until some thread has.
    fn move_tail(&self, copied: u64) {
        let next = self.node(copied).next.load(Ordering::Acquire);
        let mut seen = copied;
        loop {
            match self.tail.compare_exchange(
                seen,
                pointer(next),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return self.promise(copied, count(seen)),
                Err(_) if self.has(Fault::MovesTailOnce) => return,
                Err(current) if pointer(current) != pointer(copied) => return,
                Err(current) => seen = current,
            }
        }
    }

    fn link(&self, copied: u64, new: u64) -> bool {
        self.node(copied)
            .next
            .compare_exchange(NULL, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Fifo for Source {
    fn push(&self, n: u32) {
        let mut new = self.make();
        loop {
            let copied = self.copy(&self.tail).expect("the tail leads nowhere");
            // L2
            let put = self.node(copied).data.compare_exchange(
                0,
                n as usize,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            // L3, L4
            let linked = self.link(copied, new);
            self.move_tail(copied);
            self.release(copied);
            match (put, linked) {
                (Ok(_), true) => return,
                (Ok(_), false) => return self.free(new),
                (Err(_), true) => new = self.make(),
                (Err(_), false) => {}
            }
        }
    }

    fn pop(&self) -> Option<u32> {
        loop {
            let early = self.tail.load(Ordering::Acquire);
            let copied = self.copy(&self.head).expect("the head leads nowhere");
            // L1
            let tail = if self.has(Fault::ReadsTailFirst) {
                early
            } else {
                self.tail.load(Ordering::Acquire)
            };
            let is_empty = pointer(copied) == pointer(tail);
            if is_empty && !self.has(Fault::CountsNull) {
                self.release(copied);
                return None;
            }
            let next = self.copy(&self.node(copied).next);
            if is_empty {
                next.into_iter().for_each(|next| self.release(next));
                self.release(copied);
                return None;
            }
            let Some(next) = next else {
                // Some thread popped this node meanwhile.
                self.release(copied);
                continue;
            };
            // L2
            let to = if self.has(Fault::CarriesCount) {
                next
            } else {
                pointer(next)
            };
            let moved = self
                .head
                .compare_exchange(copied, to, Ordering::AcqRel, Ordering::Acquire);
            if moved.is_err() {
                self.release(next);
                self.release(copied);
                continue;
            }
            let node = self.node(copied);
            let data = if self.has(Fault::TakesDataOut) {
                node.data.swap(0, Ordering::AcqRel)
            } else {
                node.data.load(Ordering::Acquire)
            };
            let link = node.next.swap(SPECIAL, Ordering::AcqRel);
            self.promise(next, count(link));
            self.promise(copied, count(copied));
            self.release(next);
            self.release(copied);
            return Some(data as u32);
        }
    }

    fn check_memory(&self) {
        let live = self.made.load(Ordering::Relaxed) - self.freed.load(Ordering::Relaxed);
        assert_eq!(live, 1, "nodes that did not end");
    }
}

/// A scenario that any queue can run.
type Scenario = fn(&Arc<Source>);

const SCENARIOS: [Scenario; 6] = [
    list::two_producers,
    list::push_then_pop_twice,
    list::never_empty,
    list::polls_beside_pushes,
    list::two_consumers,
    list::alone,
];

/// Runs `scenario` on the source's form with these faults.
fn run(scenario: Scenario, faults: &'static [Fault]) {
    model(move || scenario(&Arc::new(Source::new(faults))));
}

/// Without the faults the source's idea holds, in the scenarios below.
#[test]
fn source_mended() {
    for scenario in SCENARIOS {
        run(scenario, &[]);
    }
}

/// S10: the source's destructor pops until it finds nothing. That is right even if pushes try once
/// to move the tail: of those that refer to one node the last to do so succeeds, so at rest the
/// tail is at the end.
#[test]
fn source_s10_tail_is_at_the_end_at_rest() {
    run(list::two_producers, &[Fault::MovesTailOnce]);
}

/// S9: two pushes that help a third one, step by step in turn: with one try each, the reference
/// that one takes makes the try of the other fail, so all three run for ever and none completes.
#[test]
fn source_s9_two_threads_stop_each_other() {
    model(|| {
        let moves = |faults| {
            let queue = Source::new(faults);
            // A third push put its item and linked a node, and stopped there.
            queue.nodes[0].data.store(1, Ordering::Release);
            queue.nodes[0].next.store(queue.make(), Ordering::Release);
            let mut one = queue.copy(&queue.tail).unwrap();
            for _ in 0..100 {
                let other = queue.copy(&queue.tail).unwrap();
                queue.move_tail(one);
                queue.release(one);
                if pointer(queue.tail.load(Ordering::Acquire)) != FIRST {
                    return true;
                }
                one = other;
            }
            false
        };
        assert!(!moves(&[Fault::MovesTailOnce]), "the source's form");
        assert!(moves(&[]), "the form that tries until some thread has");
    });
}

/// What loom finds, and a stress may miss.
#[cfg(rast_loom)]
mod faults {
    use super::*;

    /// As the text is written, an empty queue that is polled beside a push breaks.
    #[test]
    #[should_panic(expected = "a use of no node")]
    fn source_as_it_stands() {
        run(
            list::polls_beside_pushes,
            &[
                Fault::CountsNull,
                Fault::TakesDataOut,
                Fault::MovesTailOnce,
                Fault::CountsMark,
                Fault::ThreeSourcesForFirst,
            ],
        );
    }

    #[test]
    #[should_panic(expected = "a use of no node")]
    fn source_s1_counts_null() {
        run(list::polls_beside_pushes, &[Fault::CountsNull]);
    }

    #[test]
    #[should_panic(expected = "an item is lost")]
    fn source_s2_takes_data_out() {
        run(list::push_then_pop_twice, &[Fault::TakesDataOut]);
    }

    #[test]
    #[should_panic(expected = "not seen yet")]
    fn source_s3_moves_tail_once() {
        run(list::push_then_pop_twice, &[Fault::MovesTailOnce]);
    }

    #[test]
    #[should_panic(expected = "a use of the special mark")]
    fn source_s4_counts_mark() {
        run(list::two_consumers, &[Fault::CountsMark]);
    }

    #[test]
    #[should_panic(expected = "empty, though")]
    fn source_s5_reads_tail_first() {
        run(list::never_empty, &[Fault::ReadsTailFirst]);
    }

    #[test]
    #[should_panic(expected = "nodes that did not end")]
    fn source_s6_three_sources_for_first() {
        run(list::alone, &[Fault::ThreeSourcesForFirst]);
    }

    #[test]
    #[should_panic(expected = "nodes that did not end")]
    fn source_s7_carries_count() {
        run(list::alone, &[Fault::CarriesCount]);
    }

    #[test]
    #[should_panic(expected = "nodes that did not end")]
    fn source_s8_narrow_count() {
        run(list::alone, &[Fault::NarrowCount]);
    }
}
