//! A controller whose hooks are closures, and balancers for tests.

use rast_sharder::{
    Assignment, Balancer, Controller, Decision, LoadReport, LoadView, PanicPayload, PanicPolicy,
    Progress, ShardId, WorkerCx, WorkerId,
};

type Process = dyn Fn(&mut WorkerCx<'_>, ShardId, &mut u64) -> Progress + Send + Sync;
type Hook = dyn Fn(&mut WorkerCx<'_>, ShardId) + Send + Sync;
type OnPanic = dyn Fn(ShardId, &mut u64) -> PanicPolicy + Send + Sync;

/// A controller made of closures; its shards are numbers.
pub(crate) struct Scripted {
    pub(crate) process: Box<Process>,
    pub(crate) on_acquire: Box<Hook>,
    pub(crate) on_release: Box<Hook>,
    pub(crate) before_turn: Box<dyn Fn(&mut WorkerCx<'_>) + Send + Sync>,
    pub(crate) on_panic: Box<OnPanic>,
    pub(crate) on_wake: Box<dyn Fn(ShardId, Option<u32>) + Send + Sync>,
    pub(crate) report: Box<dyn Fn(ShardId) + Send + Sync>,
    pub(crate) restart_load: Box<dyn Fn(ShardId) + Send + Sync>,
}

/// Hooks that do nothing.
pub(crate) fn hooks() -> Scripted {
    Scripted {
        process: Box::new(|_, _, _| Progress::Idle),
        on_acquire: Box::new(|_, _| {}),
        on_release: Box::new(|_, _| {}),
        before_turn: Box::new(|_| {}),
        on_panic: Box::new(|_, _| PanicPolicy::Retire),
        on_wake: Box::new(|_, _| {}),
        report: Box::new(|_| {}),
        restart_load: Box::new(|_| {}),
    }
}

impl Controller for Scripted {
    type Shard = u64;
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        state: &mut u64,
        _: Option<&mut ()>,
    ) -> Progress {
        (self.process)(cx, shard, state)
    }

    fn new_load(&self, _: ShardId) {}

    fn restart_load(&self, shard: ShardId, (): &mut ()) {
        (self.restart_load)(shard);
    }

    fn report(&self, shard: ShardId, (): &(), _: &mut LoadReport<'_>) {
        (self.report)(shard);
    }

    fn on_wake(&self, shard: ShardId, _: &mut u64, note: Option<u32>) {
        (self.on_wake)(shard, note);
    }

    fn before_turn(&self, cx: &mut WorkerCx<'_>) {
        (self.before_turn)(cx);
    }

    fn on_acquire(&self, cx: &mut WorkerCx<'_>, shard: ShardId, _: &mut u64) {
        (self.on_acquire)(cx, shard);
    }

    fn on_release(&self, cx: &mut WorkerCx<'_>, shard: ShardId, _: &mut u64) {
        (self.on_release)(cx, shard);
    }

    fn on_panic(&self, shard: ShardId, state: &mut u64, payload: PanicPayload) -> PanicPolicy {
        drop(payload);
        (self.on_panic)(shard, state)
    }
}

/// Moves every shard to the next worker, each time.
pub(crate) struct Rotate;

impl Balancer for Rotate {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {}

    fn step(&mut self, _: &LoadView, now: &Assignment, _: usize) -> Decision {
        let next = |owner: &WorkerId| WorkerId::from_index((owner.index() + 1) % now.workers());
        let owners = now.owners().iter().map(next).collect();
        Decision::Adopt(Assignment::new(owners, now.workers()).expect("the workers exist"))
    }
}
