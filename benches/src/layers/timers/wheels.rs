//! The rivals of the deadline stores from other crates.
//!
//! - `DelayQueue` of tokio-util 0.7: the wheel of tokio, with ticks of 1 ms. It expires only by the
//!   runtime's time, so it takes part only if no timer fires.
//! - `hierarchical_hash_wheel_timer` 1.4: four wheels of 256 slots with ticks of 1 ms, and a hash
//!   map for cancels.
//! - `bitwheel` 0.6: wheels of 64 slots without cascades, with ticks of 1 ms, and a map for timers
//!   that fit no slot.
//! - `nexus-timer` 1.5: a wheel that rebalances in small steps, and `TimeoutQueue`, a list for one
//!   timeout.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bitwheel::timer::{PreciseWheelWithFailover, Timer};
use hierarchical_hash_wheel_timer::wheels::Skip;
use hierarchical_hash_wheel_timer::wheels::cancellable::{
    CancellableTimerEntry, QuadWheelWithOverflow,
};
use nexus_timer::{TimeoutQueue, TimerHandle, Wheel};
use tokio_util::time::{DelayQueue, delay_queue};

use super::stores::Deadlines;

/// tokio-util's queue, inside a runtime that never runs.
pub(super) struct Delays {
    queue: DelayQueue<u64>,
    start: tokio::time::Instant,
    _entered: tokio::runtime::EnterGuard<'static>,
}

impl Deadlines for Delays {
    type Key = delay_queue::Key;
    type Time = tokio::time::Instant;

    fn new(room: usize) -> Self {
        static RUNTIME: std::sync::LazyLock<tokio::runtime::Runtime> =
            std::sync::LazyLock::new(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_time()
                    .build()
                    .expect("a runtime without threads")
            });
        let entered = RUNTIME.enter();
        Self {
            queue: DelayQueue::with_capacity(room),
            start: tokio::time::Instant::now(),
            _entered: entered,
        }
    }

    fn time(&self, at: u64) -> Self::Time {
        self.start + Duration::from_nanos(at)
    }

    fn insert(&mut self, at: Self::Time, value: u64) -> Self::Key {
        self.queue.insert_at(value, at)
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u64> {
        Some(self.queue.try_remove(&key)?.into_inner())
    }

    fn expire(&mut self, _now: Self::Time) -> (u64, u64, bool) {
        unreachable!("it fires by the runtime's time alone")
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    id: u64,
    value: u64,
}

impl CancellableTimerEntry for Entry {
    type Id = u64;

    fn id(&self) -> &u64 {
        &self.id
    }
}

/// The hashed wheel, with serial numbers for names.
pub(super) struct Hashed {
    wheel: QuadWheelWithOverflow<Entry>,
    /// Milliseconds that have passed for the wheel.
    now: u64,
    serial: u64,
}

impl Deadlines for Hashed {
    type Key = (u64, u64);
    type Time = u64;

    fn new(_room: usize) -> Self {
        Self {
            wheel: QuadWheelWithOverflow::new(),
            now: 0,
            serial: 0,
        }
    }

    fn time(&self, at: u64) -> u64 {
        at.div_ceil(1_000_000)
    }

    fn insert(&mut self, at: u64, value: u64) -> (u64, u64) {
        let id = self.serial;
        self.serial += 1;
        let delay = Duration::from_millis(at.saturating_sub(self.now).max(1));
        let entry = Rc::new(Entry { id, value });
        let armed = self.wheel.insert_ref_with_delay(entry, delay);
        assert!(armed.is_ok(), "the deadline lies ahead");
        (id, value)
    }

    fn cancel(&mut self, (id, value): (u64, u64)) -> Option<u64> {
        // A cancel returns no value.
        self.wheel.cancel(&id).is_ok().then_some(value)
    }

    fn expire(&mut self, now: u64) -> (u64, u64, bool) {
        let (mut fired, mut sum) = (0, 0_u64);
        while self.now < now {
            let ahead = now - self.now - 1;
            let skip = match self.wheel.can_skip() {
                Skip::Millis(most) => ahead.min(u64::from(most)),
                Skip::Empty => ahead,
                Skip::None => 0,
            };
            if skip > 0 {
                self.wheel.skip(skip as u32);
                self.now += skip;
            }
            for entry in self.wheel.tick() {
                fired += 1;
                sum = sum.wrapping_add(entry.value);
            }
            self.now += 1;
        }
        (fired, sum, false)
    }
}

/// A value that sums itself.
pub(super) struct Summed(u64);

impl Timer for Summed {
    type Context = u64;

    fn fire(&mut self, sum: &mut u64) {
        *sum = sum.wrapping_add(self.0);
    }
}

/// The wheel of bits.
pub(super) struct Bits {
    wheel: Box<PreciseWheelWithFailover<Summed>>,
    start: Instant,
}

impl Deadlines for Bits {
    type Key = bitwheel::timer::TimerHandle;
    type Time = Instant;

    fn new(_room: usize) -> Self {
        let start = Instant::now();
        Self {
            wheel: PreciseWheelWithFailover::boxed_with_epoch(start),
            start,
        }
    }

    fn time(&self, at: u64) -> Instant {
        self.start + Duration::from_nanos(at)
    }

    fn insert(&mut self, at: Instant, value: u64) -> Self::Key {
        self.wheel.insert(at, Summed(value))
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u64> {
        Some(self.wheel.cancel(key)?.0)
    }

    fn expire(&mut self, now: Instant) -> (u64, u64, bool) {
        let mut sum = 0;
        let fired = self.wheel.poll(now, &mut sum);
        (fired as u64, sum, false)
    }
}

/// nexus-timer's wheel.
pub(super) struct Nexus {
    wheel: Wheel<u64>,
    start: Instant,
    due: Vec<u64>,
}

impl Deadlines for Nexus {
    type Key = TimerHandle<u64>;
    type Time = Instant;

    fn new(room: usize) -> Self {
        let start = Instant::now();
        Self {
            wheel: Wheel::unbounded(room.clamp(64, 1 << 16), start),
            start,
            due: Vec::new(),
        }
    }

    fn time(&self, at: u64) -> Instant {
        self.start + Duration::from_nanos(at)
    }

    fn insert(&mut self, at: Instant, value: u64) -> Self::Key {
        self.wheel.schedule(at, value)
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u64> {
        self.wheel.cancel(key)
    }

    fn expire(&mut self, now: Instant) -> (u64, u64, bool) {
        let fired = self.wheel.poll_and_rebalance(now, &mut self.due);
        (
            fired as u64,
            self.due.drain(..).fold(0, u64::wrapping_add),
            false,
        )
    }
}

/// nexus-timer's list for one timeout, of 30 ms.
pub(super) struct Timeouts {
    queue: TimeoutQueue<u64>,
    start: Instant,
    due: Vec<u64>,
}

const TIMEOUT: Duration = Duration::from_millis(30);

impl Deadlines for Timeouts {
    type Key = TimerHandle<u64>;
    /// When it is armed, not when it is due.
    type Time = Instant;

    fn new(room: usize) -> Self {
        let start = Instant::now();
        Self {
            queue: TimeoutQueue::unbounded(TIMEOUT, room, start),
            start,
            due: Vec::new(),
        }
    }

    fn time(&self, at: u64) -> Instant {
        self.start + Duration::from_nanos(at)
    }

    fn insert(&mut self, at: Instant, value: u64) -> Self::Key {
        self.queue.schedule(at - TIMEOUT, value)
    }

    fn cancel(&mut self, key: Self::Key) -> Option<u64> {
        self.queue.cancel(key)
    }

    fn expire(&mut self, now: Instant) -> (u64, u64, bool) {
        let fired = self.queue.poll(now, &mut self.due);
        (
            fired as u64,
            self.due.drain(..).fold(0, u64::wrapping_add),
            false,
        )
    }
}
