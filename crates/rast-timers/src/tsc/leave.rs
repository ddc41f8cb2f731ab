//! Leaving an unsound counter, and using it again.
//!
//! When the clock leaves the counter, it publishes a *dead* record instead of a segment. The clock
//! may then be ahead of the reference. It is not known yet by how much, because other threads may
//! use the old segment until they see the dead record. So the first thread that uses the dead
//! record reads the counter again. From this count it computes the maximum that the clock may have
//! shown ([`Segment::most`]), and stores it. From this maximum the clock runs at half the rate of
//! the reference until the reference has caught up. The argument is in `docs/algorithms/timers.md`.
//!
//! A counter that was left because it and the reference diverged may be sound: the reference may
//! have been corrected, or the machine may have slept. So readers compare counter and reference up
//! to eight times per second. They use the counter again once its rate has been the same in eight
//! comparisons in a row. If the counter is soon left again, the required number of comparisons
//! doubles, up to 512.

use super::segment::{Anchor, Segment, UNTIL};
use super::track::{Leaves, Word};
use super::trial::{TRIALS, Trial};
use super::{Shared, Unstable, Writer};
use crate::primitive::sync::atomic::Ordering;
use crate::{Clock, Counter};

/// Time between two comparisons that check whether a left counter keeps a constant rate.
const TRIAL_NS: u64 = 125_000_000;

/// Number of consecutive comparisons that must agree: the maximum after repeated leaves. The first
/// time it is [`TRIALS`].
const TRIALS_MAX: u32 = 512;

impl<K: Counter, C: Clock> Shared<K, C> {
    /// Returns the reference time up to which a dead record shows more than the reference. The
    /// first reader after the leave settles it: its count is now at least what all others had
    /// counted when they last used the segment.
    pub(super) fn until(&self, word: Word, current: &Segment, shown: u64) -> u64 {
        if current.until & 1 == 0 {
            return current.until;
        }
        let count = self.counter.count_ordered();
        let floor = current.most(current.ended, count, shown, self.counter.step());
        let until = Segment::until(floor, shown);
        self.track.settle(word, UNTIL, current.until, until)
    }

    /// Compares a left counter with the reference, if it is time, and uses it again once its rate
    /// has been constant for long enough.
    pub(super) fn look(&self, now: u64) {
        // Relaxed: one comparison too many or too few does no harm. [CK18]
        if now >= self.look_at.load(Ordering::Relaxed) {
            self.look_slow();
        }
    }

    #[cold]
    pub(super) fn look_slow(&self) {
        let Some(mut writer) = self.writer.try_lock() else {
            return;
        };
        let word = self.track.word();
        if !word.is_left() {
            return;
        }
        let last = writer.trial.take();
        let Some(anchor) = writer.anchor(&self.counter, &self.reference) else {
            return;
        };
        // Relaxed: as CK18. [CK19]
        self.look_at
            .store(anchor.nanos.saturating_add(TRIAL_NS), Ordering::Relaxed);
        let trial = last.map_or(Trial::begun(anchor), |last| {
            last.next(anchor, self.counter.step(), &self.config)
        });
        if trial.steady < writer.trials {
            writer.trial = Some(trial);
            return;
        }
        writer.trials = writer.trials.saturating_mul(2).min(TRIALS_MAX);
        self.take_up(&mut writer, word, anchor);
    }

    /// Uses a left counter again; `word` is that of its record.
    pub(super) fn take_up(&self, writer: &mut Writer, word: Word, anchor: Anchor) {
        writer.middle = None;
        (writer.base, writer.last) = (anchor, anchor);
        writer.resumed_at = anchor.nanos;
        let left = Segment::of(self.track.fields(word, 0));
        let until = self.until(word, &left, anchor.nanos);
        self.track
            .bury(Leaves::ToLearn, |_| Segment::dead(until).fields());
    }

    /// Stops using the counter.
    pub(super) fn leave(&self, writer: &mut Writer, reason: Unstable) {
        writer.leaves += 1;
        writer.trial = None;
        let counted = writer.last.nanos.saturating_sub(writer.resumed_at);
        if counted / TRIAL_NS > u64::from(writer.trials) {
            writer.trials = TRIALS;
        }
        let look_at = match reason {
            Unstable::Jumped => 0,
            Unstable::WentBack | Unstable::Stuck => u64::MAX,
        };
        // Relaxed: as CK18. [CK20]
        self.look_at.store(look_at, Ordering::Relaxed);
        let nonce = writer.leaves << 1 | 1;
        self.track.bury(Leaves::ForGood, |current| {
            Segment::of(current).left(reason as u64, nonce).fields()
        });
    }
}
