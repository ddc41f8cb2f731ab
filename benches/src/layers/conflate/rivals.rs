//! Baselines of other crates.

use rast::queue::Queue;

use super::contenders::{Baseline, Value};

/// A sharded map of newest values, and a queue of the keys whose value waits.
pub(super) struct DashAndQueue {
    map: dashmap::DashMap<u32, Value>,
    queue: Queue<u32>,
}

impl Baseline for DashAndQueue {
    fn new(keys: usize) -> Self {
        Self {
            map: dashmap::DashMap::with_capacity(keys),
            queue: Queue::new(),
        }
    }

    fn put(&self, key: u32, value: Value) {
        if self.map.insert(key, value).is_none() {
            self.queue.push(key).expect("it is open");
        }
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let taken = self.queue.pop().and_then(|key| self.map.remove(&key));
        taken.map(|(key, value)| each(key, value)).is_some().into()
    }
}

/// A lock-free map of newest values, and a queue of the keys whose value waits.
pub(super) struct PapayaAndQueue {
    map: papaya::HashMap<u32, Value>,
    queue: Queue<u32>,
}

impl Baseline for PapayaAndQueue {
    fn new(keys: usize) -> Self {
        Self {
            map: papaya::HashMap::with_capacity(keys),
            queue: Queue::new(),
        }
    }

    fn put(&self, key: u32, value: Value) {
        if self.map.pin().insert(key, value).is_none() {
            self.queue.push(key).expect("it is open");
        }
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let Some(key) = self.queue.pop() else {
            return 0;
        };
        let taken = self.map.pin().remove(&key).copied();
        taken.map(|value| each(key, value)).is_some().into()
    }
}

/// A watch channel per key, and a queue of the keys that changed since a consumer last read them.
pub(super) struct TokioWatch {
    cells: Vec<(
        tokio::sync::watch::Sender<Value>,
        std::sync::atomic::AtomicBool,
    )>,
    queue: Queue<u32>,
}

impl Baseline for TokioWatch {
    fn new(keys: usize) -> Self {
        let cell = || (tokio::sync::watch::Sender::new([0; 3]), false.into());
        Self {
            cells: (0..keys).map(|_| cell()).collect(),
            queue: Queue::new(),
        }
    }

    fn put(&self, key: u32, value: Value) {
        let (cell, is_queued) = &self.cells[key as usize];
        cell.send_replace(value);
        if !is_queued.swap(true, std::sync::atomic::Ordering::AcqRel) {
            self.queue.push(key).expect("it is open");
        }
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let Some(key) = self.queue.pop() else {
            return 0;
        };
        let (cell, is_queued) = &self.cells[key as usize];
        is_queued.swap(false, std::sync::atomic::Ordering::AcqRel);
        let value = *cell.borrow();
        each(key, value);
        1
    }
}

/// A channel without conflation; consumers share its receiver.
pub(super) struct TokioMpsc {
    sender: tokio::sync::mpsc::UnboundedSender<(u32, Value)>,
    receiver: std::sync::Mutex<tokio::sync::mpsc::UnboundedReceiver<(u32, Value)>>,
}

impl Baseline for TokioMpsc {
    fn new(_: usize) -> Self {
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        Self {
            sender,
            receiver: receiver.into(),
        }
    }

    fn put(&self, key: u32, value: Value) {
        self.sender.send((key, value)).expect("it is open");
    }

    fn take(&self, each: &mut dyn FnMut(u32, Value)) -> u64 {
        let taken = self.receiver.lock().expect("no panic inside").try_recv();
        taken.map(|(key, value)| each(key, value)).is_ok().into()
    }
}
