//! A door: a queue by which any thread and task sends into the graph.
//!
//! The queue is the unbounded MPMC queue of rast-queue. A count of reserved places bounds it.
//!
//! ```text
//!   sender (any thread)                         receiver (the processor's worker)
//!   S1 reserve: count < capacity, count += 1    R1 pop, handle, ...
//!   S2 push                                     R2 count -= popped
//!   S3 notify the shard                         R3 notify waiting senders
//! ```
//!
//! 1. A compare-exchange raises the count, and only if it is below the capacity. So a rejected
//!    sender never makes a door with room look full.
//! 2. Closing closes the queue. A later push returns the message, and its sender undoes the
//!    reservation. So every message that `try_send` accepted is in the queue.
//! 3. A sink reserves a place before it has a message. Such a *held* place counts as a reserved
//!    place and as a held one. Both counts are in one word.
//! 4. Between S1 and S2 no user code can panic, so no reserved place is lost. The clock is read
//!    there, but [`GraphClock`] catches a panic of the program's clock.
//! 5. A closed door whose reserved places are all held stays empty. A sink changes its held place
//!    to an ordinary one before it pushes. The queue, which is closed, then rejects the message. So
//!    an idle sink delays no drain.
//!
//! A task that waits for room enters a list under a lock, and sets a bit of the count's word:
//!
//! ```text
//!   task                                        receiver
//!   T1 lock: enter the list, set WAITED         R2 count -= popped; returns WAITED
//!   T2 try to reserve again                     R4 if WAITED: lock, take tasks out, wake them
//! ```
//!
//! T1 and R2 are read-modify-writes of one word. If T1 comes first, R2 finds the bit, and R4 finds
//! the task. If R2 comes first, T2 sees the room. So the receiver needs no fence for tasks.

use core::fmt;
use core::task::{Context, Poll};
use std::error::Error;
use std::time::Instant;

#[cfg(doc)]
use crate::clock::GraphClock;
use crate::deaths::Deaths;
use crate::ending::{EndedBy, Ending};
use crate::primitive::sync::Arc;
use crate::primitive::sync::atomic::{AtomicU64, Ordering, fence};
use crate::primitive::{CachePadded, EventCount, WaitStrategy};
use crate::queue::{self, Queue};
use crate::sampling::{SharedDraw, UNMEASURED};
use crate::tasks::{Tasks, Waiter};

/// The reason why a door did not take a message. Contains the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<M> {
    /// There is no room now.
    Full(M),
    /// The graph drains or has ended.
    Closed(Closed<M>),
}

/// The graph drains or has ended. Contains the message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Closed<M> {
    message: M,
    by: EndedBy,
}

impl<M> Closed<M> {
    /// Returns the message.
    pub fn into_inner(self) -> M {
        self.message
    }

    /// Returns what ended the graph.
    pub fn ended_by(&self) -> EndedBy {
        self.by
    }

    pub(crate) fn map<N>(self, other: impl FnOnce(M) -> N) -> Closed<N> {
        Closed {
            message: other(self.message),
            by: self.by,
        }
    }
}

impl<M> fmt::Debug for Closed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Closed")
            .field("by", &self.by)
            .finish_non_exhaustive()
    }
}

impl<M> fmt::Display for Closed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the door of the graph is closed: {}", self.by)
    }
}

impl<M> Error for Closed<M> {}

impl<M> TrySendError<M> {
    /// Returns the message.
    pub fn into_inner(self) -> M {
        match self {
            Self::Full(message) => message,
            Self::Closed(closed) => closed.message,
        }
    }

    /// Returns whether there was no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns whether the door is closed for good.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<M> fmt::Debug for TrySendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Closed(closed) => fmt::Debug::fmt(closed, f),
        }
    }
}

impl<M> fmt::Display for TrySendError<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the door is full"),
            Self::Closed(closed) => fmt::Display::fmt(closed, f),
        }
    }
}

impl<M> Error for TrySendError<M> {}

/// Set in the word of a door while its list of tasks may hold one.
const WAITED: u64 = 1 << 63;
/// The bits of the word that count places: more than memory holds messages.
const PLACES: u64 = HELD - 1;
/// One place that a sink holds; the bits from here to `WAITED` count them.
const HELD: u64 = 1 << 40;
/// The bits of the word that count held places.
const ALL_HELD: u64 = !(WAITED | PLACES);

/// A message, and when it was sent, if it is measured.
struct Entry<M> {
    sent: u64,
    message: M,
}

/// A task that waits for room, or does not.
#[derive(Debug, Default)]
pub struct Task {
    /// Its number in the list.
    number: Option<u64>,
    /// When it began to wait, if its message is measured; `None` if it does not wait.
    sent: Option<u64>,
}

/// A bounded queue from outside threads to one instance of a processor.
pub struct Door<M> {
    queue: Queue<Entry<M>>,
    /// The number of reserved places (of messages that are queued or being sent, and held ones),
    /// the number of held places, and `WAITED`.
    count: CachePadded<AtomicU64>,
    capacity: u64,
    room: EventCount,
    tasks: Tasks,
    ending: Arc<Ending>,
    /// If messages are measured.
    draw: Option<Box<SharedDraw>>,
}

impl<M> Door<M> {
    /// Makes an open door with room for `capacity` messages.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self::of(capacity, Arc::new(Ending::new(&[], &[])), None)
    }

    /// Makes a door of the graph that ends by `ending`.
    pub(crate) fn of(capacity: usize, ending: Arc<Ending>, draw: Option<SharedDraw>) -> Self {
        Self {
            ending,
            draw: draw.map(Box::new),
            queue: Queue::new(),
            count: CachePadded::new(AtomicU64::new(0)),
            capacity: (capacity as u64).min(PLACES),
            room: EventCount::new(),
            tasks: Tasks::new(),
        }
    }

    /// Puts a message in if there is room. Lock-free except for the queue.
    pub fn try_send(&self, message: M) -> Result<(), TrySendError<M>> {
        self.try_send_at(None, message)
    }

    /// As `try_send`, of a message that was counted at an earlier call, and has the time of that
    /// call.
    fn try_send_at(&self, sent: Option<u64>, message: M) -> Result<(), TrySendError<M>> {
        if self.queue.is_closed() {
            return Err(TrySendError::Closed(self.closed(message)));
        }
        if !self.reserve(1) {
            return Err(TrySendError::Full(message));
        }
        let sent = sent.unwrap_or_else(|| self.draw());
        self.push(sent, message).map_err(TrySendError::Closed)
    }

    /// Puts a message into a reserved place.
    fn push(&self, sent: u64, message: M) -> Result<(), Closed<M>> {
        let entry = Entry { sent, message };
        // Release fence: pairs with IN5. The claim of the push, which the close reads, may not
        // become visible before the place is counted. [IN6]
        fence(Ordering::Release);
        self.queue.push(entry).map_err(|queue::Closed(entry)| {
            self.release(1);
            self.closed(entry.message)
        })
    }

    /// Counts a message; returns the time if it is measured.
    #[inline]
    fn draw(&self) -> u64 {
        self.draw.as_ref().map_or(UNMEASURED, |draw| draw.draw())
    }

    #[cold]
    fn closed<T>(&self, message: T) -> Closed<T> {
        Closed {
            message,
            by: self.ending.cause().unwrap_or(EndedBy::Fault),
        }
    }

    /// Waits for room until `deadline`, for ever without one.
    pub fn send_until(&self, message: M, deadline: Option<Instant>) -> Result<(), TrySendError<M>> {
        let mut message = match self.try_send(message) {
            Err(TrySendError::Full(back)) => Some(back),
            other => return other,
        };
        // It waits from here on.
        let began = Some(self.draw());
        let sent = self.room.wait_for(WaitStrategy::Park, deadline, || {
            match self.try_send_at(began, message.take()?) {
                Err(TrySendError::Full(back)) => {
                    message = Some(back);
                    None
                }
                other => Some(other),
            }
        });
        sent.unwrap_or_else(|| {
            let back = message.expect("a refused message comes back");
            Err(TrySendError::Full(back))
        })
    }

    /// Reserves one place. `place`: what is added to the word for it.
    fn reserve(&self, place: u64) -> bool {
        // Relaxed: a first guess for the exchange below. [IN1]
        let mut count = self.count.load(Ordering::Relaxed);
        while count & PLACES < self.capacity && count & ALL_HELD != ALL_HELD {
            // Relaxed: a place carries no data; the message is published by the queue. [IN2]
            let raised = self.count.compare_exchange_weak(
                count,
                count + place,
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match raised {
                Ok(_) => return true,
                Err(now) => count = now,
            }
        }
        false
    }

    /// Takes one message out; its place stays reserved until
    /// [`release`](Self::release). For the receiver alone.
    pub fn pop(&self) -> Option<M> {
        self.take().map(|(message, _)| message)
    }

    /// As `pop`, with the time of the send if the message is measured.
    pub(crate) fn take(&self) -> Option<(M, u64)> {
        let Entry { sent, message } = self.queue.pop()?;
        Some((message, sent))
    }

    /// Frees `places`, and wakes as many senders that wait for room.
    pub fn release(&self, places: usize) {
        if places > 0 {
            self.free(places as u64, places);
        }
    }

    /// Subtracts `word`, which counts this number of places, and wakes as many senders.
    fn free(&self, word: u64, places: usize) {
        // Release: pairs with the Acquire in is_spent; that these messages entered the graph is
        // counted above. [IN3]
        let before = self.count.fetch_sub(word, Ordering::Release);
        self.room.notify_some(places);
        if before & WAITED != 0 {
            self.wake_tasks(places);
        }
    }

    /// Wakes up to `most` tasks that wait for room.
    #[cold]
    fn wake_tasks(&self, most: usize) {
        self.tasks.wake(most, || {
            // Relaxed: the lock orders the list, and the bit is of one word with the count.
            self.count.fetch_and(!WAITED, Ordering::Relaxed);
        });
    }

    /// Enters the list of tasks, or replaces the waker there.
    fn enter(&self, task: &mut Task, waiter: Waiter, cx: &Context<'_>) {
        self.tasks.enter(&mut task.number, cx.waker(), waiter, || {
            // Relaxed: see the head of this file.
            self.count.fetch_or(WAITED, Ordering::Relaxed);
        });
    }

    /// Leaves the list of tasks. Returns `true` if a wake-up had taken the task out of it.
    fn leave(&self, task: &mut Task) -> bool {
        task.sent = None;
        self.tasks.leave(&mut task.number)
    }

    /// Puts a message in if there is room, or has the task woken when there may be some. `task`:
    /// its place in the list. `None` in `message` once it was taken.
    ///
    /// This poll consumes a wake-up that took the task out of the list before. A wake-up that comes
    /// between the look that succeeds and the end of the poll is for another place, and is passed
    /// on.
    pub fn poll_send(
        &self,
        message: &mut Option<M>,
        task: &mut Task,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed<M>>> {
        if !self.tasks.holds(task.number) {
            task.number = None;
        }
        for has_entered in [false, true] {
            let sent = message.take().expect("a send is polled until it is done");
            match self.try_send_at(task.sent, sent) {
                Ok(()) => {
                    if self.leave(task) {
                        self.wake_tasks(1);
                    }
                    return Poll::Ready(Ok(()));
                }
                Err(TrySendError::Closed(closed)) => {
                    self.leave(task);
                    return Poll::Ready(Err(closed));
                }
                Err(TrySendError::Full(back)) => *message = Some(back),
            }
            // It waits from here on.
            task.sent.get_or_insert_with(|| self.draw());
            if !has_entered {
                self.enter(task, Waiter::Future, cx);
            }
        }
        Poll::Pending
    }

    /// Reserves a place to be held, or has the task woken when there may be one. For sinks.
    pub fn poll_hold(&self, task: &mut Task, cx: &mut Context<'_>) -> Poll<Result<(), Closed<()>>> {
        for has_entered in [false, true] {
            if let Some(closed) = self.closing() {
                self.leave(task);
                return Poll::Ready(Err(closed));
            }
            if self.reserve(1 + HELD) {
                self.leave(task);
                return Poll::Ready(Ok(()));
            }
            if !has_entered {
                self.enter(task, Waiter::Stays, cx);
            }
        }
        Poll::Pending
    }

    /// Returns what closed the door, once it is closed.
    pub fn closing(&self) -> Option<Closed<()>> {
        self.queue.is_closed().then(|| self.closed(()))
    }

    /// Puts a message into a place that is held.
    pub fn send_held(&self, message: M) -> Result<(), Closed<M>> {
        let sent = self.draw();
        // Relaxed: the fence in `push` orders it: a thread that closes the door after the push
        // sees that the place is no longer held.
        self.count.fetch_sub(HELD, Ordering::Relaxed);
        self.push(sent, message)
    }

    /// Frees a place that is held.
    pub fn free_held(&self) {
        self.free(1 + HELD, 1);
    }

    /// A task gives its send up: a wake-up that it received is for the next one.
    pub fn cancel(&self, task: &mut Task) {
        if self.leave(task) {
            self.wake_tasks(1);
        }
    }

    /// Refuses everything from now on, and wakes the senders that wait for room.
    pub fn close(&self) {
        self.queue.close();
        self.room.notify_all();
        // A task that enters later finds the queue closed.
        self.wake_tasks(usize::MAX);
    }

    /// Returns whether nothing is in the queue now.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how many messages are accepted and not taken out.
    pub fn len(&self) -> usize {
        // Relaxed: a snapshot for metrics. [IN4]
        used(self.count.load(Ordering::Relaxed)) as usize
    }

    /// Returns how many messages the door has room for in total.
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// Returns whether a message would find room now.
    pub fn has_room(&self) -> bool {
        // Relaxed: a hint; a place is reserved by the exchange in `reserve`.
        self.count.load(Ordering::Relaxed) & PLACES < self.capacity
    }

    /// Returns whether the door is closed and everything it accepted was taken.
    pub fn is_spent(&self) -> bool {
        // Acquire: pairs with the Release in release; the counts of what entered are read after
        // this. [IN5]
        self.queue.is_closed() && used(self.count.load(Ordering::Acquire)) == 0
    }
}

/// Returns how many places of a word are not merely held.
fn used(word: u64) -> u64 {
    (word & PLACES) - (word & ALL_HELD) / HELD
}

impl<M> fmt::Debug for Door<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Door")
            .field("len", &self.len())
            .field("capacity", &self.capacity)
            .finish_non_exhaustive()
    }
}

/// A door whose message type is not known.
pub(crate) trait AnyDoor: Send + Sync {
    fn close(&self);
    fn is_spent(&self) -> bool;
    fn len(&self) -> usize;
    /// Another reference to the same door.
    fn boxed(&self) -> Box<dyn AnyDoor>;
}

impl<M: Send + 'static> AnyDoor for Arc<Door<M>> {
    fn close(&self) {
        Door::close(self);
    }

    fn is_spent(&self) -> bool {
        Door::is_spent(self)
    }

    fn len(&self) -> usize {
        Door::len(self)
    }

    fn boxed(&self) -> Box<dyn AnyDoor> {
        Box::new(Arc::clone(self))
    }
}

/// The doors of one edge, one per instance of its receiver.
pub(crate) struct Doors<M> {
    pub(crate) doors: Vec<Arc<Door<M>>>,
    /// The shard of the first instance.
    pub(crate) first: usize,
    pub(crate) deaths: Arc<Deaths>,
}

impl<M> Doors<M> {
    /// Returns the next replica, from `start` on, that has room; else the next one that is not
    /// retired.
    pub(crate) fn any(&self, start: usize) -> usize {
        let turns = (start..self.doors.len()).chain(0..start);
        let mut living = turns.filter(|index| !self.deaths.has(self.first + index));
        let has_room = |index: &usize| self.doors[*index].has_room();
        let found = living.clone().find(has_room).or_else(|| living.next());
        found.unwrap_or(start)
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    //! What the public interface cannot bring about.

    use super::*;
    use core::time::Duration;
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    #[test]
    fn room_for_one_wakes_one() {
        const WAITERS: usize = 8;
        let door = Door::new(1);
        door.try_send(0).expect("there is room for one");
        let tried = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 1..=WAITERS {
                let (door, tried) = (&door, &tried);
                scope.spawn(move || {
                    // As `send_until` does, with a count of the wake-ups.
                    let mut message = number;
                    loop {
                        let key = door.room.prepare();
                        tried.fetch_add(1, Ordering::SeqCst);
                        message = match door.try_send(message) {
                            Err(TrySendError::Full(back)) => back,
                            other => {
                                door.room.cancel(key);
                                return other.expect("the door is open");
                            }
                        };
                        door.room.wait(key);
                    }
                });
            }
            while tried.load(Ordering::SeqCst) < WAITERS {
                std::thread::yield_now();
            }
            for _ in 0..=WAITERS {
                while door.pop().is_none() {
                    std::thread::yield_now();
                }
                door.release(1);
            }
        });
        // Each looked once before it slept, and once after its own wake-up.
        assert!(tried.load(Ordering::SeqCst) <= 2 * WAITERS);
    }

    #[test]
    fn a_send_ends_at_its_deadline_however_often_it_is_woken() {
        let door = Door::new(1);
        door.try_send(1).expect("there is room for one");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waker = scope.spawn(|| {
                let give_up = Instant::now() + Duration::from_secs(10);
                while !ended.load(Ordering::Relaxed) && Instant::now() < give_up {
                    door.room.notify_all();
                }
                ended.load(Ordering::Relaxed)
            });
            let deadline = Instant::now() + Duration::from_millis(20);
            let refused = door.send_until(2, Some(deadline));
            ended.store(true, Ordering::Relaxed);
            assert!(matches!(refused, Err(TrySendError::Full(2))));
            let in_time = waker.join().expect("the waker only wakes");
            assert!(in_time, "the send went on for as long as it was woken");
        });
    }
}
