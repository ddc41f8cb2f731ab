//! The life of the processor of an instance: begun, failed, replaced, ended.

use super::Instance;
use crate::cx::Cx;
use crate::ending::EndedBy;
use crate::graph::Graph;
use crate::policy::{Life, Stopped, Then};
use crate::primitive::panics::contain;
use crate::process::{Next, Process};
use crate::report::Handler;
use crate::sharder::{Progress, WorkerCx};
use crate::supervision::Panic;

impl<G: Graph, P: Process<G>> Instance<G, P> {
    /// Makes and begins a processor, if its time has come. Returns when the next turn is wanted,
    /// or `None` if handlers may be called in this one.
    #[cold]
    pub(super) fn revive(&mut self, cx: &mut WorkerCx<'_>) -> Option<Progress> {
        loop {
            match self.core.life {
                Life::Running => return None,
                Life::Retired => return Some(self.run_retired(cx)),
                // No handler is called by a worker that has seen the stop.
                _ if self.core.ending.is_stopping() => return Some(Progress::Idle),
                Life::New => self.begin(cx),
                Life::Failed => {
                    self.put_down();
                    return Some(self.tend(cx));
                }
                Life::Down if self.core.restarts.at > cx.now() => return Some(self.tend(cx)),
                Life::Down => self.replace(),
            }
        }
    }

    /// Tells the processor that it begins. That does not wait for room: a client without credit
    /// would wait forever, because it gets credit by handling answers, which it does only after its
    /// start.
    fn begin(&mut self, cx: &mut WorkerCx<'_>) {
        self.core.life = Life::Running;
        self.has_begun = true;
        self.call(Handler::Start, |processor, cx| processor.on_start(cx));
        self.publish_early(cx);
    }

    /// Publishes what a handler without a message sent, if the next handler may block, or if it has
    /// to wait for room.
    #[inline]
    pub(super) fn publish_early(&mut self, cx: &mut WorkerCx<'_>) {
        if self.rhythm.is_prompt || self.core.is_gated {
            self.flush(cx);
        }
        if self.must_look() {
            self.look(cx);
        }
    }

    /// Calls a handler that has no message.
    #[cold]
    pub(super) fn call(&mut self, handler: Handler, run: impl FnOnce(&mut P, &mut Cx<'_, G, P>)) {
        let Some(processor) = &mut self.processor else {
            return;
        };
        self.core.invocation += 1;
        self.core.sender = 0;
        let core = &mut self.core;
        if let Err(payload) = contain(|| run(processor, &mut Cx::new(core))) {
            self.core.panicked(Panic::of(handler, payload));
        }
    }

    /// Tells the processor why it ends, once.
    fn leave(&mut self, why: Stopped, then: Then) {
        if !core::mem::take(&mut self.has_begun) {
            return;
        }
        let Some(processor) = &mut self.processor else {
            return;
        };
        if let Err(payload) = contain(|| processor.on_stop(why)) {
            self.core.record(Panic::of(Handler::Stop, payload), then);
        }
    }

    /// Drops a processor that failed.
    fn put_down(&mut self) {
        self.leave(Stopped::Restarted, Then::Restarts(self.core.restarts.at));
        self.core.life = Life::Down;
        self.drop_processor();
        // What was ready stays so, and tokens of the state were dropped.
        self.forget_turn();
    }

    fn drop_processor(&mut self) {
        let processor = self.processor.take();
        let shared = &self.core.shared;
        shared.contained("a processor's destructor", || drop(processor));
    }

    /// Makes the next processor.
    fn replace(&mut self) {
        let Some(factory) = &self.factory else {
            unreachable!("a processor without a factory is not put down");
        };
        let replica = self.core.replica;
        match contain(|| factory(replica)) {
            Ok(processor) => {
                self.core.stats.restarts.add(1);
                let restarts = self.core.stats.restarts.get();
                let shared = &self.core.shared;
                shared.traced(|| shared.trace.restarted(restarts));
                self.processor = Some(processor);
                self.core.life = Life::New;
                (self.next, self.is_called) = (Next::Again, false);
            }
            Err(payload) => self.core.panicked(Panic::of(Handler::Factory, payload)),
        }
    }

    /// Lets the outlets of an instance without a processor go on.
    fn tend(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        if self.is_new {
            self.look_at_all();
        }
        if self.core.is_gated || self.core.keeps {
            self.core.look();
        }
        self.flush(cx);
        if self.core.is_gated || self.core.keeps {
            self.core.wait(cx);
            self.core.look();
            self.flush(cx);
            if self.core.waits_elsewhere() {
                return Progress::Again;
            }
        }
        Progress::At(self.core.restarts.at)
    }

    /// Gives up waiting messages and kept requests of a retired instance, so that it holds no
    /// thread up.
    #[cold]
    fn run_retired(&mut self, cx: &mut WorkerCx<'_>) -> Progress {
        if !self.core.shared.deaths.has(self.core.shard()) {
            self.leave(Stopped::Retired, Then::Retires);
            self.core.shared.retire(self.core.shard());
        }
        self.forget_turn();
        self.core.look();
        for inlet in 0..self.ins.len() {
            let given_up = self.ins[inlet].give_up(&mut self.core, Some(cx));
            self.shares[inlet].uncounted += given_up.handled();
            self.touched.push(inlet as u32);
        }
        for out in 0..self.core.outs.len() {
            let news = self.core.outs[out].waive_kept();
            self.core.note(out, news);
        }
        self.end(cx);
        self.cancel_timers();
        self.flushes.0 = self.core.stats.flushes_asked.get_after();
        self.has_flushed();
        self.wait(cx)
    }

    /// The graph has ended: tells the processor.
    pub(super) fn ended(&mut self) {
        let why = match self.core.life {
            Life::Retired => Stopped::Retired,
            _ => Stopped::Ended(self.core.ending.cause().unwrap_or(EndedBy::Fault)),
        };
        self.leave(why, Then::Stops);
    }

    /// Tells the processor of the instances that retired.
    #[cold]
    pub(super) fn tell_deaths(&mut self, cx: &mut WorkerCx<'_>) {
        while !self.core.is_paused()
            && let Some(who) = self.core.next_death()
        {
            self.call(Handler::Retired, |processor, cx| {
                processor.on_retired(who, cx)
            });
            self.publish_early(cx);
        }
    }
}
