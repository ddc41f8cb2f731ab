//! rast-reactor: the registry, locks, calls between reactors, the background pool, echoes, and a
//! service that has more load than it can serve.

mod calls;
#[cfg(target_os = "linux")]
mod echo;
#[cfg(target_os = "linux")]
mod load;
mod locks;
#[cfg(target_os = "linux")]
mod overload;
mod pool;
mod registry;
#[cfg(target_os = "linux")]
mod servers;

use crate::harness::Scenario;

const LAYER: &str = "reactor";

/// The processors of two threads: different ones if there are two.
fn two_processors() -> Option<[usize; 2]> {
    let allowed = crate::processors::allowed();
    let first = *allowed.first()?;
    Some([first, *allowed.get(1).unwrap_or(&first)])
}

/// Moves the calling thread to one of the two processors.
fn pin_to(index: usize) {
    crate::processors::pin_in_turn(index);
}

/// The scenarios of this layer.
pub(crate) fn scenarios() -> Vec<Scenario> {
    let mut scenarios = registry::scenarios();
    scenarios.extend(locks::scenarios());
    scenarios.extend(calls::scenarios());
    scenarios.extend(pool::scenarios());
    #[cfg(target_os = "linux")]
    {
        scenarios.extend(echo::scenarios());
        scenarios.extend(load::scenarios());
        scenarios.extend(overload::scenarios());
    }
    scenarios
}
