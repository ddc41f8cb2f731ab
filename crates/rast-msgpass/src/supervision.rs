//! Following the policy of a processor whose handler panicked.
//!
//! What needs no type of a processor is here.

use std::any::Any;

use crate::instance_core::Core;
use crate::policy::{Failure, Life, OnPanic, Policy, Then};
use crate::primitive::panics::discard;
use crate::report::Handler;
use crate::timers::Clock;

/// A panic of a handler, and what was in hand.
pub(crate) struct Panic {
    pub(crate) handler: Handler,
    pub(crate) payload: Box<dyn Any + Send>,
    /// The edge of the message; `None` if there was none.
    pub(crate) edge: Option<usize>,
    /// A clone of the message.
    pub(crate) message: Option<Box<dyn Any + Send>>,
}

impl Panic {
    /// The panic of a handler that had no message of an edge.
    pub(crate) const fn of(handler: Handler, payload: Box<dyn Any + Send>) -> Self {
        Self {
            handler,
            payload,
            edge: None,
            message: None,
        }
    }
}

impl Core {
    /// Decides what a panic leads to.
    fn decide(&mut self) -> Then {
        let plain = match self.shared.policies[self.node] {
            Policy::Plain(plain) => plain,
            Policy::Restart(restart) => {
                let now = self.shared.clock.now();
                if let Some(at) = self.restarts.ask(&restart, now) {
                    self.life = Life::Failed;
                    return Then::Restarts(at);
                }
                restart.then
            }
        };
        match plain {
            OnPanic::Continue => Then::Continues,
            OnPanic::Retire => {
                self.life = Life::Retired;
                Then::Retires
            }
            OnPanic::Stop => {
                self.end();
                Then::Stops
            }
        }
    }

    /// Records a panic of a handler, and follows the policy.
    #[cold]
    pub(crate) fn panicked(&mut self, panic: Panic) {
        let then = self.decide();
        self.record(panic, then);
        // What the handler sent before it panicked is sent.
        self.note_all();
    }

    /// Records a panic, and tells the hook.
    #[cold]
    pub(crate) fn record(&mut self, panic: Panic, then: Then) {
        self.stats.panics.add(1);
        let Panic {
            handler,
            payload,
            edge,
            message,
        } = panic;
        let shared = &*self.shared;
        let (processor, replica) = (shared.processors[self.node].name, self.replica);
        let sender = edge.map_or(0, |_| self.sender);
        let edge = edge.map(|edge| &shared.edges[edge]);
        let failure = Failure {
            processor,
            replica,
            handler,
            edge,
            sender,
            payload,
            message,
            at: shared.clock.now(),
            then,
        };
        let record = failure.record();
        shared.traced(|| shared.trace.panicked(&record, &failure.then));
        shared.record_panic(record);
        match &shared.on_failure {
            Some(hook) => shared.contained("on_failure", || hook(failure)),
            None => {
                discard(failure.payload);
                let what = "the destructor of a kept message";
                shared.contained(what, || drop(failure.message));
            }
        }
    }
}
