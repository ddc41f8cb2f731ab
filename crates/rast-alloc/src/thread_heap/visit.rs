//! The visits of the background thread, where there is one.

use super::{ASKS, HEAPS, ThreadHeap};
use crate::arena::Pace;
use crate::delay::DELAY;
use crate::hold::Wish;
use crate::os;
use crate::primitive::asymmetric;
use crate::primitive::sync::atomic::Ordering;

/// Looks after which a heap that no thread uses is left alone, whatever the system does not take
/// back.
const LOOKS: u32 = 8;

impl ThreadHeap {
    /// A round of the background thread: looks after each heap that no thread uses at the moment.
    /// Returns whether another round is needed.
    ///
    /// The heap of a thread that made no call since the last round is taken from it, and so is that
    /// of a thread that calls but looks after its heap too seldom.
    pub(crate) fn visit_all(is_stopped: &dyn Fn() -> bool) -> bool {
        let (ask, now_ms) = (ASKS.next(Wish::Look), os::now_ms());
        let delay_ms = DELAY.get().unwrap_or(u64::MAX);
        let (mut is_asked, mut is_left) = (false, false);
        HEAPS.find(|heap| {
            if heap.is_visited(now_ms, delay_ms) {
                is_asked |= heap.hold.ask(ask);
            }
            None::<()>
        });
        let is_fenced = is_asked && asymmetric::barrier();
        HEAPS.find(|heap| {
            // Relaxed: a hint. [AT8]
            if heap.is_settled.load(Ordering::Relaxed) {
                return None;
            }
            // SAFETY: this thread made the ask, and the barrier came after if it says so.
            if unsafe { heap.take(ask, is_fenced) } {
                heap.visit(now_ms, is_stopped);
                heap.leave();
            }
            // Relaxed: as above. [AT9]
            is_left |= !heap.is_settled.load(Ordering::Relaxed);
            is_stopped().then_some(())
        });
        is_left
    }

    /// Whether the background thread should take the heap, if a thread has it. Only the background
    /// thread calls it.
    fn is_visited(&self, now_ms: u64, delay_ms: u64) -> bool {
        let calls = (self.arena.bytes_taken.get()).wrapping_add(self.arena.bytes_given.get());
        // Relaxed: one thread's. [AT10]
        let is_idle = self.calls_seen.swap(calls, Ordering::Relaxed) == calls;
        is_idle || self.is_purging() || self.is_due(now_ms, delay_ms)
    }

    /// Gives back what is unneeded, until the heap's thread wants it. Only the background thread
    /// calls it, as the holder.
    fn visit(&self, now_ms: u64, is_stopped: &dyn Fn() -> bool) {
        self.deliver_all();
        self.put_away_all();
        let is_over = || self.hold.is_wanted() || self.hold.is_purge_wished() || is_stopped();
        let mut pace = Pace::until(&is_over);
        if self.is_purging() {
            self.set_purging(!self.arena.purge_aged(&mut pace).is_all);
        }
        if !self.is_purging() {
            let is_settled = self.age(now_ms, &mut pace);
            self.looks.set(self.looks.get() + 1);
            // Relaxed: a hint. [AT16]
            self.is_settled
                .store(is_settled || self.looks.get() >= LOOKS, Ordering::Relaxed);
        }
        self.report();
    }
}
