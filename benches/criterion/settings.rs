//! The settings of every criterion bench.
//!
//! The times are short, so that all benches together take about a minute.
//! An option on the command line, such as `--measurement-time 5`, overrides them.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion};

/// Measures the benches of one layer, which `add` adds to the layer's group.
pub(crate) fn run(layer: &str, add: impl FnOnce(&mut BenchmarkGroup<'_, WallTime>)) {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(50)
        // Ten times fewer than the default: the analysis would take longer than the measurement.
        .nresamples(10_000)
        // A smaller change is not reported, because a shared machine varies by as much.
        .noise_threshold(0.05)
        .configure_from_args();
    let mut group = criterion.benchmark_group(layer);
    add(&mut group);
    group.finish();
    criterion.final_summary();
}
