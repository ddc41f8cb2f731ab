//! The child of a fork has one thread. To `Queue` the other threads of the parent are suspended for
//! ever, at any step.
#![cfg(all(
    any(target_os = "linux", target_os = "android"),
    feature = "std",
    not(any(rast_loom, rast_shuttle, rast_stall, miri))
))]

use rast_queue::Queue;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const PRODUCERS: u64 = 2;
const FORKS: usize = 100;

/// What the child does with what it was left; true if all is well.
fn goes_on(queue: &Queue<u64>) -> bool {
    let mut last = [0; PRODUCERS as usize];
    let mut is_in_order = |item: u64| {
        let last = &mut last[(item >> 32) as usize];
        let is_later = item > *last;
        *last = item;
        is_later
    };
    if !queue.drain().all(&mut is_in_order) {
        return false;
    }
    let first = PRODUCERS << 32;
    let own = first..first + 1000;
    if !own.clone().all(|n| queue.push(n).is_ok()) {
        return false;
    }
    // A producer of the parent, stopped after it has linked a segment with its item inside, has its
    // push ended by the first one here.
    let (back, ended): (Vec<_>, Vec<_>) = queue.drain().partition(|item| own.contains(item));
    // A consumer of the parent, stopped inside, may have claimed up to three tickets that no thread
    // had pushed to.
    let is_ordered = back.is_sorted_by(|one, next| one < next);
    is_ordered
        && ended.len() <= PRODUCERS as usize
        && back.len() >= 1000 - 3 * PRODUCERS as usize
        && queue.pop().is_none()
}

/// Ends the threads of a scope also as a panic goes past.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn forked(body: impl FnOnce() -> bool) {
    // SAFETY: the child uses the queue and the allocator of the system, which withstands a fork,
    // and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: the child ends by a signal if it does not come to its end.
        unsafe { libc::alarm(20) };
        let is_well = body();
        // SAFETY: it ends without what its parent does at the end.
        unsafe { libc::_exit(libc::c_int::from(!is_well)) };
    }
    assert!(child > 0, "fork");
    let mut status = 0;
    // SAFETY: the child is this thread's to wait for, and the status a local.
    let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
    assert_eq!((ended, status), (child, 0), "what the child found");
}

#[test]
fn a_child_goes_on_whatever_others_did_at_the_fork() {
    for slots in [2, 64, 1024] {
        let queue = &Queue::with_segment_slots(slots);
        let ends = &AtomicBool::new(false);
        thread::scope(|scope| {
            for id in 0..PRODUCERS {
                scope.spawn(move || {
                    let mut next = id << 32;
                    while !ends.load(Ordering::Relaxed) {
                        next += 1;
                        queue.push(next).unwrap();
                        if next % 64 == 0 && queue.len() > 5_000 {
                            thread::yield_now();
                        }
                    }
                });
                scope.spawn(move || {
                    while !ends.load(Ordering::Relaxed) {
                        queue.pop();
                        queue.pop_batch(3, drop);
                    }
                });
            }
            let _ends = Ends(ends);
            for _ in 0..FORKS {
                forked(|| goes_on(queue));
            }
        });
    }
}
