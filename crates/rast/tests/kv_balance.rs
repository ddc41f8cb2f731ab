//! `kv` moves partitions between its workers while clients run, and rests when
//! there is nothing to gain.
#![cfg(all(
    feature = "alloc",
    feature = "queue",
    feature = "timers",
    feature = "sharder",
    feature = "msgpass",
    not(rast_loom)
))]

#[path = "../examples/kv/encode.rs"]
#[allow(dead_code)]
mod encode;
mod kv_support;
#[path = "../examples/kv/load.rs"]
#[allow(dead_code)]
mod load;
#[path = "../examples/kv/route.rs"]
#[allow(dead_code)]
mod route;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kv_support::{Kv, until};
use load::{Board, Choice};
use route::Router;

/// One test at a time: they share the machine's cores, and they test how busy the cores are.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Epochs count if they have this number of replies on average. On a machine that starves the
/// clients, epochs pass in which the balancer sees no load.
const LOADED: u64 = 500;
/// Within so many epochs that count, partitions have to move.
const MOST: u64 = 2000;

/// Runs clients that check every reply while `watch` runs.
fn with_load(kv: &Kv, uniform: bool, watch: impl FnOnce(&Board)) {
    let board = Arc::new(Board::default());
    board.uniform.store(uniform, Ordering::Relaxed);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|number| {
                let board = Arc::clone(&board);
                let address = kv.address;
                scope.spawn(move || {
                    load::client(number, address, &Choice::zipf(1.1), &board, Router::new())
                })
            })
            .collect();
        let watched = catch_unwind(AssertUnwindSafe(|| watch(&board)));
        board.stop.store(true, Ordering::Relaxed);
        if let Err(payload) = watched {
            // The scope joins the clients.
            resume_unwind(payload);
        }
        for client in clients {
            let replies = client.join().expect("a client ends");
            assert!(replies.expect("one right reply for each request, in order") > 0);
        }
    });
}

/// They wait until the balancer has seen enough load, which is long on a busy machine.
mod long {
    use super::*;

    #[test]
    fn a_skewed_load_moves_partitions_while_clients_run() {
        let _alone = alone();
        let kv = Kv::start(&["--workers", "2", "--reshard-ms", "50"]);
        with_load(&kv, false, |board| {
            // The epochs under load before the latest shift, and what had come until then.
            let (mut before, mut epochs, mut replied, mut stays) = (0, 0, 0, 10);
            while kv.figure("partitions_moved") < 3 {
                let (epoch, replies) = (kv.figure("epoch"), board.latencies.lock().count());
                let loaded = (epoch - epochs).min((replies - replied) / LOADED);
                assert!(before + loaded < MOST, "partitions do not move");
                // After some epochs other keys are the hot ones. They stay hot for longer each
                // time, because a decision needs more epochs if each sees few requests.
                if loaded >= stays {
                    (before, epochs, replied) = (before + loaded, epoch, replies);
                    stays *= 2;
                    board.shift.fetch_add(1237, Ordering::Relaxed);
                }
                std::thread::yield_now();
            }
        });
    }

    #[test]
    fn moves_stop_under_a_uniform_load() {
        let _alone = alone();
        let kv = Kv::start(&["--workers", "2", "--reshard-ms", "50"]);
        with_load(&kv, true, |_| {
            let mut moved = u64::MAX;
            let mut since = 0;
            until("ten epochs pass without a move", || {
                let (now, epoch) = (kv.figure("partitions_moved"), kv.figure("epoch"));
                if now != moved {
                    (moved, since) = (now, epoch);
                }
                epoch >= since + 10
            });
        });
    }
}

#[test]
fn the_demonstration_checks_itself() {
    let _alone = alone();
    let mut demo = kv_support::command(&[
        "--demo",
        "--seconds",
        "2",
        "--clients",
        "8",
        "--reshard-ms",
        "50",
    ]);
    let output = demo.output().expect("kv runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}{error}");
    for words in [
        "req/s",
        "p99.9",
        "each with one reply, in order and right",
        "moved",
    ] {
        assert!(printed.contains(words), "{words} is missing:\n{printed}");
    }
    assert!(
        !printed.contains('\x1b'),
        "there is no terminal:\n{printed}"
    );
}

#[test]
fn the_demonstration_fails_where_nothing_moves() {
    let _alone = alone();
    // The first decision is due long after the end.
    let still = "--demo --seconds 1 --clients 2 --workers 2 --reshard-ms 60000";
    let still: Vec<&str> = still.split(' ').collect();
    let output = kv_support::command(&still).output().expect("kv runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{error}");
    assert!(error.contains("no partition moved"), "{error}");
}
