//! The owner's side: which ids are given out, what was retired, and which tasks wait for a commit.

use core::any::Any;
use core::cell::{Cell, RefCell};
use core::pin::Pin;
use core::ptr::NonNull;
use core::task::{Context, Poll, Waker};
use std_alloc::boxed::Box;
use std_alloc::collections::BTreeMap;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_executor::ids::Ids;
use rast_executor::places::{Places, Vacant};

use super::resource::{Id, Resource};
use super::table::{Key, Log};
use super::wakers::Wakers;

use crate::epoch::{Erased, Garbage, Retired, Writer};
use crate::primitive::panics::quietly;
use crate::primitive::sync::Arc;
use crate::waker_list::wake_all;

/// A parked reactor that is this many commits behind is woken, so that their nodes can be freed.
const LAG: u64 = 1024;
/// A parked reactor that is behind at all is woken when the nodes have this many bytes.
const NODES_MAX: usize = 1 << 20;
/// The last commit is kept until there is a later one. If it has this many bytes, an empty commit
/// follows.
const LAST_MAX: usize = 64 << 10;
/// Maximum number of values that are destroyed in one turn, so that a turn stays short.
const PER_TURN: usize = 256;

/// A resource that was committed.
pub(super) struct Place<T: Resource> {
    pub(super) generation: u32,
    /// The commit that changed it last.
    pub(super) last: u64,
    pub(super) bytes: usize,
    /// Null if there is none.
    pub(super) value: *mut T,
    /// Null if it has none.
    pub(super) key: *mut Key<T::Key>,
}

impl<T: Resource> Vacant for Place<T> {
    const VACANT: Self = Self {
        generation: 0,
        last: 0,
        bytes: 0,
        value: core::ptr::null_mut(),
        key: core::ptr::null_mut(),
    };

    fn is_vacant(&self) -> bool {
        self.value.is_null()
    }
}

/// The owner's state of one type.
pub(super) struct Estate<T: Resource> {
    /// The committed resources that were not removed, by the index of their id.
    places: Places<Place<T>>,
    pub(super) ids: Ids,
}

impl<T: Resource> Estate<T> {
    pub(super) fn new() -> Self {
        Self {
            places: Places::default(),
            ids: Ids::default(),
        }
    }

    /// The last commit that changed a resource; `None` if there is no such resource any more.
    pub(super) fn last(&self, id: Id<T>) -> Option<u64> {
        let place = self.places.get(id.index)?;
        (!place.is_vacant() && place.generation == id.generation).then_some(place.last)
    }

    /// Stores a value and retires the one that it replaces. A key is given only with a new
    /// resource.
    pub(super) fn put(
        &mut self,
        id: Id<T>,
        (value, bytes): (Box<T>, usize),
        key: Option<Box<Key<T::Key>>>,
        number: u64,
        retired: &mut Retired,
    ) -> NonNull<T> {
        let value = NonNull::from(Box::leak(value));
        if let Some(place) = self.places.get_mut(id.index)
            && !place.is_vacant()
        {
            retire(&mut place.value, place.bytes, number, retired);
            (place.value, place.bytes, place.last) = (value.as_ptr(), bytes, number);
            return value;
        }
        let place = Place {
            generation: id.generation,
            last: number,
            bytes,
            value: value.as_ptr(),
            key: key.map_or(core::ptr::null_mut(), Box::into_raw),
        };
        self.places.put(id.index, place);
        value
    }

    /// The key of a resource; null if it has none.
    pub(super) fn key(&self, id: Id<T>) -> *const Key<T::Key> {
        let place = self.places.get(id.index);
        place.map_or(core::ptr::null(), |place| place.key.cast_const())
    }

    /// Removes a resource, and retires it and its key.
    pub(super) fn remove(&mut self, id: Id<T>, number: u64, retired: &mut Retired) {
        self.places.take(id.index).retire(number, retired);
        self.ids.take_back(id.index, id.generation);
    }

    /// Frees memory if far more resources were removed than are left.
    pub(super) fn fit(&mut self) {
        self.places.fit();
    }
}

impl<T: Resource> Place<T> {
    /// Retires the value and the key.
    fn retire(mut self, number: u64, retired: &mut Retired) {
        retire(&mut self.value, self.bytes, number, retired);
        retire(&mut self.key, size_of::<Key<T::Key>>(), number, retired);
    }
}

/// Takes the value or the key from a place and retires it, if there is one.
fn retire<V: Send + 'static>(place: &mut *mut V, bytes: usize, number: u64, retired: &mut Retired) {
    if let Some(value) = NonNull::new(core::mem::replace(place, core::ptr::null_mut())) {
        // SAFETY: a commit made the pointer from a box, and the place gives it away here.
        let value = unsafe { Erased::of(value) };
        retired.push(number, bytes, Garbage::Value(value));
    }
}

/// The owner's state of one type, without the type.
pub(super) trait AnyEstate: Any {
    /// Retires all resources.
    fn retire(&mut self, retired: &mut Retired);
}

impl<T: Resource> AnyEstate for Estate<T> {
    fn retire(&mut self, retired: &mut Retired) {
        for place in core::mem::take(&mut self.places).into_values() {
            place.retire(0, retired);
        }
    }
}

/// The resources of an owner that has ended, dropped when no reactor reads them.
struct Remains(Vec<Garbage>);

impl Drop for Remains {
    fn drop(&mut self) {
        for garbage in self.0.drain(..) {
            quietly(|| garbage.end());
        }
    }
}

/// What one reactor owns.
pub(crate) struct Owned {
    pub(super) writer: RefCell<Writer<Log>>,
    /// By table; `None` if another reactor owns it.
    pub(super) estates: RefCell<Vec<Option<Box<dyn AnyEstate>>>>,
    pub(super) retired: RefCell<Retired>,
    /// Bytes of the commits that have a later one and are not freed yet.
    node_bytes: Cell<usize>,
    /// Bytes of the last commit, which stays.
    last_bytes: Cell<usize>,
    limit: usize,
    /// All reactors have applied every commit up to this one.
    applied: Cell<u64>,
    /// Tasks that wait, by what they wait for and the number of the wait.
    waiting: RefCell<BTreeMap<(Event, u64), Waker>>,
    /// Number of waits that there ever were.
    waits: Cell<u64>,
    is_collecting: Cell<bool>,
    wakers: Arc<Wakers>,
}

impl Owned {
    pub(super) fn new(
        writer: Writer<Log>,
        estates: Vec<Option<Box<dyn AnyEstate>>>,
        limit: usize,
        wakers: Arc<Wakers>,
    ) -> Self {
        Self {
            writer: RefCell::new(writer),
            estates: RefCell::new(estates),
            retired: RefCell::default(),
            node_bytes: Cell::new(0),
            last_bytes: Cell::new(0),
            limit: limit.max(1),
            applied: Cell::new(0),
            waiting: RefCell::default(),
            waits: Cell::new(0),
            is_collecting: Cell::new(false),
            wakers,
        }
    }

    /// Calls `f` with the state of a type that this reactor owns. `f` runs no user code.
    pub(super) fn with_estate<T: Resource, R>(
        &self,
        table: usize,
        f: impl FnOnce(&mut Estate<T>) -> R,
    ) -> Option<R> {
        let mut estates = self.estates.borrow_mut();
        let estate: &mut dyn Any = &mut **estates[table].as_mut()?;
        let Some(estate) = estate.downcast_mut() else {
            unreachable!("owned: estates are in the order of the types");
        };
        Some(f(estate))
    }

    /// The number of the last commit.
    pub(super) fn number(&self) -> u64 {
        self.writer.borrow().number()
    }

    /// Bytes that are retired and not destroyed yet.
    pub(super) fn retired_bytes(&self) -> usize {
        self.retired
            .borrow()
            .bytes()
            .saturating_add(self.node_bytes.get())
    }

    pub(super) fn is_full(&self) -> bool {
        self.retired_bytes() >= self.limit
    }

    pub(super) fn push(&self, log: Log, bytes: usize) -> u64 {
        let bytes = bytes.saturating_add(size_of::<Log>() + 4 * size_of::<usize>());
        let last = self.last_bytes.replace(bytes);
        self.node_bytes
            .set(self.node_bytes.get().saturating_add(last));
        self.writer.borrow_mut().push(log, bytes)
    }

    fn is_idle(&self) -> bool {
        !self.waits_for_reactors() && !self.writer.borrow().has_nodes()
    }

    /// Returns `true` if this owner waits for other reactors to apply commits or end transactions.
    fn waits_for_reactors(&self) -> bool {
        self.retired.borrow().first().is_some() || !self.waiting.borrow().is_empty()
    }

    /// Once a turn: destroys values that no reactor can read, and wakes tasks whose commit is
    /// applied.
    pub(super) fn turn(&self) {
        if !self.is_idle() {
            self.collect(PER_TURN);
        } else if self.last_bytes.get() > LAST_MAX {
            // All reactors have applied the last commit. An empty commit replaces it as the last
            // node.
            self.push(Log::new(), 0);
        }
    }

    /// Destroys up to `most` values that no reactor can read. Runs user code.
    pub(super) fn collect(&self, most: usize) {
        // A destructor may commit, and a commit calls this function.
        if self.is_collecting.replace(true) {
            return;
        }
        let scan = {
            let mut writer = self.writer.borrow_mut();
            let scan = writer.scan();
            let freed = writer.free(scan);
            self.node_bytes
                .set(self.node_bytes.get().saturating_sub(freed));
            let has_much =
                self.retired_bytes() >= self.limit / 2 || self.node_bytes.get() >= NODES_MAX;
            let lag = if has_much { 1 } else { LAG };
            if writer.has_nodes() {
                for reactor in writer.sleepers_behind(lag) {
                    self.wakers.wake(reactor);
                }
            }
            scan
        };
        self.applied.set(scan.applied);
        let mut number = 0;
        while number < most {
            let garbage = self.retired.borrow_mut().pop(scan.passed);
            let Some(garbage) = garbage else { break };
            quietly(|| garbage.end());
            number += 1;
        }
        self.is_collecting.set(false);
        let first = || {
            let is_full = self.is_full();
            let from = if is_full {
                Event::Applied(0)
            } else {
                Event::Room
            };
            // The current number, not that of the scan above: a waker may have called this function
            // again, and begun another wait.
            self.first_wait(from, self.applied.get())
        };
        while let Some(wait) = first() {
            let waker = self.waiting.borrow_mut().remove(&wait);
            wake_all(waker);
        }
    }

    /// The first task that waits for an event between `from` and the application of a commit.
    fn first_wait(&self, from: Event, applied: u64) -> Option<(Event, u64)> {
        let waiting = self.waiting.borrow();
        let to = (Event::Applied(applied), u64::MAX);
        waiting.range((from, 0)..=to).next().map(|(&wait, _)| wait)
    }

    /// Called before a sleep, before its fence. Returns `true` if this owner waits for something.
    pub(super) fn begin_wait(&self) -> bool {
        let waits = self.waits_for_reactors();
        if waits {
            self.writer.borrow().begin_wait();
        }
        waits
    }

    /// Called after the fence of a sleep. Returns `true` if there is something to do now.
    pub(super) fn is_ready(&self) -> bool {
        let scan = self.writer.borrow().scan();
        let first = self.retired.borrow().first();
        let is_passed = first.is_some_and(|first| first <= scan.passed);
        let is_applied = self.first_wait(Event::Applied(0), scan.applied).is_some();
        // Tasks that wait for room could continue.
        let first = self.waiting.borrow().keys().next().copied();
        let waits_for_room = first.is_some_and(|(event, _)| event == Event::Room);
        let frees = waits_for_room && self.writer.borrow().may_free(scan);
        is_passed || is_applied || frees
    }

    pub(super) fn end_wait(&self) {
        self.writer.borrow().end_wait();
    }

    /// Returns `true` if what a task waits for has happened.
    fn has_happened(&self, event: Event) -> bool {
        let Event::Applied(number) = event else {
            return !self.is_full();
        };
        if self.applied.get() < number {
            let scan = self.writer.borrow().scan();
            self.applied.set(scan.applied);
        }
        self.applied.get() >= number
    }
}

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// There is room to commit.
    Room,
    /// All reactors have applied the commit of this number.
    Applied(u64),
}

impl Drop for Owned {
    fn drop(&mut self) {
        let retired = self.retired.get_mut();
        for estate in self.estates.get_mut().iter_mut().flatten() {
            estate.retire(retired);
        }
        let remains = Remains(retired.take_all().collect());
        self.writer.get_mut().leave(Box::new(remains));
    }
}

/// Waits until a commit is applied by all reactors; made by
/// [`Changes::commit`](crate::registry::Changes::commit).
///
/// The commit is already published, so dropping this future does not undo it. A reactor that has
/// stopped, or is parked, counts as having applied the commit: a parked reactor applies it before
/// it runs another task. A reactor that is blocked in a poll is waited for.
#[must_use = "await it to know that all reactors have applied the commit, or drop it"]
#[derive(Debug)]
pub struct Committed {
    /// `None` if the reactor owns nothing, so that no change can have been made.
    owned: Option<Rc<Owned>>,
    event: Event,
    /// The number of the wait, once it has begun.
    wait: Option<u64>,
}

impl Committed {
    pub(super) fn new(owned: Option<Rc<Owned>>, number: u64) -> Self {
        Self {
            owned,
            event: Event::Applied(number),
            wait: None,
        }
    }

    /// As [`room`](crate::registry::room).
    pub(super) fn room(owned: Option<Rc<Owned>>) -> Self {
        Self {
            owned,
            event: Event::Room,
            wait: None,
        }
    }
}

impl Future for Committed {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let Some(owned) = &this.owned else {
            return Poll::Ready(());
        };
        if owned.has_happened(this.event) {
            return Poll::Ready(());
        }
        let wait = *this.wait.get_or_insert_with(|| {
            let wait = owned.waits.get();
            owned.waits.set(wait + 1);
            wait
        });
        // Cloned and dropped outside of the borrow, since wakers are code of the user.
        let waker = cx.waker().clone();
        let old = owned.waiting.borrow_mut().insert((this.event, wait), waker);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Committed {
    fn drop(&mut self) {
        if let (Some(owned), Some(wait)) = (&self.owned, self.wait) {
            let waker = owned.waiting.borrow_mut().remove(&(self.event, wait));
            drop(waker);
        }
    }
}

impl core::fmt::Debug for Owned {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Owned")
            .field("retired_bytes", &self.retired_bytes())
            .finish_non_exhaustive()
    }
}
