//! An allocator whose `deallocate` panics: the process aborts, because an unfinished operation
//! would lose items.

use rast_queue::alloc::{AllocError, Allocator, Global, Layout};
use rast_queue::list::ListQueue;
use rast_queue::{Queue, mpsc, spmc, spsc};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::ptr::NonNull;

/// Panics where memory is given back.
#[derive(Clone, Copy)]
struct Keeps;

// SAFETY: the memory is the global allocator's; none is freed.
unsafe impl Allocator for Keeps {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, _: NonNull<u8>, _: Layout) {
        panic!("nothing is freed");
    }
}

/// Makes each kind free memory in the middle of an operation; a panic that came out would be
/// caught.
fn free(kind: &str) {
    const ITEMS: u32 = 10_000;
    let run: Box<dyn FnOnce()> = match kind {
        "queue" => Box::new(|| {
            let queue = Queue::with_segment_slots_in(4, Keeps);
            (0..ITEMS).for_each(|n| queue.push(n).unwrap());
            (0..ITEMS).for_each(|n| assert_eq!(queue.pop(), Some(n)));
        }),
        "list" => Box::new(|| {
            let queue = ListQueue::new_in(Keeps);
            (0..ITEMS).for_each(|n| queue.push(n).unwrap());
            (0..ITEMS).for_each(|n| assert_eq!(queue.pop(), Some(n)));
        }),
        "mpsc" => Box::new(|| {
            let (mut producer, mut consumer) = mpsc::queue_in(Keeps);
            // More blocks than are kept as spares.
            producer.push_batch((0..ITEMS).map(|n| [n; 256])).unwrap();
            (0..ITEMS).for_each(|n| assert_eq!(consumer.pop(), Some([n; 256])));
        }),
        "spmc" => Box::new(|| {
            let (mut producer, mut consumer) = spmc::with_block_slots_in(4, Keeps);
            (0..ITEMS).for_each(|n| producer.push(n));
            (0..ITEMS).for_each(|n| assert_eq!(consumer.pop(), Some(n)));
        }),
        "segmented" => Box::new(|| {
            let (mut producer, mut consumer) = spsc::segmented::queue_in(4, Keeps);
            (0..ITEMS).for_each(|n| producer.push(n).unwrap());
            (0..ITEMS).for_each(|n| assert_eq!(consumer.pop(), Some(n)));
        }),
        "ring" => Box::new(|| drop(spsc::ring_in::<u8, _>(4, Keeps))),
        _ => unreachable!("no such kind"),
    };
    let _ = catch_unwind(AssertUnwindSafe(run));
}

#[cfg_attr(miri, expect(dead_code, reason = "needs processes"))]
#[cfg_attr(not(miri), test)]
fn a_deallocate_that_panics_ends_the_program() {
    const CHILD: &str = "RAST_QUEUE_DEALLOC_PANIC";
    if let Ok(kind) = env::var(CHILD) {
        return free(&kind);
    }
    for kind in ["queue", "list", "mpsc", "spmc", "segmented", "ring"] {
        let child = Command::new(env::current_exe().expect("this program has a path"))
            .args(["a_deallocate_that_panics_ends_the_program", "--nocapture"])
            .env(CHILD, kind)
            .output()
            .expect("it starts again");
        let text = String::from_utf8_lossy(&child.stderr);
        assert!(
            text.contains("the allocator's deallocate panicked"),
            "{kind}: {text}"
        );
        assert!(!child.status.success(), "{kind}");
    }
}
