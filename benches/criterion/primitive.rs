//! rast-primitive: a claim by a tagged pointer, parking, notification, and a snapshot.

mod settings;

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::BenchmarkGroup;
use criterion::measurement::WallTime;
use rast::primitive::{AtomicTaggedPtr, EventCount, Parker, Snapshot, TaggedPtr};

fn main() {
    settings::run("primitive", |group| {
        tagged_pointer(group);
        parker(group);
        event_count(group);
        snapshot(group);
    });
}

/// A claim by compare-and-exchange, and one by an addition to the count.
fn tagged_pointer(group: &mut BenchmarkGroup<'_, WallTime>) {
    let mut target = 7_u64;
    let pointer = AtomicTaggedPtr::new(TaggedPtr::new(&raw mut target, 0));
    group.bench_function("tagged_ptr_claim", |bencher| {
        bencher.iter(|| {
            let mut seen = pointer.load(Ordering::Relaxed);
            loop {
                let claimed = seen.with_count(seen.count() + 1);
                match pointer.compare_exchange_weak(
                    seen,
                    claimed,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                ) {
                    Ok(before) => break before.count(),
                    Err(now) => seen = now,
                }
            }
        });
    });
    group.bench_function("tagged_ptr_add_count", |bencher| {
        bencher.iter(|| pointer.fetch_add_count(1, Ordering::AcqRel).count());
    });
}

/// The thread unparks itself, so `park` finds the token and does not sleep.
fn parker(group: &mut BenchmarkGroup<'_, WallTime>) {
    let parker = Parker::new();
    let unparker = parker.unparker();
    group.bench_function("parker_token", |bencher| {
        bencher.iter(|| {
            unparker.unpark();
            parker.park();
        });
    });
}

/// Publishes a value and notifies; no thread waits.
fn event_count(group: &mut BenchmarkGroup<'_, WallTime>) {
    let (value, event) = (AtomicU64::new(0), EventCount::new());
    group.bench_function("event_count_notify", |bencher| {
        bencher.iter(|| {
            value.store(black_box(1), Ordering::Release);
            event.notify_one();
        });
    });
    group.bench_function("event_count_prepare_cancel", |bencher| {
        bencher.iter(|| event.cancel(event.prepare()));
    });
}

fn snapshot(group: &mut BenchmarkGroup<'_, WallTime>) {
    let snapshot = Snapshot::new([1_u64; 8]);
    group.bench_function("snapshot_load", |bencher| {
        bencher.iter(|| snapshot.load()[3]);
    });
}
