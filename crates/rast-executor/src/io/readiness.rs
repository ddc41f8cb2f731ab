//! The readiness of a socket, and the tasks that wait for it.
//!
//! An edge (a change that the poll reports) of one direction wakes the future that has waited
//! longest for this direction.
//!
//! Rules, under the lock of the socket:
//!
//! 1. A future enters the list only while its direction is not ready.
//! 2. An edge removes a future from the list and wakes it. That future then holds the wake-up.
//! 3. The holder ends the wake-up in one of two ways. If its operation would block, the direction
//!    becomes not ready. If its operation has a result, or the holder is dropped, it wakes the next
//!    future, unless the direction is not ready.
//!
//! By 1 and 2, if a direction is ready while a future is in its list, another future holds the
//! wake-up.
//!
//! An edge that reports an end or an error wakes all futures, because the operation of each future
//! returns this end or error. An edge that reports an urgent byte of TCP also wakes all futures.
//!
//! A caller of a poll method (`poll_read` of a trait) has no future in the list that could pass a
//! wake-up on. So its waker is stored beside the list, one per direction, and every edge wakes it.

use core::task::Waker;
use std_alloc::collections::VecDeque;
use std_alloc::vec::Vec;

use crate::primitive::panics::drop_each;
use crate::primitive::sync::Mutex;
use crate::wakers::wake;

/// Number of futures for which a list always keeps room.
const SMALL: usize = 64;

/// A direction of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Reading,
    Writing,
}

/// State that an event reports for one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edge {
    None,
    /// An operation may succeed.
    Ready,
    /// An operation may succeed, find the end or an error, or stop before an urgent byte.
    Last,
}

impl Edge {
    pub(super) fn of(is_ready: bool, is_over: bool) -> Self {
        match (is_ready, is_over) {
            (_, true) => Self::Last,
            (true, false) => Self::Ready,
            (false, false) => Self::None,
        }
    }
}

/// The number of a future that has waited: its place in the list of its direction. `None` before.
#[derive(Debug, Default)]
pub(super) struct Ticket(Option<u64>);

/// The waiters of one direction.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) is_ready: bool,
    /// Number of edges.
    pub(super) tick: u64,
    /// Set when an end, an error or an urgent byte was reported. The poll may not report it again.
    is_over: bool,
    /// The futures that wait, by ticket.
    waiting: VecDeque<(u64, Waker)>,
    /// The next ticket.
    next: u64,
    /// The last caller of a poll method.
    polled: Option<Waker>,
}

impl Side {
    fn new() -> Self {
        Self {
            is_ready: true,
            tick: 0,
            is_over: false,
            waiting: VecDeque::new(),
            next: 0,
            polled: None,
        }
    }

    /// The index of a ticket in the list, or the index at which it would be inserted.
    fn find(&self, ticket: u64) -> Result<usize, usize> {
        self.waiting
            .binary_search_by_key(&ticket, |&(ticket, _)| ticket)
    }

    /// Stores the waker of a future or, without a ticket, of a caller of a poll method. A future
    /// that was woken but whose operation would block gets its earlier place again.
    ///
    /// A waker is user code, so it is neither cloned nor dropped here. If another waker or none is
    /// stored, `clone` must contain a clone of `waker`. If it does not, this returns `false` and
    /// does nothing; the caller then releases the lock, clones the waker, and checks the side
    /// again. A waker that is replaced is left in `clone`.
    pub(super) fn wait(
        &mut self,
        ticket: Option<&mut Ticket>,
        waker: &Waker,
        clone: &mut Option<Waker>,
    ) -> bool {
        let old = match &ticket {
            None => self.polled.as_ref(),
            Some(Ticket(ticket)) => {
                let at = ticket.and_then(|ticket| self.find(ticket).ok());
                at.map(|at| &self.waiting[at].1)
            }
        };
        if old.is_some_and(|old| old.will_wake(waker)) {
            return true;
        }
        let Some(new) = clone.take() else {
            return false;
        };
        let Some(Ticket(ticket)) = ticket else {
            *clone = self.polled.replace(new);
            return true;
        };
        let ticket = *ticket.get_or_insert_with(|| {
            self.next += 1;
            self.next
        });
        match self.find(ticket) {
            Ok(at) => *clone = Some(core::mem::replace(&mut self.waiting[at].1, new)),
            Err(at) => self.waiting.insert(at, (ticket, new)),
        }
        true
    }

    /// Takes the future that has waited longest.
    fn pop(&mut self) -> Option<Waker> {
        let (_, waker) = self.waiting.pop_front()?;
        self.shorten();
        Some(waker)
    }

    /// Frees most of the memory of a list that has become short.
    fn shorten(&mut self) {
        if self.waiting.capacity() > 8 * self.waiting.len() + SMALL {
            self.waiting.shrink_to(2 * self.waiting.len());
        }
    }
}

#[derive(Debug)]
pub(super) struct Sides {
    reading: Side,
    writing: Side,
    /// Set when the runtime has ended: no thread polls any more.
    pub(super) is_gone: bool,
}

impl Sides {
    pub(super) fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Reading => &mut self.reading,
            Direction::Writing => &mut self.writing,
        }
    }
}

/// The state of one socket.
#[derive(Debug)]
pub(super) struct Readiness(pub(super) Mutex<Sides>);

impl Readiness {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Sides {
            reading: Side::new(),
            writing: Side::new(),
            is_gone: false,
        }))
    }

    /// Records an edge; adds the wakers that it wakes.
    pub(super) fn note(&self, reading: Edge, writing: Edge, wakers: &mut Vec<Waker>) {
        let mut sides = self.0.lock();
        let sides = &mut *sides;
        for (edge, side) in [(reading, &mut sides.reading), (writing, &mut sides.writing)] {
            if edge == Edge::None {
                continue;
            }
            side.is_ready = true;
            side.tick += 1;
            wakers.extend(side.polled.take());
            if edge == Edge::Last {
                side.is_over = true;
                let all = core::mem::take(&mut side.waiting);
                wakers.extend(all.into_iter().map(|(_, waker)| waker));
            } else {
                wakers.extend(side.pop());
            }
        }
    }

    /// Records that an operation would block: the next one waits, unless an edge came since `tick`.
    pub(super) fn block(&self, direction: Direction, tick: u64) {
        let mut sides = self.0.lock();
        let side = sides.side(direction);
        if side.tick == tick {
            side.is_ready = false;
        }
    }

    /// As [`block`](Self::block), before an operation has failed. A reported end stays ready,
    /// because an operation must still find it.
    pub(super) fn block_until_edge(&self, direction: Direction, tick: u64) {
        let mut sides = self.0.lock();
        let side = sides.side(direction);
        if side.tick == tick && !side.is_over {
            side.is_ready = false;
        }
    }

    /// Ends the wait of a future: it leaves the list, or passes on the wake-up that it holds (rule
    /// 3). Takes the lock if the future has waited.
    pub(super) fn leave(&self, direction: Direction, ticket: &mut Ticket) {
        let Some(ticket) = ticket.0.take() else {
            return;
        };
        let mut sides = self.0.lock();
        let side = sides.side(direction);
        let (left, next) = match side.find(ticket) {
            Ok(at) => {
                let left = side.waiting.remove(at);
                side.shorten();
                (left, None)
            }
            Err(_) if side.is_ready => (None, side.pop()),
            Err(_) => (None, None),
        };
        drop(sides);
        // Outside of the lock, because both run code of a waker.
        drop(left);
        next.into_iter().for_each(wake);
    }

    /// Fails all operations from now on.
    pub(super) fn end(&self, wakers: &mut Vec<Waker>) {
        self.0.lock().is_gone = true;
        self.note(Edge::Last, Edge::Last, wakers);
    }
}

impl Drop for Readiness {
    /// Drops the wakers of futures that were forgotten, and of callers of a poll method.
    fn drop(&mut self) {
        let Sides {
            reading, writing, ..
        } = self.0.get_mut();
        let mut wakers = [reading, writing].into_iter().flat_map(|side| {
            let waiting = core::mem::take(&mut side.waiting);
            let waiting = waiting.into_iter().map(|(_, waker)| waker);
            side.polled.take().into_iter().chain(waiting)
        });
        drop_each(|| wakers.next());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use core::sync::atomic::{AtomicUsize, Ordering};
    use std_alloc::sync::Arc;
    use std_alloc::task::Wake;

    use Direction::Reading;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A future that waits for a socket, and how often it was woken.
    #[derive(Default)]
    struct Waits {
        count: Arc<Count>,
        ticket: Ticket,
    }

    impl Waits {
        fn wait(&mut self, readiness: &Readiness) {
            let waker = Waker::from(Arc::clone(&self.count));
            let mut sides = readiness.0.lock();
            assert!(!sides.side(Reading).is_ready);
            let mut clone = Some(waker.clone());
            let ticket = Some(&mut self.ticket);
            assert!(sides.side(Reading).wait(ticket, &waker, &mut clone));
        }

        fn woken(&self) -> usize {
            self.count.0.load(Ordering::Relaxed)
        }
    }

    fn edge(readiness: &Readiness, edge: Edge) {
        let mut wakers = Vec::new();
        readiness.note(edge, Edge::None, &mut wakers);
        wakers.into_iter().for_each(wake);
    }

    fn block(readiness: &Readiness) {
        let tick = readiness.0.lock().side(Reading).tick;
        readiness.block(Reading, tick);
    }

    fn three(readiness: &Readiness) -> [Waits; 3] {
        block(readiness);
        let mut waits = [(); 3].map(|()| Waits::default());
        waits.iter_mut().for_each(|wait| wait.wait(readiness));
        waits
    }

    #[test]
    fn an_edge_wakes_the_first_and_each_result_the_next() {
        let readiness = Readiness::new();
        let mut waits = three(&readiness);
        let woken = |waits: &[Waits]| waits.iter().map(Waits::woken).collect::<Vec<_>>();
        edge(&readiness, Edge::Ready);
        assert_eq!(woken(&waits), [1, 0, 0]);
        // It has a result; the second one finds nothing, and stays the first of the list.
        readiness.leave(Reading, &mut waits[0].ticket);
        assert_eq!(woken(&waits), [1, 1, 0]);
        block(&readiness);
        waits[1].wait(&readiness);
        edge(&readiness, Edge::Ready);
        assert_eq!(woken(&waits), [1, 2, 0]);
        // A holder that is dropped, and one that is dropped without holding anything.
        readiness.leave(Reading, &mut waits[1].ticket);
        assert_eq!(woken(&waits), [1, 2, 1]);
        block(&readiness);
        waits[0].wait(&readiness);
        waits[2].wait(&readiness);
        readiness.leave(Reading, &mut waits[2].ticket);
        edge(&readiness, Edge::Ready);
        assert_eq!(woken(&waits), [2, 2, 1]);
    }

    #[test]
    fn an_end_wakes_all_and_a_poller_is_woken_by_every_edge() {
        let readiness = Readiness::new();
        let waits = three(&readiness);
        let poller = Waits::default();
        let waker = Waker::from(Arc::clone(&poller.count));
        let mut clone = Some(waker.clone());
        let mut sides = readiness.0.lock();
        assert!(sides.side(Reading).wait(None, &waker, &mut clone));
        drop(sides);
        edge(&readiness, Edge::Ready);
        assert_eq!(
            (poller.woken(), waits[0].woken(), waits[1].woken()),
            (1, 1, 0)
        );
        edge(&readiness, Edge::Last);
        assert_eq!(waits.each_ref().map(Waits::woken), [1; 3]);
    }

    #[test]
    fn a_list_that_was_long_is_short_again() {
        let readiness = Readiness::new();
        block(&readiness);
        let mut waits: Vec<_> = (0..10_000).map(|_| Waits::default()).collect();
        waits.iter_mut().for_each(|wait| wait.wait(&readiness));
        for wait in &mut waits[..9_990] {
            readiness.leave(Reading, &mut wait.ticket);
        }
        let capacity = readiness.0.lock().side(Reading).waiting.capacity();
        assert!(capacity <= 8 * 10 + SMALL, "{capacity}");
    }
}
