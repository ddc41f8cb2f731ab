//! Random operation lists against a map of what is allocated: no overlap, alignment, zeroing, contents kept.
#![cfg(all(feature = "std", not(rast_loom)))]

use proptest::collection::vec;
use proptest::prelude::*;
use rast_alloc::{Allocator, Layout, RastAlloc};
use std::collections::BTreeMap;
use std::ptr::NonNull;

#[derive(Clone, Debug)]
enum Op {
    Allocate {
        size: usize,
        align_bits: u32,
        zeroed: bool,
    },
    Resize {
        which: usize,
        size: usize,
        zeroed: bool,
    },
    Free {
        which: usize,
    },
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![0..64usize, 0..5000usize, 0..300_000usize]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (size(), 0..13u32, any::<bool>())
            .prop_map(|(size, align_bits, zeroed)| Op::Allocate { size, align_bits, zeroed }),
        3 => (any::<usize>(), size(), any::<bool>())
            .prop_map(|(which, size, zeroed)| Op::Resize { which, size, zeroed }),
        2 => any::<usize>().prop_map(|which| Op::Free { which }),
    ]
}

/// A block in use, filled with `fill`.
struct Block {
    memory: NonNull<u8>,
    layout: Layout,
    fill: u8,
}

impl Block {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the block is ours, filled over its whole length, until it is freed or resized.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.layout.size()) }
    }

    fn fill_from(&mut self, start: usize) {
        let length = self.layout.size() - start;
        // SAFETY: `start` is at most the size of the block.
        let rest = unsafe { self.memory.add(start) };
        // SAFETY: the block is ours and reaches `length` bytes further.
        unsafe { rest.write_bytes(self.fill, length) };
    }
}

/// The blocks in use, in order of allocation; dropping it frees them.
#[derive(Default)]
struct Shadow(Vec<Block>);

impl Shadow {
    fn check_new(&self, block: &Block) -> Result<(), TestCaseError> {
        prop_assert_eq!(
            block.memory.addr().get() % block.layout.align(),
            0,
            "alignment"
        );
        let mut ends = BTreeMap::new();
        for other in self
            .0
            .iter()
            .chain([block])
            .filter(|block| block.layout.size() > 0)
        {
            let start = other.memory.addr().get();
            ends.insert(start, start + other.layout.size());
        }
        let spans: Vec<_> = ends.into_iter().collect();
        let count = self
            .0
            .iter()
            .chain([block])
            .filter(|b| b.layout.size() > 0)
            .count();
        prop_assert_eq!(spans.len(), count, "two blocks at one address");
        prop_assert!(
            spans.windows(2).all(|pair| pair[0].1 <= pair[1].0),
            "overlap"
        );
        Ok(())
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        for block in self.0.drain(..) {
            // SAFETY: the block is the allocator's, of this layout, and not used again.
            unsafe { RastAlloc.deallocate(block.memory, block.layout) };
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn blocks_are_apart_aligned_and_keep_their_contents(ops in vec(op(), 0..60)) {
        let mut shadow = Shadow::default();
        let mut fill = 0u8;
        for op in ops {
            fill = fill % 250 + 1;
            match op {
                Op::Allocate { size, align_bits, zeroed } => {
                    let layout = Layout::from_size_align(size, 1 << align_bits).unwrap();
                    let memory = if zeroed {
                        RastAlloc.allocate_zeroed(layout)
                    } else {
                        RastAlloc.allocate(layout)
                    };
                    let mut block = Block { memory: memory.unwrap().cast(), layout, fill };
                    shadow.check_new(&block)?;
                    if zeroed {
                        prop_assert!(block.bytes().iter().all(|byte| *byte == 0));
                    }
                    block.fill_from(0);
                    shadow.0.push(block);
                }
                Op::Resize { which, size, zeroed } if !shadow.0.is_empty() => {
                    let which = which % shadow.0.len();
                    let mut block = shadow.0.swap_remove(which);
                    let old = block.layout;
                    block.layout = Layout::from_size_align(size, old.align()).unwrap();
                    let memory = if size < old.size() {
                        // SAFETY: the block is the allocator's, of the old layout; the new one is smaller.
                        unsafe { RastAlloc.shrink(block.memory, old, block.layout) }
                    } else if zeroed {
                        // SAFETY: likewise; the new one is not smaller.
                        unsafe { RastAlloc.grow_zeroed(block.memory, old, block.layout) }
                    } else {
                        // SAFETY: likewise.
                        unsafe { RastAlloc.grow(block.memory, old, block.layout) }
                    };
                    block.memory = memory.unwrap().cast();
                    shadow.check_new(&block)?;
                    let kept = size.min(old.size());
                    if zeroed && size > kept {
                        prop_assert!(block.bytes()[kept..].iter().all(|byte| *byte == 0));
                    }
                    block.fill_from(kept);
                    prop_assert!(block.bytes().iter().all(|byte| *byte == block.fill), "contents");
                    shadow.0.push(block);
                }
                Op::Free { which } if !shadow.0.is_empty() => {
                    let which = which % shadow.0.len();
                    let block = shadow.0.swap_remove(which);
                    prop_assert!(block.bytes().iter().all(|byte| *byte == block.fill), "contents");
                    // SAFETY: the block is the allocator's, of this layout, and not used again.
                    unsafe { RastAlloc.deallocate(block.memory, block.layout) };
                }
                Op::Resize { .. } | Op::Free { .. } => {}
            }
        }
        for block in &shadow.0 {
            prop_assert!(block.bytes().iter().all(|byte| *byte == block.fill), "contents");
        }
    }
}
