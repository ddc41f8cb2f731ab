//! The timers of one instance: a store of deadlines and messages for each type of message.
//!
//! ```text
//!   Core.timers ─► [ Kind u8 | Kind Tick | .. ]     one per type of message, few
//!                       ├─ store: deadlines and messages, of rast-timers
//!                       ├─ repeats: messages that are sent repeatedly, by slot
//!                       └─ fire: removes one and calls its handler
//! ```
//!
//! `timer.rs` has the functions that call handlers. Each store keeps a pointer to the function for
//! its type of message. A timer belongs to its instance and moves with it, so nothing here is
//! shared.

use core::any::TypeId;
use std::any::Any;

use crate::timers::{DeadlineStore, Handle, HeapStore, Instant, Nanos};

/// Names one timer of an instance, for its cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Once(Handle),
    Repeat { slot: u32, generation: u32 },
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

struct Kind {
    message: TypeId,
    /// The first deadline in the store.
    next: Option<Instant>,
    store: Box<dyn AnyStore>,
    /// The function of the instance that removes one message of this type and calls its handler.
    fire: Box<dyn Any + Send>,
}

/// The timers of one instance. Most turns read only the first field.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Timers {
    /// The first deadline of all; `None` also if it is [`Instant::MAX`], which never comes.
    next: Option<Instant>,
    kinds: Vec<Kind>,
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

    /// Arms a timer with a message. `fire`: as in [`due`](Self::due), for messages of this type.
    #[inline]
    pub(crate) fn after<F, M>(&mut self, fire: F, at: Instant, message: M) -> Name
    where
        F: Copy + Send + 'static,
        M: Send + 'static,
    {
        let kind = self.kind_of::<F, M>(fire);
        self.change(kind, |store| store.after(at, message))
    }

    /// Arms a timer that sends a copy of a message each period, first at `at`.
    #[inline]
    pub(crate) fn every<F, M>(&mut self, fire: F, at: Instant, period: Nanos, message: M) -> Name
    where
        F: Copy + Send + 'static,
        M: Clone + Send + 'static,
    {
        let kind = self.kind_of::<F, M>(fire);
        self.change(kind, |store| store.every(at, period, message, M::clone))
    }

    /// Cancels a timer; returns its message, unless it was handled or cancelled before.
    pub(crate) fn cancel<M: Send + 'static>(&mut self, name: Name) -> Option<M> {
        let kind = self.find::<M>()?;
        self.change(kind, |store: &mut Store<M>| store.cancel(name))
    }

    /// Returns the number of the store whose first timer is the first of all, if that is due, and
    /// the function that fires it. All calls for one instance have the same `F`.
    #[inline]
    pub(crate) fn due<F: Copy + 'static>(&self, now: Instant) -> Option<(usize, F)> {
        let first = self.next;
        if first.is_none_or(|first| first > now) {
            return None;
        }
        let kind = self.kinds.iter().position(|kind| kind.next == first)?;
        let fire = self.kinds[kind].fire.downcast_ref::<F>();
        Some((kind, *fire.expect("a processor arms its own timers")))
    }

    /// Takes the message of the first timer of a store, if it is due. A repeated message is copied
    /// after its timer is armed again. May panic as its `clone`.
    #[inline]
    pub(crate) fn take<M: Send + 'static>(&mut self, kind: usize, now: Instant) -> Option<M> {
        let due = self.change(kind, |store: &mut Store<M>| store.take(now))?;
        Some(match due {
            Waiting::Once(message) => message,
            Waiting::Repeat(slot) => self.kinds[kind].store().copy(slot),
        })
    }

    /// Returns the number of the store of a type of message.
    #[inline]
    fn kind_of<F: Send + 'static, M: Send + 'static>(&mut self, fire: F) -> usize {
        self.find::<M>().unwrap_or_else(|| {
            self.kinds.push(Kind {
                message: TypeId::of::<M>(),
                next: None,
                store: Box::new(Store::<M>::new()),
                fire: Box::new(fire),
            });
            self.kinds.len() - 1
        })
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
