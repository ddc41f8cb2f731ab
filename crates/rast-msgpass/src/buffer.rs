//! A locked queue for each pair of instances, for edges that drop the oldest message or bound the
//! bytes, which a ring cannot do.
//!
//! ```text
//!   sender                      Mutex                          receiver
//!   Buffers ── put, evict ──►  [ oldest .. newest | bytes ] ── take ──► Buffer
//!                                     is_waited
//! ```
//!
//! 1. A queue has room while it has fewer messages than its capacity, and fewer bytes than their
//!    bound. The weight of the next message is not part of this check, so a queue with room accepts
//!    a message of any weight. Therefore the bytes may exceed their bound, by less than the weight
//!    of one burst of the sender. On an edge that never keeps its sender from running, they exceed
//!    it by less than the weight of one message.
//! 2. A sender that must wait sets `is_waited` in the critical section in which it finds too little
//!    room. The take that makes enough room clears it, also under the lock, and then wakes the
//!    sender.
//! 3. The lock is not held while a message is dropped or weighed, because dropping and weighing run
//!    user code.
//! 4. Every pair of instances has a queue, so a pair that never exchanges a message costs some 100
//!    bytes. With its first message a queue allocates `cap` slots, each of the size of a message
//!    and two words. If that much memory is refused, it grows with its messages.

use std::collections::VecDeque;

use crate::primitive::sync::{Arc, Mutex};
use crate::sampling::{Draw, UNMEASURED};
use crate::stack::Stack;

/// What a queue holds at most, and what its sender needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    /// Messages that a handler may send; 0 if the edge does not gate its sender.
    pub(crate) burst: usize,
}

struct Entry<M> {
    weight: usize,
    /// When it was sent, if it is measured.
    sent: u64,
    message: M,
}

struct Inner<M> {
    messages: VecDeque<Entry<M>>,
    /// Wide enough for the weights of all messages that fit a queue.
    bytes: u128,
    /// The sender waits for room.
    is_waited: bool,
}

impl<M> Inner<M> {
    fn has_room(&self, bounds: &Bounds) -> bool {
        self.messages.len() < bounds.messages && self.bytes < bounds.bytes as u128
    }

    /// Returns whether the sender may not run.
    fn lacks(&self, bounds: &Bounds) -> bool {
        let is_full = bounds.messages.saturating_sub(self.messages.len()) < bounds.burst;
        bounds.burst > 0 && (is_full || self.bytes >= bounds.bytes as u128)
    }

    fn push(&mut self, weight: usize, sent: u64, message: M, bounds: &Bounds) {
        if self.messages.capacity() == 0 {
            // If there is no memory for that many, the queue grows with its messages.
            let _ = self.messages.try_reserve_exact(bounds.messages);
        }
        self.bytes += weight as u128;
        self.messages.push_back(Entry {
            weight,
            sent,
            message,
        });
    }

    fn pop(&mut self) -> Option<Entry<M>> {
        let entry = self.messages.pop_front()?;
        self.bytes -= entry.weight as u128;
        Some(entry)
    }
}

/// The queue of one pair.
pub(crate) struct Buffer<M> {
    inner: Mutex<Inner<M>>,
    bounds: Bounds,
}

impl<M> Buffer<M> {
    /// Takes the oldest message out, with the time of its send if it is measured. Also returns
    /// whether the sender waits and has enough room now: it is to be woken, once.
    pub(crate) fn take(&self) -> Option<(M, u64, bool)> {
        let mut inner = self.inner.lock();
        let Entry { sent, message, .. } = inner.pop()?;
        let wakes = inner.is_waited && !inner.lacks(&self.bounds);
        if wakes {
            inner.is_waited = false;
        }
        Some((message, sent, wakes))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.inner.lock().messages.is_empty()
    }
}

/// In the list of targets that got something.
const WRITTEN: u8 = 1;
/// In the list of targets that lack room.
const LOW: u8 = 2;

/// The sender's ends of the queues of an edge.
pub(crate) struct Buffers<M> {
    targets: Vec<Arc<Buffer<M>>>,
    weigh: Option<fn(&M) -> usize>,
    /// Per target: bits.
    states: Vec<u8>,
    written: Stack,
    low: Stack,
    /// If messages are measured.
    draw: Option<Box<Draw>>,
}

impl<M> Buffers<M> {
    pub(crate) fn new(
        targets: Vec<Arc<Buffer<M>>>,
        weigh: Option<fn(&M) -> usize>,
        draw: Option<Draw>,
    ) -> Self {
        Self {
            draw: draw.map(Box::new),
            weigh,
            states: vec![0; targets.len()],
            written: Stack::new(targets.len()),
            low: Stack::new(targets.len()),
            targets,
        }
    }

    pub(crate) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Returns the weight of a message. User code.
    pub(crate) fn weigh(&self, message: &M) -> usize {
        self.weigh.map_or(0, |weigh| weigh(message))
    }

    /// Returns the time, if the next message is measured.
    fn look_at_draw(&mut self) -> u64 {
        self.draw.as_mut().map_or(UNMEASURED, |draw| draw.look())
    }

    /// Records a message that was put in.
    fn note_written(&mut self, index: usize) {
        if let Some(draw) = &mut self.draw {
            draw.count();
        }
        if self.states[index] & WRITTEN == 0 {
            self.states[index] |= WRITTEN;
            self.written.push(index as u32);
        }
    }

    fn note_low(&mut self, index: usize) {
        if self.states[index] & LOW == 0 {
            self.states[index] |= LOW;
            self.low.push(index as u32);
        }
    }

    /// Puts a message in, whether or not there is room: its handler ran because there was some.
    pub(crate) fn put(&mut self, index: usize, weight: usize, message: M) {
        let sent = self.look_at_draw();
        let target = &self.targets[index];
        let mut inner = target.inner.lock();
        inner.push(weight, sent, message, &target.bounds);
        let lacks = inner.lacks(&target.bounds);
        inner.is_waited |= lacks;
        drop(inner);
        self.note_written(index);
        if lacks {
            self.note_low(index);
        }
    }

    /// Puts a message in if there is room.
    pub(crate) fn try_put(&mut self, index: usize, weight: usize, message: M) -> Result<(), M> {
        let sent = self.look_at_draw();
        let target = &self.targets[index];
        let mut inner = target.inner.lock();
        if !inner.has_room(&target.bounds) {
            return Err(message);
        }
        inner.push(weight, sent, message, &target.bounds);
        drop(inner);
        self.note_written(index);
        Ok(())
    }

    /// Puts a message in, in place of the oldest ones if there is no room; `evicted` gets those.
    pub(crate) fn put_evicting(
        &mut self,
        index: usize,
        weight: usize,
        message: M,
        mut evicted: impl FnMut(M),
    ) {
        let sent = self.look_at_draw();
        let target = &self.targets[index];
        let mut message = Some(message);
        while message.is_some() {
            let mut inner = target.inner.lock();
            let oldest = match inner.has_room(&target.bounds) {
                true => None,
                false => inner.pop(),
            };
            if inner.has_room(&target.bounds)
                && let Some(message) = message.take()
            {
                inner.push(weight, sent, message, &target.bounds);
            }
            drop(inner);
            if let Some(oldest) = oldest {
                evicted(oldest.message);
            }
        }
        self.note_written(index);
    }

    /// Returns whether a target has room for one more, as far as is seen now.
    pub(crate) fn has_room(&self, index: usize) -> bool {
        let target = &self.targets[index];
        target.inner.lock().has_room(&target.bounds)
    }

    /// Returns whether a target lacks room, as far as was seen.
    pub(crate) fn is_low(&self) -> bool {
        !self.low.is_empty()
    }

    pub(crate) fn is_target_low(&self, index: usize) -> bool {
        self.states[index] & LOW != 0
    }

    pub(crate) fn first_low(&self) -> Option<usize> {
        self.low.first().map(|&index| index as usize)
    }

    pub(crate) fn is_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Looks again at the targets that lacked room, and waits at those that still lack it.
    pub(crate) fn look(&mut self) {
        let mut left = 0;
        for at in 0..self.low.len() {
            let index = self.low.at(at);
            let target = &self.targets[index as usize];
            let mut inner = target.inner.lock();
            let lacks = inner.lacks(&target.bounds);
            inner.is_waited = lacks;
            drop(inner);
            if lacks {
                self.low[left] = index;
                left += 1;
            } else {
                self.states[index as usize] &= !LOW;
            }
        }
        self.low.truncate(left);
    }

    /// Calls `each` with every target that got something.
    pub(crate) fn flush(&mut self, mut each: impl FnMut(usize)) {
        while let Some(index) = self.written.pop() {
            self.states[index as usize] &= !WRITTEN;
            each(index as usize);
        }
    }
}

/// Makes the queues of one receiver, one per sender.
pub(crate) fn buffers<M>(bounds: Bounds, senders: usize) -> Vec<Arc<Buffer<M>>> {
    let buffer = |_| {
        Arc::new(Buffer {
            inner: Mutex::new(Inner {
                messages: VecDeque::new(),
                bytes: 0,
                is_waited: false,
            }),
            bounds,
        })
    };
    (0..senders).map(buffer).collect()
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_slots_from_its_first_message_on() {
        let bounds = Bounds {
            messages: 8,
            bytes: usize::MAX,
            burst: 0,
        };
        let queues = buffers::<u64>(bounds, 2);
        let mut ends = Buffers::new(queues.clone(), None, None);
        let slots = || {
            queues
                .iter()
                .map(|queue| queue.inner.lock().messages.capacity())
        };
        assert!(slots().eq([0, 0]));
        ends.put_evicting(1, 0, 0, drop);
        let after_first: Vec<_> = slots().collect();
        assert!(after_first[0] == 0 && after_first[1] >= 8);
        (1..100).for_each(|number| ends.put_evicting(1, 0, number, drop));
        assert!(slots().eq(after_first));
        assert_eq!(queues[1].take().map(|(message, ..)| message), Some(92));
    }
    #[test]
    fn a_sum_of_weights_past_the_range_of_one_keeps_each() {
        let bounds = Bounds {
            messages: 8,
            bytes: 10,
            burst: 4,
        };
        let queues = buffers::<usize>(bounds, 1);
        let mut ends = Buffers::new(queues.clone(), Some(|weight| *weight), None);
        for weight in [usize::MAX, 10, usize::MAX, 9] {
            assert_eq!(ends.weigh(&weight), weight);
            ends.put(0, weight, weight);
        }
        let next = || {
            let (weight, _, wakes) = queues[0].take().expect("it was put in");
            (weight, ends.has_room(0), wakes)
        };
        assert_eq!(next(), (usize::MAX, false, false));
        assert_eq!(next(), (10, false, false));
        // What is left weighs 9 of 10, and the sender waits.
        assert_eq!(next(), (usize::MAX, true, true));
        assert_eq!(next(), (9, true, false));
    }
}
