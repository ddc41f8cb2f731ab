//! Everything is attacked at once, on threads, with 1,000 replicas: see `support/storm.rs`.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rast_msgpass::primitive::Random;

use crate::storm::{Front, Ledger, Out, Put, Sink, retired, storm};

const PARTS: usize = if cfg!(miri) { 20 } else { 1_000 };
const PUTS: u64 = if cfg!(miri) { 50 } else { 4_000 };
const ATTACKS: u64 = if cfg!(miri) { 1 } else { 6 };

/// Returns how many instances moved, retired, and got messages back.
fn attack(seed: u64) -> [u64; 3] {
    let ledger = Arc::new(Ledger::default());
    let app = storm(&ledger, PARTS, 50)
        .workers(1 + seed as usize % 4)
        .period(Duration::from_micros(500))
        .start()
        .unwrap();
    let outs = app.egress::<Sink, Out>(0).share();
    let into = app.ingress::<Front, Put>();
    let stopper = app.stopper();
    let ends_early = seed % 3 == 2;
    let report = thread::scope(|scope| {
        for _ in 0..2 {
            let (outs, ledger) = (outs.clone(), &ledger);
            scope.spawn(move || {
                while let Ok(out) = outs.recv() {
                    ledger.end(7, &out.0);
                }
            });
        }
        let senders = [0, 1].map(|sender| {
            let (into, ledger) = (&into, &ledger);
            scope.spawn(move || {
                let (mut number, mut random) = (0, Random::new(seed ^ sender as u64));
                for _ in 0..PUTS {
                    let put = Put(ledger.mark(0, sender, &mut number));
                    if let Err(closed) = into.key(random.draw()).send(put) {
                        ledger.end(0, &closed.into_inner().0);
                    }
                }
            })
        });
        if ends_early {
            // At some moment: after so many of the messages.
            let moment = Random::new(seed).draw() % (2 * PUTS);
            while app.metrics().edges[0].received < moment {
                app.reshard();
                thread::yield_now();
            }
            stopper.stop();
        }
        for sender in senders {
            sender.join().expect("senders do not panic");
        }
        if ends_early {
            return app.wait();
        }
        // Then nothing is under way, and each death was told.
        let metrics = || app.metrics().edges;
        while metrics().iter().any(|edge| edge.depth > 0) || !ledger.has_told(&app.report()) {
            app.reshard();
            thread::yield_now();
        }
        app.drain(crate::LONG).unwrap_or_else(|error| *error.report)
    });
    match ends_early {
        true => ledger.check_fates(&report, &format!("seed {seed}")),
        false => ledger.check(&report, &format!("seed {seed}")),
    }
    let deaths = retired(&report).len() as u64;
    [report.metrics.moves, deaths, ledger.returned()]
}

#[test]
fn a_thousand_replicas_that_move_and_die_lose_nothing() {
    let mut seen = [0; 3];
    for seed in 0..ATTACKS {
        println!("seed {seed}");
        let all = attack(seed);
        seen = core::array::from_fn(|at| seen[at] + all[at]);
    }
    assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
}
