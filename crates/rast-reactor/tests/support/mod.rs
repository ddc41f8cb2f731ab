//! What the tests share, among it resources that are counted and notice their destruction.
#![allow(dead_code, reason = "each test uses a part")]

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;

use rast_reactor::executor::{block_on, yield_now};
use rast_reactor::registry::{Changes, Children, Id, Resource, Resources, change};
use rast_reactor::{Builder, Pool, Reactors};

#[cfg(feature = "io")]
pub(crate) mod io;

/// Long enough for any machine; a test that waits for it has failed.
pub(crate) const LONG: Duration = Duration::from_secs(120);

const ALIVE: u64 = 0x5eed_f00d_cafe_d00d;

pub(crate) fn builder(number: usize) -> Builder {
    let pool = Pool::builder().threads([0, 0, 1]);
    Reactors::builder().number(number).pool(pool)
}

/// Reactors with some resources, and a count of values.
pub(crate) fn reactors(
    number: usize,
    own: impl FnOnce(Resources) -> Resources,
) -> (Reactors, Live) {
    let resources = own(Resources::new());
    let reactors = builder(number).resources(resources).build().unwrap();
    (reactors, Live::default())
}

/// Reactor 0 owns the values.
pub(crate) fn own(resources: Resources) -> Resources {
    resources.own::<Value>(0)
}

/// Inserts a value, and waits for the commit.
pub(crate) async fn put(key: u64, value: Value) -> Id<Value> {
    let mut changes = change();
    let id = changes.insert(key, value).unwrap();
    changes.commit().unwrap().await;
    id
}

/// A change of the number of a value.
pub(crate) fn update(id: Id<Value>, number: u64) -> Changes {
    let mut changes = change();
    changes.update(id, |value| value.number = number).unwrap();
    changes
}

/// Runs a future on a reactor, and waits for it.
#[track_caller]
pub(crate) fn on<F, R>(reactors: &Reactors, index: usize, begin: F) -> R::Output
where
    F: FnOnce() -> R + Send + 'static,
    R: Future + 'static,
    R::Output: Send,
{
    block_on(reactors.reactor(index).unwrap().spawn(begin)).unwrap()
}

/// Waits until the reactor has passed at least one end of a turn.
pub(crate) async fn turn() {
    for _ in 0..130 {
        yield_now().await;
    }
}

/// Keeps a reactor in one poll until the sender is used or dropped.
pub(crate) fn block(reactors: &Reactors, index: usize) -> Sender<()> {
    let (release, gate) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let task = reactors.reactor(index).unwrap().spawn(move || async move {
        begun.send(()).unwrap();
        let _ = gate.recv();
    });
    task.detach();
    begins.recv().unwrap();
    release
}

/// How many values there are, and on which threads others were dropped.
#[derive(Clone, Default)]
pub(crate) struct Live {
    count: Arc<AtomicUsize>,
    dropped: Arc<Mutex<Vec<ThreadId>>>,
}

impl Live {
    pub(crate) fn value(&self, number: u64) -> Value {
        self.count.fetch_add(1, Ordering::Relaxed);
        Value {
            alive: ALIVE,
            number,
            children: None,
            bytes: size_of::<Value>(),
            bytes_panics: false,
            in_drop: None,
            live: self.clone(),
        }
    }

    pub(crate) fn parent(&self, list: Id<Children<Value>>) -> Value {
        let mut value = self.value(0);
        value.children = Some(list);
        value
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The threads of the drops since the last call.
    pub(crate) fn dropped(&self) -> Vec<ThreadId> {
        std::mem::take(&mut self.dropped.lock().unwrap())
    }
}

/// A resource that knows whether it was destroyed.
pub(crate) struct Value {
    alive: u64,
    pub(crate) number: u64,
    pub(crate) children: Option<Id<Children<Value>>>,
    pub(crate) bytes: usize,
    pub(crate) bytes_panics: bool,
    pub(crate) in_drop: Option<Arc<dyn Fn() + Send + Sync>>,
    live: Live,
}

impl Value {
    pub(crate) fn number(&self) -> u64 {
        assert_eq!(self.alive, ALIVE, "it was destroyed");
        self.number
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        assert_eq!(self.alive, ALIVE, "it was destroyed");
        let mut value = self.live.value(self.number);
        value.children = self.children;
        value.bytes = self.bytes;
        value.in_drop.clone_from(&self.in_drop);
        value
    }
}

impl Resource for Value {
    type Key = u64;

    fn bytes(&self) -> usize {
        assert!(!self.bytes_panics, "the size does");
        self.bytes
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert_eq!(self.alive, ALIVE, "it is destroyed once");
        // Kept although nothing reads it after: a reader that comes too late finds it.
        // SAFETY: a plain field of this value.
        unsafe { core::ptr::write_volatile(&raw mut self.alive, 0) };
        self.live.count.fetch_sub(1, Ordering::Relaxed);
        self.live
            .dropped
            .lock()
            .unwrap()
            .push(std::thread::current().id());
        if let Some(f) = self.in_drop.take() {
            f();
        }
    }
}
