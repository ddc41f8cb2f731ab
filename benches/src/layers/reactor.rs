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

use rast::reactor::{Builder, Pool, Reactors};

use crate::harness::Scenario;
use crate::processors::pin_in_turn;

const LAYER: &str = "reactor";

/// The processors of two threads: different ones if there are two.
fn two_processors() -> Option<[usize; 2]> {
    let allowed = crate::processors::allowed();
    let first = *allowed.first()?;
    Some([first, *allowed.get(1).unwrap_or(&first)])
}

/// Runs `work` on a thread of its own, on one of the two processors.
fn on_processor<T: Send>(index: usize, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            pin_in_turn(index);
            work()
        });
        thread.join().expect("no thread of a bench panics")
    })
}

/// A reactor on the first processor, and a pool of one thread.
fn one_reactor() -> Builder {
    let cores = two_processors().map(|two| two[0]);
    let pool = Pool::builder().threads([0, 0, 1]);
    Reactors::builder().number(1).cores(cores).pool(pool)
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
