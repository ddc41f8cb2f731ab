//! rast-conflate: a put against the exchange of a word that it contains, and the conflator against
//! maps with queues, and against queues without conflation.

mod contenders;
mod flow;
mod latency;
mod passes;
mod puts;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod rivals;

use crate::harness::Scenario;
use rast::primitive::Random;

const LAYER: &str = "conflate";

/// The keys of the source's bench.
const KEYS: usize = 700;

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    [
        puts::scenarios(),
        flow::scenarios(),
        latency::scenarios(),
        passes::scenarios(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The order in which a thread goes over the keys: `1 << 16` draws, made before the clock starts.
fn draws(keys: usize, zipf: bool, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    // The share of the key of rank r is proportional to 1 / r.
    let mut sum = 0.0;
    let sums: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += if zipf { 1.0 / rank as f64 } else { 1.0 };
            sum
        })
        .collect();
    (0..1 << 16)
        .map(|_| {
            let drawn = random.fraction() * sum;
            sums.partition_point(|below| *below < drawn).min(keys - 1) as u32
        })
        .collect()
}
