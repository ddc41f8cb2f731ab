//! The cost of a pass if few keys in a large table have a value to handle.

use std::hint::black_box;

use rast::conflate::{Conflator, InPlace, KeyHandle, Marks};

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::{Sample, alone};

/// Puts four keys and makes one pass. The time includes the puts, which are the same for all
/// contenders.
fn pass(cells: usize, marks: Marks) -> impl FnMut(u64) -> Sample {
    let conflator = Conflator::<u32, u32>::builder()
        .mode::<InPlace>()
        .keys(cells / 2)
        .marks(marks)
        .build();
    assert_eq!(conflator.cells(), cells, "as many cells as asked for");
    let handles: Vec<KeyHandle<u32, u32, InPlace>> = (0..4)
        .map(|key| conflator.handle(&key).expect("it grows"))
        .collect();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().expect("any number");
    move |ops| {
        alone(|| {
            for number in 0..ops {
                for handle in &handles {
                    let _ = producer.put(handle, number as u32);
                }
                let pass = consumer.pass(|key, value| {
                    black_box((key, value));
                });
                assert_eq!(pass.handled, 4);
            }
            ops
        })
    }
}

/// Above capacity: each handled value causes four more puts. Each pass handles each key that has a
/// value once. No handled value is older than one round over all keys.
fn fairness(ops: u64) -> Sample {
    const KEYS: u32 = 64;
    let conflator = Conflator::<u32, u32>::builder().mode::<InPlace>().build();
    let handles: Vec<_> = (0..KEYS)
        .map(|key| conflator.handle(&key).expect("it grows"))
        .collect();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().expect("any number");
    for handle in &handles {
        let _ = producer.put(handle, 0);
    }
    let mut last = vec![0; KEYS as usize];
    // Values are the number of handlings before their put.
    let (mut count, mut age_max) = (0_u32, 0);
    let sample = alone(|| {
        for number in 1..=ops as u32 {
            let pass = consumer.pass(|key, put_at| {
                count += 1;
                age_max = age_max.max(count - put_at);
                assert_eq!(last[*key as usize], number - 1, "once in each pass");
                last[*key as usize] = number;
                for step in 0..4 {
                    let again = (key + step * 17) % KEYS;
                    let _ = producer.put(&handles[again as usize], count);
                }
            });
            assert_eq!(pass.handled, u64::from(KEYS), "each key in each pass");
        }
        ops
    });
    assert!(age_max <= KEYS, "a value waited for {age_max} handlings");
    let figures = conflator.figures();
    sample
        .with("puts per handled", figures.conflation().unwrap_or(0.0))
        .with("oldest value, handlings", f64::from(age_max))
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(LAYER, "put 4 keys and pass", 500_000, 100)
            .ours("rast, tree, 4,096 cells", pass(4096, Marks::Tree))
            .ours("rast, tree, 16,384 cells", pass(16_384, Marks::Tree))
            .ours("rast, flat, 4,096 cells", pass(4096, Marks::Flat))
            .ours("rast, flat, 16,384 cells", pass(16_384, Marks::Flat)),
        Scenario::new(
            LAYER,
            "above capacity, a pass over 64 keys",
            1_000_000,
            1000,
        )
        .at_most(1)
        .ours("rast, tree", fairness),
    ]
}
