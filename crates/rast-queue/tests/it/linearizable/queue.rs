//! `Queue`.

use crate::history::program::{Size, check_for};
use rast_queue::Queue;
use std::time::Duration;

/// Small programs, which the exhaustive search takes as well; in the smallest segments.
#[test]
fn small_programs() {
    let size = Size {
        threads: 3,
        steps: 8,
        batch: 3,
        closes: true,
    };
    check_for(Duration::from_millis(1_500), "Queue", size, || {
        Queue::with_segment_slots(2)
    });
}

/// Long programs over the borders of segments.
#[test]
fn long_programs() {
    let size = Size {
        threads: 4,
        steps: 2_000,
        batch: 40,
        closes: false,
    };
    check_for(Duration::from_millis(1_500), "Queue", size, || {
        Queue::with_segment_slots(32)
    });
}

/// Middling ones, in which the close comes anywhere.
#[test]
fn programs_that_close() {
    let size = Size {
        threads: 4,
        steps: 60,
        batch: 20,
        closes: true,
    };
    check_for(Duration::from_millis(1_500), "Queue", size, || {
        Queue::with_segment_slots(4)
    });
}
