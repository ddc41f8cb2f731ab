//! One straight piece of the clock, and what is known of its error.
//!
//! All numbers with a fraction are in 2^-32 ns, per count where they are a
//! pace. A segment is at most [`LONGEST_NS`] long, so that counts times pace
//! stay in 64 bits.

use crate::TscConfig;

/// Binary places below the nanosecond.
pub(super) const FRACTION_BITS: u32 = 32;

/// A segment is at most about this long: 2^32 ns times the fraction is all of
/// a word, and the slew takes up to twice the pace.
pub(super) const LONGEST_NS: u64 = 1 << 30;

/// Nearer to the end of the range than this, 8 s, no segment is made: so no
/// segment's sum leaves the range.
pub(super) const LAST_NS: u64 = u64::MAX - (8 << 30);

/// The reference and the counter, compared.
///
/// At the count `count` the reference showed `nanos`, within `slack` counts and
/// the one nanosecond that the reference rounds off.
#[derive(Clone, Copy, Debug)]
pub(super) struct Anchor {
    pub(super) count: u64,
    pub(super) nanos: u64,
    pub(super) slack: u64,
}

/// How far the reference moves in a count, and how wrong that may be: by `mean` at
/// most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) mean: u64,
    pub(super) error: u64,
}

impl Pace {
    /// The mean pace between two anchors; `None` if that is not known to better
    /// than a factor of two.
    pub(super) fn between(from: Anchor, to: Anchor, config: &TscConfig) -> Option<Self> {
        let counts = to.count.checked_sub(from.count)?;
        let nanos = to.nanos.checked_sub(from.nanos)?;
        let slack = from.slack.saturating_add(to.slack);
        // The true distance is at least this.
        let least = counts.checked_sub(slack).filter(|&least| least > 0)?;
        let mean = (u128::from(nanos) << FRACTION_BITS) / u128::from(counts);
        // (nanos + 1) / least − nanos / counts. The reference rounds off up to a
        // nanosecond at each anchor, so one between the two; the others here are
        // for the rounding of `mean`, and of these divisions.
        let unsure = u128::from(slack) * (mean + 1) + (1 << FRACTION_BITS);
        let unsure = unsure / u128::from(least) + 2;
        let drift = (mean + unsure) * u128::from(config.drift_ppm) / 1_000_000 + 1;
        let error = unsure + drift;
        (error <= mean).then_some(Self {
            mean: u64::try_from(mean).ok()?,
            error: u64::try_from(error).ok()?,
        })
    }

    /// Whether both may be the pace of one sound counter.
    pub(super) fn agrees(self, other: Self) -> bool {
        self.mean.abs_diff(other.mean) <= self.error.saturating_add(other.error)
    }
}

/// A piece of the clock: what it shows, and what is known of the reference.
///
/// | field | meaning |
/// | --- | --- |
/// | `begin` | the first count it is for |
/// | `soft` | counts from `begin` after which the next segment is wanted; `full` once that is ready |
/// | `full` | counts from `begin` after which it is over; zero in a dead one |
/// | `nanos`, `pace` | it shows `nanos` + (count − `begin`) × `pace` |
/// | `anchor` | the last comparison |
/// | `rate` | the pace of the reference as it was learned |
/// | `ended` | `full` of the segment that the counter was left in; zero otherwise |
/// | `reason` | why the counter was left |
/// | `until` | of a dead one: the reading of the reference at which the clock shows the reference again; odd as long as that is not settled |
#[derive(Clone, Copy, Debug)]
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

/// The words of a segment, the four of the fast path first.
pub(super) const FIELDS: usize = 13;

/// Which of them is `soft`.
pub(super) const SOFT: usize = 1;

/// Which of them is `until`.
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

    /// A segment that covers nothing; the clock shows the reference, or more
    /// until that shows `until`.
    pub(super) fn dead(until: u64) -> Self {
        let nothing = Anchor {
            count: 0,
            nanos: 0,
            slack: 0,
        };
        let still = Pace { mean: 0, error: 0 };
        Self {
            begin: 0,
            soft: 0,
            full: 0,
            nanos: 0,
            pace: 0,
            anchor: nothing,
            rate: still,
            ended: 0,
            reason: 0,
            until,
        }
    }

    /// What this segment becomes when the counter is left in it. `nonce` is odd,
    /// and another one each time.
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

    /// The most that the clock may have shown by a segment of `full` counts once
    /// the counter shows `count` and, before that, the reference `shown`; nothing
    /// that the segment still shows is counted.
    ///
    /// While the counter is sound, the clock is ahead of the reference by what
    /// the interval says and no more. Where it is not sound, the count tells what
    /// it has shown: not more than now, if it still lies in the segment and has
    /// not gone back. Beyond the end of the segment, the count may have gone
    /// through all of it, unless it is ahead of the reference by more than the
    /// segment is long: then it has jumped over the end, and has not been in the
    /// segment since.
    pub(super) fn most(&self, full: u64, count: u64, shown: u64, step: u64) -> u64 {
        let last = Self::shows(self.nanos, self.pace, full);
        let run = count.wrapping_sub(self.begin);
        if run < full {
            let at = Self::shows(self.nanos, self.pace, run);
            if at >= shown {
                // A count that was read a moment before, out of order.
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

    /// What a dead record shows where the reference shows `shown`: that, or the
    /// middle between that and `until`, so that a clock that was ahead goes at
    /// half the pace until it is not.
    pub(super) fn slewed(shown: u64, until: u64) -> u64 {
        shown + until.saturating_sub(shown).div_ceil(2)
    }

    /// `until` where the clock shows `floor` and the reference `shown`.
    pub(super) fn until(floor: u64, shown: u64) -> u64 {
        let lead = floor.saturating_sub(shown).saturating_mul(2);
        // Even, and at the end of the range below it.
        shown.saturating_add(lead).saturating_add(1) & !1
    }

    /// Where in a segment of that many counts the next one is wanted.
    pub(super) fn soft(full: u64) -> u64 {
        full - full / 16
    }

    /// Whether the segment is for this count.
    pub(super) fn covers(&self, count: u64) -> bool {
        count.wrapping_sub(self.begin) < self.full
    }

    /// Whether a count of the segment before this one may have been read a moment
    /// before this one began: it lies less than a thousandth of a segment before.
    pub(super) fn follows(&self, before: &Self, count: u64) -> bool {
        before.covers(count) && self.begin.wrapping_sub(count) <= before.full / 1000
    }

    /// The count at which it is over.
    pub(super) fn end(&self) -> u64 {
        self.begin.wrapping_add(self.full)
    }

    /// What the clock shows `run` counts after `begin`; at most `full`.
    #[inline(always)]
    pub(super) fn shows(nanos: u64, pace: u64, run: u64) -> u64 {
        nanos + ((run * pace) >> FRACTION_BITS)
    }

    /// What the clock shows at a count that is covered.
    pub(super) fn at(&self, count: u64) -> u64 {
        Self::shows(self.nanos, self.pace, count.wrapping_sub(self.begin))
    }

    /// The most that the clock has shown by this segment.
    pub(super) fn last(&self) -> u64 {
        Self::shows(self.nanos, self.pace, self.full)
    }

    /// What the reference shows at `count` by the last comparison.
    pub(super) fn expected(&self, count: u64) -> u64 {
        self.anchor.expected(count, self.rate)
    }

    /// How far from [`expected`](Self::expected) the reference may be, where
    /// the counter moves in steps of `step`.
    pub(super) fn unsure(&self, count: u64, step: u64) -> u64 {
        self.anchor.unsure(count, step, self.rate)
    }
}

impl Anchor {
    /// What the reference shows at `count` if it keeps to `rate`; a count
    /// before the anchor is taken for the anchor's.
    pub(super) fn expected(&self, count: u64, rate: Pace) -> u64 {
        let age = u128::from(count.saturating_sub(self.count));
        let passed = (age * u128::from(rate.mean)) >> FRACTION_BITS;
        self.nanos
            .saturating_add(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// How far the reference may be from that: the slack of the anchor, the
    /// step of the counter, the error of the rate over the age, and the
    /// roundings.
    pub(super) fn unsure(&self, count: u64, step: u64, rate: Pace) -> u64 {
        let age = u128::from(count.abs_diff(self.count));
        let fixed = u128::from(self.slack.saturating_add(step))
            * (u128::from(rate.mean) + u128::from(rate.error));
        let grown = age * u128::from(rate.error);
        // Up: one for this rounding, one for that of `expected`, and one that
        // the reference rounds off.
        let nanos = ((fixed + grown) >> FRACTION_BITS) + 3;
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}
