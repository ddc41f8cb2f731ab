//! A sharder before its run, and the result of a run.

use core::fmt;
use std::boxed::Box;
use std::format;
use std::io;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::controller::{Controller, PanicPayload};
use crate::handle::Handle;
use crate::ids::{ShardId, WorkerId};
use crate::panics::{Hook, PanicRecord, message};
use crate::primitive::Signal;
use crate::primitive::panics::{contain, discard};
use crate::primitive::sync::Arc;
use crate::primitive::thread;
use crate::protocol::Member;
use crate::stats::Report;
use crate::worker::{Shared, run_worker};

/// A controller, its shards, and its workers before they start.
///
/// Dropping it without [`run`](Self::run) drops them all. See the [crate](crate) for an example.
pub struct Sharder<C: Controller> {
    pub(crate) shared: Shared<C>,
    pub(crate) members: Vec<Member>,
    /// The name of the threads.
    pub(crate) name: String,
}

impl<C: Controller> Sharder<C> {
    /// Returns a handle that stops, wakes and observes it.
    pub fn handle(&self) -> Handle {
        Handle {
            core: self.shared.core.clone(),
        }
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.members.len()
    }

    /// Runs until some thread stops the sharder; blocking. The calling thread is worker 0; this
    /// call starts and joins the threads of the other workers.
    ///
    /// If the calling thread may use at most as many processors as there are workers, the workers
    /// are distributed over these processors at the start. After that the system may move a worker
    /// to any of these processors, like any other thread. If the system does not report these
    /// processors, or refuses the placement, the system chooses where a worker begins.
    ///
    /// # Errors
    ///
    /// [`RunError`], which also contains the [`Outcome`], if a thread could not be started, or if
    /// this crate's own code or the clock panicked. In both cases all workers are stopped first.
    pub fn run(self) -> Result<Outcome<C>, RunError<C>> {
        self.run_on(thread::spawn_named)
    }

    /// Runs on threads that `spawn` starts, so that a test can let it fail.
    fn run_on(
        self,
        mut spawn: impl FnMut(String, Box<dyn FnOnce() + Send>) -> io::Result<thread::JoinHandle<()>>,
    ) -> Result<Outcome<C>, RunError<C>> {
        let Self {
            shared,
            members,
            name: prefix,
        } = self;
        let core = shared.core.clone();
        let shared = Arc::new(shared);
        let mut members = members.into_iter();
        let own = members.next();
        let places = shared.places(1 + members.len());
        let mut threads = Vec::with_capacity(members.len());
        let mut cause = None;
        let last_runs = Arc::new(Signal::new());
        while let Some(member) = members.next() {
            let worker = member.worker();
            let theirs = shared.clone();
            let name = format!("{prefix}-{}", worker.0);
            let signal = (members.len() == 0).then(|| last_runs.clone());
            let work = move || {
                if let Some(places) = places {
                    places.move_to(worker.index());
                }
                if let Some(signal) = signal {
                    signal.send();
                }
                run_worker(theirs, member);
            };
            match spawn(name, Box::new(work)) {
                Ok(thread) => threads.push((worker, thread)),
                Err(source) => {
                    core.baton.stop();
                    cause = Some(RunCause::Spawn { worker, source });
                    break;
                }
            }
        }
        if cause.is_none() && !threads.is_empty() {
            // The system may put the last thread on the processor of this thread, and move it only
            // after some milliseconds. So this thread sleeps until the last thread is on its own
            // processor. This thread does not wake up there, because until then it may use only its
            // own processor.
            let stays = places.is_some_and(|places| places.stay_on(0));
            last_runs.receive_blocking();
            if stays && let Some(places) = places {
                places.allow_all();
            }
        }
        if let Some(member) = own {
            run_worker(shared.clone(), member);
        }
        for (worker, thread) in threads {
            // run_worker catches all panics; what remains are payloads that panic when they are
            // dropped.
            if thread.join().is_err() {
                core.failed(worker, "its thread panicked at its end".to_string());
            }
        }
        if cause.is_none() {
            let failure = core.failure.lock().take();
            cause = failure.map(|(worker, message)| RunCause::Runtime { worker, message });
        }
        let Ok(shared) = Arc::try_unwrap(shared) else {
            unreachable!("the workers have left and dropped their share");
        };
        let outcome = Outcome::new(shared);
        match cause {
            None => Ok(outcome),
            Some(cause) => Err(RunError {
                cause,
                outcome: Box::new(outcome),
            }),
        }
    }
}

impl<C: Controller> fmt::Debug for Sharder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sharder")
            .field("workers", &self.members.len())
            .field("shards", &self.shared.slots.len())
            .finish_non_exhaustive()
    }
}

/// A shard after the run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardExit<S> {
    /// Its state, as its last call left it.
    pub state: S,
    /// The panic that retired it, if any; its state may then be inconsistent.
    pub retired: Option<PanicRecord>,
}

/// The result of a run.
#[non_exhaustive]
pub struct Outcome<C: Controller> {
    /// The controller.
    pub controller: C,
    /// The shards, by number, including retired ones.
    pub shards: Vec<ShardExit<C::Shard>>,
    /// The report.
    pub report: Report,
}

impl<C: Controller> Outcome<C> {
    pub(crate) fn new(shared: Shared<C>) -> Self {
        let core = &shared.core;
        let contained = |shard, drops: Result<(), PanicPayload>| {
            if let Err(payload) = drops {
                let text = message(&*payload);
                discard(payload);
                core.panicked(WorkerId(0), shard, Hook::Drop, text);
            }
        };
        contained(None, contain(|| drop(shared.desk)));
        let shards = shared.slots.into_parts().enumerate();
        let shards = shards.map(|(at, (slot, measure))| {
            let shard = Some(ShardId::from_index(at));
            contained(shard, contain(|| drop(measure)));
            ShardExit {
                state: slot.state,
                retired: slot.retired,
            }
        });
        let shards = shards.collect();
        let log = core::mem::take(&mut *core.log.lock());
        let report = Report {
            stats: core.stats(),
            panics: log.records,
            rejections: log.rejections,
            assignment: core.published.load().assignment.clone(),
        };
        Self {
            shards,
            controller: shared.controller,
            report,
        }
    }
}

impl<C: Controller> fmt::Debug for Outcome<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("shards", &self.shards.len())
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

/// The reason why a run ended other than by a stop.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunCause {
    /// The system could not start a thread.
    Spawn {
        /// The worker without a thread.
        worker: WorkerId,
        /// The error of the system.
        source: io::Error,
    },
    /// This crate's own code panicked, which is a bug of the crate, or the clock did.
    Runtime {
        /// The worker on which it panicked.
        worker: WorkerId,
        /// The message.
        message: String,
    },
}

/// A failed run, with everything that a successful one returns.
pub struct RunError<C: Controller> {
    cause: RunCause,
    outcome: Box<Outcome<C>>,
}

impl<C: Controller> RunError<C> {
    /// Returns the cause.
    #[must_use]
    pub fn cause(&self) -> &RunCause {
        &self.cause
    }

    /// Returns the cause, the controller, the shards and the report.
    #[must_use]
    pub fn into_parts(self) -> (RunCause, Outcome<C>) {
        (self.cause, *self.outcome)
    }
}

impl<C: Controller> fmt::Debug for RunError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunError")
            .field("cause", &self.cause)
            .finish_non_exhaustive()
    }
}

impl<C: Controller> fmt::Display for RunError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            RunCause::Spawn { worker, source } => {
                write!(f, "no thread for {worker}: {source}")
            }
            RunCause::Runtime { worker, message } => {
                write!(f, "the sharder failed on {worker}: {message}")
            }
        }
    }
}

impl<C: Controller> core::error::Error for RunError<C> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match &self.cause {
            RunCause::Spawn { source, .. } => Some(source),
            RunCause::Runtime { .. } => None,
        }
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;
    use crate::{Progress, WorkerCx};

    /// Runs forever.
    struct Endless;

    impl Controller for Endless {
        type Shard = u32;
        type Load = ();

        fn process(
            &self,
            _: &mut WorkerCx<'_>,
            _: ShardId,
            state: &mut u32,
            _: Option<&mut ()>,
        ) -> Progress {
            *state = 7;
            Progress::Again
        }

        fn new_load(&self, _: ShardId) {}
    }

    #[test]
    fn a_thread_that_is_refused_stops_the_others_and_is_named() {
        let builder = Sharder::builder(Endless);
        let sharder = builder.shards(std::vec![1; 9]).workers(4).build();
        let sharder = sharder.expect("it builds");
        let handle = sharder.handle();
        let mut started = 0;
        let ran = sharder.run_on(|name, work| {
            started += 1;
            match started {
                3 => Err(io::Error::other("no more threads")),
                _ => thread::spawn_named(name, work),
            }
        });
        let error = ran.expect_err("a worker has no thread");
        assert_eq!(error.to_string(), "no thread for worker 3: no more threads");
        assert!(handle.is_stopping());
        let (_, outcome) = error.into_parts();
        assert_eq!(outcome.shards.len(), 9);
    }
}
