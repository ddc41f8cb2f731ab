//! The heap for many threads: what it promises, case by case, and random calls of several threads.
#![cfg(all(feature = "std", not(rast_loom)))]

use rast_alloc::boxed::Box;
use rast_alloc::primitive::Random;
use rast_alloc::vec::Vec as HeapVec;
use rast_alloc::{AllocError, Allocator, Layout, SharedHeap};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr::NonNull;
use std::sync::{Barrier, Mutex};

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn it_crosses_threads() {
    fn check<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    check::<SharedHeap>();
    check::<&SharedHeap>();
    static HEAP: SharedHeap = SharedHeap::bounded(100);
    assert_eq!(*Box::new_in(7, &HEAP), 7);
    assert_eq!(HEAP.bytes_max(), 100);
    assert_eq!(SharedHeap::default().bytes_max(), usize::MAX);
}

#[test]
fn every_size_and_alignment() {
    let heap = SharedHeap::new();
    let mut bytes = 0;
    for bits in 0..=22 {
        for size in [0, 1, 8, 64, 1000, 5000, 70_000, 600_000, 3 << 20] {
            let layout = layout(size, 1 << bits);
            let block = (&heap).allocate_zeroed(layout).unwrap();
            assert_eq!(block.cast::<u8>().addr().get() % layout.align(), 0);
            // SAFETY: the block is new, zeroed and as long as the slice says.
            assert!(unsafe { block.as_ref() }.iter().all(|byte| *byte == 0));
            // SAFETY: the block is this long.
            unsafe { block.cast::<u8>().write_bytes(3, size) };
            if size % 2 == 1 {
                bytes += size;
                continue;
            }
            // SAFETY: the block is this heap's and has this layout.
            unsafe { (&heap).deallocate(block.cast(), layout) };
        }
    }
    // Those of an odd size are out when the heap is dropped.
    assert_eq!(heap.stats().bytes_current, bytes);
    assert_eq!(heap.stats().live(), 23);
}

#[test]
fn blocks_grow_and_shrink() {
    let heap = SharedHeap::new();
    let mut vec = HeapVec::new_in(&heap);
    for n in 0..400_000_u64 {
        vec.push(n);
    }
    assert!(vec.iter().enumerate().all(|(at, n)| at as u64 == *n));
    assert!(heap.stats().reallocations > 10);
    vec.truncate(1000);
    vec.shrink_to_fit();
    assert_eq!(vec.iter().sum::<u64>(), 999 * 500);
    assert_eq!(heap.stats().bytes_current, 8000);
    drop(vec);
    assert_eq!(heap.stats().live(), 0);
    assert!(heap.stats().bytes_peak >= 8000);
    assert!(heap.purge() > 0);
}

#[test]
fn a_bound_refuses_and_changes_nothing() {
    let heap = SharedHeap::bounded(1 << 20);
    let one = (&heap).allocate(layout(1 << 19, 8)).unwrap().cast::<u8>();
    let before = heap.stats();
    assert!(matches!(
        (&heap).allocate(layout((1 << 19) + 1, 8)),
        Err(AllocError)
    ));
    let more = layout((1 << 20) + 1, 8);
    // SAFETY: the block is this heap's and has this layout; the new one is longer.
    assert!(unsafe { (&heap).grow(one, layout(1 << 19, 8), more) }.is_err());
    assert_eq!(heap.stats(), before);
    let whole = layout(1 << 20, 8);
    // SAFETY: as above.
    let one = unsafe { (&heap).grow(one, layout(1 << 19, 8), whole) }.unwrap();
    assert_eq!(heap.stats().bytes_peak, 1 << 20);
    // SAFETY: the block is this heap's and has this layout; the new one is shorter.
    let one = unsafe { (&heap).shrink(one.cast(), whole, layout(100, 8)) }.unwrap();
    assert!((&heap).allocate(layout((1 << 20) - 100, 8)).is_ok());
    // SAFETY: the block is this heap's and has this layout.
    unsafe { (&heap).deallocate(one.cast(), layout(100, 8)) };
    assert!((&heap).allocate(layout(100, 1)).is_ok());
    assert!((&heap).allocate(layout(1, 1)).is_err());
}

#[test]
fn a_refusal_of_the_system_changes_nothing() {
    let heap = SharedHeap::bounded(usize::MAX - 1);
    let small = layout(8, 8);
    let one = (&heap).allocate(small).unwrap().cast::<u8>();
    let before = heap.stats();
    let huge = layout(isize::MAX as usize - 4096, 8);
    assert!((&heap).allocate(huge).is_err());
    // SAFETY: the block is this heap's and has this layout; the new one is longer.
    assert!(unsafe { (&heap).grow(one, small, huge) }.is_err());
    assert_eq!(heap.stats(), before);
}

#[test]
fn threads_share_a_bound() {
    let heap = SharedHeap::bounded(1000 * 64);
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let blocks = (0..1000).filter(|_| (&heap).allocate(layout(64, 8)).is_ok());
                    blocks.count()
                })
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(taken, 1000, "neither more nor less than what fits");
    assert_eq!(heap.stats().bytes_current, 1000 * 64);
}

#[test]
fn figures_read_meanwhile_stay_under_the_bound() {
    let heap = SharedHeap::bounded(8 << 10);
    let is_over = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    if let Ok(block) = (&heap).allocate(layout(4 << 10, 8)) {
                        // SAFETY: the block is this heap's and has this layout.
                        unsafe { (&heap).deallocate(block.cast(), layout(4 << 10, 8)) };
                    }
                }
                is_over.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            });
        }
        while is_over.load(std::sync::atomic::Ordering::Relaxed) < 3 {
            let stats = heap.stats();
            assert!(stats.bytes_current <= stats.bytes_peak && stats.bytes_peak <= 8 << 10);
        }
    });
    assert_eq!(heap.stats().bytes_current, 0);
}

#[test]
fn containers_live_in_it() {
    let heap = SharedHeap::new();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let heap = &heap;
            scope.spawn(move || {
                let hasher = hashbrown::DefaultHashBuilder::default();
                let mut map = hashbrown::HashMap::with_hasher_in(hasher, heap);
                for n in 0..2000 {
                    map.insert(n, Box::new_in(n * thread, heap));
                }
                assert!((0..2000).all(|n| *map[&n] == n * thread));
            });
        }
    });
    assert_eq!(heap.stats().live(), 0);
    assert_eq!(heap.stats().bytes_current, 0);
    let reserved = heap.stats().bytes_reserved;
    heap.purge();
    assert!(heap.stats().bytes_reserved < reserved);
}

/// A block in use: its bytes are all the same.
struct Used {
    block: NonNull<u8>,
    layout: Layout,
    fill: u8,
}

// SAFETY: a block is no thread's.
unsafe impl Send for Used {}

impl Used {
    fn fill(&self) {
        // SAFETY: the block is in use and this long.
        unsafe { self.block.write_bytes(self.fill, self.layout.size()) };
    }

    fn check(&self, size: usize) {
        // SAFETY: the block is in use, this long, and written.
        let bytes = unsafe { std::slice::from_raw_parts(self.block.as_ptr(), size) };
        assert!(bytes.iter().all(|byte| *byte == self.fill), "kept");
    }
}

/// Threads take, fill, resize, swap and give back blocks of all sizes; what one takes another gives
/// back.
#[test]
fn random_calls_of_threads_keep_blocks_apart() {
    let heap = SharedHeap::new();
    let pool = Mutex::new(Vec::<Used>::new());
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (heap, pool, start) = (&heap, &pool, &start);
            scope.spawn(move || {
                let mut random = Random::new(0x9e37_79b9 * (thread + 1));
                start.wait();
                for turn in 0..4000 {
                    let fill = (turn % 251) as u8;
                    let bits = 1 + random.below(15);
                    let size = 1 + random.below(1 << bits);
                    let size = if turn % 50 == 0 { size << 8 } else { size };
                    match random.below(3) {
                        0 | 1 => {
                            let layout = layout(size, 1 << random.below(8));
                            let block = heap.allocate(layout).unwrap().cast();
                            let used = Used {
                                block,
                                layout,
                                fill,
                            };
                            used.fill();
                            pool.lock().unwrap().push(used);
                        }
                        _ => {
                            let other = {
                                let mut pool = pool.lock().unwrap();
                                let length = pool.len();
                                (length > 0).then(|| pool.swap_remove(random.below(length)))
                            };
                            let Some(mut used) = other else { continue };
                            used.check(used.layout.size());
                            if turn % 3 > 0 {
                                // SAFETY: the block is this heap's and has this layout.
                                unsafe { heap.deallocate(used.block, used.layout) };
                                continue;
                            }
                            let new = layout(size, used.layout.align());
                            let kept = size.min(used.layout.size());
                            let moved = if size > kept {
                                // SAFETY: as above, and the new layout is longer.
                                unsafe { heap.grow(used.block, used.layout, new) }
                            } else {
                                // SAFETY: as above, and the new layout is no longer.
                                unsafe { heap.shrink(used.block, used.layout, new) }
                            };
                            (used.block, used.layout) = (moved.unwrap().cast(), new);
                            used.check(kept);
                            used.fill = fill;
                            used.fill();
                            pool.lock().unwrap().push(used);
                        }
                    }
                }
            });
        }
    });
    let left = pool.into_inner().unwrap();
    assert_eq!(heap.stats().live(), left.len() as u64);
    let bytes: usize = left.iter().map(|used| used.layout.size()).sum();
    assert_eq!(heap.stats().bytes_current, bytes);
    for used in &left {
        used.check(used.layout.size());
        if used.layout.size() % 2 == 0 {
            // SAFETY: the block is this heap's and has this layout.
            unsafe { (&heap).deallocate(used.block, used.layout) };
        }
    }
    // The rest is out when the heap is dropped.
}

/// One thread takes, another gives back, and neither waits: the heap does not grow past what was in
/// use at once.
#[test]
fn what_others_free_is_used_again() {
    let heap = SharedHeap::new();
    let (send, receive) = std::sync::mpsc::sync_channel::<HeapVec<u8, &SharedHeap>>(64);
    std::thread::scope(|scope| {
        let consumer = scope.spawn(move || receive.into_iter().map(|one| one.len()).sum::<usize>());
        for _ in 0..20_000 {
            let mut one = HeapVec::with_capacity_in(1000, &heap);
            one.push(1);
            send.send(one).unwrap();
        }
        drop(send);
        assert_eq!(consumer.join().unwrap(), 20_000);
    });
    let stats = heap.stats();
    assert_eq!((stats.live(), stats.allocations), (0, 20_000));
    assert!(stats.bytes_reserved <= 16 << 20, "{stats}");
}
