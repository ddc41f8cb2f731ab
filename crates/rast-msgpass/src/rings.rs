//! Sending by a ring per receiver.
//!
//! Messages are staged in the ring of their receiver and published together, one store and one
//! wake-up per receiver. A step that finds less room than the burst at a target notes the target,
//! so no step checks all targets.

use core::num::NonZeroUsize;
use std::collections::VecDeque;

use crate::own::{OwnVec, own_vec};
use crate::primitive::panics::{Payload, contain};
use crate::queue::{Full, spsc::Producer};
use crate::sampling::Departures;
use crate::stack::Stack;

/// The sender's end of one ring, on one cache line.
#[repr(align(64))]
struct Target<T> {
    ring: Producer<T>,
    /// Bits: see below.
    state: u8,
}

const _: () = assert!(size_of::<Target<u64>>() == 64);

/// In the list of targets that got something.
const WRITTEN: u8 = 1;
/// In the list of targets with less room than the burst, or with a spill.
const LOW: u8 = 2;
/// The receiver outside has gone.
const CLOSED: u8 = 4;
/// Some of its messages are measured. On all targets, or on none.
const SAMPLED: u8 = 8;

/// The sender's ends of all rings of an edge. Most sends access only the first fields.
#[repr(C)]
pub(crate) struct Rings<T> {
    targets: OwnVec<Target<T>>,
    /// The room that every target of a bounded edge needs, and one more: not zero, so a target with
    /// that room has some.
    needs: NonZeroUsize,
    written: Stack,
    /// The targets that lack room. With `any` it is empty until all do, or while a message waits
    /// for room.
    low: Vec<u32>,
    /// The room that every target of a bounded edge needs; zero if none.
    burst: usize,
    /// Per target: what found no room, in order. On a bounded edge these are messages of handlers
    /// that run without room, such as `on_start`.
    spills: Box<[VecDeque<T>]>,
    /// The messages in all spills.
    spilled: usize,
    /// Room at one target is enough.
    any: bool,
    /// With `any`: the targets that lack room while others have some.
    aside: Vec<u32>,
    /// Per target, if messages are measured.
    departures: Box<[Departures]>,
}

impl<T> Rings<T> {
    /// `departures`: per ring, or empty if no message is measured.
    pub(crate) fn new(
        rings: Vec<Producer<T>>,
        burst: usize,
        any: bool,
        departures: Vec<Departures>,
    ) -> Self {
        let state = if departures.is_empty() { 0 } else { SAMPLED };
        let target = |ring| Target { ring, state };
        Self {
            written: Stack::new(rings.len()),
            low: Vec::with_capacity(rings.len()),
            aside: Vec::with_capacity(if any { rings.len() } else { 0 }),
            any,
            spilled: 0,
            spills: rings.iter().map(|_| VecDeque::new()).collect(),
            targets: own_vec(rings.into_iter().map(target)),
            burst,
            needs: NonZeroUsize::MIN.saturating_add(burst),
            departures: departures.into(),
        }
    }

    pub(crate) fn targets(&self) -> usize {
        self.targets.len()
    }

    /// Stages a message for a target that has room for a burst after it;
    /// otherwise gives it back.
    #[inline(always)]
    pub(crate) fn put_fast(&mut self, index: usize, message: T) -> Result<(), T> {
        match self.targets.get_mut(index) {
            Some(target)
                if target.state & (LOW | CLOSED) == 0 && target.ring.has_room(self.needs.get()) =>
            {
                target.ring.stage(message).map_err(Full::into_inner)?;
                if target.state != WRITTEN {
                    if target.state == 0 {
                        target.state = WRITTEN;
                        self.written.push(index as u32);
                    } else {
                        self.has_staged(index);
                    }
                }
                Ok(())
            }
            _ => Err(message),
        }
    }

    /// Returns `true` if [`put_fast`](Self::put_fast) stages a message for a target.
    #[inline(always)]
    pub(crate) fn takes_fast(&self, index: usize) -> bool {
        self.targets.get(index).is_some_and(|target| {
            target.state & (LOW | CLOSED) == 0 && target.ring.has_room(self.needs.get())
        })
    }

    /// Records a message that was staged, on an edge with measured messages.
    #[inline(never)]
    fn has_staged(&mut self, index: usize) {
        let target = &mut self.targets[index];
        if target.state & WRITTEN == 0 {
            target.state |= WRITTEN;
            self.written.push(index as u32);
        }
        self.depart(index);
    }

    /// Records the send time of the target's last message, if it is measured.
    #[inline]
    fn depart(&mut self, index: usize) {
        if let Some(departures) = self.departures.get_mut(index) {
            let target = &self.targets[index];
            departures.sent(&target.ring, self.spills[index].len());
        }
    }

    /// Stages a message for the only target, which was written since the last flush, within the
    /// room that [`spare`](Self::spare) returned.
    #[inline(always)]
    pub(crate) fn put_granted(&mut self, message: T) -> Result<(), T> {
        match self.targets.first_mut() {
            Some(target) => target.ring.stage(message).map_err(Full::into_inner),
            None => Err(message),
        }
    }

    /// Returns how many unmeasured messages the only target takes besides a burst. Returns 0 if
    /// there are more targets, or it was not written since the last flush.
    pub(crate) fn spare(&mut self) -> usize {
        match (&self.targets[..], &mut self.departures[..]) {
            ([target], []) if target.state == WRITTEN => {
                target.ring.room().saturating_sub(self.burst)
            }
            ([target], [departures]) if target.state == WRITTEN | SAMPLED => {
                let spare = target.ring.room().saturating_sub(self.burst);
                spare.min(departures.ahead(&target.ring))
            }
            _ => 0,
        }
    }

    /// Stages a message; gives it back if its receiver has gone.
    ///
    /// What finds no room waits in the spill.
    pub(crate) fn put(&mut self, index: usize, message: T) -> Result<(), T> {
        let target = &mut self.targets[index];
        if target.state & CLOSED != 0 {
            return Err(message);
        }
        if target.state & WRITTEN == 0 {
            target.state |= WRITTEN;
            self.written.push(index as u32);
        }
        if target.state & (LOW | SAMPLED) != 0 {
            return self.put_otherwise(index, message);
        }
        match target.ring.stage(message) {
            Ok(()) => {
                if !target.ring.has_room(self.burst) {
                    self.note_low(index);
                }
            }
            Err(Full(message)) => return self.put_slow(index, message),
        }
        Ok(())
    }

    /// Puts a message behind those of its target that found no room; gives it back if there are
    /// none, or if messages are measured. If the receiver has gone, the next
    /// [`look`](Self::look) gives it up.
    #[inline]
    pub(crate) fn put_behind(&mut self, index: usize, message: T) -> Result<(), T> {
        match self.spills.get_mut(index) {
            Some(spill) if !spill.is_empty() && self.departures.is_empty() => {
                spill.push_back(message);
                self.spilled += 1;
                Ok(())
            }
            _ => Err(message),
        }
    }

    /// As `put`, where the target lacks room, or some messages are measured.
    #[inline(never)]
    fn put_otherwise(&mut self, index: usize, message: T) -> Result<(), T> {
        let target = &mut self.targets[index];
        let message = match target.state & LOW {
            0 => target.ring.stage(message).err(),
            _ => Some(Full(message)),
        };
        match message {
            Some(Full(message)) => self.put_slow(index, message)?,
            None if !target.ring.has_room(self.burst) => self.note_low(index),
            None => {}
        }
        self.depart(index);
        Ok(())
    }

    /// Puts a message behind those that found no room; gives it back if its receiver has gone
    /// since the last look.
    #[cold]
    fn put_slow(&mut self, index: usize, message: T) -> Result<(), T> {
        let target = &mut self.targets[index];
        if target.ring.is_closed() {
            target.state |= CLOSED;
            self.note_low(index);
            return Err(message);
        }
        let spill = &mut self.spills[index];
        let message = match spill.is_empty() {
            true => target.ring.stage(message).err(),
            false => Some(Full(message)),
        };
        if let Some(Full(message)) = message {
            spill.push_back(message);
            self.spilled += 1;
        }
        self.note_low(index);
        Ok(())
    }

    #[cold]
    fn note_low(&mut self, index: usize) {
        if self.targets[index].state & LOW == 0 {
            self.targets[index].state |= LOW;
            match self.any {
                true => self.aside.push(index as u32),
                false => self.low.push(index as u32),
            }
        }
        // As in `look`.
        if self.aside.len() == self.targets.len() || self.spilled > 0 {
            self.low.append(&mut self.aside);
        }
    }

    /// Returns whether the receiver outside has gone.
    pub(crate) fn is_gone(&self, index: usize) -> bool {
        self.targets[index].ring.is_closed()
    }

    /// Returns whether a target lacks room, as far as was seen.
    pub(crate) fn is_target_low(&self, index: usize) -> bool {
        self.targets[index].state & LOW != 0
    }

    /// Returns whether some target lacks room, whether or not another has some.
    pub(crate) fn is_some_low(&self) -> bool {
        !self.low.is_empty() || !self.aside.is_empty()
    }

    /// Returns whether a target lacks room, as far as was seen.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        !self.low.is_empty()
    }

    /// Looks again at the targets that lacked room, and refills their rings
    /// from their spills. Messages whose receiver has gone go to `lost`.
    pub(crate) fn look(&mut self, mut lost: impl FnMut(T)) {
        self.low.append(&mut self.aside);
        let (targets, written, burst) = (&mut self.targets, &mut self.written, self.burst);
        let departures = &mut self.departures;
        let (spills, spilled) = (&mut self.spills, &mut self.spilled);
        self.low.retain(|&index| {
            let target = &mut targets[index as usize];
            let spill = &mut spills[index as usize];
            if target.ring.is_closed() {
                target.state |= CLOSED;
                *spilled -= spill.len();
                spill.drain(..).for_each(&mut lost);
            }
            while let Some(message) = spill.pop_front() {
                if let Err(Full(message)) = target.ring.stage(message) {
                    spill.push_front(message);
                    break;
                }
                *spilled -= 1;
                if target.state & WRITTEN == 0 {
                    target.state |= WRITTEN;
                    written.push(index);
                }
                if let Some(departures) = departures.get_mut(index as usize) {
                    departures.staged(&target.ring);
                }
            }
            let is_low = !spill.is_empty() || !target.ring.has_room(burst);
            target.state &= !LOW;
            if is_low && target.state & CLOSED == 0 {
                target.state |= LOW;
            }
            target.state & LOW != 0
        });
        // A message that waits at one target gates until it has left: no other check finds it.
        if self.any && self.spilled == 0 && self.low.len() < self.targets.len() {
            self.aside.append(&mut self.low);
        }
    }

    /// Returns whether a message waits for room at a target.
    pub(crate) fn has_spilled(&self, index: usize) -> bool {
        !self.spills[index].is_empty()
    }

    /// Takes the first message that waits for room at a target, which is retired. If it is
    /// measured, its wait counts from now on.
    pub(crate) fn take_spilled(&mut self, index: usize) -> Option<T> {
        let message = self.spills[index].pop_front()?;
        self.spilled -= 1;
        Some(message)
    }

    /// Returns how many messages found no room.
    #[inline]
    pub(crate) fn spilled(&self) -> usize {
        self.spilled
    }

    /// Returns a target that lacks room.
    pub(crate) fn first_low(&self) -> Option<usize> {
        self.low.first().map(|&index| index as usize)
    }

    /// Returns whether a target got something since the last flush.
    pub(crate) fn is_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Returns the targets that got something since the last flush.
    pub(crate) fn written(&self) -> impl Iterator<Item = usize> {
        self.written.iter().map(|&index| index as usize)
    }

    /// Publishes what was staged, and calls `each` with every target that got
    /// something.
    #[inline]
    pub(crate) fn flush(&mut self, mut each: impl FnMut(usize)) {
        while let Some(index) = self.written.pop() {
            let index = index as usize;
            let target = &mut self.targets[index];
            target.state &= !WRITTEN;
            target.ring.publish();
            each(index);
        }
    }

    /// Returns the target that got something since the last flush, if it is the only one, and no
    /// target lacks room.
    #[inline]
    pub(crate) fn only_written(&self) -> Option<usize> {
        match (&*self.written, &self.low[..]) {
            (&[index], []) => Some(index as usize),
            _ => None,
        }
    }

    /// Publishes what was staged for the only target that was written.
    #[inline]
    pub(crate) fn publish_only(&mut self, index: usize) {
        self.written.truncate(0);
        let target = &mut self.targets[index];
        target.state &= !WRITTEN;
        target.ring.publish();
    }

    /// Looks whether the receivers outside that were just written to have gone.
    pub(crate) fn note_closed(&mut self) {
        for &index in &*self.written {
            let target = &mut self.targets[index as usize];
            if target.ring.is_closed() {
                target.state |= CLOSED;
            }
        }
    }

    /// The room of a target, by a fresh look.
    pub(crate) fn room(&self, index: usize) -> usize {
        let target = &self.targets[index];
        if target.state & CLOSED != 0 {
            return usize::MAX;
        }
        let room = match self.spills[index].is_empty() {
            true => target.ring.room(),
            false => 0,
        };
        match room {
            0 if target.ring.is_closed() => usize::MAX,
            room => room,
        }
    }

    /// Returns whether a target has room for this many messages, by a fresh look only if the
    /// last one does not show it.
    #[inline]
    pub(crate) fn has_room(&self, index: usize, count: usize) -> bool {
        let target = &self.targets[index];
        target.state & CLOSED != 0
            || ((self.spilled == 0 || self.spills[index].is_empty()) && target.ring.has_room(count))
            || target.ring.is_closed()
    }

    /// Gives up what was spilled, at the end, and drops the rings; returns how many messages lie in
    /// rings whose receivers have gone. These are dropped with their rings, and `fault` gets the
    /// first panic of their destructors, for each ring.
    pub(crate) fn abandon(
        &mut self,
        mut lost: impl FnMut(T),
        mut fault: impl FnMut(Payload),
    ) -> usize {
        let mut left = 0;
        for (target, spill) in self.targets.iter_mut().zip(&mut self.spills) {
            // One by one: a panic of `lost` loses that message and no other.
            while let Some(message) = spill.pop_front() {
                self.spilled -= 1;
                lost(message);
            }
            target.ring.publish();
            if target.ring.is_closed() {
                left += target.ring.len();
            }
        }
        // One by one: two panics of destructors in one drop of all rings would abort the process.
        while let Some(target) = self.targets.pop() {
            if let Err(payload) = contain(|| drop(target)) {
                fault(payload);
            }
        }
        left
    }
}
