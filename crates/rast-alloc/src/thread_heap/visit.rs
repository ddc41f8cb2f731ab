//! The visits of the background thread, where there is one.

use super::{HEAPS, REQUESTS, ThreadHeap};
use crate::arena::StepLimit;
use crate::delay::DELAY;
use crate::os;
use crate::ownership::Action;
use crate::primitive::asymmetric;
use crate::primitive::sync::atomic::Ordering;

/// Passes after which the background thread leaves an unused heap alone, even if the system did not
/// take all of its memory.
const PASSES_MAX: u32 = 8;

impl ThreadHeap {
    /// One round of the background thread: services each heap that no thread uses at the moment.
    /// Returns `true` if another round is needed.
    ///
    /// It takes the heap of a thread that made no call since the last round, or that makes too few
    /// decay passes itself.
    pub(crate) fn visit_all(is_stopped: &dyn Fn() -> bool) -> bool {
        let (request, now_ms) = (REQUESTS.next(Action::Decay), os::now_ms());
        let delay_ms = DELAY.get().unwrap_or(u64::MAX);
        let (mut is_requested, mut is_left) = (false, false);
        HEAPS.find(|heap| {
            if heap.is_visited(now_ms, delay_ms) {
                is_requested |= heap.ownership.request(request);
            }
            None::<()>
        });
        let is_fenced = is_requested && asymmetric::barrier();
        HEAPS.find(|heap| {
            // Relaxed: a hint. [AT8]
            if heap.is_settled.load(Ordering::Relaxed) {
                return None;
            }
            // SAFETY: this thread made the request, and the barrier came after it if `is_fenced`.
            if unsafe { heap.take(request, is_fenced) } {
                heap.visit(now_ms, is_stopped);
                heap.leave();
            }
            // Relaxed: as above. [AT9]
            is_left |= !heap.is_settled.load(Ordering::Relaxed);
            is_stopped().then_some(())
        });
        is_left
    }

    /// Returns `true` if the background thread should take the heap from its thread. Only the
    /// background thread calls it.
    fn is_visited(&self, now_ms: u64, delay_ms: u64) -> bool {
        let calls = (self.arena.bytes_taken.get()).wrapping_add(self.arena.bytes_given.get());
        // Relaxed: only one thread uses it. [AT10]
        let is_idle = self.calls_seen.swap(calls, Ordering::Relaxed) == calls;
        is_idle || self.is_purging() || self.is_due(now_ms, delay_ms)
    }

    /// Returns unused memory until the heap's thread waits for it. Only the background thread calls
    /// it, as the holder.
    fn visit(&self, now_ms: u64, is_stopped: &dyn Fn() -> bool) {
        self.deliver_all();
        self.handle_all_messages();
        let is_over =
            || self.ownership.is_awaited() || self.ownership.is_purge_requested() || is_stopped();
        let mut limit = StepLimit::until(&is_over);
        if self.is_purging() {
            self.set_purging(!self.arena.purge_aged(&mut limit).is_all);
        }
        if !self.is_purging() {
            let is_settled = self.age(now_ms, &mut limit);
            self.passes.set(self.passes.get() + 1);
            // Relaxed: a hint. [AT16]
            self.is_settled.store(
                is_settled || self.passes.get() >= PASSES_MAX,
                Ordering::Relaxed,
            );
        }
        self.report();
    }
}
