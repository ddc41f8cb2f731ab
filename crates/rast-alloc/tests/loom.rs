//! The counters, which have no protocol beyond the order that each word has by itself.
//!
//! Under `--cfg rast_loom` each scenario runs in every interleaving; otherwise as a stress on real threads.
#![cfg(feature = "std")]

use rast_alloc::Counters;
use rast_alloc::primitive::model::model;
use rast_alloc::primitive::sync::Arc;
use rast_alloc::primitive::thread;

/// Two threads take and give back: the sums come out, and the peak is one that was reached.
#[test]
fn stats_sum_and_peak() {
    model(|| {
        let counters = Arc::new(Counters::new());
        let theirs = Arc::clone(&counters);
        let other = thread::spawn(move || {
            theirs.count_allocation(10);
            theirs.count_free(10);
        });
        counters.count_allocation(3);
        counters.count_reallocation(3, 5);
        other.join().unwrap();
        let stats = counters.read();
        assert_eq!(stats.bytes_current, 5);
        assert_eq!(
            (stats.allocations, stats.frees, stats.reallocations),
            (2, 1, 1)
        );
        assert!([10, 13, 15].contains(&stats.bytes_peak), "{stats}");
    });
}

/// A block that one thread takes and the other gives back never makes the bytes in use wrap below zero.
#[test]
fn stats_cross_thread_free() {
    model(|| {
        let counters = Arc::new(Counters::new());
        counters.count_allocation(7);
        let theirs = Arc::clone(&counters);
        let other = thread::spawn(move || theirs.count_free(7));
        assert!([0, 7].contains(&counters.read().bytes_current));
        other.join().unwrap();
        let stats = counters.read();
        assert_eq!(
            (stats.bytes_current, stats.bytes_peak, stats.live()),
            (0, 7, 0)
        );
    });
}

/// Readings beside an allocation never show more bytes in use than the peak, nor a peak that sinks.
#[test]
fn stats_peak_never_sinks() {
    model(|| {
        let counters = Arc::new(Counters::new());
        let theirs = Arc::clone(&counters);
        let other = thread::spawn(move || {
            theirs.count_allocation(7);
            theirs.count_free(7);
        });
        let first = counters.read();
        assert!(first.bytes_peak >= first.bytes_current, "{first}");
        let second = counters.read();
        assert!(second.bytes_peak >= first.bytes_peak, "{first} / {second}");
        other.join().unwrap();
        assert_eq!(counters.read().bytes_peak, 7);
    });
}
