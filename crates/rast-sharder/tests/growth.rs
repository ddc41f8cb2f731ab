//! Epochs take no memory once the first ones have; alone in its process, whose allocator is RAST's.
#![cfg(not(any(rast_loom, rast_shuttle, miri)))]

use std::time::Duration;

use rast_sharder::alloc::RastAlloc;
use rast_sharder::{
    Assignment, Balancer, Controller, Decision, LoadView, Move, Progress, ShardId, Sharder,
    WorkerCx, WorkerId,
};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// Every shard is ready again after its turn.
struct Ready;

impl Controller for Ready {
    type Shard = ();
    type Load = u64;

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        (): &mut (),
        _: Option<&mut u64>,
    ) -> Progress {
        Progress::Again
    }

    fn new_load(&self, _: ShardId) -> u64 {
        0
    }
}

/// Moves every third shard to the next worker, other ones each time.
struct Thirds(usize);

impl Balancer for Thirds {
    fn begin(&mut self, _: &LoadView, _: &Assignment) {
        self.0 += 1;
    }

    fn step(&mut self, view: &LoadView, now: &Assignment, _: usize) -> Decision {
        let shards = (self.0 % 3..view.shards())
            .step_by(3)
            .map(ShardId::from_index);
        let next = |shard| Move {
            shard,
            to: WorkerId::from_index((now.owner(shard).index() + 1) % now.workers()),
        };
        Decision::Move(shards.map(next).collect())
    }
}

// One test, so that no other thread allocates meanwhile.
#[test]
fn epochs_keep_their_memory() {
    for (shards, epochs) in [(10, 20_000), (10_000, 60), (100_000, 12)] {
        let sharder = Sharder::builder(Ready)
            .shards(vec![(); shards])
            .workers(3)
            .period(Duration::ZERO)
            .balancer(Thirds(0))
            .build();
        let mut steps = sharder.expect("it builds").stepper();
        let handle = steps.handle();
        let mut most = 0;
        for epoch in 0..epochs {
            handle.reshard();
            steps.look();
            steps.turn(ShardId::from_index(epoch % shards));
            let bytes = RastAlloc::stats().bytes_current;
            match epoch < epochs / 2 {
                true => most = most.max(bytes),
                false => assert!(
                    bytes <= most + most / 64,
                    "{bytes} bytes after {epoch} epochs of {shards} shards, {most} before"
                ),
            }
        }
        let stats = handle.stats();
        assert_eq!(stats.epochs, epochs as u64);
        assert_eq!(stats.rejected, 0);
        let used = stats.last_used as usize;
        assert_eq!(used, shards, "all are ready");
        println!("{shards} shards: {most} bytes");
    }
}
