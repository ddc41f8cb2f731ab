//! How long the queue waits, in all its places; every wait is bounded (but for one, see `given_up.rs`), and a model does not wait at all.
//!
//! The figures are from the explorations in docs/performance.md.

use crate::primitive::hint::spin_loop;

/// In a model each wait is one step, so that little can hide a step of others.
pub(super) const IS_MODEL: bool = cfg!(any(rast_loom, rast_shuttle));

/// Pauses after the first lost claim; doubled with each further one.
pub(super) const CLAIM_PAUSE_FIRST: u32 = 16;
/// The most pauses after a lost claim.
pub(super) const CLAIM_PAUSE_MOST: u32 = 256;
/// Lost claims with a pause; after them a consumer claims by addition, which cannot lose, and a producer goes on
/// without pauses.
pub(super) const CLAIM_TRIES: u32 = if IS_MODEL { 1 } else { 12 };

/// Looks at a slot that was claimed and is not written yet, one pause between two, after each look whether its ticket has
/// a producer; then the ticket is given up.
pub(super) const PATIENCE: &[u32] = if IS_MODEL { &[0] } else { &[64, 0] };

/// A consumer that finds fewer items than this may be running into the producers' lines.
pub(super) const NEAR: usize = 256;
/// Consumers claim up to this many tickets behind the producers when enough items stand.
pub(super) const DISTANCE: usize = if IS_MODEL { 0 } else { 64 };
/// Tickets that a batch claims without a look of its own.
pub(super) const MOST_BY_HINT: usize = 64;
/// Pauses before a batch that has items looks whether producers are still at work.
pub(super) const BUSY_PAUSES: u32 = 4;
/// The pauses of one step of pacing, and the most steps.
pub(super) const PACE_PAUSES: u32 = 32;
pub(super) const PACE_STEPS: u32 = 8;
/// Tickets by which a step is fruitful: fewer come from producers that are slow enough to be followed item by item.
pub(super) const PACE_GAIN: usize = 8;
/// Successive fruitless steps after which pacing stops.
pub(super) const PACE_CREDIT: u32 = 16;
/// While pacing is off it is tried after this many looks, doubled with each failure up to the most (both as powers).
pub(super) const PACE_PROBE_FIRST: u32 = 6;
pub(super) const PACE_PROBE_MOST: u32 = 12;

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
