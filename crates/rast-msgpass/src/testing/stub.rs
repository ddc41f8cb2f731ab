//! The other ends of the edges of a processor that is tested alone.
//!
//! A stub has the outlets and inlets of the instance that it replaces. It receives all messages at
//! once, and sends what the test requests. So room and credit are those of a running graph.

use std::any::Any;
use std::collections::VecDeque;

use crate::inlet::{Tap, Tapped};
use crate::instance::AnyInstance;
use crate::instance_core::Core;
use crate::load::Load;
use crate::primitive::panics::contain;
use crate::primitive::sync::{Arc, Mutex};
use crate::sharder::{Progress, WorkerCx};
use crate::states::State;
use crate::ticket::Ticket;
use crate::timers::{Clock, Instant};
use crate::trial::Place;
use crate::wiring::Parts;

/// A message that a stub, or a lane, received.
pub(crate) struct Seen {
    pub(crate) edge: usize,
    pub(crate) place: Place,
    pub(crate) message: Tapped,
}

/// A send that a test requested from a stub.
pub(crate) type Order = Box<dyn FnOnce(&mut Core, &mut Tickets) + Send>;

/// The requests that the test has not answered, in order: the outlet of answers, the client, and
/// the token.
#[derive(Default)]
pub(crate) struct Tickets(Vec<(usize, usize, Ticket)>);

impl Tickets {
    /// Takes the oldest request of a client.
    pub(crate) fn take(&mut self, out: usize, client: usize) -> Option<Ticket> {
        let mut tickets = self.0.iter();
        let at = tickets.position(|&(of, from, _)| (of, from) == (out, client))?;
        Some(self.0.remove(at).2)
    }
}

/// The state that stubs and test share.
#[derive(Default)]
pub(crate) struct Around {
    /// By shard.
    pub(crate) orders: Vec<VecDeque<Order>>,
    pub(crate) seen: Vec<Seen>,
    /// The payload of a requested send that panicked.
    pub(crate) failed: Option<Box<dyn Any + Send>>,
}

/// Replaces an instance.
pub(crate) struct Stub {
    core: Core,
    taps: Vec<Box<dyn Tap>>,
    tickets: Tickets,
    shard: usize,
    around: Arc<Mutex<Around>>,
}

impl Stub {
    pub(crate) fn new(
        parts: Parts,
        mut core: Core,
        shard: usize,
        around: Arc<Mutex<Around>>,
    ) -> Self {
        let tap = |inlet: Box<dyn Any + Send>| {
            let tap: Box<Box<dyn Tap>> = inlet.downcast().expect("a stub has taps");
            *tap
        };
        core.fit(parts.outs, parts.waits);
        Self {
            core,
            taps: parts.ins.into_iter().map(tap).collect(),
            tickets: Tickets::default(),
            shard,
            around,
        }
    }

    /// Makes the requested sends.
    fn send(&mut self) {
        loop {
            let order = self.around.lock().orders[self.shard].pop_front();
            let Some(order) = order else {
                return;
            };
            self.core.invocation += 1;
            if let Err(payload) = contain(|| order(&mut self.core, &mut self.tickets)) {
                self.core.note_all();
                self.around.lock().failed.get_or_insert(payload);
            }
        }
    }

    /// Receives all messages.
    fn take(&mut self, cx: &mut WorkerCx<'_>) {
        let mut around = self.around.lock();
        for (inlet, tap) in self.taps.iter_mut().enumerate() {
            let mut messages = 0;
            for input in 0..tap.inputs() {
                while let Some(message) = tap.take(input, &mut self.core, cx) {
                    messages += u64::from(message.is_some());
                    if let (Some(_), Some(out)) = (&message, tap.requests()) {
                        let client = self.core.sender;
                        let ticket = self.core.outs[out].keep(client, cx.now());
                        self.tickets.0.push((out, client, ticket));
                    }
                    let place = Place {
                        sender: self.core.sender,
                        receiver: self.core.replica,
                        at: self.core.shared.clock.now(),
                    };
                    around.seen.push(Seen {
                        edge: tap.edge(),
                        place,
                        message,
                    });
                }
                tap.settle(input, cx);
            }
            self.core.stats.received[inlet].add_after(messages);
        }
    }
}

impl AnyInstance for Stub {
    fn on_wake(&mut self, _: Option<u32>) {}

    fn turn(&mut self, cx: &mut WorkerCx<'_>, _: Option<&mut Load>) -> Progress {
        self.core.use_wake_ups(cx);
        self.core.look();
        self.send();
        self.take(cx);
        self.core.flush(cx);
        if self.core.is_gated || self.core.keeps {
            self.core.wait(cx);
            self.core.look();
            self.core.flush(cx);
            if self.core.waits_elsewhere() {
                return Progress::Again;
            }
        }
        Progress::Idle
    }

    fn stop(&mut self) {}

    fn finish(&mut self) {
        for (inlet, tap) in self.taps.iter_mut().enumerate() {
            let given_up = tap.give_up(&mut self.core);
            self.core.stats.received[inlet].add_after(given_up.handled());
        }
        for out in self.core.outs.iter_mut() {
            out.abandon();
        }
    }

    fn take_state(&mut self) -> Option<State> {
        None
    }

    fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    fn processor(&self) -> Option<&dyn Any> {
        None
    }

    fn restarts_at(&self) -> Option<Instant> {
        None
    }

    fn limit_batch(&mut self, _: u32) {}
}
