//! Why a graph was not started.

use core::fmt;
use std::io;

use crate::graph::EdgeInfo;
use crate::inbox::INPUTS_MAX;
use crate::sharder;

/// The reason why a graph was not started.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A processor was given another number of replicas than is declared.
    Replicas {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The minimum number.
        least: usize,
        /// The maximum number; `usize::MAX` if it was declared as `[Type; _]`.
        most: usize,
        /// The number given.
        given: usize,
    },
    /// [`Builder::pin`](crate::Builder::pin) names a replica that the processor does not have.
    NoReplica {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The number of the replica.
        replica: usize,
        /// The number of replicas given.
        given: usize,
    },
    /// [`Builder::pin`](crate::Builder::pin) names a worker that the graph does not have. There are
    /// never more workers than instances.
    NoWorker {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The number of the replica.
        replica: usize,
        /// The number of the worker.
        worker: usize,
        /// The number of workers.
        workers: usize,
    },
    /// An inbox has fewer slots than one burst of each of its senders and one message, so its
    /// senders could block each other.
    Inbox {
        /// The edge.
        edge: &'static EdgeInfo,
        /// The least capacity.
        least: usize,
    },
    /// A processor has more than 2³⁰ inputs: one for each pair of instances of an edge with queues
    /// for pairs, and one for any other edge.
    Inputs {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The number of its inputs.
        inputs: usize,
    },
    /// [`Builder::blocking`](crate::Builder::blocking) was given no thread, or more threads than
    /// there are replicas.
    Blocking {
        /// The name of the processor in `graph!`.
        processor: &'static str,
        /// The number of threads.
        threads: usize,
        /// The number of replicas given.
        given: usize,
    },
    /// [`Builder::pin`](crate::Builder::pin) names a replica of a processor that
    /// [blocks](crate::Builder::blocking) on workers of its own.
    PinnedBlocking {
        /// The name of the processor in `graph!`.
        processor: &'static str,
    },
    /// The limit of a [`Restart`](crate::Restart) is for a period of zero, in which no restart
    /// would count.
    RestartWindow {
        /// The name of the processor in `graph!`.
        processor: &'static str,
    },
    /// `workers(0)`.
    NoWorkers,
    /// `batch(0)`.
    NoBatch,
    /// The sharder could not be made.
    Sharder(sharder::BuildError),
    /// The thread of the first worker could not be started.
    Thread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Replicas {
                processor,
                least,
                most,
                given,
            } => {
                write!(f, "processor `{processor}` is declared with ")?;
                match (*least, *most) {
                    (least, usize::MAX) => write!(f, "at least {least}")?,
                    (least, most) if least == most => write!(f, "{least}")?,
                    (least, most) => write!(f, "{least} to {most}")?,
                }
                write!(f, " replicas and was given {given}")
            }
            Self::NoReplica {
                processor,
                replica,
                given,
            } => write!(
                f,
                "processor `{processor}` was given {given} replicas, so replica {replica} cannot \
                 be pinned"
            ),
            Self::NoWorker {
                processor,
                replica,
                worker,
                workers,
            } => write!(
                f,
                "replica {replica} of processor `{processor}` cannot be pinned to worker {worker}: \
                 the graph has {workers} workers"
            ),
            Self::Inbox {
                edge,
                least: usize::MAX,
            } => write!(
                f,
                "the edge {edge} has an inbox per receiver, and its senders need more room than \
                 memory can hold: declare a smaller `burst`"
            ),
            Self::Inbox { edge, least } => write!(
                f,
                "the edge {edge} has an inbox per receiver with room for {}; \
                 its senders need at least {least}: declare `cap = {least}`",
                edge.capacity
            ),
            Self::Inputs { processor, inputs } => write!(
                f,
                "processor `{processor}` has {inputs} inputs and may have {INPUTS_MAX}: give fewer \
                 replicas to its senders, or declare an edge to it without `rings`"
            ),
            Self::Blocking {
                processor,
                threads,
                given,
            } => write!(
                f,
                "processor `{processor}` was given {given} replicas and blocks on {threads} \
                 threads: give it from 1 to {given} threads"
            ),
            Self::PinnedBlocking { processor } => write!(
                f,
                "processor `{processor}` blocks on workers of its own, so no replica of it can be \
                 pinned: remove `pin` or `blocking`"
            ),
            Self::RestartWindow { processor } => write!(
                f,
                "the restarts of processor `{processor}` are limited within a time of zero, in \
                 which none counts: give `limit` a longer time, or use `without_limit`"
            ),
            Self::NoWorkers => f.write_str("a graph needs one worker at least"),
            Self::NoBatch => f.write_str("a batch holds one message at least"),
            Self::Sharder(error) => write!(f, "the sharder refused: {error}"),
            Self::Thread(error) => write!(f, "no thread for the first worker: {error}"),
        }
    }
}

impl core::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Sharder(error) => Some(error),
            Self::Thread(error) => Some(error),
            _ => None,
        }
    }
}
