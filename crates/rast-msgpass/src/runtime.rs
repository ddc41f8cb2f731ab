//! The graph as a controller of the sharder: one shard per instance.

use crate::instance::AnyInstance;
use crate::load::{Load, Route};
use crate::primitive::sync::Arc;
use crate::sharder::{
    Controller, LoadReport, PanicPayload, PanicPolicy, Progress, ShardId, WorkerCx,
};
use crate::shared::Shared;

/// Runs the instances of a graph for the sharder.
pub(crate) struct Runtime {
    pub(crate) shared: Arc<Shared>,
    /// Per shard, per input: the sender.
    pub(crate) routes: Vec<Vec<Route>>,
}

impl Controller for Runtime {
    type Shard = Box<dyn AnyInstance>;
    type Load = Load;

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        instance: &mut Self::Shard,
        load: Option<&mut Load>,
    ) -> Progress {
        let _turn = self.shared.trace.enter(shard.index());
        instance.turn(cx, load)
    }

    fn new_load(&self, shard: ShardId) -> Load {
        let (routes, clock) = (&self.routes[shard.index()], self.shared.clock.clone());
        Load::new(routes, clock, self.routes.len())
    }

    fn restart_load(&self, _: ShardId, load: &mut Load) {
        load.restart();
    }

    fn report(&self, shard: ShardId, load: &Load, out: &mut LoadReport<'_>) {
        out.busy(load.busy());
        load.report(&self.routes[shard.index()], out);
    }

    fn on_wake(&self, _: ShardId, instance: &mut Self::Shard, note: Option<u32>) {
        instance.on_wake(note);
    }

    fn on_acquire(&self, cx: &mut WorkerCx<'_>, shard: ShardId, instance: &mut Self::Shard) {
        self.shared.enter_thread();
        let shared = &self.shared;
        shared.traced(|| shared.trace.acquired(shard.index(), cx.worker().index()));
        instance.on_wake(None);
    }

    fn before_turn(&self, cx: &mut WorkerCx<'_>) {
        self.shared.calm.see(cx.worker().index());
    }

    fn on_panic(&self, _: ShardId, _: &mut Self::Shard, _: PanicPayload) -> PanicPolicy {
        // Handlers are contained closer to the message. What comes here is the
        // destructor of a message, or the hook for what is undelivered.
        PanicPolicy::Continue
    }
}
