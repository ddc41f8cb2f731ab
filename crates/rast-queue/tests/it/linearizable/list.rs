//! `ListQueue`.

use super::{check_closing, check_long, check_small};
use rast_queue::list::ListQueue;

#[test]
fn small_programs() {
    check_small("ListQueue", ListQueue::new);
}

#[test]
fn long_programs() {
    check_long("ListQueue", 10, ListQueue::new);
}

#[test]
fn programs_that_close() {
    check_closing("ListQueue", 6, ListQueue::new);
}
