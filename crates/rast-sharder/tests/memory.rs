//! What workers had and need no more can be given back while they sleep; alone in its process,
//! whose allocator is RAST's.
#![cfg(all(target_os = "linux", not(any(rast_loom, rast_shuttle, miri))))]

use std::thread;
use std::time::{Duration, Instant};

use rast_sharder::alloc::RastAlloc;
use rast_sharder::primitive::WaitStrategy;
use rast_sharder::{Controller, Progress, ShardId, Sharder, WorkerCx};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

const WORKERS: usize = 2;
/// Bytes that each shard takes and frees in its first turn.
const BYTES: usize = 32 << 20;

/// A shard that needs much memory for one turn, and none after that.
struct Once;

impl Controller for Once {
    type Shard = bool;
    type Load = ();

    fn process(
        &self,
        _: &mut WorkerCx<'_>,
        _: ShardId,
        is_done: &mut bool,
        _: Option<&mut ()>,
    ) -> Progress {
        if std::mem::replace(is_done, true) {
            return Progress::Idle;
        }
        let blocks: Vec<_> = (0..BYTES / 1000).map(|_| vec![1_u8; 1000]).collect();
        drop(blocks);
        Progress::Again
    }

    fn new_load(&self, _: ShardId) {}
}

#[test]
fn memory_goes_back_while_workers_sleep() {
    let start = RastAlloc::stats();
    let sharder = Sharder::builder(Once)
        .shards(vec![false; WORKERS])
        .workers(WORKERS)
        .wait(WaitStrategy::Park)
        .build()
        .unwrap();
    let handle = sharder.handle();
    let running = thread::spawn(move || sharder.run().map_err(|_| ()).unwrap());
    let deadline = Instant::now() + Duration::from_secs(20);
    let taken = |stats: &rast_sharder::alloc::Stats| stats.allocations - start.allocations;
    loop {
        RastAlloc::purge_all();
        let stats = RastAlloc::stats();
        let is_taken = taken(&stats) as usize >= WORKERS * (BYTES / 1000);
        if is_taken && stats.bytes_committed < WORKERS * BYTES / 10 {
            break;
        }
        assert!(Instant::now() < deadline, "it has not gone back: {stats}");
        thread::yield_now();
    }
    handle.stop();
    let outcome = running.join().unwrap();
    assert!(outcome.shards.iter().all(|shard| shard.state));
}
