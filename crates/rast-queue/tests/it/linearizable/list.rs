//! `ListQueue`.

use crate::history::program::{Size, check_for};
use rast_queue::list::ListQueue;
use std::time::Duration;

const TIME: Duration = Duration::from_millis(1_500);

/// Small programs, which the exhaustive search takes as well.
#[test]
fn small_programs() {
    let size = Size {
        threads: 3,
        steps: 8,
        batch: 3,
        closes: true,
    };
    check_for(TIME, "ListQueue", size, ListQueue::new);
}

/// Long programs.
#[test]
fn long_programs() {
    let size = Size {
        threads: 4,
        steps: 2_000,
        batch: 10,
        closes: false,
    };
    check_for(TIME, "ListQueue", size, ListQueue::new);
}

/// Middling ones, in which the close comes anywhere.
#[test]
fn programs_that_close() {
    let size = Size {
        threads: 4,
        steps: 60,
        batch: 6,
        closes: true,
    };
    check_for(TIME, "ListQueue", size, ListQueue::new);
}
