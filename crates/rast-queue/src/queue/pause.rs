//! How long the operations of the queue pause. Every pause is bounded; in a model (a test under
//! loom or shuttle) there is none.
//!
//! The numbers are from the measurements in docs/performance.md.

use crate::primitive::hint::spin_loop;

/// Set in a model, in which each wait is one step, so that it hides few steps of other threads.
pub(super) const IS_MODEL: bool = cfg!(any(rast_loom, rast_shuttle));

/// Number of pause instructions after the first lost claim; doubled after each further one.
const CLAIM_PAUSE_FIRST: u32 = 16;
/// Maximum number of pause instructions after a lost claim.
const CLAIM_PAUSE_MOST: u32 = 256;
/// Number of lost claims that are followed by a pause; further ones are not.
pub(super) const CLAIM_TRIES: u32 = if IS_MODEL { 1 } else { 12 };

/// Number of times that a consumer loads the state of a slot, with a pause instruction before each
/// load, before it gives the ticket up.
pub(super) const PATIENCE: u32 = if IS_MODEL { 0 } else { 64 };

/// Number of tickets that consumers keep behind the producers if enough items are queued.
pub(super) const DISTANCE: usize = if IS_MODEL { 0 } else { 64 };
/// Maximum number of tickets that a batch claims by the hint alone.
pub(super) const MOST_BY_HINT: usize = 64;
/// Number of pause instructions before a batch that has items checks whether producers have claimed
/// more.
pub(super) const BUSY_PAUSES: u32 = 4;
/// Number of tickets between a producer's slot and the slot that it prefetches, which a consumer
/// used last.
pub(super) const PREFETCH: usize = 8;

/// Executes `count` pause instructions; does nothing in a model.
#[inline]
pub(super) fn pause(count: u32) {
    if !IS_MODEL {
        for _ in 0..count {
            spin_loop();
        }
    }
}

/// Pauses after lost claims, each twice as long as the one before.
pub(super) struct ClaimPauses(u32);

impl ClaimPauses {
    #[inline]
    pub(super) const fn new() -> Self {
        Self(CLAIM_PAUSE_FIRST)
    }

    #[inline]
    pub(super) fn wait(&mut self) {
        pause(self.0);
        self.0 = (self.0 * 2).min(CLAIM_PAUSE_MOST);
    }
}
