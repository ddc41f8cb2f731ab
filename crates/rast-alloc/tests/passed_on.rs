//! Blocks that threads pass to each other, which resize them, keep what they hold, and the figures
//! stay exact.
#![cfg(all(
    feature = "std",
    not(any(rast_loom, rast_shuttle, rast_global_alloc, miri))
))]

use rast_alloc::primitive::Random;
use rast_alloc::{Layout, RastAlloc};
use std::alloc::GlobalAlloc;
use std::sync::mpsc;
use std::thread;

struct Block {
    start: *mut u8,
    size: usize,
    byte: u8,
}

// SAFETY: the block is its holder's alone, and any thread may give it back.
unsafe impl Send for Block {}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

/// A size between 1 and 4 MiB, the short ones more often.
fn size(random: &mut Random) -> usize {
    let most = 1 << (1 + random.below(22));
    1 + random.below(most)
}

fn check(block: &Block) {
    for at in [0, block.size / 2, block.size - 1] {
        // SAFETY: `at` lies in the block.
        let place = unsafe { block.start.add(at) };
        // SAFETY: as above, and the block was filled.
        let byte = unsafe { place.read() };
        assert_eq!(byte, block.byte);
    }
}

fn fill(block: &Block) {
    // SAFETY: the block is this long.
    unsafe { block.start.write_bytes(block.byte, block.size) };
}

#[test]
fn blocks_keep_what_they_hold_on_their_way() {
    let alloc = RastAlloc;
    let before = RastAlloc::stats().bytes_current;
    let (to, from): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<Block>()).unzip();
    thread::scope(|scope| {
        for (thread, from) in from.into_iter().enumerate() {
            let to = to[(thread + 1) % 3].clone();
            scope.spawn(move || {
                let seed = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread as u64 + 1);
                let mut random = Random::new(seed);
                for step in 0..6_000 {
                    let mut block = match from.try_recv() {
                        Ok(block) => block,
                        Err(_) => {
                            let size = size(&mut random);
                            // SAFETY: the size is not zero.
                            let start = unsafe { alloc.alloc(layout(size)) };
                            assert!(!start.is_null());
                            let block = Block {
                                start,
                                size,
                                byte: step as u8,
                            };
                            fill(&block);
                            block
                        }
                    };
                    check(&block);
                    let new = match random.below(3) {
                        0 => (block.size + random.below(9)).max(5) - 4,
                        1 => block.size / 2 + 1,
                        _ => size(&mut random),
                    };
                    // SAFETY: the block is this thread's, with this layout, and the new size is not
                    // zero.
                    let start = unsafe { alloc.realloc(block.start, layout(block.size), new) };
                    assert!(!start.is_null());
                    let kept = Block {
                        start,
                        size: block.size.min(new),
                        ..block
                    };
                    check(&kept);
                    block = Block { size: new, ..kept };
                    fill(&block);
                    if random.below(4) == 0 {
                        // SAFETY: as above, and it is not used again.
                        unsafe { alloc.dealloc(block.start, layout(block.size)) };
                    } else if let Err(left) = to.send(block) {
                        // SAFETY: as above.
                        unsafe { alloc.dealloc(left.0.start, layout(left.0.size)) };
                    }
                }
                // Until all others have ended.
                drop(to);
                while let Ok(block) = from.recv() {
                    check(&block);
                    // SAFETY: as above.
                    unsafe { alloc.dealloc(block.start, layout(block.size)) };
                }
            });
        }
        drop(to);
    });
    assert_eq!(RastAlloc::stats().bytes_current, before);
}
