//! What is measured, behind one trait: the conflator, and baselines of std.
//!
//! A value has 24 bytes and contains its stamp. Keys are numbers below the number of keys. A
//! producer may keep what it looked up for a key.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use rast::conflate::{Conflator, Consumer, KeyHandle, Marks, Producer};

/// What travels: a stamp and two more words.
pub(super) type Value = [u64; 3];

/// A producer.
pub(super) trait Put {
    fn put(&mut self, key: u32, value: Value);
}

/// A consumer: handles the values that it finds, and returns their number.
pub(super) trait Take {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64;
}

/// Makes producers and consumers for a number of keys.
pub(super) trait Executor: Sync + Sized + 'static {
    fn new(keys: usize) -> Self;
    fn producer(&self) -> Box<dyn Put + Send + '_>;
    fn consumer(&self) -> Box<dyn Take + Send + '_>;
}

/// An executor that all its producers and consumers use by reference.
pub(super) trait Baseline: Sync + Sized + 'static {
    fn new(keys: usize) -> Self;
    fn put(&self, key: u32, value: Value);
    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64;
}

impl<B: Baseline> Executor for B {
    fn new(keys: usize) -> Self {
        B::new(keys)
    }

    fn producer(&self) -> Box<dyn Put + Send + '_> {
        Box::new(self)
    }

    fn consumer(&self) -> Box<dyn Take + Send + '_> {
        Box::new(self)
    }
}

impl<B: Baseline> Put for &B {
    fn put(&mut self, key: u32, value: Value) {
        B::put(self, key, value);
    }
}

impl<B: Baseline> Take for &B {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        B::take(self, each)
    }
}

/// A newest value per key, each under a mutex of its own.
struct Slots(Vec<Mutex<Option<Value>>>);

impl Slots {
    fn new(keys: usize) -> Self {
        Self((0..keys).map(|_| Mutex::new(None)).collect())
    }

    /// Replaces the value of a key; returns whether there was none.
    fn put(&self, key: u32, value: Value) -> bool {
        let mut slot = self.0[key as usize].lock().expect("no panic inside");
        slot.replace(value).is_none()
    }

    /// Hands the value of a key out; returns how many there were.
    fn take(&self, key: u32, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let taken = self.0[key as usize].lock().expect("no panic inside").take();
        taken.map(|value| each(key, value)).is_some().into()
    }
}

/// The conflator with a number of cells, by the tree or the flat mask.
pub(super) struct Ours<const CELLS: usize, const FLAT: bool>(Conflator<u32, Value>);

struct OursPut {
    producer: Producer<u32, Value>,
    handles: Vec<KeyHandle<u32, Value>>,
}

impl<const CELLS: usize, const FLAT: bool> Executor for Ours<CELLS, FLAT> {
    fn new(keys: usize) -> Self {
        let marks = if FLAT { Marks::Flat } else { Marks::Tree };
        let cells = CELLS.max(keys * 2);
        let builder = Conflator::builder().marks(marks).keys(cells / 2);
        Self(builder.build())
    }

    fn producer(&self) -> Box<dyn Put + Send + '_> {
        // The keys are spread over the table by their hashes.
        let handles = (0..self.0.cells() as u32 / 2)
            .take(2048)
            .map(|key| self.0.handle(&key).expect("it grows"))
            .collect();
        let producer = self.0.producer();
        Box::new(OursPut { producer, handles })
    }

    fn consumer(&self) -> Box<dyn Take + Send + '_> {
        Box::new(self.0.consumer().expect("any number"))
    }
}

impl Put for OursPut {
    fn put(&mut self, key: u32, value: Value) {
        let handle = &self.handles[key as usize];
        self.producer.put(handle, value).expect("it is open");
    }
}

impl Take for Consumer<u32, Value> {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        self.pass(|key, value| each(*key, value)).handled
    }
}

/// A mutex around a map of newest values and a queue of keys.
pub(super) struct MapAndDeque(Mutex<(HashMap<u32, Value>, VecDeque<u32>)>);

impl Baseline for MapAndDeque {
    fn new(keys: usize) -> Self {
        Self(Mutex::new((
            HashMap::with_capacity(keys),
            VecDeque::with_capacity(keys),
        )))
    }

    fn put(&self, key: u32, value: Value) {
        let (map, queue) = &mut *self.0.lock().expect("no panic inside");
        if map.insert(key, value).is_none() {
            queue.push_back(key);
        }
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let taken = {
            let (map, queue) = &mut *self.0.lock().expect("no panic inside");
            queue
                .pop_front()
                .and_then(|key| Some((key, map.remove(&key)?)))
        };
        taken.map(|(key, value)| each(key, value)).is_some().into()
    }
}

/// A mutex per key, and a queue of the indices whose value waits.
pub(super) struct MutexPerKey {
    slots: Slots,
    queue: rast::queue::Queue<u32>,
}

impl Baseline for MutexPerKey {
    fn new(keys: usize) -> Self {
        Self {
            slots: Slots::new(keys),
            queue: rast::queue::Queue::new(),
        }
    }

    fn put(&self, key: u32, value: Value) {
        if self.slots.put(key, value) {
            self.queue.push(key).expect("it is open");
        }
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let Some(key) = self.queue.pop() else {
            return 0;
        };
        self.slots.take(key, each)
    }
}

/// A ring like the Disruptor's, without conflation. Producers claim by a counter and wait for room;
/// each slot has a sequence.
///
/// Consumers share the values of the ring: one of them takes each value.
pub(super) struct Ring {
    slots: Vec<Mutex<(u64, u32, Value)>>,
    /// The sequence of each slot: its position when it may be written, one more when it may be
    /// read.
    turns: Vec<AtomicU64>,
    next: AtomicU64,
    taken: AtomicU64,
}

const RING: u64 = 1 << 12;

impl Baseline for Ring {
    fn new(_: usize) -> Self {
        Self {
            slots: (0..RING).map(|_| Mutex::default()).collect(),
            turns: (0..RING).map(AtomicU64::new).collect(),
            next: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn put(&self, key: u32, value: Value) {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let turn = &self.turns[(at % RING) as usize];
        let mut patience = crate::workers::Patience::new();
        while turn.load(Ordering::Acquire) != at {
            patience.wait();
        }
        // Never contended: the turn of a slot lets one thread at a time access it.
        *self.slots[(at % RING) as usize].lock().expect("no panic") = (at, key, value);
        turn.store(at + 1, Ordering::Release);
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let at = self.taken.load(Ordering::Relaxed);
        let turn = &self.turns[(at % RING) as usize];
        if turn.load(Ordering::Acquire) != at + 1 {
            return 0;
        }
        let claim = self
            .taken
            .compare_exchange(at, at + 1, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_err() {
            return 0;
        }
        let (_, key, value) = *self.slots[(at % RING) as usize].lock().expect("no panic");
        turn.store(at + RING, Ordering::Release);
        each(key, value);
        1
    }
}

/// A watch channel per key, made of std's mutex and condition variable, and a list of the keys that
/// changed.
pub(super) struct WatchPerKey {
    slots: Slots,
    changed: Mutex<VecDeque<u32>>,
    is_changed: Condvar,
}

impl Baseline for WatchPerKey {
    fn new(keys: usize) -> Self {
        Self {
            slots: Slots::new(keys),
            changed: Mutex::default(),
            is_changed: Condvar::new(),
        }
    }

    fn put(&self, key: u32, value: Value) {
        if self.slots.put(key, value) {
            self.changed.lock().expect("no panic inside").push_back(key);
            self.is_changed.notify_one();
        }
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let key = self.changed.lock().expect("no panic inside").pop_front();
        let Some(key) = key else {
            return 0;
        };
        self.slots.take(key, each)
    }
}
