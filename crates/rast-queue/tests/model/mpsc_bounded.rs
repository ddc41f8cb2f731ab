//! `mpsc::bounded` against `VecDeque`.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use proptest::collection::vec;
use proptest::prelude::*;
use rast_queue::mpsc::bounded;

#[derive(Clone, Debug)]
enum Op {
    Push(u32),
    /// So many items, of an iterator that ends or panics before them.
    Batch(u32, usize, usize, bool),
    Take(usize),
    Release,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..3_u32).prop_map(Op::Push),
        (0..3_u32, 0..9_usize, 0..12_usize, any::<bool>())
            .prop_map(|(tag, count, end, panics)| Op::Batch(tag, count, end, panics)),
        (0..6_usize).prop_map(Op::Take),
        Just(Op::Release),
    ]
}

/// Says that it has `len` items, and has `end`.
struct Liar<'a> {
    len: usize,
    end: usize,
    panics: bool,
    next: &'a mut dyn FnMut() -> Rc<u64>,
}

impl Iterator for Liar<'_> {
    type Item = Rc<u64>;
    fn next(&mut self) -> Option<Rc<u64>> {
        self.len -= 1;
        if self.end == 0 {
            assert!(!self.panics, "no more items");
            return None;
        }
        self.end -= 1;
        Some((self.next)())
    }
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.len, Some(self.len))
    }
}

impl ExactSizeIterator for Liar<'_> {}

proptest! {
    #[test]
    fn mpsc_bounded_is_a_deque(
        capacity in 1..6_usize,
        below_wrap in 0..20_usize,
        ops in vec(op(), 0..80),
    ) {
        let (producer, mut consumer) = bounded::queue_at(capacity, 0_usize.wrapping_sub(below_wrap));
        let capacity = capacity.next_power_of_two();
        prop_assert_eq!(producer.capacity(), capacity);
        let producers = [producer.clone(), producer.clone(), producer];
        // An entry without an item is a slot that a batch left.
        let mut model: VecDeque<Option<(u32, u64)>> = VecDeque::new();
        let (mut made, mut held) = (0, 0);
        let all = Rc::new(0);
        let mut items: Vec<Rc<u64>> = vec![Rc::clone(&all)];
        for op in ops {
            let room = capacity - model.len() - held;
            let mut make = || {
                made += 1;
                let item = Rc::new(made);
                items.push(Rc::clone(&item));
                item
            };
            match op {
                Op::Push(tag) => {
                    let item = make();
                    let number = *item;
                    let result = producers[tag as usize].push(tag, item);
                    prop_assert_eq!(result.is_ok(), room > 0);
                    if room > 0 {
                        model.push_back(Some((tag, number)));
                    }
                }
                Op::Batch(tag, count, end, panics) => {
                    let claimed = count.min(room);
                    let written = claimed.min(end);
                    let mut liar = Liar { len: count, end, panics, next: &mut make };
                    let push = || producers[tag as usize].push_batch(tag, &mut liar);
                    match catch_unwind(AssertUnwindSafe(push)) {
                        Ok(pushed) => prop_assert_eq!(pushed, written),
                        Err(_) => prop_assert!(panics && written < claimed),
                    }
                    let first = made - written as u64 + 1;
                    model.extend((0..claimed).map(|n| (n < written).then(|| (tag, first + n as u64))));
                }
                Op::Take(count) => {
                    for _ in 0..count {
                        let mut expected = None;
                        while let (None, Some(entry)) = (expected, model.front().copied()) {
                            model.pop_front();
                            held += 1;
                            expected = entry;
                        }
                        prop_assert_eq!(consumer.take().map(|(tag, item)| (tag, *item)), expected);
                    }
                }
                Op::Release => {
                    consumer.release();
                    held = 0;
                }
            }
            prop_assert_eq!(producers[0].room(), capacity - model.len() - held);
        }
        drop((producers, consumer));
        for item in &items[1..] {
            prop_assert_eq!(Rc::strong_count(item), 1, "dropped once");
        }
    }
}

#[test]
fn a_drop_that_panics_leaves_no_other_item() {
    struct Loud(#[expect(dead_code, reason = "counted")] Rc<()>, bool);
    impl Drop for Loud {
        fn drop(&mut self) {
            assert!(!self.1, "loud");
        }
    }
    let count = Rc::new(());
    let (producer, consumer) = bounded::queue(4);
    for number in 0..4 {
        let item = Loud(Rc::clone(&count), number == 1);
        assert!(producer.push(0, item).is_ok());
    }
    drop(consumer);
    assert!(catch_unwind(AssertUnwindSafe(|| drop(producer))).is_err());
    assert_eq!(Rc::strong_count(&count), 1);
}
