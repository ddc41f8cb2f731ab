//! Counts allocations: none in the steady state, whatever the mode.
#![cfg(all(feature = "std", not(any(rast_loom, rast_shuttle, rast_global_alloc))))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rast_conflate::{
    Bar, Conflator, InPlace, Marks, Merged, Mode, Newest, Pace, Sequenced, Sum, timers::Nanos,
};

/// The system's allocator, and how often this thread asked it.
struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    // A thread that ends has no count any more.
    let _ = COUNT.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: the memory is the system allocator's, handed through unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn steady<M: Mode<V>, V: Copy + Send + 'static>(value: V, marks: Marks, pace: Pace) -> u64 {
    let conflator = Conflator::<u32, V>::builder()
        .mode::<M>()
        .marks(marks)
        .keys(700)
        .pace(pace)
        .key_figures()
        .build();
    let mut producer = conflator.producer();
    let handles: Vec<_> = (0..700)
        .map(|key| conflator.handle(&key).unwrap())
        .collect();
    let mut consumer = conflator.consumer().unwrap();
    let mut round = || {
        for _ in 0..2 {
            for handle in &handles {
                producer.put(handle, value).unwrap();
            }
        }
        consumer.pass(|_, _| {}).handled
    };
    // Warm: what a pace defers grows a store to its size.
    for _ in 0..20 {
        round();
    }
    let before = COUNT.get();
    for _ in 0..100 {
        round();
    }
    COUNT.get() - before
}

#[test]
fn the_steady_state_allocates_nothing() {
    for marks in [Marks::Tree, Marks::Flat] {
        let none = Pace::NONE;
        assert_eq!(steady::<Newest, [u64; 3]>([1; 3], marks, none), 0);
        assert_eq!(steady::<InPlace, u32>(1, marks, none), 0);
        assert_eq!(steady::<Sequenced, [u64; 3]>([1; 3], marks, none), 0);
        assert_eq!(steady::<Sum, u64>(1, marks, none), 0);
        assert_eq!(steady::<Merged, Bar<u32>>(Bar::of(1), marks, none), 0);
    }
    let cooldown = Pace::cooldown(Nanos::from_micros(50));
    assert_eq!(steady::<Newest, [u64; 3]>([1; 3], Marks::Tree, cooldown), 0);
}
