//! One linear segment of the clock, and the bound of its error.
//!
//! All numbers with a fraction are in 2^-32 ns; rates (`pace`) are in that unit per count. A
//! segment is at most [`TscConfig::LONGEST`] long, so that count times rate fits 64 bits.

use crate::TscConfig;

/// Fraction bits below the nanosecond.
pub(super) const FRACTION_BITS: u32 = 32;

/// Last time at which a segment may begin: 8 s before the end of the range, so that no segment's
/// sum overflows.
pub(super) const LAST_NS: u64 = u64::MAX - (8 << 30);

/// A comparison of the reference and the counter.
///
/// At the count `count` the reference showed `nanos`, within `slack` counts and the one nanosecond
/// of the reference's rounding.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Anchor {
    pub(super) count: u64,
    pub(super) nanos: u64,
    pub(super) slack: u64,
}

/// Rate of the reference per count, and its error: at most `mean`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    pub(super) mean: u64,
    pub(super) error: u64,
}

impl Pace {
    /// Returns the mean rate between two anchors; `None` if it is not known to better than a factor
    /// of two.
    pub(super) fn between(from: Anchor, to: Anchor, config: &TscConfig) -> Option<Self> {
        let counts = to.count.checked_sub(from.count)?;
        let nanos = to.nanos.checked_sub(from.nanos)?;
        let slack = from.slack.saturating_add(to.slack);
        // The true distance is at least this.
        let least = counts.checked_sub(slack).filter(|&least| least > 0)?;
        let mean = (u128::from(nanos) << FRACTION_BITS) / u128::from(counts);
        // (nanos + 1) / least − nanos / counts. The reference rounds down by up to a nanosecond at
        // each anchor, so by one between the two. The other terms are for the rounding of `mean`
        // and of these divisions.
        let unsure = u128::from(slack) * (mean + 1) + (1 << FRACTION_BITS);
        let unsure = unsure / u128::from(least) + 2;
        let drift = (mean + unsure) * u128::from(config.drift_ppm) / 1_000_000 + 1;
        let error = unsure + drift;
        (error <= mean).then_some(Self {
            mean: u64::try_from(mean).ok()?,
            error: u64::try_from(error).ok()?,
        })
    }

    /// Returns whether both may be the rate of one sound counter.
    pub(super) fn agrees(self, other: Self) -> bool {
        self.mean.abs_diff(other.mean) <= self.error.saturating_add(other.error)
    }
}

/// A segment of the clock: what the clock shows, and what is known of the reference.
///
/// | field | meaning |
/// | --- | --- |
/// | `begin` | first count of the segment |
/// | `soft` | number of counts after `begin` at which a reader prepares the next segment; equal to `full` once the next segment is ready |
/// | `full` | length in counts; zero in a dead segment |
/// | `nanos`, `pace` | the clock shows `nanos` + (count − `begin`) × `pace` |
/// | `anchor` | the anchor from which the segment was computed |
/// | `rate` | the measured rate of the reference |
/// | `ended` | `full` of the segment in which the counter was left; zero otherwise |
/// | `reason` | why the counter was left |
/// | `until` | in a dead segment: once the reference reaches this time, the clock shows the reference again; an odd number until a reader has computed this time |
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Segment {
    pub(super) begin: u64,
    pub(super) soft: u64,
    pub(super) full: u64,
    pub(super) nanos: u64,
    pub(super) pace: u64,
    pub(super) anchor: Anchor,
    pub(super) rate: Pace,
    pub(super) ended: u64,
    pub(super) reason: u64,
    pub(super) until: u64,
}

/// Number of words of a segment, the four of the fast path first.
pub(super) const FIELDS: usize = 13;

/// Index of `soft`.
pub(super) const SOFT: usize = 1;

/// Index of `until`.
pub(super) const UNTIL: usize = 12;

impl Segment {
    pub(super) fn of(fields: [u64; FIELDS]) -> Self {
        let [
            begin,
            soft,
            nanos,
            pace,
            full,
            count,
            anchored,
            slack,
            mean,
            error,
            ended,
            reason,
            until,
        ] = fields;
        Self {
            begin,
            soft,
            full,
            nanos,
            pace,
            anchor: Anchor {
                count,
                nanos: anchored,
                slack,
            },
            rate: Pace { mean, error },
            ended,
            reason,
            until,
        }
    }

    pub(super) fn fields(&self) -> [u64; FIELDS] {
        [
            self.begin,
            self.soft,
            self.nanos,
            self.pace,
            self.full,
            self.anchor.count,
            self.anchor.nanos,
            self.anchor.slack,
            self.rate.mean,
            self.rate.error,
            self.ended,
            self.reason,
            self.until,
        ]
    }

    /// Makes a dead segment, which covers no count. The clock shows the reference, or more until
    /// the reference shows `until`.
    pub(super) fn dead(until: u64) -> Self {
        Self {
            until,
            ..Self::default()
        }
    }

    /// Returns the dead segment for a counter that is left in this segment. `nonce` must be odd and
    /// differ for each leave.
    pub(super) fn left(self, reason: u64, nonce: u64) -> Self {
        let until = if self.full == 0 { self.until } else { nonce };
        Self {
            soft: 0,
            full: 0,
            ended: self.full,
            reason,
            until,
            ..self
        }
    }

    /// Returns a bound of the times that the clock has shown while this segment was in use. `full`
    /// is the segment's length in counts. `count` and `shown` are readings of the counter and of
    /// the reference. The *expected time* of a count is what the reference should show there, by
    /// the anchor and the measured rate.
    ///
    /// 1. `count` is in the segment, and the segment's time there is not before `shown`: the bound
    ///    is the segment's time at `count`, plus the anchor's error, because `count` may have been
    ///    read slightly too early.
    /// 2. `count` is beyond the end, and its expected time is ahead of `shown` by less than the
    ///    time from the anchor to the segment's end. Then the clock may have shown the whole
    ///    segment, and the bound is the time of its end. If the expected time is further ahead, the
    ///    count has jumped over the end, and case 3 applies.
    /// 3. In all other cases the bound follows from the reference. While the counter was sound, the
    ///    clock was ahead of the reference by at most the sum of two errors: the clock's deviation
    ///    from the expected time, and the error of that time. The bound is `shown` plus this sum.
    ///
    /// No bound exceeds the time of the segment's end.
    pub(super) fn most(&self, full: u64, count: u64, shown: u64, step: u64) -> u64 {
        let last = Self::shows(self.nanos, self.pace, full);
        let run = count.wrapping_sub(self.begin);
        if run < full {
            let at = Self::shows(self.nanos, self.pace, run);
            if at >= shown {
                // The count may have been read slightly too early, out of order.
                let blur = self.unsure(self.anchor.count, step);
                return at.saturating_add(blur).min(last);
            }
        } else if (run as i64) >= 0 {
            let ahead = self.expected(count).saturating_sub(shown);
            if ahead < last.saturating_sub(self.anchor.nanos) {
                return last;
            }
        }
        let end = self.begin.wrapping_add(full);
        let lean = last
            .saturating_sub(self.expected(end))
            .max(self.nanos.saturating_sub(self.expected(self.begin)));
        let ahead = lean.saturating_add(self.unsure(end, step));
        shown.saturating_add(ahead).min(last)
    }

    /// Returns what a dead segment shows when the reference shows `shown`: that time, or the middle
    /// between it and `until`. So a clock that is ahead runs at half the rate until it is not.
    pub(super) fn slewed(shown: u64, until: u64) -> u64 {
        shown + until.saturating_sub(shown).div_ceil(2)
    }

    /// Returns `until` for a clock that shows `floor` when the reference shows `shown`.
    pub(super) fn until(floor: u64, shown: u64) -> u64 {
        let lead = floor.saturating_sub(shown).saturating_mul(2);
        // Make it even; at the end of the range round down.
        shown.saturating_add(lead).saturating_add(1) & !1
    }

    /// Returns the count at which a segment of `full` counts requests the next.
    pub(super) fn soft(full: u64) -> u64 {
        full - full / 16
    }

    /// Returns whether the segment contains this count.
    pub(super) fn covers(&self, count: u64) -> bool {
        count.wrapping_sub(self.begin) < self.full
    }

    /// Returns whether a count in the segment `before` may have been read just before this segment
    /// began: it is earlier by at most a thousandth of a segment.
    pub(super) fn follows(&self, before: &Self, count: u64) -> bool {
        before.covers(count) && self.begin.wrapping_sub(count) <= before.full / 1000
    }

    /// Returns the count at which the segment ends.
    pub(super) fn end(&self) -> u64 {
        self.begin.wrapping_add(self.full)
    }

    /// Returns what the clock shows `run` counts after `begin`; at most `full`.
    #[inline(always)]
    pub(super) fn shows(nanos: u64, pace: u64, run: u64) -> u64 {
        nanos + ((run * pace) >> FRACTION_BITS)
    }

    /// Returns what the clock shows at a count in the segment.
    pub(super) fn at(&self, count: u64) -> u64 {
        Self::shows(self.nanos, self.pace, count.wrapping_sub(self.begin))
    }

    /// Returns the maximum that the clock has shown by this segment.
    pub(super) fn last(&self) -> u64 {
        Self::shows(self.nanos, self.pace, self.full)
    }

    /// Returns what the reference should show at `count`, by the last comparison.
    pub(super) fn expected(&self, count: u64) -> u64 {
        self.anchor.expected(count, self.rate)
    }

    /// Returns the maximum difference of the reference from [`expected`](Self::expected), if the
    /// counter moves in steps of `step`.
    pub(super) fn unsure(&self, count: u64, step: u64) -> u64 {
        self.anchor.unsure(count, step, self.rate)
    }
}

impl Anchor {
    /// Returns what the reference shows at `count` if it keeps to `rate`; a count before the anchor
    /// is treated as the anchor's.
    pub(super) fn expected(&self, count: u64, rate: Pace) -> u64 {
        let age = u128::from(count.saturating_sub(self.count));
        let passed = (age * u128::from(rate.mean)) >> FRACTION_BITS;
        self.nanos
            .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// Returns the maximum difference of the reference from `expected`: the slack of the anchor,
    /// the step of the counter, the error of the rate over the age, and the rounding errors.
    pub(super) fn unsure(&self, count: u64, step: u64, rate: Pace) -> u64 {
        let age = u128::from(count.abs_diff(self.count));
        let fixed = u128::from(self.slack.saturating_add(step))
            * (u128::from(rate.mean) + u128::from(rate.error));
        let grown = age * u128::from(rate.error);
        // Round up: one for this rounding, one for that of `expected`, one for the reference's.
        let nanos = ((fixed + grown) >> FRACTION_BITS) + 3;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}
