//! A decision of `Greedy` on many shards takes no memory once the first ones have; alone in its
//! process, whose allocator is RAST's.
#![cfg(not(any(rast_loom, rast_shuttle, miri)))]

use rast_sharder::alloc::RastAlloc;
use rast_sharder::primitive::Random;
use rast_sharder::timers::Nanos;
use rast_sharder::{Assignment, Balancer, Decision, Greedy, LoadView, ShardId, WorkerId};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

const WORKERS: usize = 128;

/// Bytes for each shard, with its share of three pairs that talk.
const BYTES: usize = 512;

/// Random owners: the first workers have more than the last ones.
fn owners(random: &mut Random, shards: usize) -> Assignment {
    let mut worker = || random.below(WORKERS).min(random.below(WORKERS));
    let owners = (0..shards).map(|_| WorkerId::from_index(worker()));
    Assignment::new(owners.collect(), WORKERS).expect("the workers exist")
}

/// Decides once; returns what was decided, and the calls of the allocator.
fn decide(greedy: &mut Greedy, view: &LoadView, now: &Assignment) -> (Option<Assignment>, u64) {
    let calls = |stats: rast_sharder::alloc::Stats| stats.allocations + stats.reallocations;
    let before = calls(RastAlloc::stats());
    greedy.begin(view, now);
    loop {
        let decision = greedy.step(view, now, 256);
        let since = calls(RastAlloc::stats()) - before;
        match decision {
            Decision::Pending => {}
            decision => return (decision.next(now).expect("what moves exists"), since),
        }
    }
}

// One test, so that no other thread allocates meanwhile.
#[test]
fn decisions_keep_their_memory() {
    for shards in [10_000, 100_000] {
        let mut random = Random::new(7);
        let mut view = LoadView::new(WORKERS, shards);
        for shard in (0..shards).map(ShardId::from_index) {
            let busy = 0.001 + random.below(1_000) as f64 * 1e-5;
            view.set(shard, busy, Nanos::from_millis(100));
            for _ in 0..3 {
                let from = ShardId::from_index(random.below(shards));
                view.add_traffic(from, shard, 1_000.0);
            }
        }
        let start = RastAlloc::stats().bytes_current;
        let mut greedy = Greedy::new();
        let (mut kept, mut adopted) = (0, 0);
        for round in 0..if shards > 10_000 { 3 } else { 12 } {
            let now = owners(&mut random, shards);
            let (next, calls) = decide(&mut greedy, &view, &now);
            // A list of moves that was adopted is another one in the next decision.
            let most = u64::from(adopted > 0);
            assert!(round < 2 || calls <= most, "{calls} calls in round {round}");
            match next {
                None => kept += 1,
                Some(next) => {
                    assert_eq!((next.shards(), next.workers()), (shards, WORKERS));
                    adopted += 1;
                }
            }
        }
        assert!(
            adopted > 0,
            "random owners are worth a change; {kept} were kept"
        );
        let bytes = RastAlloc::stats().bytes_current - start;
        assert!(bytes <= BYTES * shards, "{bytes} bytes for {shards} shards");
    }
}
