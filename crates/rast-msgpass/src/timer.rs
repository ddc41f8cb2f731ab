//! Timers: messages of an instance to itself, at an instant.
//!
//! ```text
//!   Core.timers ─► [ Kind u8 | Kind Tick | .. ]     one per type of message, few
//!                       ├─ store: deadlines and messages, of rast-timers
//!                       ├─ repeats: messages that are sent repeatedly, by slot
//!                       └─ fire: removes one and calls its handler
//! ```
//!
//! A timer belongs to its instance and moves with it, so nothing here is shared. It is armed from a
//! fresh reading of the graph's clock, and fires in the first turn that starts at or after its
//! deadline: never early. The instance reports the first deadline to the sharder.
//!
//! Its handler runs as for a message: only if there is room, and one at a time. Timers do not count
//! as sent messages, so a drain cancels them as it ends pings.

use core::any::TypeId;
use core::fmt;
use core::marker::PhantomData;
use std::any::Any;

use crate::cx::{Core, Cx};
use crate::graph::Graph;
use crate::process::Receive;
use crate::timers::{DeadlineStore, Handle, HeapStore, Instant, Nanos};

/// The sender of messages that a processor sends to itself by [`Cx::after`] or [`Cx::every`]: `impl
/// Receive<App, Timer, Tick> for Worker`.
#[derive(Debug)]
pub enum Timer {}

/// The id of a timer of one instance with a message `M`; for [`Cx::cancel`].
pub struct TimerId<M> {
    name: Name,
    message: PhantomData<fn() -> M>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Name {
    Once(Handle),
    Repeat { slot: u32, generation: u32 },
}

impl<M> Clone for TimerId<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for TimerId<M> {}

impl<M> PartialEq for TimerId<M> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<M> Eq for TimerId<M> {}

impl<M> fmt::Debug for TimerId<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimerId").field(&self.name).finish()
    }
}

/// An entry of a store.
enum Waiting<M> {
    Once(M),
    /// The slot of a repeated message.
    Repeat(u32),
}

struct Repeat<M> {
    /// `None` in a free slot.
    message: Option<M>,
    generation: u32,
    period: Nanos,
    copy: fn(&M) -> M,
    handle: Handle,
}

/// The timers of one type of message.
struct Store<M> {
    waiting: HeapStore<Waiting<M>>,
    repeats: Vec<Repeat<M>>,
    free: Vec<u32>,
}

impl<M> Store<M> {
    fn new() -> Self {
        Self {
            waiting: HeapStore::new(),
            repeats: Vec::new(),
            free: Vec::new(),
        }
    }

    fn after(&mut self, at: Instant, message: M) -> Name {
        Name::Once(self.waiting.insert(at, Waiting::Once(message)))
    }

    fn every(&mut self, at: Instant, period: Nanos, message: M, copy: fn(&M) -> M) -> Name {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => u32::try_from(self.repeats.len()).expect("an instance has fewer timers"),
        };
        let handle = self.waiting.insert(at, Waiting::Repeat(slot));
        let generation = match self.repeats.get(slot as usize) {
            Some(before) => before.generation.wrapping_add(1),
            None => 0,
        };
        let repeat = Repeat {
            message: Some(message),
            generation,
            period,
            copy,
            handle,
        };
        match self.repeats.get_mut(slot as usize) {
            Some(place) => *place = repeat,
            None => self.repeats.push(repeat),
        }
        Name::Repeat { slot, generation }
    }

    fn cancel(&mut self, name: Name) -> Option<M> {
        match name {
            Name::Once(handle) => match self.waiting.cancel(handle)? {
                Waiting::Once(message) => Some(message),
                Waiting::Repeat(_) => unreachable!("a repeated message has a name of its own"),
            },
            Name::Repeat { slot, generation } => {
                let repeat = self.repeats.get_mut(slot as usize)?;
                if repeat.generation != generation {
                    return None;
                }
                let message = repeat.message.take()?;
                self.waiting.cancel(repeat.handle);
                self.free.push(slot);
                Some(message)
            }
        }
    }

    /// Removes a due entry. A repeated message is armed for its next instant in the future. Runs no
    /// user code.
    #[inline]
    fn take(&mut self, now: Instant) -> Option<Waiting<M>> {
        let due = self.waiting.pop_due(now)?;
        if let Waiting::Repeat(slot) = due.value {
            self.repeat(slot, due.at, now);
        }
        Some(due.value)
    }

    #[cold]
    fn repeat(&mut self, slot: u32, at: Instant, now: Instant) {
        let repeat = &mut self.repeats[slot as usize];
        let period = repeat.period.as_nanos().max(1);
        let missed = now.saturating_since(at).as_nanos() / period;
        let ahead = Nanos::from_nanos(period.saturating_mul(missed.saturating_add(1)));
        repeat.handle = (self.waiting).insert(at.saturating_add(ahead), Waiting::Repeat(slot));
    }

    /// Copies a repeated message. May panic as its `clone`.
    #[cold]
    fn copy(&self, slot: u32) -> M {
        let repeat = &self.repeats[slot as usize];
        let message = repeat.message.as_ref();
        (repeat.copy)(message.expect("a slot in the store is in use"))
    }
}

/// A store without its message type.
trait AnyStore: Any + Send {
    fn len(&self) -> usize;
    /// Drops one message; returns `false` if there is none.
    fn drop_one(&mut self) -> bool;
}

impl<M: Send + 'static> AnyStore for Store<M> {
    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn drop_one(&mut self) -> bool {
        let Some(next) = self.waiting.pop_due(Instant::MAX) else {
            return false;
        };
        match next.value {
            Waiting::Once(message) => drop(message),
            Waiting::Repeat(slot) => drop(self.repeats[slot as usize].message.take()),
        }
        true
    }
}

/// Removes one message from a store and calls its handler; returns `true` if one was due.
type Fire<P> = fn(&mut P, &mut Core, usize, Instant) -> bool;

struct Kind {
    message: TypeId,
    /// The first deadline in the store.
    next: Option<Instant>,
    store: Box<dyn AnyStore>,
    /// A `Fire<P>`.
    fire: Box<dyn Any + Send>,
}

/// The timers of one instance.
#[derive(Default)]
pub(crate) struct Timers {
    kinds: Vec<Kind>,
    /// The first deadline of all; `None` also if it is [`Instant::MAX`], which never comes.
    next: Option<Instant>,
}

impl Kind {
    #[inline]
    fn store<M: Send + 'static>(&mut self) -> &mut Store<M> {
        let store: &mut dyn Any = &mut *self.store;
        let store = store.downcast_mut();
        store.expect("a kind has the store of its message")
    }
}

impl Timers {
    /// Returns when the first one is due.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Returns the number of armed timers.
    pub(crate) fn len(&self) -> usize {
        self.kinds.iter().map(|kind| kind.store.len()).sum()
    }

    fn find<M: 'static>(&self) -> Option<usize> {
        let message = TypeId::of::<M>();
        self.kinds.iter().position(|kind| kind.message == message)
    }

    /// Calls `insert` to arm a timer for a message of type `M` to `P`.
    #[inline]
    fn arm<G, P, M>(&mut self, insert: impl FnOnce(&mut Store<M>) -> Name) -> Name
    where
        G: Graph,
        P: Receive<G, Timer, M> + 'static,
        M: Send + 'static,
    {
        let kind = self.find::<M>().unwrap_or_else(|| {
            let fire: Fire<P> = fire::<G, P, M>;
            self.kinds.push(Kind {
                message: TypeId::of::<M>(),
                next: None,
                store: Box::new(Store::<M>::new()),
                fire: Box::new(fire),
            });
            self.kinds.len() - 1
        });
        self.change(kind, insert)
    }

    /// Calls `change` to change a store, and updates the first deadline.
    #[inline]
    fn change<M, R>(&mut self, kind: usize, change: impl FnOnce(&mut Store<M>) -> R) -> R
    where
        M: Send + 'static,
    {
        let kind = &mut self.kinds[kind];
        let store = kind.store();
        let result = change(store);
        kind.next = store.waiting.next_deadline();
        let next = self.kinds.iter().filter_map(|kind| kind.next).min();
        self.next = next.filter(|&at| at < Instant::MAX);
        result
    }

    /// Drops one timer with its message; returns `true` if there was one. Panics if the destructor
    /// of the message does; the timer is gone then, and the others are as before.
    pub(crate) fn drop_one(&mut self) -> bool {
        self.next = None;
        while let Some(kind) = self.kinds.last_mut() {
            if kind.store.drop_one() {
                return true;
            }
            self.kinds.pop();
        }
        false
    }
}

fn fire<G, P, M>(processor: &mut P, core: &mut Core, kind: usize, now: Instant) -> bool
where
    G: Graph,
    P: Receive<G, Timer, M>,
    M: Send + 'static,
{
    let Some(due) = core
        .timers
        .change(kind, |store: &mut Store<M>| store.take(now))
    else {
        return false;
    };
    let message = match due {
        Waiting::Once(message) => message,
        Waiting::Repeat(slot) => core.timers.kinds[kind].store().copy(slot),
    };
    core.delivering(None, &message);
    processor.receive(message, &mut Cx::new(core));
    true
}

impl Core {
    /// Handles the message of the first timer, if it is due; returns `true` if it was. Panics if
    /// the handler does.
    pub(crate) fn fire<P: 'static>(&mut self, processor: &mut P, now: Instant) -> bool {
        let first = self.timers.next;
        if first.is_none_or(|first| first > now) {
            return false;
        }
        let mut kinds = self.timers.kinds.iter();
        let Some(kind) = kinds.position(|kind| kind.next == first) else {
            return false;
        };
        let fire = self.timers.kinds[kind].fire.downcast_ref::<Fire<P>>();
        let fire = *fire.expect("a processor arms its own timers");
        self.invocation += 1;
        self.sender = 0;
        fire(processor, self, kind, now)
    }
}

impl<G: Graph, P> Cx<'_, G, P> {
    /// Sends a message to this instance itself, after `delay`. It arrives as `Receive<G, Timer,
    /// M>`, never early, and needs no edge. While an edge of the instance lacks room, the message
    /// waits.
    ///
    /// A drain or a stop cancels it: [`Report::timers_cancelled`](crate::Report::timers_cancelled).
    /// Costs a reading of the clock and O(log n) for n timers; allocates when the store grows.
    ///
    /// ```
    /// use std::time::Duration;
    /// use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, Timer, graph};
    ///
    /// struct Late;
    /// graph! {
    ///     graph App {
    ///         processors { late: Late }
    ///         edges { ingress -> late: u64; late -> egress: u64; }
    ///     }
    /// }
    /// impl Process<App> for Late {}
    /// impl Receive<App, Ingress, u64> for Late {
    ///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    ///         cx.after(Duration::from_millis(1), number);
    ///         let never = cx.after(Duration::from_secs(60), 0_u64);
    ///         assert_eq!(cx.cancel(never), Some(0));
    ///     }
    /// }
    /// impl Receive<App, Timer, u64> for Late {
    ///     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
    ///         cx.to::<Egress>().send(number);
    ///     }
    /// }
    ///
    /// let app = App::builder(Late).start()?;
    /// let mut out = app.egress::<Late, u64>(0);
    /// app.ingress::<Late, u64>().send(7)?;
    /// assert_eq!(out.recv(), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn after<M>(&mut self, delay: impl Into<Nanos>, message: M) -> TimerId<M>
    where
        P: Receive<G, Timer, M> + 'static,
        M: Send + 'static,
    {
        let delay = delay.into();
        let at = self.now().saturating_add(delay);
        self.core().arming::<M>(delay, false);
        let timers = &mut self.core().timers;
        let name = timers.arm::<G, P, M>(|store| store.after(at, message));
        TimerId {
            name,
            message: PhantomData,
        }
    }

    /// Sends copies of a message to this instance itself, each `period` from now on, as
    /// [`after`](Self::after) does. Instants that have passed before their message is handled are
    /// skipped; the others keep their schedule. A period of zero counts as a nanosecond.
    pub fn every<M>(&mut self, period: impl Into<Nanos>, message: M) -> TimerId<M>
    where
        P: Receive<G, Timer, M> + 'static,
        M: Clone + Send + 'static,
    {
        let period = period.into();
        let at = self.now().saturating_add(period);
        self.core().arming::<M>(period, true);
        let timers = &mut self.core().timers;
        let name = timers.arm::<G, P, M>(|store| store.every(at, period, message, M::clone));
        TimerId {
            name,
            message: PhantomData,
        }
    }

    /// Cancels a timer and returns its message; `None` if the message was handled, or the timer was
    /// cancelled before. The id of another instance may match another timer here, or none.
    pub fn cancel<M: Send + 'static>(&mut self, timer: TimerId<M>) -> Option<M> {
        let timers = &mut self.core().timers;
        let kind = timers.find::<M>()?;
        timers.change(kind, |store: &mut Store<M>| store.cancel(timer.name))
    }

    /// Requests a call of [`Process::ping`](crate::Process::ping) at `at` or soon after, never
    /// before, independently of what the last ping requested. The earliest of several requests
    /// counts.
    pub fn wake_at(&mut self, at: Instant) {
        let wake_at = &mut self.core().wake_at;
        *wake_at = Some(wake_at.map_or(at, |before| before.min(at)));
    }
}
