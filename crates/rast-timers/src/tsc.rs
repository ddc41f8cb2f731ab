//! A clock by the processor's counter, with a bound of its error.
//!
//! The clock is one function of the counter's value, the same for all threads: a chain of linear
//! segments. The next segment is published before the current one is over. It begins where the
//! current one ends, and its slope corrects towards the reference, the system's clock. So the clock
//! never runs backwards. It jumps forward only if the next segment is late (see below), or if the
//! clock is behind the reference by more than a sixteenth of a segment.
//!
//! Each segment comes from an *anchor*: a reading of the reference between two readings of the
//! counter. The reference was read somewhere between the two, so their distance bounds the error at
//! the anchor. After the anchor the error grows with time, because the rate is known only within an
//! error.
//!
//! There is no background thread. The reader that finds the current segment nearly over takes the
//! next anchor, while other threads continue to read. Sometimes the next segment is not ready in
//! time, because no thread has read the clock for a long time, or the anchoring reader was
//! preempted. Then readers read the reference and set a flag. Because of the flag, the next segment
//! runs along the upper bound of the reference, so that it is at or above every value that the
//! reference has shown. Then the clock may jump forward.
//!
//! Readers also read the reference for the first microseconds, while the rate is unknown. They do
//! so again after the clock has *left* the counter, that is, found it unsound and stopped using it.
//!
//! The picture and the argument are in `docs/algorithms/timers.md`.

mod config;
mod guard;
mod leave;
mod segment;
mod track;
mod trial;

pub use config::TscConfig;
pub use guard::TscGuard;
#[cfg(any(rast_loom, rast_shuttle))]
pub use track::{Leaves, Track, Word};

use crate::primitive::sync::atomic::AtomicU64;
use crate::primitive::sync::{Arc, Mutex};
use crate::{Clock, Counter, Instant, Interval, MonotonicClock, NoCounter, Tsc};
use core::fmt;
use segment::{Anchor, FIELDS, FRACTION_BITS, LAST_NS, Pace, SOFT, Segment};
#[cfg(not(any(rast_loom, rast_shuttle)))]
use track::{Track, Word};
use trial::{TRIALS, Trial};

/// Number of brackets tried for one anchor; the narrowest is used.
const BRACKETS: u32 = 4;

/// Number of times that a count below the current segment is read again, since it may have been
/// read just before the segment began. After that it is treated as a jump.
const LOOKS: u32 = 3;

/// Advance of the reference without any advance of the counter from which the counter is stuck.
const STUCK_NS: u64 = 1_000_000;

/// Interval over which the mean rate is measured: from half of this to all of it.
const BASE_NS: u64 = 1_000_000_000;

/// Why a clock left its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unstable {
    /// The count went back.
    WentBack,
    /// At an anchor the reference was outside the interval: the counter or the reference has
    /// jumped, or drifts more than the configured bound. Or the rate between the two has changed by
    /// more than that.
    Jumped,
    /// The reference advanced and the count did not.
    Stuck,
}

/// The source that a [`TscClock`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TscStatus {
    /// The reference, because the rate of the counter is not known well enough yet.
    Learning,
    /// The counter.
    Counting,
    /// The reference, because the counter was found unstable.
    Left(Unstable),
}

/// A clock by the processor's counter, corrected by a reference clock.
///
/// [`now`](Clock::now) is the best estimate, for little more than the cost of reading the counter;
/// [`interval`](Self::interval) bounds its error. Clones share all state; any thread may read.
///
/// # The bound
///
/// The interval contains what the reference showed at some moment during the call. An *anchor*
/// reads the reference between two readings of the counter. The half width is the sum of three
/// terms: half the distance of these two readings (some 25 ns), the step of the counter, and the
/// age of the anchor times the uncertainty of the rate. With the default configuration the half
/// width is up to 0.6 µs, 0.3 µs on average, if the clock is read at least some thousand times per
/// second.
///
/// The bound assumes that the counter, as each thread reads it, has a constant rate, and that the
/// reference keeps within [`drift_ppm`](TscConfig::drift_ppm) of its mean rate. Each anchor tests
/// both. If the reference is outside the interval, or the rate has changed by more than this drift,
/// the clock leaves the counter at once and then reads the reference. [`status`](Self::status)
/// reports that. A counter may jump while a virtual machine is migrated or a laptop sleeps. The
/// clock then trusts it for at most one segment (1 ms by default), and its intervals are wrong for
/// that time. A counter that stops for good never reaches the end of a segment;
/// [`check`](Self::check) and a [`TscGuard`] detect it.
///
/// # Leaving the counter, and using it again
///
/// When the clock leaves the counter, it does not jump: it continues from what it has shown. If
/// that is ahead of the reference, the clock runs at half the rate of the reference until the
/// reference has caught up. Meanwhile [`interval`](Self::interval) extends from the reference to
/// what the clock shows. The count determines from where the clock continues:
///
/// - The count is still in the current segment, and the segment's time at this count is not before
///   the reference. Then the clock has shown this time, and continues from it.
/// - The segment's time at this count is before the reference, or the count has gone back, or it
///   has jumped ahead by more than a segment. Then the clock continues from the reference plus the
///   error bound of the segment.
/// - The count has jumped over the end of the segment by less than a segment. Then the clock may
///   have shown the whole segment, and continues from its end, at most
///   [`anchor_every`](TscConfig::anchor_every) ahead.
///
/// A counter that was left as [`Unstable::Jumped`] is used again when it has kept a constant rate
/// against the reference for a second. Each time it is left again soon, the required time doubles,
/// up to 64 s. The comparison needs at least eight readings of the clock per second.
/// [`resume`](Self::resume) uses the counter again at once. A counter that was left for another
/// reason is used again only after a call of `resume`.
///
/// # Monotonicity
///
/// As seen by one thread the clock never runs backwards. This holds through anchors, corrections,
/// leaving and resuming, and while the thread moves between cores whose counters agree. Two faults
/// of a counter are not covered:
///
/// - The count goes back into the current segment, or to less than a thousandth of a segment before
///   it.
/// - The count jumps ahead twice during one segment. The first jump is shorter than the segment,
///   and the second is longer. A thread reads the clock between the two.
///
/// Between threads a reading may be off by some tens of nanoseconds, because the processor may read
/// the counter out of order. An [`interval`](Self::interval) reads it in order.
///
/// # Cost
///
/// Lock-free; no thread waits for the thread that takes an anchor. A reading is five loads, a
/// reading of the counter, and a multiplication. One reading per millisecond also takes an anchor,
/// which reads the counter twice and the reference once, and repeats this up to three times. If the
/// clock is read less often than [`anchor_every`](TscConfig::anchor_every), each reading also takes
/// an anchor; read the reference instead.
///
/// ```
/// use rast_timers::{Clock, MonotonicClock, TscClock};
/// match TscClock::new() {
///     Ok(clock) => {
///         let before = MonotonicClock::new().now();
///         let interval = clock.interval();
///         let after = MonotonicClock::new().now();
///         assert!(interval.earliest <= after && before <= interval.latest);
///         assert!(clock.now() <= clock.now());
///     }
///     Err(reason) => println!("take the monotonic clock: {reason}"),
/// }
/// ```
pub struct TscClock<K = Tsc, C = MonotonicClock> {
    shared: Arc<Shared<K, C>>,
}

struct Shared<K, C> {
    track: Track<FIELDS>,
    writer: Mutex<Writer>,
    /// Time of the next comparison of a left counter.
    look_at: AtomicU64,
    /// Rate that the counter promised at the start.
    pace: u64,
    counter: K,
    reference: C,
    config: TscConfig,
}

/// State that only the thread taking an anchor needs, under a lock.
struct Writer {
    /// Start of the measurement of the mean rate.
    base: Anchor,
    /// Next value of `base`.
    middle: Option<Anchor>,
    /// Width of the narrowest bracket so far, in counts.
    narrowest: u64,
    /// The last comparison, of any kind.
    last: Anchor,
    /// Number of times that the counter was left.
    leaves: u64,
    /// State of the comparisons while the counter is left.
    trial: Option<Trial>,
    /// Number of consecutive equal comparisons after which the counter is used again.
    trials: u32,
    /// Time at which the counter was last used again.
    resumed_at: u64,
}

/// Result of searching the segment of a count.
enum Found {
    /// In a segment.
    Segment(Segment, u64),
    /// No segment: what the clock shows, and what the reference showed.
    Reference(u64, u64),
}

impl TscClock {
    /// Makes a clock by the processor's counter and the system's monotonic clock; takes about 10 µs
    /// to measure the counter.
    ///
    /// # Errors
    ///
    /// If there is no counter, or if it is known to be unsound: see
    /// [`NoCounter`].
    pub fn new() -> Result<Self, NoCounter> {
        Self::with_config(TscConfig::new())
    }

    /// As [`new`](Self::new), with another configuration.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with_config(config: TscConfig) -> Result<Self, NoCounter> {
        let counter = Tsc::detect()?;
        Ok(Self::with_parts(counter, MonotonicClock::new(), config))
    }
}

impl<K: Counter, C: Clock> TscClock<K, C> {
    /// Makes a clock by any counter and any reference.
    ///
    /// The reference should move in steps of far less than a microsecond. Its
    /// origin is the clock's.
    #[must_use]
    pub fn with_parts(counter: K, reference: C, config: TscConfig) -> Self {
        let base = Anchor {
            count: counter.count_ordered(),
            nanos: reference.now().as_nanos(),
            slack: u64::MAX,
        };
        let mut writer = Writer {
            base,
            middle: None,
            narrowest: u64::MAX,
            last: base,
            leaves: 0,
            trial: None,
            trials: TRIALS,
            resumed_at: base.nanos,
        };
        if let Some(anchor) = writer.anchor(&counter, &reference) {
            (writer.base, writer.last) = (anchor, anchor);
        }
        Self {
            shared: Arc::new(Shared {
                track: Track::new(),
                writer: Mutex::new(writer),
                look_at: AtomicU64::new(u64::MAX),
                pace: counter.pace(),
                counter,
                reference,
                config,
            }),
        }
    }

    /// Returns two instants between which the reference was at some moment during the call;
    /// [`now`](Clock::now) lies between them too.
    ///
    /// Costs some nanoseconds more than `now`, because the counter is read in
    /// order.
    #[must_use]
    pub fn interval(&self) -> Interval {
        let shared = &*self.shared;
        match shared.find(K::count_ordered) {
            Found::Segment(segment, count) => {
                let now = segment.at(count);
                let middle = segment.expected(count);
                let unsure = segment.unsure(count, shared.counter.step());
                Interval::new(
                    Instant::from_nanos(middle.saturating_sub(unsure).min(now)),
                    Instant::from_nanos(middle.saturating_add(unsure).max(now)),
                )
            }
            Found::Reference(now, shown) => Interval::new(
                Instant::from_nanos(shown),
                Instant::from_nanos(shown.saturating_add(1).max(now)),
            ),
        }
    }

    /// Returns what the clock reads, the counter or the reference.
    #[must_use]
    pub fn status(&self) -> TscStatus {
        let track = &self.shared.track;
        loop {
            let word = track.word();
            let segment = Segment::of(track.fields(word, 0));
            if !track.is_still(word) {
                continue;
            }
            return if word.is_left() {
                TscStatus::Left(Unstable::of(segment.reason))
            } else if segment.full > 0 {
                TscStatus::Counting
            } else {
                TscStatus::Learning
            };
        }
    }

    /// Compares the counter with the reference now, and leaves the counter if the reference is
    /// outside the interval. Returns what the clock reads from here on.
    ///
    /// Each anchor does the same; this function is for a watchdog that does not want to wait for
    /// the next anchor. Only this function and a [`TscGuard`] detect a counter that has stopped,
    /// because a stopped counter ends no segment. Waits for a thread that is taking an anchor.
    pub fn check(&self) -> TscStatus {
        self.shared.check(&mut self.shared.writer.lock());
        self.status()
    }

    /// As [`check`](Self::check), but does not wait for another thread; returns whether the counter
    /// is in use. If the counter was left and a comparison is due, makes it.
    fn vouch(&self) -> bool {
        let shared = &*self.shared;
        let word = shared.track.word();
        if word.is_left() {
            shared.look(shared.reference.now().as_nanos());
            return false;
        }
        // If another thread has the lock, that thread compares.
        if let Some(mut writer) = shared.writer.try_lock() {
            shared.check(&mut writer);
        }
        !self.is_left()
    }

    /// Leaves a counter that was seen to stand still, unless another thread is taking an anchor.
    fn found_stuck(&self) {
        if let Some(mut writer) = self.shared.writer.try_lock()
            && !self.is_left()
        {
            self.shared.leave(&mut writer, Unstable::Stuck);
        }
    }

    /// Uses a left counter again at once and measures its rate anew; does nothing if it was not
    /// left.
    ///
    /// For a program that knows that the disturbance is over: after a machine woke up or was
    /// migrated. It waits for a thread that is taking an anchor.
    pub fn resume(&self) {
        let shared = &*self.shared;
        let mut writer = shared.writer.lock();
        let word = shared.track.word();
        if !word.is_left() {
            return;
        }
        writer.narrowest = u64::MAX;
        if let Some(anchor) = writer.anchor(&shared.counter, &shared.reference) {
            writer.trials = TRIALS;
            shared.take_up(&mut writer, word, anchor);
        }
    }
}

impl<K, C> TscClock<K, C> {
    /// Returns the reference clock.
    #[must_use]
    pub fn reference(&self) -> &C {
        &self.shared.reference
    }

    /// Returns the counter.
    #[must_use]
    pub fn counter(&self) -> &K {
        &self.shared.counter
    }

    /// Returns whether the counter has been left.
    fn is_left(&self) -> bool {
        self.shared.track.word().is_left()
    }
}

impl<K: Counter, C: Clock> Clock for TscClock<K, C> {
    #[inline]
    fn now(&self) -> Instant {
        let shared = &*self.shared;
        let word = shared.track.word();
        let [begin, soft, nanos, pace] = shared.track.fields(word, 0);
        let run = shared.counter.count().wrapping_sub(begin);
        if run < soft && shared.track.is_still(word) {
            return Instant::from_nanos(Segment::shows(nanos, pace, run));
        }
        shared.now_slow()
    }
}

impl<K: Counter, C: Clock> Shared<K, C> {
    /// Handles the end of a segment, or the lack of one.
    #[cold]
    fn now_slow(&self) -> Instant {
        Instant::from_nanos(match self.find(K::count) {
            Found::Segment(segment, count) => segment.at(count),
            Found::Reference(now, _) => now,
        })
    }

    /// Reads the count, and finds its segment or reads the reference.
    fn find(&self, count: impl Fn(&K) -> u64) -> Found {
        let mut looks = 0;
        loop {
            let word = self.track.word();
            let current = Segment::of(self.track.fields(word, 0));
            let count = count(&self.counter);
            let covering = if current.covers(count) {
                Some(current)
            } else if word.is_left() {
                None
            } else {
                // The count may have been read just before another reader moved to the next
                // segment.
                let before = Segment::of(self.track.fields(word, 1));
                current.follows(&before, count).then_some(before)
            };
            if !self.track.is_still(word) {
                continue;
            }
            if let Some(segment) = covering {
                if current.covers(count) && count.wrapping_sub(current.begin) >= current.soft {
                    self.extend(word);
                }
                return Found::Segment(segment, count);
            }
            if word.is_ready() {
                self.track.turn(word);
                continue;
            }
            if !word.is_left() {
                let is_early = current.full > 0 && (count.wrapping_sub(current.begin) as i64) < 0;
                if is_early && looks < LOOKS {
                    looks += 1;
                    continue;
                }
                if self.extend(word) {
                    continue;
                }
            }
            if let Some(found) = self.refer(word, &current, count) {
                return found;
            }
        }
    }

    /// Reads the reference instead of the counter; `None` if a segment was published meanwhile.
    fn refer(&self, word: Word, current: &Segment, count: u64) -> Option<Found> {
        // Mark the word first: then any thread that publishes later knows that the reference has
        // been shown.
        if !word.is_expired() && !self.track.expire(word) {
            return None;
        }
        let shown = self.reference.now().as_nanos();
        let now = if current.full == 0 {
            Segment::slewed(shown, self.until(word, current, shown))
        } else {
            let most = current.most(current.full, count, shown, self.counter.step());
            shown.max(most)
        };
        if !self.track.is_still(word.expired()) {
            return None;
        }
        if word.is_left() {
            self.look(shown);
        }
        Some(Found::Reference(now, shown))
    }

    /// Compares counter and reference and publishes the next segment, or leaves the counter.
    /// Returns whether the record of `seen` has been replaced, by this call or another.
    #[cold]
    fn extend(&self, seen: Word) -> bool {
        let Some(mut writer) = self.writer.try_lock() else {
            return false;
        };
        let mut word = self.track.word();
        if word.sequence() != seen.sequence() || word.is_ready() {
            return true;
        }
        let current = Segment::of(self.track.fields(word, 0));
        let anchor = match self.compare(&mut writer, &current) {
            Ok(anchor) => anchor,
            Err(reason) => {
                self.leave(&mut writer, reason);
                return true;
            }
        };
        // A base with a wide bracket is replaced by a better one, although that is later.
        if anchor.slack < writer.base.slack / 2 {
            writer.base = anchor;
            writer.middle = None;
        }
        let Some((rate, full)) = self.learn(writer.base, anchor) else {
            return false;
        };
        // If the base was replaced, `compare` has not tested the new rate.
        if current.full > 0 && !rate.agrees(current.rate) {
            self.leave(&mut writer, Unstable::Jumped);
            return true;
        }
        loop {
            let is_late = word.is_expired() || !current.covers(anchor.count);
            let is_done = if is_late {
                let next = Self::next_late(&current, anchor, self.counter.step(), rate, full);
                self.track.publish(word, next.fields())
            } else {
                let next = Self::next_in_time(&current, anchor, rate, full);
                self.track.prepare(word, next.fields())
            };
            if is_done {
                if !is_late {
                    // The next segment is ready: request no other before the end.
                    self.track.amend(word, SOFT, current.full);
                }
                break;
            }
            // A reader has read the reference meanwhile.
            word = self.track.word();
        }
        writer.move_base(anchor);
        true
    }

    /// Leaves the counter if it is in use and a comparison finds it unsound.
    fn check(&self, writer: &mut Writer) {
        let word = self.track.word();
        let current = Segment::of(self.track.fields(word, 0));
        if !word.is_left()
            && let Err(reason) = self.compare(writer, &current)
        {
            self.leave(writer, reason);
        }
    }

    /// Takes an anchor and compares it with what the current segment predicts.
    fn compare(&self, writer: &mut Writer, current: &Segment) -> Result<Anchor, Unstable> {
        let last = match current.full {
            0 => writer.base,
            _ => current.anchor,
        };
        let anchor = writer
            .anchor(&self.counter, &self.reference)
            .filter(|anchor| anchor.count >= last.count.max(writer.last.count))
            .ok_or(Unstable::WentBack)?;
        let before = core::mem::replace(&mut writer.last, anchor);
        if anchor.count == last.count && anchor.nanos.saturating_sub(last.nanos) > STUCK_NS {
            return Err(Unstable::Stuck);
        }
        if current.full > 0 {
            let step = self.counter.step();
            let allowed = current
                .unsure(anchor.count, step)
                .saturating_add(anchor.unsure(anchor.count, step, current.rate));
            if current.expected(anchor.count).abs_diff(anchor.nanos) > allowed {
                return Err(Unstable::Jumped);
            }
        } else if !self.keeps_pace(before, anchor) {
            return Err(Unstable::Jumped);
        }
        Ok(anchor)
    }

    /// Returns whether the counter has kept the promised rate, within an eighth.
    fn keeps_pace(&self, before: Anchor, anchor: Anchor) -> bool {
        let counts = anchor.count - before.count;
        let slack = before.slack.saturating_add(anchor.slack);
        let most = u128::from(counts.saturating_add(slack)) * 1_000_000_000;
        let least = u128::from(counts.saturating_sub(slack)) * 1_000_000_000;
        let nanos = anchor.nanos.saturating_sub(before.nanos);
        let due = |nanos: u64| u128::from(nanos) * u128::from(self.pace);
        // The reference moves in steps of less than a microsecond.
        most >= due(nanos) * 7 / 8 && least <= due(nanos.saturating_add(1_000)) * 9 / 8
    }

    /// Returns the rate since the base, and the length of the next segment in counts; `None` if too
    /// little is known.
    fn learn(&self, base: Anchor, anchor: Anchor) -> Option<(Pace, u64)> {
        let rate = Pace::between(base, anchor, &self.config)?;
        let longest = self.config.anchor_every.as_nanos();
        // Maximum error of a segment at its end: twice the error due to drift alone, plus the width
        // of a bracket.
        let budget = u128::from(2 * longest * u64::from(self.config.drift_ppm) / 1_000_000 + 200)
            << FRACTION_BITS;
        let (mean, error) = (u128::from(rate.mean), u128::from(rate.error));
        if u128::from(anchor.slack) * mean > budget || anchor.nanos > LAST_NS {
            return None;
        }
        let counts = (u128::from(longest) << FRACTION_BITS) / mean;
        let counts = counts.min(budget / error);
        let nanos = (counts * mean) >> FRACTION_BITS;
        if nanos < u128::from(TscConfig::SHORTEST.as_nanos()) / 2 {
            return None;
        }
        Some((rate, u64::try_from(counts).ok()?))
    }

    /// Returns the segment after `current` if readers may have been shown the reference: it begins
    /// at or above every value that they were shown.
    fn next_late(current: &Segment, anchor: Anchor, step: u64, rate: Pace, full: u64) -> Segment {
        let unsure = anchor.unsure(anchor.count, step, rate);
        Segment {
            begin: anchor.count,
            soft: Segment::soft(full),
            full,
            nanos: if current.full == 0 {
                Segment::slewed(anchor.nanos.saturating_add(unsure), current.until)
            } else {
                current.last().max(anchor.nanos.saturating_add(unsure))
            },
            pace: rate.mean + rate.error,
            anchor,
            rate,
            ..Segment::default()
        }
    }

    /// Returns the segment after `current` if it is in time: it begins at the end of `current` and
    /// corrects towards the reference.
    fn next_in_time(current: &Segment, anchor: Anchor, rate: Pace, full: u64) -> Segment {
        let last = current.last();
        let begin = current.end();
        let due = anchor.expected(begin, rate);
        let target = anchor.expected(begin.saturating_add(full), rate);
        // Far behind, a step forwards is better than a steep slope.
        let nanos = match due.saturating_sub(last) > (target - due) / 16 {
            true => due,
            false => last,
        };
        let lean = (u128::from(target.saturating_sub(nanos)) << FRACTION_BITS) / u128::from(full);
        Segment {
            begin,
            soft: Segment::soft(full),
            full,
            nanos,
            pace: u64::try_from(lean)
                .unwrap_or(u64::MAX)
                .clamp(rate.mean / 2, rate.mean.saturating_mul(2)),
            anchor,
            rate,
            ..Segment::default()
        }
    }
}

impl Writer {
    /// Reads the reference between two counts, and retries if the thread seems to have been
    /// preempted; `None` if the count went back each time.
    fn anchor(&mut self, counter: &impl Counter, reference: &impl Clock) -> Option<Anchor> {
        let mut best: Option<(u64, Anchor)> = None;
        for _ in 0..BRACKETS {
            let from = counter.count_ordered();
            let nanos = reference.now().as_nanos();
            let to = counter.count_ordered();
            let Some(width) = to.checked_sub(from) else {
                continue;
            };
            let anchor = Anchor {
                count: from + width / 2,
                nanos,
                // The reference was read between `from` and the count after `to`.
                slack: width.div_ceil(2).saturating_add(counter.step()),
            };
            if best.is_none_or(|(least, _)| width < least) {
                best = Some((width, anchor));
            }
            if width <= self.narrowest.saturating_add(self.narrowest / 4) {
                break;
            }
        }
        let (width, anchor) = best?;
        self.narrowest = self.narrowest.min(width);
        Some(anchor)
    }

    /// Moves the base, so that the mean rate is that of the last second.
    fn move_base(&mut self, anchor: Anchor) {
        let age = anchor.nanos.saturating_sub(self.base.nanos);
        if age >= BASE_NS {
            if let Some(middle) = self.middle.take() {
                self.base = middle;
            }
        } else if age >= BASE_NS / 2 && self.middle.is_none() {
            self.middle = Some(anchor);
        }
    }
}

impl Unstable {
    /// Returns the reason encoded in a dead record.
    const fn of(code: u64) -> Self {
        match code {
            0 => Self::WentBack,
            1 => Self::Jumped,
            _ => Self::Stuck,
        }
    }
}

impl<K, C> Clone for TscClock<K, C> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Counter, C: Clock> fmt::Debug for TscClock<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TscClock")
            .field("now", &self.now())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}
