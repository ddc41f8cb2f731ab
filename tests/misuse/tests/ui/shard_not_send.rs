//! A shard whose state may not change threads.
use std::rc::Rc;

use rast::sharder::{Controller, Progress, ShardId, WorkerCx};

struct Local;

impl Controller for Local {
    type Shard = Rc<u64>;
    type Load = ();

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        _: &mut Rc<u64>,
        _: Option<&mut ()>,
    ) -> Progress {
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) {}
}

fn main() {}
