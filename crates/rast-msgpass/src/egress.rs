//! Egress: typed lanes out of the graph, each with a waker for its receiver.
//!
//! ```text
//!   instance 0 ═ring 0═╗
//!   instance 1 ═ring 1═╬═► EgressReceiver of the lane ──► an outside thread
//!   instance 2 ═ring 2═╝          ▲
//!        └── bit 2 of `words` ────┘   set after a push, taken before a look
//! ```
//!
//! Each sending instance has a ring of its own into each lane, so egress is SPSC throughout. The
//! ring's bit in `words` is set while the ring may have messages. `notified` is true if the waker
//! was called since the receiver last found the lane empty.
//!
//! No message is overlooked:
//!
//! ```text
//!   sender                          receiver, finding no bit
//!   A1 push                         B1 notified := false   (swap)
//!   A2 words |= bit   (fetch_or)    B2 look at words: no bit, the lane is empty
//!   A3 notified := true   (swap);
//!      was it false: call the waker
//! ```
//!
//! `notified` is changed only by read-modify-writes, so its changes are in one order, and each
//! reads what the one before it wrote.
//!
//! 1. If A3 comes before B1, then B1 reads the value of A3, directly or through later swaps. So B1
//!    sees A2, and B2 finds the bit.
//! 2. If A3 comes after B1, take the first A3 after B1, of this sender or of another one. It finds
//!    false, and its sender calls the waker.
//!
//! The receiver takes a bit by a swap, which reads the value of A2. So it sees the message of A1.
//!
//! A receiver that blocks waits on an event count; rast-primitive shows why that loses no wake-up.
//! A sender notifies the event count by a fence and a load.
//!
//! The receiver that makes room in a ring wakes the senders that wait for room:
//! see [`Waiting`].

use core::fmt;
use core::task::{self, Context, Poll};
use core::time::Duration;
use std::any::Any;
use std::error::Error;
use std::time::Instant;

use crate::clock::GraphClock;
use crate::counter::Counter;
use crate::ending::{EndedBy, Ending};
use crate::primitive::panics::discard;
use crate::primitive::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::sync::{Arc, Mutex};
use crate::primitive::{CachePadded, EventCount, WaitStrategy};
use crate::queue::spsc::Consumer;
use crate::sampling::{self, Arrivals};
use crate::sharder::{self, ShardId};
use crate::times::Live;
use crate::waiting::{Pace, Waiting};

/// Calls an event loop.
type Waker = Arc<Box<dyn Fn() + Send + Sync>>;

/// The wait lists of an edge, and the number of a lane among them.
type Lists = (Arc<Waiting>, usize);

/// What the senders and the receiver of a lane share.
pub struct Lane {
    /// A bit per sender: its ring may hold something.
    words: Box<[CachePadded<AtomicU64>]>,
    /// The waker was called and the receiver has not found the lane empty since.
    notified: CachePadded<AtomicBool>,
    /// No sender will push any more.
    ended: AtomicBool,
    event: EventCount,
    waker: Mutex<Option<Waker>>,
    /// Messages that the receiver took.
    taken: Counter,
    /// How long they waited, if that is measured. Written by the receiver.
    waiting: Option<Live>,
    ending: Arc<Ending>,
    lists: Lists,
}

impl Lane {
    /// Makes the lane of this many senders.
    #[must_use]
    pub fn new(senders: usize) -> Self {
        let lists = (Arc::new(Waiting::new(senders, 1)), 0);
        Self::of(senders, Arc::new(Ending::new(&[], &[])), lists, false)
    }

    /// Makes a lane of the graph that ends by `ending`.
    pub(crate) fn of(senders: usize, ending: Arc<Ending>, lists: Lists, measures: bool) -> Self {
        Self {
            ending,
            lists,
            waiting: measures.then(Live::new),
            words: (0..senders.div_ceil(64))
                .map(|_| CachePadded::new(AtomicU64::new(0)))
                .collect(),
            notified: CachePadded::new(AtomicBool::new(false)),
            ended: AtomicBool::new(false),
            event: EventCount::new(),
            waker: Mutex::new(None),
            taken: Counter::new(),
        }
    }

    /// Announces messages in the ring of sender `slot`.
    pub fn announce(&self, slot: usize) {
        // Release: pairs with the Acquire in take; the pushes are above. [EG2]
        self.words[slot / 64].fetch_or(1 << (slot % 64), Ordering::Release);
        self.notify();
    }

    fn notify(&self) {
        // AcqRel: pairs with the AcqRel in rest; one that finds true leaves the bit above to the
        // receiver that will look. [EG3]
        let was_notified = self.notified.swap(true, Ordering::AcqRel);
        self.event.notify_all();
        if !was_notified {
            // Last, for it is the user's code and may panic.
            self.call_waker();
        }
    }

    #[cold]
    fn call_waker(&self) {
        let waker = self.waker.lock().clone();
        if let Some(waker) = waker {
            waker();
        }
    }

    /// Ends the lane: no sender pushes any more.
    pub fn end(&self) {
        // Release: pairs with the Acquire in is_ended; all pushes of all senders are above. [EG4]
        self.ended.store(true, Ordering::Release);
        self.notify();
    }

    fn ended_by(&self) -> EndedBy {
        self.ending.cause().unwrap_or(EndedBy::Fault)
    }

    /// Returns whether messages were announced that the receiver has not looked at.
    pub(crate) fn has_news(&self) -> bool {
        let mut words = self.words.iter();
        // Relaxed: a hint for people.
        words.any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Returns whether a sender waits for room.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.lists.0.has_any(self.lists.1, true)
    }

    /// Returns how many messages the receiver took.
    pub(crate) fn taken(&self) -> u64 {
        self.taken.get()
    }

    /// Returns how long messages waited, if that is measured.
    pub(crate) fn waiting(&self) -> Option<&Live> {
        self.waiting.as_ref()
    }

    fn is_ended(&self) -> bool {
        // Acquire: pairs with the Release in end; a look at the rings after this finds all there
        // will ever be. [EG5]
        self.ended.load(Ordering::Acquire)
    }

    /// Takes the bits of one word, if there are any: a look alone leaves the
    /// line with its writers.
    fn take(&self, word: usize) -> u64 {
        // Relaxed: a zero is old only if its sender will find `notified` false; see rest. [EG8]
        if self.words[word].load(Ordering::Relaxed) == 0 {
            return 0;
        }
        // Acquire: pairs with the Release in announce; the ring is looked at after this. [EG6]
        self.words[word].swap(0, Ordering::Acquire)
    }

    /// Requests a call of the waker for messages that are announced from here on.
    fn rest(&self) {
        // AcqRel: pairs with the AcqRel in notify; the bits of senders that did not wake are taken
        // after this. [EG7]
        self.notified.swap(false, Ordering::AcqRel);
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").finish_non_exhaustive()
    }
}

/// There is nothing to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// No message is queued now.
    Empty,
    /// The graph has ended by this cause, and all messages were taken.
    Closed(EndedBy),
}

/// The graph has ended by the contained cause, and all messages were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError(pub EndedBy);

/// Nothing was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The time is over.
    Elapsed,
    /// The graph has ended by this cause, and all messages were taken.
    Closed(EndedBy),
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the lane is empty"),
            Self::Closed(by) => RecvError(*by).fmt(f),
        }
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the graph has ended: {}", self.0)
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elapsed => f.write_str("nothing came in time"),
            Self::Closed(by) => RecvError(*by).fmt(f),
        }
    }
}

impl Error for TryRecvError {}
impl Error for RecvError {}
impl Error for RecvTimeoutError {}

/// Wakes senders that wait for room: the sharder, or a test.
pub trait Wake {
    /// Gives `shard` a turn.
    fn wake(&self, shard: ShardId);
}

impl Wake for sharder::Handle {
    fn wake(&self, shard: ShardId) {
        sharder::Handle::wake(self, shard);
    }
}

/// The receiver's end of a ring into a lane.
///
/// Its drop drops each message separately, and contains the panic of a destructor. In the ring's
/// own drop, a second panic would abort the process.
pub(crate) struct LaneRing<M>(Consumer<M>, Option<Lost>);

impl<M> LaneRing<M> {
    pub(crate) fn new(ring: Consumer<M>) -> Self {
        Self(ring, None)
    }

    /// Drops the messages. Returns how many, or zero if their sender is gone: it has ended, and
    /// counts nothing any more.
    fn clear(&mut self) -> u64 {
        let has_sender = !self.0.is_closed();
        let mut dropped = 0;
        // The slots return with the end of the ring, so these are at most its capacity.
        while let Some(message) = self.0.take() {
            discard(message);
            dropped += 1;
        }
        if has_sender { dropped } else { 0 }
    }
}

impl<M> Drop for LaneRing<M> {
    fn drop(&mut self) {
        let dropped = self.clear();
        if let Some(lost) = &self.1 {
            lost(dropped);
        }
    }
}

/// Counts messages that a receiver dropped.
pub(crate) type Lost = Arc<Box<dyn Fn(u64) + Send + Sync>>;

/// The rings into one lane, before their receiver is handed out.
pub(crate) struct LaneParts<M> {
    pub(crate) rings: Vec<LaneRing<M>>,
    pub(crate) lane: Arc<Lane>,
    /// The shard of the sender of the first ring; the others follow.
    pub(crate) first: usize,
    pub(crate) burst: usize,
    pub(crate) lost: Lost,
    /// If messages are measured.
    pub(crate) measured: Option<Measured>,
}

/// What the receiver of a lane measures by.
pub(crate) struct Measured {
    pub(crate) clock: GraphClock,
    /// Per ring.
    pub(crate) arrivals: Vec<Arrivals>,
}

impl Measured {
    /// Measures how long the next message of a ring waited, if that message is measured. Limits
    /// `max` to it, or to the messages before the next measured one.
    fn look<M>(&mut self, slot: usize, ring: &Consumer<M>, lane: &Lane, max: &mut usize) {
        if let Some(sent) = self.arrivals[slot].next(ring, max)
            && let Some(waiting) = &lane.waiting
        {
            waiting.record(sampling::now(&self.clock).saturating_sub(sent));
        }
    }
}

/// The rings into one lane, whose message type is not known.
pub(crate) trait AnyLaneParts: Any + Send {
    /// Returns how many messages wait.
    fn waiting(&self) -> u64;
    /// Makes the receiver.
    #[cfg(feature = "testing")]
    fn tap(self: Box<Self>, handle: sharder::Handle) -> LaneTap;
}

impl<M: Send + 'static> AnyLaneParts for LaneParts<M> {
    fn waiting(&self) -> u64 {
        self.rings.iter().map(|ring| ring.0.len() as u64).sum()
    }

    #[cfg(feature = "testing")]
    fn tap(self: Box<Self>, handle: sharder::Handle) -> LaneTap {
        let mut receiver = EgressReceiver::new(*self, handle);
        Box::new(move |each: &mut dyn FnMut(Box<dyn Any + Send>)| {
            receiver.drain(usize::MAX, |message| each(Box::new(message)));
        })
    }
}

/// Takes all messages of a lane, without their type.
#[cfg(feature = "testing")]
pub(crate) type LaneTap = Box<dyn FnMut(&mut dyn FnMut(Box<dyn Any + Send>))>;

/// Receives messages of type `M` that leave the graph on one lane.
///
/// Returned by [`Handle::egress`](crate::Handle::egress). One thread at a time receives. The
/// messages of each sending instance stay in order. The lane ends when the graph has ended and
/// every message was taken. If the receiver is dropped earlier, later messages count as
/// undelivered, and no sender waits for room. The drop of the receiver catches the panics of the
/// destructors of queued messages.
///
/// Several threads or tasks receive from one lane by [`share`](Self::share).
///
/// ```
/// # use rast_msgpass::{Cx, Egress, Ingress, Process, Receive, graph};
/// # struct Echo;
/// # graph! {
/// #     graph App {
/// #         processors { echo: Echo }
/// #         edges { ingress -> echo: u64 [cap = 4]; echo -> egress: u64 [cap = 8]; }
/// #     }
/// # }
/// # impl Process<App> for Echo {}
/// # impl Receive<App, Ingress, u64> for Echo {
/// #     fn receive(&mut self, number: u64, cx: &mut Cx<'_, App, Self>) {
/// #         cx.to::<Egress>().send(number);
/// #     }
/// # }
/// use rast_msgpass::{EndedBy, RecvError, TryRecvError};
///
/// let app = App::builder(Echo).start()?;
/// let mut echoes = app.egress::<Echo, u64>(0);
/// assert_eq!(echoes.try_recv(), Err(TryRecvError::Empty));
/// let numbers = app.ingress::<Echo, u64>();
/// (0..3).for_each(|number| numbers.send(number).unwrap());
/// app.drain(std::time::Duration::from_secs(10))?;
/// // Messages sent before the graph ended can still be received.
/// assert_eq!([echoes.recv(), echoes.recv(), echoes.recv()], [Ok(0), Ok(1), Ok(2)]);
/// assert_eq!(echoes.recv(), Err(RecvError(EndedBy::Drain)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EgressReceiver<M, W: Wake = sharder::Handle> {
    rings: Vec<(LaneRing<M>, Pace)>,
    lane: Arc<Lane>,
    first: usize,
    /// Bits taken from the lane whose rings are not known to be empty.
    ready: Vec<u64>,
    /// The ring that has its turn, and what is left of the turn.
    cursor: usize,
    turn: usize,
    wake: W,
    strategy: WaitStrategy,
    /// What [`WaitAny`](crate::WaitAny) had put in as the waker.
    listener: Option<Arc<EventCount>>,
    /// What a task had put in as the waker.
    task: Option<task::Waker>,
    measured: Option<Measured>,
}

pub(crate) mod sealed {
    use super::{Arc, EventCount};

    /// What a wait needs of a lane.
    pub trait Lane {
        /// Has the event notified when the lane may have got something.
        fn listen(&mut self, event: &Arc<EventCount>);
        /// Returns whether there is a message, or none will ever come.
        fn is_ready(&mut self) -> bool;
    }
}

/// How many messages in a row come from one sender while others wait.
const TURN: usize = 32;

impl<M, W: Wake> EgressReceiver<M, W> {
    pub(crate) fn new(mut parts: LaneParts<M>, wake: W) -> Self {
        for ring in &mut parts.rings {
            ring.1 = Some(Arc::clone(&parts.lost));
        }
        let mut receiver = Self::with_rings(parts.rings, parts.lane, parts.burst, wake);
        receiver.first = parts.first;
        receiver.measured = parts.measured;
        receiver
    }

    /// Makes the receiver of the one lane of an edge from its rings. For models.
    #[doc(hidden)]
    pub fn from_rings(rings: Vec<Consumer<M>>, lane: Arc<Lane>, burst: usize, wake: W) -> Self {
        let rings = rings.into_iter().map(LaneRing::new).collect();
        Self::with_rings(rings, lane, burst, wake)
    }

    fn with_rings(rings: Vec<LaneRing<M>>, lane: Arc<Lane>, burst: usize, wake: W) -> Self {
        let with_pace = |ring: LaneRing<M>| {
            let pace = Pace::new(ring.0.capacity(), burst);
            (ring, pace)
        };
        Self {
            ready: vec![0; lane.words.len()],
            rings: rings.into_iter().map(with_pace).collect(),
            lane,
            first: 0,
            cursor: 0,
            turn: 0,
            wake,
            strategy: WaitStrategy::Park,
            listener: None,
            task: None,
            measured: None,
        }
    }

    /// Sets how [`recv`](Self::recv) and [`recv_timeout`](Self::recv_timeout) wait. Default:
    /// `Park`, because a thread that stays awake may take the core of a worker.
    pub fn set_wait(&mut self, strategy: WaitStrategy) {
        self.strategy = strategy;
    }

    /// Receives a message if one is queued. Never waits.
    ///
    /// # Errors
    ///
    /// `Empty`, or `Closed` when the graph has ended and all messages were taken.
    pub fn try_recv(&mut self) -> Result<M, TryRecvError> {
        let mut received = None;
        if self.drain(1, |message| received = Some(message)) == 1 {
            return Ok(received.expect("one message was taken"));
        }
        if !self.lane.is_ended() {
            return Err(TryRecvError::Empty);
        }
        // What was pushed before the end is seen by a look after it.
        if self.drain(1, |message| received = Some(message)) == 1 {
            return Ok(received.expect("one message was taken"));
        }
        Err(TryRecvError::Closed(self.lane.ended_by()))
    }

    /// Receives, waiting until a message is queued. Blocking.
    ///
    /// # Errors
    ///
    /// If the graph has ended and all messages were taken.
    pub fn recv(&mut self) -> Result<M, RecvError> {
        loop {
            match self.recv_until(None) {
                Ok(message) => return Ok(message),
                Err(RecvTimeoutError::Closed(by)) => return Err(RecvError(by)),
                Err(RecvTimeoutError::Elapsed) => {}
            }
        }
    }

    /// Receives, waiting at most `timeout`. Blocking.
    ///
    /// # Errors
    ///
    /// `Elapsed`, or `Closed` when the graph has ended and all messages were taken.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<M, RecvTimeoutError> {
        self.recv_until(Instant::now().checked_add(timeout))
    }

    fn recv_until(&mut self, deadline: Option<Instant>) -> Result<M, RecvTimeoutError> {
        if let Some(end) = self.recv_or_closed() {
            return end;
        }
        let (lane, strategy) = (Arc::clone(&self.lane), self.strategy);
        let end = lane
            .event
            .wait_for(strategy, deadline, || self.recv_or_closed());
        end.unwrap_or(Err(RecvTimeoutError::Elapsed))
    }

    /// As [`try_recv`](Self::try_recv); `None` if there is no message yet.
    fn recv_or_closed(&mut self) -> Option<Result<M, RecvTimeoutError>> {
        match self.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Closed(by)) => Some(Err(RecvTimeoutError::Closed(by))),
            Err(TryRecvError::Empty) => None,
        }
    }

    /// Passes up to `max` messages to `each`, from all senders in turn, and
    /// returns how many. Never waits.
    ///
    /// If it returns fewer than `max`, the lane was empty. An event loop calls this until the lane
    /// is empty, and is woken by the waker after that. A panic in `each` loses only the message
    /// that `each` was given.
    pub fn drain(&mut self, max: usize, mut each: impl FnMut(M)) -> usize {
        let mut total = 0;
        while total < max {
            let Some(slot) = self.next_ready() else {
                break;
            };
            let mut wanted = (max - total).min(TURN - self.turn);
            let (LaneRing(ring, _), pace) = &mut self.rings[slot];
            if let Some(measured) = &mut self.measured {
                measured.look(slot, ring, &self.lane, &mut wanted);
            }
            let mut freed = Freed {
                lane: &self.lane,
                first: self.first,
                taken: 0,
                wake: &self.wake,
                ring,
                pace,
            };
            let taken = freed.take(wanted, &mut each);
            drop(freed);
            total += taken;
            self.turn += taken;
            if taken < wanted || wanted == 0 {
                self.ready[slot / 64] &= !(1 << (slot % 64));
            }
            if taken < wanted || wanted == 0 || self.turn == TURN {
                self.cursor = (slot + 1) % self.rings.len();
                self.turn = 0;
            }
        }
        total
    }

    /// Finds the next ring, from the cursor on, that may hold something.
    fn next_ready(&mut self) -> Option<usize> {
        if let Some(slot) = self.find_ready() {
            return Some(slot);
        }
        self.collect();
        if let Some(slot) = self.find_ready() {
            return Some(slot);
        }
        self.lane.rest();
        self.collect();
        if self.lane.is_ended() {
            // A panic may have kept a sender from its announcement.
            for (slot, (LaneRing(ring, _), _)) in self.rings.iter().enumerate() {
                if !ring.is_empty() {
                    self.ready[slot / 64] |= 1 << (slot % 64);
                }
            }
        }
        self.find_ready()
    }

    /// Returns whether a ring has something. If none has, the waker is called for what comes.
    fn has_any(&mut self) -> bool {
        while let Some(slot) = self.next_ready() {
            if !self.rings[slot].0.0.is_empty() {
                return true;
            }
            self.ready[slot / 64] &= !(1 << (slot % 64));
        }
        false
    }

    fn collect(&mut self) {
        for (word, ready) in self.ready.iter_mut().enumerate() {
            *ready |= self.lane.take(word);
        }
    }

    fn find_ready(&mut self) -> Option<usize> {
        let words = self.ready.len();
        let (start, bit) = (self.cursor / 64, self.cursor % 64);
        for step in 0..=words {
            let word = (start + step) % words.max(1);
            let mut bits = *self.ready.get(word)?;
            if step == 0 {
                bits &= u64::MAX << bit;
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                if slot != self.cursor {
                    self.cursor = slot;
                    self.turn = 0;
                }
                return Some(slot);
            }
        }
        None
    }

    /// Registers `waker`, which is called when the lane may have messages, and when it has ended.
    /// After a call it is not called again until [`drain`](Self::drain) or
    /// [`try_recv`](Self::try_recv) finds the lane empty. `set_waker` itself also calls it, because
    /// messages may be queued already.
    ///
    /// The graph's workers call it between two turns, so it must be short, for example write to an
    /// event descriptor or unpark a thread.
    ///
    /// It replaces an earlier waker. A panic of the waker is recorded in the report, and other
    /// lanes are still notified.
    pub fn set_waker(&mut self, waker: impl Fn() + Send + Sync + 'static) {
        let waker: Waker = Arc::new(Box::new(waker));
        self.replace_waker(Arc::clone(&waker));
        waker();
    }

    /// Receives a message, or registers the task, which is woken when the lane may have messages or
    /// has ended. Works with any runtime.
    ///
    /// The task takes the place of a [waker](Self::set_waker). Further polls by the same task
    /// replace nothing and take no lock.
    ///
    /// # Errors
    ///
    /// If the graph has ended and all messages were taken.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<M, RecvError>> {
        match self.try_recv() {
            Ok(message) => return Poll::Ready(Ok(message)),
            Err(TryRecvError::Closed(by)) => return Poll::Ready(Err(RecvError(by))),
            Err(TryRecvError::Empty) => {}
        }
        let waker = cx.waker();
        if !self.task.as_ref().is_some_and(|own| own.will_wake(waker)) {
            let own = waker.clone();
            self.replace_waker(Arc::new(Box::new(move || own.wake_by_ref())));
            self.task = Some(waker.clone());
            // What came before is not told.
            return match self.try_recv() {
                Ok(message) => Poll::Ready(Ok(message)),
                Err(TryRecvError::Closed(by)) => Poll::Ready(Err(RecvError(by))),
                Err(TryRecvError::Empty) => Poll::Pending,
            };
        }
        Poll::Pending
    }

    /// Returns a future that receives, for any runtime. Dropping the future loses no message.
    ///
    /// # Errors
    ///
    /// If the graph has ended and all messages were taken.
    pub async fn recv_async(&mut self) -> Result<M, RecvError> {
        core::future::poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Replaces the waker of the lane.
    fn replace_waker(&mut self, waker: Waker) {
        (self.listener, self.task) = (None, None);
        let before = self.lane.waker.lock().replace(waker);
        // User code, not under the lock.
        drop(before);
    }

    /// Returns whether the graph has ended and everything was taken.
    pub fn is_closed(&self) -> bool {
        self.lane.is_ended() && self.rings.iter().all(|(ring, _)| ring.0.is_empty())
    }
}

// No field is pinned.
impl<M, W: Wake> Unpin for EgressReceiver<M, W> {}

/// The messages, until the graph has ended and everything was taken.
#[cfg(feature = "async")]
impl<M, W: Wake> futures_core::Stream for EgressReceiver<M, W> {
    type Item = M;

    fn poll_next(mut self: core::pin::Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<M>> {
        self.poll_recv(cx).map(Result::ok)
    }
}

impl<M, W: Wake> sealed::Lane for EgressReceiver<M, W> {
    fn listen(&mut self, event: &Arc<EventCount>) {
        let listens = |own: &Arc<EventCount>| Arc::ptr_eq(own, event);
        if !self.listener.as_ref().is_some_and(listens) {
            let own = Arc::clone(event);
            self.set_waker(move || own.notify_all());
            self.listener = Some(Arc::clone(event));
        }
    }

    fn is_ready(&mut self) -> bool {
        if self.has_any() {
            return true;
        }
        // Closed, or there is what was pushed before the end.
        self.lane.is_ended()
    }
}

/// Counts what was taken, returns its slots, and wakes senders that wait for
/// them, when the taking ends, by return or by panic.
struct Freed<'a, M, W: Wake> {
    lane: &'a Lane,
    first: usize,
    taken: usize,
    wake: &'a W,
    ring: &'a mut Consumer<M>,
    pace: &'a mut Pace,
}

impl<M, W: Wake> Freed<'_, M, W> {
    fn take(&mut self, max: usize, each: &mut impl FnMut(M)) -> usize {
        while self.taken < max
            && let Some(message) = self.ring.take()
        {
            self.taken += 1;
            if self.pace.take() {
                self.settle();
            }
            each(message);
        }
        self.taken
    }

    fn settle(&mut self) {
        self.ring.release();
        let due = self.pace.release();
        self.lane.lists.0.look(self.lane.lists.1, due, |sender| {
            self.wake.wake(ShardId::from_index(self.first + sender));
        });
    }
}

impl<M, W: Wake> Drop for Freed<'_, M, W> {
    fn drop(&mut self) {
        self.lane.taken.add(self.taken as u64);
        if self.pace.holds() {
            self.settle();
        }
    }
}

impl<M, W: Wake> Drop for EgressReceiver<M, W> {
    fn drop(&mut self) {
        // The rings close first, so that a woken sender sees it.
        self.rings.clear();
        self.lane.lists.0.look(self.lane.lists.1, true, |sender| {
            self.wake.wake(ShardId::from_index(self.first + sender));
        });
        // The lane lives as long as its senders. Each is user code.
        let waker = self.lane.waker.lock().take();
        discard(waker);
        discard(self.task.take());
    }
}

impl<M, W: Wake> fmt::Debug for EgressReceiver<M, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressReceiver")
            .field("senders", &self.rings.len())
            .finish_non_exhaustive()
    }
}
