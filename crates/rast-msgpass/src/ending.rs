//! The cause of a graph's end, and the stop flag.
//!
//! One word keeps the first cause; later ones have no effect. A drain is recorded as the cause
//! before anything stops: it closes the doors, and the handlers continue.

use core::fmt;

use crate::graph::{EdgeInfo, ProcessorInfo};
use crate::primitive::CachePadded;
use crate::primitive::sync::atomic::{AtomicU64, Ordering};

/// What ended a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndedBy {
    /// [`Handle::stop`](crate::Handle::stop).
    Stop,
    /// [`Handle::drain`](crate::Handle::drain).
    Drain,
    /// The [`Handle`](crate::Handle) was dropped. A handle that is not stored in a variable is
    /// dropped at the end of its statement.
    Dropped,
    /// A [`Stopper`](crate::Stopper).
    Stopper,
    /// A processor: by [`Cx::stop`](crate::Cx::stop), or by a panic under
    /// [`OnPanic::Stop`](crate::OnPanic::Stop).
    Processor {
        /// The name in `graph!`.
        name: &'static str,
        /// The index of the replica.
        replica: usize,
    },
    /// A sender of an unbounded edge kept as many messages without room as its
    /// [`ceiling`](EdgeInfo::ceiling) allows, and sent one more.
    Ceiling {
        /// The edge.
        edge: &'static EdgeInfo,
    },
    /// A fault of the runtime, which is in the report.
    Fault,
}

impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop => f.write_str("its handle stopped it"),
            Self::Drain => f.write_str("its handle drains it"),
            Self::Dropped => f.write_str("its handle was dropped"),
            Self::Stopper => f.write_str("a stopper stopped it"),
            Self::Processor { name, replica } => {
                write!(f, "its processor {name}[{replica}] stopped it")
            }
            Self::Ceiling { edge } => write!(
                f,
                "the unbounded edge {edge} reached its ceiling of {}",
                edge.ceiling
            ),
            Self::Fault => f.write_str("its runtime failed"),
        }
    }
}

const NONE: u64 = 0;
const PROCESSOR: u64 = 6;
const CEILING: u64 = 7;

/// The end of one graph.
#[derive(Debug)]
pub(crate) struct Ending {
    processors: &'static [ProcessorInfo],
    edges: &'static [EdgeInfo],
    /// The first cause: the kind in the low byte; above it the number of an edge, or a processor's
    /// replica in 32 bits and its number in 24.
    cause: AtomicU64,
    /// The first cause that stopped the graph. Loaded for each message, and written once.
    stop: CachePadded<AtomicU64>,
}

impl Ending {
    pub(crate) fn new(processors: &'static [ProcessorInfo], edges: &'static [EdgeInfo]) -> Self {
        Self {
            processors,
            edges,
            cause: AtomicU64::new(NONE),
            stop: CachePadded::new(AtomicU64::new(NONE)),
        }
    }

    /// Stores a cause, unless there is one.
    pub(crate) fn note(&self, by: EndedBy) {
        set(&self.cause, self.word(by));
    }

    /// Stops the graph: every instance ends its turn after the current message.
    pub(crate) fn stop(&self, by: EndedBy) {
        self.note(by);
        set(&self.stop, self.word(by));
    }

    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        // Relaxed: an instance that sees it late handles one message more.
        self.stop.load(Ordering::Relaxed) != NONE
    }

    /// Returns the first cause, if there is one.
    pub(crate) fn cause(&self) -> Option<EndedBy> {
        self.read(&self.cause)
    }

    /// Returns the first cause that stopped the graph, if there is one.
    pub(crate) fn stopped_by(&self) -> Option<EndedBy> {
        self.read(&self.stop)
    }

    fn word(&self, by: EndedBy) -> u64 {
        match by {
            EndedBy::Stop => 1,
            EndedBy::Drain => 2,
            EndedBy::Dropped => 3,
            EndedBy::Stopper => 4,
            EndedBy::Fault => 5,
            EndedBy::Processor { name, replica } => {
                let mut nodes = self.processors.iter();
                let node = nodes.position(|info| info.name == name).unwrap_or(0) as u64;
                PROCESSOR | (replica as u64 & 0xFFFF_FFFF) << 8 | node << 40
            }
            EndedBy::Ceiling { edge } => {
                let mut edges = self.edges.iter();
                CEILING | (edges.position(|info| info == edge).unwrap_or(0) as u64) << 8
            }
        }
    }

    fn read(&self, word: &AtomicU64) -> Option<EndedBy> {
        // Relaxed: the word contains everything.
        let word = word.load(Ordering::Relaxed);
        Some(match word & 0xFF {
            NONE => return None,
            1 => EndedBy::Stop,
            2 => EndedBy::Drain,
            3 => EndedBy::Dropped,
            4 => EndedBy::Stopper,
            PROCESSOR => EndedBy::Processor {
                name: self.processors[(word >> 40) as usize].name,
                replica: (word >> 8) as usize & 0xFFFF_FFFF,
            },
            CEILING => EndedBy::Ceiling {
                edge: &self.edges[(word >> 8) as usize],
            },
            _ => EndedBy::Fault,
        })
    }
}

fn set(word: &AtomicU64, cause: u64) {
    // Relaxed: the word contains everything; a later cause does not replace it.
    let _ = word.compare_exchange(NONE, cause, Ordering::Relaxed, Ordering::Relaxed);
}
