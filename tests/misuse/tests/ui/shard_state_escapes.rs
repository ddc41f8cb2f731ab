//! A controller that keeps the state of a shard beyond its turn.
use std::sync::Mutex;

use rast::sharder::{Controller, Progress, ShardId, WorkerCx};

struct Leak(Mutex<Option<&'static mut u64>>);

impl Controller for Leak {
    type Shard = u64;
    type Load = ();

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        state: &mut u64,
        _: Option<&mut ()>,
    ) -> Progress {
        *self.0.lock().unwrap() = Some(state);
        Progress::Idle
    }

    fn new_load(&self, _: ShardId) {}
}

fn main() {}
