//! Containing panics of user code, and the record of them.
//!
//! All user code that a run calls, except the clock, is called through [`panics::contain`]:
//! `process` and the other hooks, `on_panic` itself, the balancer, the `Park` of a worker, and the
//! destructors of values that a run does not give back. Caught panics are recorded, the first
//! [`KEPT`] with their messages, the rest as a count.

use std::any::Any;
use std::fmt;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::ids::{ShardId, WorkerId};
use crate::primitive::panics;

/// Maximum number of panics whose messages are kept.
pub(crate) const KEPT: usize = 256;

/// Which call panicked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hook {
    /// [`Controller::process`](crate::Controller::process).
    Process,
    /// [`Controller::on_wake`](crate::Controller::on_wake).
    OnWake,
    /// The hook of [`Builder::on_worker_start`](crate::Builder::on_worker_start).
    WorkerStart,
    /// [`Controller::before_turn`](crate::Controller::before_turn).
    BeforeTurn,
    /// [`Park::park`](crate::Park::park) or [`Park::poll`](crate::Park::poll).
    Park,
    /// [`Controller::on_acquire`](crate::Controller::on_acquire).
    OnAcquire,
    /// [`Controller::on_release`](crate::Controller::on_release).
    OnRelease,
    /// [`Controller::on_panic`](crate::Controller::on_panic).
    OnPanic,
    /// [`Controller::restart_load`](crate::Controller::restart_load).
    RestartLoad,
    /// [`Controller::report`](crate::Controller::report).
    Report,
    /// [`Balancer::begin`](crate::Balancer::begin) or
    /// [`Balancer::step`](crate::Balancer::step).
    Balancer,
    /// The destructor of figures or of the balancer, when the run is over.
    Drop,
}

/// A panic that was contained.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PanicRecord {
    /// The shard whose code panicked, if it was a shard's.
    pub shard: Option<ShardId>,
    /// The worker on whose thread it did.
    pub worker: WorkerId,
    /// The call.
    pub hook: Hook,
    /// The message, if it was a string.
    pub message: String,
}

impl fmt::Display for PanicRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            Some(shard) => write!(f, "{shard}")?,
            None => f.write_str("the sharder's user")?,
        }
        write!(
            f,
            " panicked in {:?} on {}: {}",
            self.hook, self.worker, self.message
        )
    }
}

/// The panics of a run.
#[derive(Debug, Default)]
pub(crate) struct PanicLog {
    pub(crate) records: Vec<PanicRecord>,
    /// Faults of balancers that are no panics.
    pub(crate) rejections: Vec<String>,
}

impl PanicLog {
    pub(crate) fn panicked(&mut self, record: PanicRecord) {
        if self.records.len() < KEPT {
            self.records.push(record);
        }
    }

    pub(crate) fn rejected(&mut self, why: String) {
        if self.rejections.len() < KEPT {
            self.rejections.push(why);
        }
    }
}

/// Returns the message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    panics::text(payload)
        .unwrap_or("a payload that is no text")
        .to_string()
}
