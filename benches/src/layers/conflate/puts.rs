//! A put by handle, on one thread, against the exchange of one word that it contains.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel};

use rast::conflate::{
    Bar, Conflator, Greatest, InPlace, KeyHandle, Merged, Mode, Newest, Sequenced, Sum,
};

use super::{KEYS, LAYER};
use crate::harness::Scenario;
use crate::workers::{Sample, alone};

/// What most puts of a node carry: 24 bytes.
type Quote = [u64; 3];

/// Puts under one key, while no consumer takes the value. `of` has a generic type, so that it is
/// inlined. If a call wrote the value to memory word by word, wider loads that copy it would wait
/// for these stores.
fn dirty<M: Mode<V>, V: Copy + Send + 'static>(
    of: impl Fn(u64) -> V + 'static,
) -> impl FnMut(u64) -> Sample {
    let conflator = Conflator::<u32, V>::builder()
        .mode::<M>()
        .keys(2048)
        .build();
    let mut producer = conflator.producer();
    let handle = conflator.handle(&7).expect("it grows");
    move |ops| {
        alone(|| {
            for number in 0..ops {
                let _ = producer.put(&handle, of(black_box(number)));
            }
            ops
        })
    }
}

/// An exchange of one word.
fn one_swap() -> impl FnMut(u64) -> Sample {
    let word = AtomicU64::new(0);
    move |ops| {
        alone(|| {
            for number in 0..ops {
                black_box(word.swap(black_box(number), AcqRel));
            }
            ops
        })
    }
}

/// Puts a value under each key, which is timed, and handles them, which is not timed. `of` as in
/// [`dirty`].
fn clean<M: Mode<V>, V: Copy + Send + 'static>(
    of: impl Fn(u64) -> V + 'static,
) -> impl FnMut(u64) -> Sample {
    let conflator = Conflator::<u32, V>::builder()
        .mode::<M>()
        .keys(2048)
        .build();
    let mut producer = conflator.producer();
    let mut consumer = conflator.consumer().expect("any number");
    let handles: Vec<KeyHandle<u32, V, M>> = (0..KEYS as u32)
        .map(|key| conflator.handle(&key).expect("it grows"))
        .collect();
    move |ops| {
        in_rounds(
            ops,
            |number| {
                for handle in &handles {
                    let _ = producer.put(handle, of(black_box(number)));
                }
            },
            || {
                consumer.pass(|_, value| {
                    black_box(value);
                });
            },
        )
    }
}

/// An exchange of each of so many words.
fn many_swaps() -> impl FnMut(u64) -> Sample {
    let words: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    move |ops| {
        in_rounds(
            ops,
            |number| {
                for word in &words {
                    black_box(word.swap(black_box(number), AcqRel));
                }
            },
            || (),
        )
    }
}

/// Times `work` over all keys alone, and not `rest`.
fn in_rounds(ops: u64, mut work: impl FnMut(u64), mut rest: impl FnMut()) -> Sample {
    let rounds = (ops / KEYS as u64).max(1);
    let mut elapsed = std::time::Duration::ZERO;
    for number in 0..rounds {
        elapsed += alone(|| {
            work(number);
            1
        })
        .elapsed;
        rest();
    }
    Sample::new(rounds * KEYS as u64, elapsed)
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new(LAYER, "put into a dirty cell", 5_000_000, 1000)
            .ours(
                "rast InPlace",
                dirty::<InPlace, u32>(|number| number as u32),
            )
            .ours(
                "rast Newest, 24 bytes",
                dirty::<Newest, Quote>(|number| [number; 3]),
            )
            .ours(
                "rast Sequenced, 24 bytes",
                dirty::<Sequenced, Quote>(|number| [number; 3]),
            )
            .ours("rast Sum", dirty::<Sum, u64>(|number| number))
            .ours(
                "rast Greatest",
                dirty::<Greatest, u32>(|number| number as u32),
            )
            .ours("rast Merged, a bar", dirty::<Merged, Bar<u64>>(Bar::of))
            .rival("a swap of one word", one_swap()),
        Scenario::new(LAYER, "put into a clean cell, 700 keys", 2_000_000, 1400)
            .ours(
                "rast Newest, 24 bytes",
                clean::<Newest, Quote>(|number| [number; 3]),
            )
            .ours(
                "rast InPlace",
                clean::<InPlace, u32>(|number| number as u32),
            )
            .rival("a swap of each of 700 words", many_swaps()),
    ]
}
