//! Everything is attacked at once, under 1,000 seeds: see `support/storm.rs`.

use std::sync::Arc;

use rast_msgpass::testing::for_each_seed;

use crate::storm::{Front, Ledger, Out, Put, Sink, retired, storm};

#[test]
fn each_message_has_one_fate_and_each_death_is_told_once_wherever_instances_move() {
    let (mut moves, mut deaths, mut returned, mut dropped) = (0, 0, 0, 0);
    for_each_seed(0..1_000, |seed| {
        let ledger = Arc::new(Ledger::default());
        let parts = 1 + seed as usize % 5;
        let one_in = [8, 32, 128][seed as usize % 3];
        let builder = storm(&ledger, parts, one_in).workers(1 + seed as usize % 4);
        let mut app = builder.test(seed).unwrap();
        let out = app.collect::<Sink, Out>(0);
        for thread in 0..2 {
            let (made, mut number) = (Arc::clone(&ledger), 0);
            let puts = (0..40).map(move |key| {
                (
                    2 * key + thread as u64,
                    Put(made.mark(0, thread, &mut number)),
                )
            });
            app.feed_by_key::<Front, Put>(puts);
        }
        // On several workers instances move at each of these.
        for _ in 0..60 {
            app.steps(8);
            app.handle().reshard();
        }
        app.run_until_idle();
        assert!(ledger.has_told(&app.handle().report()), "seed {seed}");
        let report = match seed % 2 {
            0 => app.stop(),
            _ => app.drain().unwrap_or_else(|error| *error.report),
        };
        out.take().iter().for_each(|out| ledger.end(7, &out.0));
        ledger.check(&report, &format!("seed {seed}"));
        moves += report.metrics.moves;
        deaths += retired(&report).len();
        returned += ledger.returned();
        dropped += report
            .metrics
            .edges
            .iter()
            .map(|edge| edge.dropped)
            .sum::<u64>();
    });
    let seen = [moves, deaths as u64, returned, dropped];
    assert!(seen.iter().all(|&count| count > 1_000), "{seen:?}");
}
