//! rast-queue: each queue in one thread, one item at a time and in batches.
//!
//! One thread shows the cost of the code without the cost of moving cache lines between processors.
//! `rast-benches queue` measures two threads and more.

mod settings;

use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Throughput};
use rast::queue::{Queue, mpsc, spmc, spsc};

fn main() {
    settings::run("queue", |group| {
        single(group);
        batches(group);
    });
}

/// Pushes one item and pops it.
fn single(group: &mut BenchmarkGroup<'_, WallTime>) {
    let queue = Queue::new();
    group.bench_function("mpmc_push_pop", |bencher| {
        bencher.iter(|| {
            assert!(queue.push(black_box(1_u64)).is_ok());
            queue.pop()
        });
    });
    let (mut producer, mut consumer) = spsc::ring(1024);
    group.bench_function("spsc_push_pop", |bencher| {
        bencher.iter(|| {
            assert!(producer.push(black_box(1_u64)).is_ok());
            consumer.pop()
        });
    });
    let (mut producer, mut consumer) = spmc::queue();
    group.bench_function("spmc_push_pop", |bencher| {
        bencher.iter(|| {
            producer.push(black_box(1_u64));
            consumer.pop()
        });
    });
}

/// Pushes a batch and takes it out by one call.
fn batches(group: &mut BenchmarkGroup<'_, WallTime>) {
    group.throughput(Throughput::Elements(32));
    let queue = Queue::new();
    group.bench_function("mpmc_batch_32", |bencher| {
        bencher.iter(|| {
            for number in 0..32_u64 {
                assert!(queue.push(black_box(number)).is_ok());
            }
            let mut sum = 0;
            queue.pop_batch(32, |number| sum += number);
            sum
        });
    });
    let (mut producer, mut consumer) = mpsc::queue();
    group.bench_function("mpsc_take_all_32", |bencher| {
        bencher.iter(|| {
            for number in 0..32_u64 {
                assert!(producer.push(black_box(number)).is_ok());
            }
            consumer.take_all().sum::<u64>()
        });
    });
    group.throughput(Throughput::Elements(64));
    let (mut producer, mut consumer) = spsc::ring(1024);
    group.bench_function("spsc_batch_64", |bencher| {
        bencher.iter(|| {
            producer.write_chunk(64).fill((0..64_u64).map(black_box));
            let mut sum = 0;
            consumer.pop_batch(64, |number| sum += number);
            sum
        });
    });
}
