//! The typed message-passing graph.
#![cfg(feature = "std")]
#![forbid(unsafe_code)]

mod builder;
mod calm;
mod check;
mod counter;
mod cx;
mod egress;
mod graph;
mod handle;
mod ingress;
mod inlet;
mod instance;
mod macros;
mod outlet;
mod panics;
mod picture;
mod process;
mod report;
mod runtime;
mod shared;
mod wiring;

pub use builder::{BuildError, Builder};
pub use cx::{All, Chosen, Cx, Port};
pub use egress::{EgressReceiver, RecvError, RecvTimeoutError, TryRecvError};
pub use graph::{
    Edge, EdgeInfo, EdgeKind, Egress, End, Graph, Ingress, Node, ProcessorInfo, Replicated, Single,
};
pub use handle::{Handle, Stopper};
pub use ingress::{IngressPort, IngressSender, TrySendError};
pub use process::{Next, Process, Receive};
pub use queue::{Closed, Full};
pub use report::{
    DrainError, EdgeMetrics, InstanceMetrics, Metrics, PanicRecord, Report, Undelivered,
};
pub use shared::OnPanic;

#[doc(hidden)]
pub use rast_sharder::{self as sharder, alloc, primitive, queue, timers};

/// What `graph!` and the models call; not for use.
#[doc(hidden)]
pub mod __private {
    pub use crate::calm::Calm;
    pub use crate::check::{Key, Spec, check, edge_info, find, processor_info};
    pub use crate::counter::Counter;
    pub use crate::egress::{EgressReceiver, Lane, Wake, may_gate};
    pub use crate::graph::{connecting, incoming, outgoing};
    pub use crate::ingress::Door;
    pub use crate::picture::{dot, mermaid};
    pub use crate::wiring::{Given, Wiring};
    pub use std::string::String;
}
