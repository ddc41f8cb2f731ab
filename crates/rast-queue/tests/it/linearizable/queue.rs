//! `Queue`.

use super::{check_closing, check_long, check_small};
use rast_queue::Queue;

/// In the smallest segments.
#[test]
fn small_programs() {
    check_small("Queue", || Queue::with_segment_slots(2));
}

/// Over the borders of segments.
#[test]
fn long_programs() {
    check_long("Queue", 40, || Queue::with_segment_slots(32));
}

#[test]
fn programs_that_close() {
    check_closing("Queue", 20, || Queue::with_segment_slots(4));
}
