//! Wake-ups from outside and of several shards at once, while shards move and
//! idle workers sleep without limit: a lost one hangs the test.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use rast_sharder::primitive::WaitStrategy;
use rast_sharder::{Controller, Progress, ShardId, Sharder, WorkerCx};

use crate::support::Rotate;

const SHARDS: usize = 5;
const ROUNDS: u64 = 200;

/// A message to shard 0 is passed on to all others at once; each of them says
/// so outside.
struct FanOut {
    mail: Vec<AtomicU64>,
    taken: Mutex<Sender<ShardId>>,
}

impl FanOut {
    fn new() -> (Self, Receiver<ShardId>) {
        let (taken, seen) = channel();
        let mail = (0..SHARDS).map(|_| AtomicU64::new(0)).collect();
        let taken = Mutex::new(taken);
        (Self { mail, taken }, seen)
    }
}

/// The controller's mail, reached from outside.
struct Shared(std::sync::Arc<FanOut>);

impl Controller for Shared {
    type Shard = ();
    type Load = ();

    fn process(
        &self,
        cx: &mut WorkerCx<'_>,
        shard: ShardId,
        (): &mut (),
        _: Option<&mut ()>,
    ) -> Progress {
        let mail = self.0.mail[shard.index()].swap(0, Ordering::AcqRel);
        if mail == 0 {
            return Progress::Idle;
        }
        if shard.0 == 0 {
            let others = (1..SHARDS).map(ShardId::from_index);
            for other in others.clone() {
                self.0.mail[other.index()].fetch_add(mail, Ordering::Release);
            }
            for other in others {
                cx.wake(other, 0);
            }
        } else {
            let taken = self.0.taken.lock().unwrap();
            taken.send(shard).expect("another thread listens");
        }
        Progress::Again
    }

    fn new_load(&self, _: ShardId) {}
}

#[test]
fn messages_from_outside_wake_sleepers_through_moves() {
    for wait in [WaitStrategy::Park, WaitStrategy::Adaptive] {
        let (fan_out, seen) = FanOut::new();
        let fan_out = std::sync::Arc::new(fan_out);
        let sharder = Sharder::builder(Shared(fan_out.clone()))
            .shards(vec![(); SHARDS])
            .workers(3)
            .wait(wait)
            .period(Duration::from_micros(200))
            .balancer(Rotate)
            .build()
            .expect("it builds");
        let handle = sharder.handle();
        let outside = std::thread::spawn(move || {
            for round in 0..ROUNDS {
                fan_out.mail[0].fetch_add(1, Ordering::Release);
                handle.wake(ShardId(0));
                if round % 8 == 0 {
                    handle.reshard();
                }
                let mut each = [false; SHARDS];
                for _ in 1..SHARDS {
                    let shard = seen.recv().expect("every message is taken");
                    assert!(!each[shard.index()], "once");
                    each[shard.index()] = true;
                }
            }
            handle.stop();
        });
        let outcome = sharder.run().expect("it runs");
        outside.join().expect("the outside finds nothing wrong");
        assert!(outcome.report.stats.moves >= 1, "shards moved meanwhile");
        assert_eq!(outcome.report.panics, []);
    }
}
