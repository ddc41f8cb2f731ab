//! All resources as one reactor sees them, and the steps by which its turn updates them.
//!
//! ```text
//!   poll tasks ──► turn: follow, prune old versions, publish, report, destroy ──► poll tasks
//!                    └──► nothing to run: park (publish "parked", fence, check again) ──► sleep
//!                                         unpark (publish "runs", fence, follow) ◄──────────┘
//! ```
//!
//! Rules:
//!
//! 1. Between `park` and `unpark` no transaction is opened. If user code that the driver runs
//!    during its sleep, such as a waker, opens one, `open` ends the park first.
//! 2. After `leave`, at the end of the reactor, no transaction is opened and no commit is applied.
//!    From then on owners do not wait for this reactor, and free the resources that it would read.
//!    Only `Changes` in a thread-local can try to open a transaction then.

use core::any::TypeId;
use core::cell::{Cell, RefCell};
use core::mem::ManuallyDrop;
use core::panic::Location;
use core::task::Waker;
use core::time::Duration;
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use rast_executor::SharedClock;

use super::owned::Owned;
use super::resource::Resource;
use super::table::{AnyTable, Log, Table};
use super::wakers::Wakers;

use crate::epoch::{LongRead, Reader, State, Transactions};
use crate::origin::Origin;
use crate::primitive::panics::quietly;
use crate::primitive::sync::Arc;
use crate::primitive::{self, Counter};

/// The callback for long transactions.
pub(super) type Report = Arc<dyn Fn(&LongRead<'_>) + Send + Sync>;

/// State that all replicas of a set share.
pub(crate) struct Shared {
    pub(crate) wakers: Arc<Wakers>,
    pub(super) limit: Duration,
    pub(super) report: Option<Report>,
    /// The number of long transactions, by reactor, whose thread counts them.
    pub(crate) long_reads: Box<[Counter]>,
}

/// The table of a type.
pub(super) struct Typed {
    pub(super) id: TypeId,
    pub(super) owner: usize,
    pub(super) table: Box<dyn AnyTable>,
    /// The address of the `Table<T>` whose `T` has that id.
    pub(super) address: *const (),
}

/// The resources, as one reactor sees them; on its thread alone.
pub(crate) struct Replica {
    pub(super) reactor: usize,
    pub(super) shared: Arc<Shared>,
    clock: SharedClock,
    types: Box<[Typed]>,
    /// The epoch of `reader`.
    epoch: Cell<u64>,
    /// The state of `reader`; transactions may be opened while it runs.
    state: Cell<State>,
    /// The oldest epoch for which tables keep old versions, if they keep any.
    past: Cell<Option<u64>>,
    open: Transactions,
    reader: RefCell<Reader<Log>>,
    pub(super) owned: Option<Rc<Owned>>,
}

primitive::thread_local! {
    /// The replica of the call of `enter` that the thread is in; null outside of one. It has no
    /// destructor, so reading it is one load.
    static CURRENT: Cell<*const Replica> = const { Cell::new(core::ptr::null()) };
}

/// Calls `f` with the replica of the calling thread's reactor.
#[inline]
pub(super) fn with_current<R>(f: impl FnOnce(Option<&Rc<Replica>>) -> R) -> R {
    let current = CURRENT.try_with(Cell::get).unwrap_or(core::ptr::null());
    if current.is_null() {
        return f(None);
    }
    // SAFETY: `enter` got the pointer from an `Rc` that it borrows, and takes it away before it
    // returns. It is beneath this call on the thread, and this count is given up without a drop.
    let replica = ManuallyDrop::new(unsafe { Rc::from_raw(current) });
    f(Some(&replica))
}

/// A poll of the task `origin` has ended: records it as the task of transactions that the poll left
/// open.
#[inline]
pub(crate) fn polled(origin: &Origin) {
    with_current(|replica| {
        if let Some(replica) = replica {
            replica.open.left_open(origin, || replica.clock.now());
        }
    });
}

impl Replica {
    pub(super) fn new(
        reactor: usize,
        shared: Arc<Shared>,
        clock: SharedClock,
        types: Vec<Typed>,
        reader: Reader<Log>,
        owned: Option<Owned>,
    ) -> Self {
        Self {
            reactor,
            clock,
            types: types.into(),
            epoch: Cell::new(0),
            state: Cell::new(State::Runs),
            past: Cell::new(None),
            open: Transactions::new(),
            reader: RefCell::new(reader),
            owned: owned.map(Rc::new),
            shared,
        }
    }

    /// Calls `f` with this as the replica of the thread.
    pub(crate) fn enter<R>(self: &Rc<Self>, f: impl FnOnce() -> R) -> R {
        /// Ends that, also after a panic.
        struct Leave;
        impl Drop for Leave {
            fn drop(&mut self) {
                let _ = CURRENT.try_with(|current| current.set(core::ptr::null()));
            }
        }
        CURRENT.with(|current| current.set(Rc::as_ptr(self)));
        let _leave = Leave;
        f()
    }

    /// Stores the waker of this reactor's main task, with which others wake it.
    pub(crate) fn woken_by(&self, waker: &Waker) {
        self.shared.wakers.set(self.reactor, waker);
    }

    /// The place of a type, its owner and its table.
    #[inline]
    pub(super) fn table<T: Resource>(&self) -> (usize, usize, &Table<T>) {
        let wanted = TypeId::of::<T>();
        for (place, typed) in self.types.iter().enumerate() {
            if typed.id == wanted {
                // SAFETY: the id says that the address is of a `Table<T>`, which the box keeps in
                // its place as long as `self` lives, and which is never borrowed mutably.
                let table = unsafe { &*typed.address.cast::<Table<T>>() };
                return (place, typed.owner, table);
            }
        }
        unknown::<T>()
    }

    pub(super) fn types(&self) -> usize {
        self.types.len()
    }

    /// Opens a transaction; returns its place and its epoch.
    #[inline]
    pub(super) fn open(&self, line: &'static Location<'static>) -> (u32, u64) {
        if self.state.get() != State::Runs {
            self.open_slow();
        }
        let epoch = self.epoch.get();
        (self.open.open(epoch, line), epoch)
    }

    #[cold]
    fn open_slow(&self) {
        assert!(!self.has_left(), "the reactor of these changes has ended");
        self.unpark();
    }

    /// Returns `true` if the reactor has ended.
    pub(super) fn has_left(&self) -> bool {
        self.state.get() == State::Left
    }

    #[inline]
    pub(super) fn close(&self, place: u32) {
        self.open.close(place);
    }

    /// Applies new commits, and publishes the progress. No user code runs.
    pub(super) fn follow(&self) {
        let oldest = self.open.oldest();
        let mut reader = self.reader.borrow_mut();
        let is_read = oldest.is_some();
        let is_new = reader.follow(is_read, |epoch, log| {
            for (place, ops) in log {
                self.types[*place].table.apply(&**ops, epoch, is_read);
            }
        });
        self.epoch.set(reader.epoch());
        if is_new && is_read && self.past.get().is_none() {
            self.past.set(oldest);
        }
        if let Some(past) = self.past.get()
            && oldest.is_none_or(|oldest| oldest > past)
        {
            for typed in &self.types {
                typed.table.prune(oldest.unwrap_or(u64::MAX));
            }
            self.past.set(oldest);
        }
        reader.publish(oldest, |owner| self.shared.wakers.wake(owner));
    }

    /// Once a turn, between polls.
    pub(crate) fn turn(&self) {
        self.follow();
        if self.open.has_unreported() {
            self.report();
        }
        if let Some(owned) = &self.owned {
            owned.turn();
        }
    }

    /// Reports transactions that are open for too long.
    #[cold]
    fn report(&self) {
        loop {
            let now = self.clock.now();
            let overdue = self.open.overdue(now, self.shared.limit);
            let Some(overdue) = overdue else {
                return;
            };
            self.shared.long_reads[self.reactor].add(1);
            let Some(report) = &self.shared.report else {
                continue;
            };
            let origin = overdue.origin.as_ref();
            let name = origin.and_then(|origin| origin.name.as_ref());
            let long = LongRead {
                reactor: self.reactor,
                name: name.map(|name| name.as_str()),
                task: origin.map(|origin| origin.line),
                line: overdue.line,
                open: overdue.open,
            };
            quietly(|| report(&long));
        }
    }

    /// Called before a sleep. Returns its maximum length, at most `timeout`; zero if there is
    /// something to do. [`unpark`](Self::unpark) follows.
    ///
    /// Unless it returns zero, it runs no user code and wakes no task of this reactor, because the
    /// executor has already found that no task is ready.
    pub(crate) fn park(&self, timeout: Option<Duration>) -> Option<Duration> {
        self.follow();
        let until_report = {
            let is_open = self.open.has_unreported();
            is_open.then(|| self.open.until_overdue(self.clock.now(), self.shared.limit))
        };
        let until_report = until_report.flatten();
        if until_report == Some(Duration::ZERO) {
            return until_report;
        }
        let waits = self.owned.as_ref().is_some_and(|owned| owned.begin_wait());
        let oldest = self.open.oldest();
        let wake = |owner| self.shared.wakers.wake(owner);
        if !self.reader.borrow_mut().park(oldest, wake) {
            self.awake();
            return Some(Duration::ZERO);
        }
        self.state.set(State::Parked);
        if waits && self.owned.as_ref().is_some_and(|owned| owned.is_ready()) {
            self.unpark();
            self.turn();
            return Some(Duration::ZERO);
        }
        match (timeout, until_report) {
            (Some(timeout), Some(report)) => Some(timeout.min(report)),
            (timeout, report) => timeout.or(report),
        }
    }

    /// Called after a sleep, before any task runs.
    pub(crate) fn unpark(&self) {
        if self.state.get() != State::Parked {
            return;
        }
        self.state.set(State::Runs);
        let oldest = self.open.oldest();
        self.reader.borrow_mut().unpark(oldest);
        self.awake();
    }

    fn awake(&self) {
        if let Some(owned) = &self.owned {
            owned.end_wait();
        }
        self.follow();
    }

    /// Called at the end of the reactor; see rule 2.
    pub(crate) fn leave(&self) {
        self.state.set(State::Left);
        let oldest = self.open.oldest();
        let wake = |owner| self.shared.wakers.wake(owner);
        self.reader.borrow_mut().leave(oldest, wake);
    }
}

#[cold]
fn unknown<T>() -> ! {
    panic!(
        "no reactor owns {}: give it to Resources::own",
        core::any::type_name::<T>()
    );
}
