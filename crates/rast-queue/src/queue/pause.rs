//! How long the queue waits, in all its places. Every wait is bounded, and a model does not wait at
//! all.
//!
//! The figures are from the explorations in docs/performance.md.

use crate::primitive::hint::spin_loop;

/// In a model each wait is one step, so that little can hide a step of others.
pub(super) const IS_MODEL: bool = cfg!(any(rast_loom, rast_shuttle));

/// Pauses after the first lost claim; doubled with each further one.
pub(super) const CLAIM_PAUSE_FIRST: u32 = 16;
/// The most pauses after a lost claim.
pub(super) const CLAIM_PAUSE_MOST: u32 = 256;
/// Lost claims with a pause; after them a thread tries again without pauses.
pub(super) const CLAIM_TRIES: u32 = if IS_MODEL { 1 } else { 12 };

/// Looks at a slot whose ticket a producer has claimed, one pause before each; then the ticket is
/// given up.
pub(super) const PATIENCE: u32 = if IS_MODEL { 0 } else { 64 };

/// Consumers claim up to this many tickets behind the producers when enough items are queued.
pub(super) const DISTANCE: usize = if IS_MODEL { 0 } else { 64 };
/// Tickets that a batch claims without a look of its own.
pub(super) const MOST_BY_HINT: usize = 64;
/// Pauses before a batch that has items looks whether producers are still at work.
pub(super) const BUSY_PAUSES: u32 = 4;
/// A producer asks for the line of the slot that many tickets ahead, which a consumer had last.
pub(super) const PREFETCH: usize = 8;

/// Executes `count` pause instructions; nothing in a model.
#[inline]
pub(super) fn pause(count: u32) {
    if !IS_MODEL {
        for _ in 0..count {
            spin_loop();
        }
    }
}
