//! Detected misuse: a child process does it, and must abort with a message that reports it.
//!
//! With the feature `hardened` everything below is reported; in a plain build with debug
//! assertions, wrong layouts are.
#![cfg(all(
    unix,
    feature = "std",
    any(debug_assertions, feature = "hardened"),
    not(rast_loom)
))]

use rast_alloc::{Allocator, Layout, RastAlloc};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::ptr::NonNull;

/// A block that may be sent to another thread.
#[derive(Clone, Copy)]
struct Sent(NonNull<u8>);

// SAFETY: a block is no thread's.
unsafe impl Send for Sent {}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(size, 8).unwrap()
}

fn take(size: usize) -> NonNull<u8> {
    RastAlloc.allocate(layout(size)).unwrap().cast()
}

/// Frees a block, which may be misuse.
fn give(block: NonNull<u8>, size: usize) {
    // SAFETY: none where a test misuses the allocator, which has to see it.
    unsafe { RastAlloc.deallocate(block, layout(size)) };
}

/// Runs `misuse` in a child process, the test of this name there, which must end with this text.
fn ends(test: &str, text: &str, misuse: impl FnOnce()) {
    ends_with(test, text, &[], misuse);
}

/// As [`ends`], with a further environment variable for the child.
fn ends_with(test: &str, text: &str, told: &[(&str, bool)], misuse: impl FnOnce()) {
    const CHILD: &str = "RAST_ALLOC_MISUSE";
    if std::env::var_os(CHILD).is_some() {
        misuse();
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .envs(told.iter().map(|(name, value)| (name, value.to_string())))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{told}");
    assert!(
        told.contains("rast-alloc: ") && told.contains(text),
        "{told}"
    );
}

#[test]
fn a_layout_of_another_class() {
    let text = if cfg!(feature = "hardened") {
        "freed with a layout of 160 bytes (160-byte class), but allocated as 64-byte class"
    } else {
        "freed with a layout of the 160-byte class, but not allocated as one"
    };
    ends("a_layout_of_another_class", text, || give(take(64), 160));
}

#[test]
fn a_layout_of_another_class_on_another_thread() {
    let text = "freed with a layout of ";
    ends("a_layout_of_another_class_on_another_thread", text, || {
        let block = Sent(take(64));
        let free = move || {
            let Sent(block) = { block };
            give(block, 160);
        };
        std::thread::spawn(free).join().unwrap();
    });
}

#[test]
fn a_layout_of_a_shorter_span() {
    let text = "freed with a layout of 400000 bytes";
    ends("a_layout_of_a_shorter_span", text, || {
        give(take(500_000), 400_000);
    });
}

#[cfg(feature = "hardened")]
mod hardened {
    use super::*;
    use rast_alloc::Heap;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};

    /// Changes a byte, also if that is misuse. It may have any value before, as part of a checksum.
    fn write(block: NonNull<u8>, at: usize) {
        let byte = block.as_ptr().wrapping_add(at);
        // SAFETY: none where a test misuses the allocator; the place is mapped, or the test wants
        // the fault.
        let old = unsafe { byte.read_volatile() };
        // SAFETY: as above.
        unsafe { byte.write_volatile(!old) };
    }

    /// Frees on a thread that then ends, so that what it freed is delivered.
    fn give_elsewhere(block: NonNull<u8>, size: usize) {
        let block = Sent(block);
        let free = move || {
            let Sent(block) = { block };
            give(block, size);
        };
        std::thread::spawn(free).join().unwrap();
    }

    /// The two links of another free block agree there, and not here.
    #[test]
    fn a_free_block_gets_the_words_of_another() {
        let test = "hardened::a_free_block_gets_the_words_of_another";
        ends(test, "was written to after it was freed", || {
            let small: Vec<_> = (0..3).map(|_| take(16)).collect();
            let long = take(208);
            for block in &small {
                give(*block, 16);
            }
            give(long, 208);
            // SAFETY: none: both are free, which the allocator has to notice.
            unsafe { long.copy_from_nonoverlapping(small[2], 16) };
            take(208);
        });
    }

    #[test]
    fn a_small_block_freed_twice() {
        let text = "(64-byte class)";
        ends("hardened::a_small_block_freed_twice", text, || {
            let block = take(64);
            give(block, 64);
            give(block, 64);
        });
    }

    #[test]
    fn a_small_block_freed_twice_with_others_between() {
        let test = "hardened::a_small_block_freed_twice_with_others_between";
        ends(test, "double free of 0x", || {
            let blocks: Vec<_> = (0..5000).map(|_| take(40)).collect();
            for block in &blocks {
                give(*block, 40);
            }
            give(blocks[2500], 40);
        });
    }

    #[test]
    fn a_block_of_eight_bytes_freed_twice() {
        let test = "hardened::a_block_of_eight_bytes_freed_twice";
        ends(test, "double free of 0x", || {
            let block = take(8);
            give(block, 8);
            give(block, 8);
        });
    }

    #[test]
    fn a_cached_span_freed_twice() {
        let test = "hardened::a_cached_span_freed_twice";
        ends(test, "(20480-byte class)", || {
            let block = take(20_000);
            give(block, 20_000);
            give(block, 20_000);
        });
    }

    #[test]
    fn a_span_freed_twice() {
        let test = "hardened::a_span_freed_twice";
        ends(test, "(span)", || {
            let block = take(500_000);
            give(block, 500_000);
            give(block, 500_000);
        });
    }

    #[test]
    fn a_mapping_freed_twice() {
        let test = "hardened::a_mapping_freed_twice";
        ends(test, "(mapping)", || {
            let block = take(5 << 20);
            give(block, 5 << 20);
            give(block, 5 << 20);
        });
    }

    #[test]
    fn a_block_freed_here_and_elsewhere() {
        let test = "hardened::a_block_freed_here_and_elsewhere";
        ends(test, "double free of 0x", || {
            let block = take(64);
            give(block, 64);
            give_elsewhere(block, 64);
        });
    }

    /// Frees a block twice by `misuse`; reported when what another thread freed arrives.
    fn ends_on_arrival(test: &str, misuse: impl FnOnce()) {
        let text = "it is free already, and another thread freed it too";
        ends(test, text, || {
            misuse();
            RastAlloc::on_idle();
        });
    }

    #[test]
    fn a_block_freed_elsewhere_and_here() {
        ends_on_arrival("hardened::a_block_freed_elsewhere_and_here", || {
            let block = take(64);
            give_elsewhere(block, 64);
            give(block, 64);
        });
    }

    #[test]
    fn a_block_freed_twice_elsewhere() {
        ends_on_arrival("hardened::a_block_freed_twice_elsewhere", || {
            let block = take(64);
            (0..2).for_each(|_| give_elsewhere(block, 64));
        });
    }

    /// Frees blocks, and one of them twice, on one thread; then all of them arrive.
    fn ends_in_a_batch(test: &str, size: usize, twice: usize) {
        ends_on_arrival(test, || {
            let blocks: Vec<_> = (0..30).map(|_| Sent(take(size))).collect();
            let free = move || {
                for Sent(block) in &blocks {
                    give(*block, size);
                }
                give(blocks[twice].0, size);
            };
            std::thread::spawn(free).join().unwrap();
        });
    }

    #[test]
    fn a_header_freed_twice_in_one_batch() {
        ends_in_a_batch("hardened::a_header_freed_twice_in_one_batch", 64, 0);
    }

    #[test]
    fn a_carried_block_freed_twice_in_one_batch() {
        let test = "hardened::a_carried_block_freed_twice_in_one_batch";
        ends_in_a_batch(test, 64, 3);
    }

    #[test]
    fn a_block_of_eight_bytes_freed_twice_in_one_batch() {
        let test = "hardened::a_block_of_eight_bytes_freed_twice_in_one_batch";
        ends_in_a_batch(test, 8, 29);
    }

    /// Frees what is no block of 64 bytes on another thread, after one that opens the remote-free
    /// batch; reported at the call. With debug assertions its mark is checked as well.
    fn ends_behind_another(test: &str, text: &str, offset: usize, size: usize) {
        ends(test, text, || {
            let blocks = [Sent(take(64)), Sent(take(64))];
            let free = move || {
                let [Sent(first), Sent(second)] = blocks;
                give(first, 64);
                let inside = second.as_ptr().wrapping_add(offset);
                give(NonNull::new(inside).unwrap(), size);
                // Nothing arrives: what is not reported at the call ends in success.
                std::process::exit(0);
            };
            std::thread::spawn(free).join().unwrap();
        });
    }

    const INSIDE: &str = "is no start of a block";

    #[test]
    fn a_pointer_into_a_block_elsewhere() {
        ends_behind_another("hardened::a_pointer_into_a_block_elsewhere", INSIDE, 16, 64);
    }

    #[test]
    fn a_crooked_pointer_elsewhere() {
        ends_behind_another("hardened::a_crooked_pointer_elsewhere", INSIDE, 3, 64);
    }

    #[test]
    fn a_layout_of_another_class_elsewhere() {
        let (test, text) = (
            "hardened::a_layout_of_another_class_elsewhere",
            "but allocated as 64-byte class",
        );
        ends_behind_another(test, text, 0, 160);
    }

    /// A block that was allocated again between its two frees is taken from its new user; the
    /// report comes at that user's free.
    #[test]
    fn a_block_freed_again_by_who_has_it() {
        let test = "hardened::a_block_freed_again_by_who_has_it";
        ends(test, "double free of 0x", || {
            let block = take(64);
            give(block, 64);
            assert_eq!(take(64), block);
            give_elsewhere(block, 64);
            RastAlloc::on_idle();
            give(block, 64);
        });
    }

    /// A block in transit, in another one's batch header, that its owner frees too: its segment is
    /// gone when it arrives.
    #[test]
    fn a_block_freed_twice_of_a_segment_that_is_gone() {
        let test = "hardened::a_block_freed_twice_of_a_segment_that_is_gone";
        ends(test, "which is no block of its heap any more", || {
            let blocks: Vec<_> = (0..3000).map(|_| Sent(take(8192))).collect();
            let pair = [blocks[0], blocks[1500]];
            let (told, heard) = mpsc::channel();
            let (tell, hear) = mpsc::channel::<()>();
            let other = std::thread::spawn(move || {
                for Sent(block) in pair {
                    give(block, 8192);
                }
                told.send(()).unwrap();
                hear.recv().unwrap();
            });
            heard.recv().unwrap();
            for Sent(block) in &blocks[1..] {
                give(*block, 8192);
            }
            RastAlloc::purge();
            tell.send(()).unwrap();
            other.join().unwrap();
            RastAlloc::on_idle();
        });
    }

    /// Blocks that follow one another in one slot, so many of `count`.
    fn in_a_row(size: usize, count: usize) -> Vec<Sent> {
        let mut blocks: Vec<_> = (0..20 * count).map(|_| Sent(take(size))).collect();
        blocks.sort_unstable_by_key(|block| block.0);
        let is_row = |row: &&[Sent]| {
            row[count - 1].0.addr().get() - row[0].0.addr().get() == size * (count - 1)
        };
        blocks.windows(count).find(is_row).unwrap().to_vec()
    }

    /// Two distances of a batch header are overwritten by others with the same sum and parity.
    #[test]
    fn distances_of_a_header_are_forged() {
        let test = "hardened::distances_of_a_header_are_forged";
        ends(test, "was written to after it was freed", || {
            let row = in_a_row(64, 7);
            let freed = [row[0], row[1], row[6]];
            let free = move || {
                for Sent(block) in freed {
                    give(block, 64);
                }
            };
            std::thread::spawn(free).join().unwrap();
            let head = size_of::<usize>() + size_of::<u32>();
            let places = row[0].0.as_ptr().wrapping_add(head).cast::<i32>();
            for (index, units) in [24, 32].into_iter().enumerate() {
                // SAFETY: none: the block was given back, which the allocator has to notice.
                unsafe { places.wrapping_add(index).write_volatile(units) };
            }
            RastAlloc::on_idle();
        });
    }

    /// The rest behind the last block of a slot is no block, though it is at a multiple of the
    /// size. With debug assertions its mark is checked as well.
    #[test]
    fn the_rest_of_a_slot_is_no_block() {
        const SLOT: usize = 64 * 1024;
        let test = "hardened::the_rest_of_a_slot_is_no_block";
        ends(test, "is no start of a block", || {
            let blocks: Vec<_> = (0..1000).map(|_| Sent(take(288))).collect();
            let last = (SLOT / 288 - 1) * 288;
            let found = blocks
                .iter()
                .find(|block| block.0.addr().get() % SLOT == last);
            let rest = Sent(found.unwrap().0.map_addr(|at| at.checked_add(288).unwrap()));
            let opening = [Sent(take(16)), Sent(take(16))];
            let free = move || {
                let Sent(rest) = { rest };
                for Sent(block) in opening {
                    give(block, 16);
                }
                give(rest, 288);
                // What is not reported at the call ends in success.
                std::process::exit(0);
            };
            std::thread::spawn(free).join().unwrap();
        });
    }

    /// Frees a block once all threads have arrived, as near to the same moment as possible.
    fn give_with_others(waiting: &AtomicUsize, Sent(block): Sent, size: usize) {
        // So that the thread has a heap.
        give(take(64), 64);
        waiting.fetch_sub(1, Ordering::Relaxed);
        while waiting.load(Ordering::Relaxed) > 0 {
            std::hint::spin_loop();
        }
        give(block, size);
    }

    /// Frees a block on two threads at once, of which this one may be the first.
    fn give_at_once(block: NonNull<u8>, size: usize, by_owner: bool) {
        let block = Sent(block);
        let waiting = Arc::new(AtomicUsize::new(2));
        let others: Vec<_> = (usize::from(by_owner)..2)
            .map(|_| {
                let waiting = Arc::clone(&waiting);
                std::thread::spawn(move || give_with_others(&waiting, block, size))
            })
            .collect();
        if by_owner {
            give_with_others(&waiting, block, size);
        }
        for other in others {
            other.join().unwrap();
        }
    }

    /// One block freed by two threads at once is reported before it is allocated twice: at a call,
    /// or when the message arrives.
    fn ends_at_once(test: &str, size: usize) {
        const CHILDREN: usize = 20;
        for by_owner in [false, true] {
            for _ in 0..CHILDREN {
                // In the child the first call is the test: the environment says which thread frees.
                let by_owner = std::env::var(BY_OWNER).map_or(by_owner, |text| text == "true");
                ends_with(test, "double free of ", &[(BY_OWNER, by_owner)], || {
                    let block = take(size);
                    give_at_once(block, size, by_owner);
                    RastAlloc::on_idle();
                    std::process::exit(0);
                });
            }
        }
    }

    const BY_OWNER: &str = "RAST_ALLOC_MISUSE_BY_OWNER";

    #[test]
    fn a_small_block_freed_by_two_at_once() {
        ends_at_once("hardened::a_small_block_freed_by_two_at_once", 64);
    }

    #[test]
    fn a_cached_span_freed_by_two_at_once() {
        ends_at_once("hardened::a_cached_span_freed_by_two_at_once", 20_000);
    }

    #[test]
    fn a_span_freed_by_two_at_once() {
        ends_at_once("hardened::a_span_freed_by_two_at_once", 500_000);
    }

    #[test]
    fn a_mapping_freed_by_two_at_once() {
        ends_at_once("hardened::a_mapping_freed_by_two_at_once", 5 << 20);
    }

    #[test]
    fn pointers_of_others() {
        let on_the_stack = 0_u128;
        let stack = NonNull::from(&on_the_stack).cast();
        let test = "hardened::pointers_of_others";
        let text = "pointer not from this allocator: 0x";
        ends(test, text, || give(stack, 16));
    }

    #[test]
    fn a_large_pointer_of_others() {
        let mut theirs = vec![0_u8; 5 << 20];
        let block = NonNull::new(theirs.as_mut_ptr()).unwrap();
        let test = "hardened::a_large_pointer_of_others";
        let text = "pointer not from this allocator: 0x";
        ends(test, text, || give(block, 5 << 20));
    }

    #[test]
    fn a_pointer_into_a_block() {
        let test = "hardened::a_pointer_into_a_block";
        ends(test, "is no start of a block", || {
            let block = take(64);
            give(NonNull::new(block.as_ptr().wrapping_add(16)).unwrap(), 64);
        });
    }

    #[test]
    fn a_crooked_pointer_into_a_block() {
        let test = "hardened::a_crooked_pointer_into_a_block";
        ends(test, "is no start of a block", || {
            let block = take(64);
            give(NonNull::new(block.as_ptr().wrapping_add(3)).unwrap(), 64);
        });
    }

    #[test]
    fn a_block_of_a_heap() {
        let heap = Heap::new();
        let test = "hardened::a_block_of_a_heap";
        ends(test, "is a block of another heap", || {
            let block = (&heap).allocate(layout(64)).unwrap().cast();
            give(block, 64);
        });
    }

    #[test]
    fn a_block_given_to_a_heap() {
        let heap = Heap::new();
        let test = "hardened::a_block_given_to_a_heap";
        ends(test, "is a block of another heap", || {
            let own = (&heap).allocate(layout(64)).unwrap();
            let block = take(64);
            // SAFETY: none: the block is another heap's, which this one has to notice.
            unsafe { (&heap).deallocate(block, layout(64)) };
            let _ = own;
        });
    }

    #[test]
    fn a_block_given_twice_to_a_heap() {
        let heap = Heap::new();
        let test = "hardened::a_block_given_twice_to_a_heap";
        ends(test, "double free of 0x", || {
            let block = (&heap).allocate(layout(300)).unwrap().cast();
            // SAFETY: the block is the heap's and has this layout.
            unsafe { (&heap).deallocate(block, layout(300)) };
            // SAFETY: none: it was given back above, which the heap has to notice.
            unsafe { (&heap).deallocate(block, layout(300)) };
        });
    }

    #[test]
    fn a_large_block_given_to_another_heap() {
        let (one, other) = (Heap::new(), Heap::new());
        let test = "hardened::a_large_block_given_to_another_heap";
        ends(test, "of another heap", || {
            let own = (&other).allocate(layout(64)).unwrap();
            let block = (&one).allocate(layout(5 << 20)).unwrap().cast();
            // SAFETY: none: the block is another heap's, which this one has to notice.
            unsafe { (&other).deallocate(block, layout(5 << 20)) };
            let _ = own;
        });
    }

    #[test]
    fn a_large_layout_of_a_small_block() {
        let test = "hardened::a_large_layout_of_a_small_block";
        ends(test, "but allocated as 64-byte class", || {
            give(take(64), 5 << 20);
        });
    }

    #[test]
    fn a_small_layout_of_a_large_block() {
        let test = "hardened::a_small_layout_of_a_large_block";
        ends(test, "but allocated as a mapping of 5242880 bytes", || {
            give(take(5 << 20), 64);
        });
    }

    #[test]
    fn a_freed_block_changes_its_size() {
        let test = "hardened::a_freed_block_changes_its_size";
        ends(test, "double free of 0x", || {
            let block = take(60);
            give(block, 60);
            // SAFETY: none: it was given back above, which the allocator has to notice.
            let _ = unsafe { RastAlloc.grow(block, layout(60), layout(64)) };
        });
    }

    #[test]
    fn a_link_of_a_free_block_is_overwritten() {
        let test = "hardened::a_link_of_a_free_block_is_overwritten";
        ends(test, "the link in the free block 0x", || {
            let block = take(64);
            give(block, 64);
            for at in 0..8 {
                write(block, at);
            }
            take(64);
        });
    }

    /// What the link leads to is in a segment, but no free block.
    #[test]
    fn a_link_of_a_free_block_is_bent() {
        let test = "hardened::a_link_of_a_free_block_is_bent";
        ends(test, "is damaged: it leads to 0x", || {
            let blocks: Vec<_> = (0..8).map(|_| take(64)).collect();
            for block in blocks {
                give(block, 64);
            }
            let block = take(64);
            give(block, 64);
            let place = block.as_ptr().wrapping_add(1);
            // SAFETY: none: the block is free, which the allocator has to notice.
            let byte = unsafe { place.read() };
            // SAFETY: as above.
            unsafe { place.write_volatile(byte ^ 0x80) };
            for _ in 0..2 {
                take(64);
            }
        });
    }

    #[test]
    fn a_free_block_is_written_to() {
        let test = "hardened::a_free_block_is_written_to";
        ends(test, "was written to after it was freed", || {
            let block = take(64);
            give(block, 64);
            write(block, 15);
            take(64);
        });
    }

    #[test]
    fn a_small_free_block_is_written_to() {
        let test = "hardened::a_small_free_block_is_written_to";
        ends(test, "was written to after it was freed", || {
            let block = take(16);
            give(block, 16);
            write(block, 8);
            take(16);
        });
    }

    /// A batch header in transit has the distances of others, and a seal over them.
    #[test]
    fn a_posted_block_is_written_to() {
        let test = "hardened::a_posted_block_is_written_to";
        ends(test, "was written to after it was freed", || {
            let blocks: Vec<_> = (0..8).map(|_| Sent(take(64))).collect();
            let first = blocks[0].0;
            let (told, heard) = mpsc::channel();
            let free = move || {
                for Sent(block) in blocks {
                    give(block, 64);
                }
                RastAlloc::on_idle();
                told.send(()).unwrap();
            };
            let freeing = std::thread::spawn(free);
            heard.recv().unwrap();
            write(first, 17);
            RastAlloc::on_idle();
            freeing.join().unwrap();
        });
    }

    /// A block in transit that pretends to be a batch header of other blocks.
    #[test]
    fn a_count_of_a_posted_block_is_overwritten() {
        let test = "hardened::a_count_of_a_posted_block_is_overwritten";
        ends(test, "was written to after it was freed", || {
            let block = take(64);
            give_elsewhere(block, 64);
            // SAFETY: none: the block was given back, which the allocator has to notice.
            let place = unsafe { block.add(size_of::<usize>()) }.cast::<u32>();
            // SAFETY: as above.
            let word = unsafe { place.read_volatile() };
            // SAFETY: as above.
            unsafe { place.write_volatile(word + 1) };
            RastAlloc::on_idle();
        });
    }

    /// Behind a large block nothing can be written: the system ends the process.
    #[test]
    fn a_write_past_a_large_block() {
        faults("hardened::a_write_past_a_large_block", || {
            write(take(5 << 20), 5 << 20);
        });
    }

    /// Behind the part that grew, too, where what was kept is in use again.
    #[test]
    fn a_write_past_a_large_block_that_grew() {
        faults("hardened::a_write_past_a_large_block_that_grew", || {
            give(take(9 << 20), 9 << 20);
            let block = take(5 << 20);
            // SAFETY: the block was taken with this layout and is forgotten.
            let grown = unsafe { RastAlloc.grow(block, layout(5 << 20), layout(6 << 20)) };
            let block: NonNull<u8> = grown.unwrap().cast();
            write(block, (6 << 20) - 1);
            write(block, 6 << 20);
        });
    }

    /// A cached large block is inaccessible.
    #[test]
    fn a_large_free_block_is_written_to() {
        faults("hardened::a_large_free_block_is_written_to", || {
            let block = take(5 << 20);
            write(block, 0);
            give(block, 5 << 20);
            write(block, 0);
        });
    }

    const CHILD: &str = "RAST_ALLOC_GUARD";

    /// Runs the test again in a process of its own, which the system has to end.
    fn faults(test: &str, misuse: impl FnOnce()) {
        // The system's allocator has no pages that no thread may touch.
        if cfg!(rast_system_segments) {
            return;
        }
        if std::env::var_os(CHILD).is_some() {
            misuse();
            return;
        }
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, "1")
            .status()
            .unwrap();
        assert!([Some(libc::SIGSEGV), Some(libc::SIGBUS)].contains(&status.signal()));
    }
}
