//! Counts allocations: none in the steady state, whatever the mode.
#![cfg(not(any(rast_loom, rast_shuttle, rast_global_alloc)))]

use rast_conflate::primitive::CountingAlloc;
use rast_conflate::{
    Bar, Conflator, InPlace, Marks, Merged, Mode, Newest, Pace, Sequenced, Sum, timers::Nanos,
};

#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

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
    let before = CountingAlloc::calls_of_thread();
    for _ in 0..100 {
        round();
    }
    CountingAlloc::calls_of_thread() - before
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
