//! The executors under one face: ours, and baselines of std.
//!
//! A value is 24 bytes and carries its stamp; keys are numbers below the number of keys, and each producer may keep what it
//! looked up before.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use rast::conflate::{Conflator, Consumer, KeyHandle, Marks, Producer};

/// What travels: a stamp and two more words.
pub(super) type Value = [u64; 3];

/// One producer's way in.
pub(super) trait Put {
    fn put(&mut self, key: u32, value: Value);
}

/// One consumer's way out: handles what it finds and returns how much that was.
pub(super) trait Take {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64;
}

/// An executor for so many keys.
pub(super) trait Executor: Sync + Sized + 'static {
    fn new(keys: usize) -> Self;
    fn producer(&self) -> Box<dyn Put + Send + '_>;
    fn consumer(&self) -> Box<dyn Take + Send + '_>;
}

/// Ours, with so many cells, by the tree or the flat mask.
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

impl Executor for MapAndDeque {
    fn new(keys: usize) -> Self {
        Self(Mutex::new((
            HashMap::with_capacity(keys),
            VecDeque::with_capacity(keys),
        )))
    }

    fn producer(&self) -> Box<dyn Put + Send + '_> {
        Box::new(self)
    }

    fn consumer(&self) -> Box<dyn Take + Send + '_> {
        Box::new(self)
    }
}

impl Put for &MapAndDeque {
    fn put(&mut self, key: u32, value: Value) {
        let (map, queue) = &mut *self.0.lock().expect("no panic inside");
        if map.insert(key, value).is_none() {
            queue.push_back(key);
        }
    }
}

impl Take for &MapAndDeque {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64 {
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
    cells: Vec<Mutex<Option<Value>>>,
    queue: rast::queue::Queue<u32>,
}

impl Executor for MutexPerKey {
    fn new(keys: usize) -> Self {
        Self {
            cells: (0..keys).map(|_| Mutex::new(None)).collect(),
            queue: rast::queue::Queue::new(),
        }
    }

    fn producer(&self) -> Box<dyn Put + Send + '_> {
        Box::new(self)
    }

    fn consumer(&self) -> Box<dyn Take + Send + '_> {
        Box::new(self)
    }
}

impl Put for &MutexPerKey {
    fn put(&mut self, key: u32, value: Value) {
        let cell = &self.cells[key as usize];
        let old = cell.lock().expect("no panic inside").replace(value);
        if old.is_none() {
            self.queue.push(key).expect("it is open");
        }
    }
}

impl Take for &MutexPerKey {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let Some(key) = self.queue.pop() else {
            return 0;
        };
        let taken = self.cells[key as usize]
            .lock()
            .expect("no panic inside")
            .take();
        taken.map(|value| each(key, value)).is_some().into()
    }
}

/// A ring as the Disruptor's, without conflation: producers claim by a counter and wait for room, each slot has a sequence.
///
/// Consumers share the ring's work: a value is taken by one of them.
pub(super) struct Ring {
    slots: Vec<Mutex<(u64, u32, Value)>>,
    /// The sequence of each slot: its position when it may be written, one more when it may be read.
    turns: Vec<AtomicU64>,
    next: AtomicU64,
    taken: AtomicU64,
}

const RING: u64 = 1 << 12;

impl Executor for Ring {
    fn new(_: usize) -> Self {
        Self {
            slots: (0..RING).map(|_| Mutex::default()).collect(),
            turns: (0..RING).map(AtomicU64::new).collect(),
            next: AtomicU64::new(0),
            taken: AtomicU64::new(0),
        }
    }

    fn producer(&self) -> Box<dyn Put + Send + '_> {
        Box::new(self)
    }

    fn consumer(&self) -> Box<dyn Take + Send + '_> {
        Box::new(self)
    }
}

impl Put for &Ring {
    fn put(&mut self, key: u32, value: Value) {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let turn = &self.turns[(at % RING) as usize];
        let mut patience = crate::workers::Patience::new();
        while turn.load(Ordering::Acquire) != at {
            patience.wait();
        }
        // Held by one thread at a time by its turn: never contended.
        *self.slots[(at % RING) as usize].lock().expect("no panic") = (at, key, value);
        turn.store(at + 1, Ordering::Release);
    }
}

impl Take for &Ring {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64 {
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

/// A watch channel of std's parts per key, and a list of those that changed: what a program writes that has one per key.
pub(super) struct WatchPerKey {
    cells: Vec<Mutex<Option<Value>>>,
    changed: Mutex<VecDeque<u32>>,
    is_changed: Condvar,
}

impl Executor for WatchPerKey {
    fn new(keys: usize) -> Self {
        Self {
            cells: (0..keys).map(|_| Mutex::new(None)).collect(),
            changed: Mutex::default(),
            is_changed: Condvar::new(),
        }
    }

    fn producer(&self) -> Box<dyn Put + Send + '_> {
        Box::new(self)
    }

    fn consumer(&self) -> Box<dyn Take + Send + '_> {
        Box::new(self)
    }
}

impl Put for &WatchPerKey {
    fn put(&mut self, key: u32, value: Value) {
        let cell = &self.cells[key as usize];
        let old = cell.lock().expect("no panic inside").replace(value);
        if old.is_none() {
            self.changed.lock().expect("no panic inside").push_back(key);
            self.is_changed.notify_one();
        }
    }
}

impl Take for &WatchPerKey {
    fn take(&mut self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let key = self.changed.lock().expect("no panic inside").pop_front();
        let Some(key) = key else {
            return 0;
        };
        let taken = self.cells[key as usize]
            .lock()
            .expect("no panic inside")
            .take();
        taken.map(|value| each(key, value)).is_some().into()
    }
}
