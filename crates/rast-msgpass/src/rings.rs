//! Sending by a ring per receiver.
//!
//! Messages are staged in the ring of their receiver and published together,
//! one store and one wake-up per receiver. A target that has less room than
//! the burst is noted when that is seen, so no step looks at all targets.

use std::collections::VecDeque;

use crate::queue::{Full, spsc::Producer};

/// The sender's end of one ring.
struct Target<T> {
    ring: Producer<T>,
    /// What found no room, in order: on an unbounded edge alone.
    spill: VecDeque<T>,
    /// In the list of those that got something.
    is_written: bool,
    /// In the list of those with less room than the burst, or with a spill.
    is_low: bool,
    /// The receiver outside has gone.
    is_closed: bool,
}

/// The sender's ends of all rings of an edge.
pub(crate) struct Rings<T> {
    targets: Vec<Target<T>>,
    /// The room that every target of a bounded edge needs; zero if none.
    burst: usize,
    written: Vec<u32>,
    low: Vec<u32>,
}

impl<T> Rings<T> {
    pub(crate) fn new(rings: Vec<Producer<T>>, burst: usize) -> Self {
        let target = |ring| Target {
            ring,
            spill: VecDeque::new(),
            is_written: false,
            is_low: false,
            is_closed: false,
        };
        Self {
            written: Vec::with_capacity(rings.len()),
            low: Vec::with_capacity(rings.len()),
            targets: rings.into_iter().map(target).collect(),
            burst,
        }
    }

    pub(crate) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Stages a message; gives it back if its receiver has gone.
    ///
    /// What finds no room waits in the spill.
    #[inline]
    pub(crate) fn put(&mut self, index: usize, message: T) -> Result<(), T> {
        let target = &mut self.targets[index];
        if target.is_closed {
            return Err(message);
        }
        if !target.is_written {
            target.is_written = true;
            self.written.push(index as u32);
        }
        if !target.spill.is_empty() {
            target.spill.push_back(message);
            return Ok(());
        }
        match target.ring.stage(message) {
            Ok(()) => {
                if !target.is_low && !target.ring.has_room(self.burst) {
                    self.note_low(index);
                }
            }
            Err(Full(message)) => {
                target.spill.push_back(message);
                self.note_low(index);
            }
        }
        Ok(())
    }

    #[cold]
    fn note_low(&mut self, index: usize) {
        if !self.targets[index].is_low {
            self.targets[index].is_low = true;
            self.low.push(index as u32);
        }
    }

    /// Returns whether a target lacks room, as far as was seen.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        !self.low.is_empty()
    }

    /// Looks again at the targets that lacked room, and refills their rings
    /// from their spills. Messages whose receiver has gone go to `lost`.
    pub(crate) fn look(&mut self, mut lost: impl FnMut(T)) {
        let (targets, written, burst) = (&mut self.targets, &mut self.written, self.burst);
        self.low.retain(|&index| {
            let target = &mut targets[index as usize];
            if target.ring.is_closed() {
                target.is_closed = true;
                target.spill.drain(..).for_each(&mut lost);
            }
            while let Some(message) = target.spill.pop_front() {
                if let Err(Full(message)) = target.ring.stage(message) {
                    target.spill.push_front(message);
                    break;
                }
                if !target.is_written {
                    target.is_written = true;
                    written.push(index);
                }
            }
            let is_low = !target.spill.is_empty() || !target.ring.has_room(burst);
            target.is_low = is_low && !target.is_closed;
            target.is_low
        });
    }

    /// Returns a target that lacks room.
    pub(crate) fn first_low(&self) -> Option<usize> {
        self.low.first().map(|&index| index as usize)
    }

    /// Publishes what was staged, and calls `each` with every target that got
    /// something.
    #[inline]
    pub(crate) fn flush(&mut self, mut each: impl FnMut(usize)) {
        while let Some(index) = self.written.pop() {
            let index = index as usize;
            let target = &mut self.targets[index];
            target.is_written = false;
            target.ring.publish();
            each(index);
        }
    }

    /// Looks whether the receivers outside that were just written to have gone.
    pub(crate) fn note_closed(&mut self) {
        for &index in &self.written {
            let target = &mut self.targets[index as usize];
            target.is_closed = target.ring.is_closed();
        }
    }

    /// The room of a target, by a fresh look.
    pub(crate) fn room(&self, index: usize) -> usize {
        let target = &self.targets[index];
        match (target.is_closed, target.spill.is_empty()) {
            (true, _) => usize::MAX,
            (false, true) => target.ring.room(),
            (false, false) => 0,
        }
    }

    /// Returns whether a target has room for one message.
    pub(crate) fn has_room(&self, index: usize) -> bool {
        let target = &self.targets[index];
        target.is_closed || (target.spill.is_empty() && target.ring.has_room(1))
    }

    /// Gives up what was spilled, at the end; returns how many messages lie in
    /// rings whose receivers have gone.
    pub(crate) fn abandon(&mut self, mut lost: impl FnMut(T)) -> usize {
        let mut left = 0;
        for target in &mut self.targets {
            // One by one: a panic of `lost` loses that message and no other.
            while let Some(message) = target.spill.pop_front() {
                lost(message);
            }
            target.ring.publish();
            if target.ring.is_closed() {
                left += target.ring.len();
            }
        }
        left
    }
}
