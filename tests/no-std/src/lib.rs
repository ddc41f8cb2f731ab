//! A crate without std that uses the lower layers of RAST; `main.rs` links it.
#![no_std]

use core::cell::Cell;
use core::ptr::NonNull;

use rast::alloc::{AllocError, Allocator, Global, Layout, vec};
use rast::primitive::sync::atomic::{AtomicU64, Ordering};
use rast::primitive::{AtomicTaggedPtr, Backoff, CachePadded, TaggedPtr};
use rast::queue::{Queue, spsc};
use rast::timers::{
    Clock, DeadlineStore, HeapStore, ManualClock, Nanos, PeriodicTimer, Tick, TimerConfig,
    WaitingTimer, remote,
};

/// Uses each layer once.
///
/// # Errors
///
/// A text that says which result is wrong.
pub fn exercise() -> Result<(), &'static str> {
    primitive()?;
    allocator()?;
    queue()?;
    timers()?;
    deadlines()
}

/// `Ok` if `holds`, else what came out wrong.
fn ensure(holds: bool, wrong: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(wrong) }
}

fn primitive() -> Result<(), &'static str> {
    static COUNT: CachePadded<AtomicU64> = CachePadded::new(AtomicU64::new(0));
    COUNT.fetch_add(2, Ordering::Relaxed);
    let backoff = Backoff::new();
    backoff.spin();
    ensure(COUNT.load(Ordering::Relaxed) >= 2, "primitive: the atomic")?;

    let mut value = 7_u64;
    let tagged = AtomicTaggedPtr::new(TaggedPtr::new(&raw mut value, 1));
    tagged.fetch_add_count(1, Ordering::Relaxed);
    let seen = tagged.load(Ordering::Relaxed);
    ensure(
        seen.count() == 2 && core::ptr::eq(seen.ptr(), &raw const value),
        "primitive: the tagged pointer",
    )
}

/// An allocator that counts what it has given and not got back.
#[derive(Default)]
struct Counting {
    blocks: Cell<usize>,
}

// SAFETY: every call goes to `Global` with the same arguments; the count changes nothing of what
// it promises, and moving the counter does not move a block.
unsafe impl Allocator for &Counting {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Global.allocate(layout)?;
        self.blocks.set(self.blocks.get() + 1);
        Ok(block)
    }

    unsafe fn deallocate(&self, address: NonNull<u8>, layout: Layout) {
        self.blocks.set(self.blocks.get() - 1);
        // SAFETY: the caller owes us what `Global` asks for, and the block came from there.
        unsafe { Global.deallocate(address, layout) }
    }
}

fn allocator() -> Result<(), &'static str> {
    let counting = Counting::default();
    let mut numbers = vec::Vec::new_in(&counting);
    numbers.extend(0..100_u32);
    ensure(counting.blocks.get() == 1, "alloc: the vector's block")?;
    drop(numbers);
    let (producer, consumer) = spsc::ring_in::<u8, _>(8, &counting);
    ensure(counting.blocks.get() > 0, "alloc: the ring's block")?;
    drop((producer, consumer));
    ensure(counting.blocks.get() == 0, "alloc: a block was kept")
}

fn queue() -> Result<(), &'static str> {
    let (mut producer, mut consumer) = spsc::ring::<u32>(4);
    ensure(
        producer.push_batch(&mut (0..9)) == 4,
        "queue: the ring's bound",
    )?;
    ensure(producer.push(9).is_err(), "queue: a full ring")?;
    let mut sum = 0;
    consumer.pop_batch(usize::MAX, |number| sum += number);
    ensure(sum == 6, "queue: the ring's items")?;

    static QUEUE: Queue<&str> = Queue::new();
    QUEUE.push("in").map_err(|_| "queue: push")?;
    ensure(QUEUE.pop() == Some("in"), "queue: pop")?;
    QUEUE.close();
    let refused = QUEUE.push("late").err().map(|closed| closed.into_inner());
    ensure(refused == Some("late"), "queue: a closed queue hands back")
}

fn timers() -> Result<(), &'static str> {
    let clock = ManualClock::new();
    let tick = Tick::new();
    let mut periodic = PeriodicTimer::new(clock.clone(), TimerConfig::new());
    let mut waiting = WaitingTimer::new(clock.clone(), Nanos::from_millis(5), TimerConfig::new());
    let first = (periodic.elapsed(&tick), waiting.check(&tick));
    ensure(first == (Nanos::ZERO, false), "timers: the first call")?;
    clock.advance(Nanos::from_millis(5));
    tick.publish(clock.now());
    let second = (periodic.elapsed(&tick), waiting.check(&tick));
    ensure(
        second == (Nanos::from_millis(5), true),
        "timers: five milliseconds",
    )
}

fn deadlines() -> Result<(), &'static str> {
    let clock = ManualClock::new();
    let at = |millis| clock.now().saturating_add(Nanos::from_millis(millis));
    let mut store = HeapStore::new();
    store.insert(at(2), 'b');
    let gone = store.insert(at(3), 'c');
    store.insert(at(1), 'a');
    ensure(store.cancel(gone) == Some('c'), "timers: cancel")?;
    let mut order = [' '; 2];
    let mut places = order.iter_mut();
    store.expire(at(9), usize::MAX, |expired| {
        if let Some(place) = places.next() {
            *place = expired.value;
        }
    });
    ensure(order == ['a', 'b'], "timers: the order of deadlines")?;

    let (timers, mut owner) = remote::channel(|| ());
    let armed = timers
        .arm(at(1), 'r')
        .map_err(|_| "timers: arm from afar")?;
    owner.poll(usize::MAX);
    ensure(owner.pop_due(at(1)).is_some(), "timers: fire from afar")?;
    ensure(
        armed.cancel().is_err(),
        "timers: a cancel that comes too late",
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_same_under_std() {
        assert_eq!(super::exercise(), Ok(()));
    }
}
