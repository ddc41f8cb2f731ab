//! Credit: how many unanswered requests a client may have.
//!
//! A client counts its requests that are not answered yet. If answers come by a ring per pair of
//! client and server, the client has one count per server. If they come by an inbox, it has one
//! count for all servers.
//!
//! Requests carry no send time. So the client uses *marks* to bound the age of its oldest
//! unanswered request. A mark is the time of a flush (the publication of what was sent), and the
//! number of requests that were unanswered then. A server handles the requests of a client in
//! order. So after that number of answers, each request of the mark is answered, or a token holds
//! it. For a request with a token the age is known, because the token has the time at which its
//! request arrived. All other unanswered requests were sent after the mark.
//!
//! ```text
//!   since            next            now    each unanswered request was sent after `since`;
//!   ─┬───────────────┬────────────────►     until `left` more answers have come, some of
//!    the mark before  the mark              them may be older than `next`
//! ```

use crate::counter::{Counter, Counters};
use crate::timers::Instant;

/// The number of slots for answers: twice the credit, so that the handler of an answer may send a
/// request before others are answered.
pub(crate) const fn answers_held(credit: usize) -> usize {
    credit.saturating_mul(2)
}

/// Bounds the age of requests of a client to one target, or to all that share an inbox.
#[derive(Clone, Copy)]
struct Mark {
    /// Answers until all requests of the mark have one.
    left: usize,
    /// The time of the mark.
    at: Instant,
}

/// Reads the time of the oldest unanswered request; `None` if all are answered.
pub(crate) fn oldest(since: &Counter) -> Option<Instant> {
    since.get().checked_sub(1).map(Instant::from_nanos)
}

/// Publishes the time of the oldest unanswered request.
pub(crate) fn set_oldest(since: &Counter, oldest: Option<Instant>) {
    since.set(oldest.map_or(0, |oldest| oldest.as_nanos() + 1));
}

/// A client's unanswered requests.
pub(crate) struct Credit {
    /// By target; one for all if they share the slots for answers.
    debts: Vec<usize>,
    /// The mark of each count.
    marks: Vec<Mark>,
    burst: usize,
    /// The maximum with which an invocation may start, plus the burst.
    credit: usize,
    /// As `credit`, for handlers of answers of other targets.
    limit: usize,
    /// The number of slots for answers.
    held: usize,
    /// The number of counts without room for a burst below `credit`.
    low: usize,
    /// The same, below `limit`.
    at_limit: usize,
}

impl Credit {
    pub(crate) fn new(targets: usize, is_shared: bool, credit: usize, burst: usize) -> Self {
        let counts = if is_shared { 1 } else { targets };
        let held = answers_held(credit);
        let kept = counts.saturating_mul(burst);
        let limit = match held.saturating_sub(kept) {
            limit if limit >= credit + burst => limit,
            _ => held,
        };
        Self {
            debts: vec![0; counts],
            marks: vec![
                Mark {
                    left: 0,
                    at: Instant::ORIGIN,
                };
                counts
            ],
            burst,
            credit,
            limit,
            held,
            low: 0,
            at_limit: 0,
        }
    }

    #[inline]
    fn place(&self, target: usize) -> usize {
        if self.debts.len() == 1 { 0 } else { target }
    }

    /// Counts a request; returns `false` if there is no slot for its answer.
    #[inline]
    #[must_use]
    pub(crate) fn spend(&mut self, target: usize) -> bool {
        let place = self.place(target);
        let debt = &mut self.debts[place];
        if *debt >= self.held {
            return false;
        }
        self.low += usize::from(*debt + self.burst == self.credit);
        self.at_limit += usize::from(*debt + self.burst == self.limit);
        *debt += 1;
        true
    }

    /// Records that requests to a target are published: makes a mark if the last one is complete.
    /// `since` has an entry for each count.
    #[inline]
    pub(crate) fn sent(&mut self, target: usize, now: Instant, since: &Counters) {
        let place = self.place(target);
        let (mark, since) = (&mut self.marks[place], &since[place]);
        // Without a debt no request was sent: after a panic every outlet is flushed.
        if mark.left == 0 && self.debts[place] > 0 {
            set_oldest(since, Some(oldest(since).map_or(now, |_| mark.at)));
            *mark = Mark {
                left: self.debts[place],
                at: now,
            };
        }
    }

    /// Counts an answer, or a waiver.
    #[inline]
    pub(crate) fn give_back(&mut self, target: usize, since: &Counters) {
        let place = self.place(target);
        let debt = &mut self.debts[place];
        assert!(*debt > 0, "an answer belongs to a request that was sent");
        *debt -= 1;
        let mark = &mut self.marks[place];
        mark.left = mark.left.saturating_sub(1);
        if *debt == 0 {
            set_oldest(&since[place], None);
        }
        self.low -= usize::from(*debt + self.burst == self.credit);
        self.at_limit -= usize::from(*debt + self.burst == self.limit);
    }

    /// Moves a request that waits for room at a target to another target, with its age. Returns
    /// `false` if there is no slot for its answer there.
    #[must_use]
    pub(crate) fn shift(&mut self, from: usize, to: usize, since: &Counters) -> bool {
        let age = oldest(&since[self.place(from)]);
        if self.slots(to) == 0 {
            return false;
        }
        self.give_back(from, since);
        let place = self.place(to);
        let known = oldest(&since[place]);
        if let Some(age) = age {
            let mark = &mut self.marks[place];
            mark.at = known.map_or(age, |_| mark.at.min(age));
            set_oldest(
                &since[place],
                Some(known.map_or(age, |known| known.min(age))),
            );
        }
        self.spend(to)
    }

    /// Returns `true` if this target has no credit for a burst.
    pub(crate) fn is_low_at(&self, target: usize) -> bool {
        self.debts[self.place(target)] + self.burst > self.credit
    }

    /// Returns the number of requests for whose answers there are slots.
    pub(crate) fn slots(&self, target: usize) -> usize {
        self.held - self.debts[self.place(target)]
    }

    /// Returns `true` if a target has no credit for a burst.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        self.low > 0
    }

    /// Returns the number of requests for which a target has credit.
    pub(crate) fn left(&self, target: usize) -> usize {
        self.credit.saturating_sub(self.debts[self.place(target)])
    }

    /// Returns `true` if a target owes so many answers that only its own answers are handled.
    pub(crate) fn is_at_limit(&self, target: usize) -> bool {
        self.debts[self.place(target)] + self.burst > self.limit
    }

    /// Returns `true` if a target other than `target` is at its limit.
    pub(crate) fn is_other_at_limit(&self, target: Option<usize>) -> bool {
        let own = target.is_some_and(|target| self.is_at_limit(target));
        self.at_limit > usize::from(own)
    }
}

/// Returns the number of the replica for a key, below `replicas`, by a hash of the key. Consecutive
/// keys, and keys with a common factor, are spread evenly.
///
/// [`Port::key`](crate::Port::key) and [`IngressSender::key`](crate::IngressSender::key) use it.
/// Equal keys get the same replica, in every run of one version of this crate.
///
/// # Panics
///
/// If `replicas` is zero, or more than `u32::MAX`.
///
/// ```
/// use rast_msgpass::replica_of;
///
/// let mut keys = [0; 4];
/// (0..4000_u64).for_each(|key| keys[replica_of(key * 64, 4)] += 1);
/// assert!(keys.iter().all(|&count| (900..1100).contains(&count)));
/// ```
#[inline]
#[must_use]
pub const fn replica_of(key: u64, replicas: usize) -> usize {
    assert!(
        replicas > 0 && replicas <= u32::MAX as usize,
        "a key goes to one of at least one replica"
    );
    (((mix(key) >> 32) * replicas as u64) >> 32) as usize
}

/// Returns the replica that [`Port::hashed`](crate::Port::hashed) chooses for a hash. Costs about
/// `ln(replicas)` divisions.
///
/// # Panics
///
/// If `replicas` is zero, or more than `u32::MAX`.
///
/// ```
/// use rast_msgpass::consistent_replica_of;
///
/// let moved = (0..10_000_u64)
///     .map(|key| key.wrapping_mul(0x9e37_79b9_7f4a_7c15))
///     .filter(|&hash| consistent_replica_of(hash, 4) != consistent_replica_of(hash, 5));
/// // One of five, all to the new one.
/// assert!((1_800..2_200).contains(&moved.count()));
/// ```
#[must_use]
pub const fn consistent_replica_of(hash: u64, replicas: usize) -> usize {
    assert!(
        replicas > 0 && replicas <= u32::MAX as usize,
        "a key goes to one of at least one replica"
    );
    let (mut state, mut found, mut next) = (hash, 0, 0);
    while next < replicas as u64 {
        found = next;
        state = state.wrapping_mul(0x27bb_2ee6_87b0_b0fd).wrapping_add(1);
        next = ((found + 1) << 31) / ((state >> 33) + 1);
    }
    found as usize
}

/// A multiplication whose halves are combined: each bit of the key affects the upper half of the
/// result.
#[inline]
const fn mix(key: u64) -> u64 {
    let product = (key ^ 0x2d35_8dcc_aa6c_78a5) as u128 * 0x9e37_79b9_7f4a_7c15;
    let folded = product as u64 ^ (product >> 64) as u64;
    folded.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_moves_keeps_its_age() {
        let at = Instant::from_nanos;
        let since = Counters::new(2);
        let mut credit = Credit::new(2, false, 8, 1);
        assert!(credit.spend(0));
        credit.sent(0, at(10), &since);
        assert!(credit.shift(0, 1, &since));
        credit.sent(1, at(100), &since);
        assert_eq!((oldest(&since[0]), oldest(&since[1])), (None, Some(at(10))));
        credit.give_back(1, &since);
        assert_eq!(oldest(&since[1]), None);
    }

    #[test]
    fn keys_spread_whatever_they_have_in_common() {
        let steps: [u64; 9] = [
            1,
            2,
            3,
            64,
            1000,
            1 << 20,
            1 << 32,
            1 << 58,
            0x9e37_79b9_7f4a_7c15,
        ];
        for replicas in [2, 3, 7, 64, 1000] {
            for step in steps {
                let (mut counts, each) = (vec![0_u32; replicas], 64);
                let keys = replicas as u64 * each;
                for key in (0..keys).map(|key| step.wrapping_mul(key)) {
                    counts[replica_of(key, replicas)] += 1;
                }
                let distinct = match step.trailing_zeros() {
                    0..50 => keys,
                    zeros => keys.min(1 << (64 - zeros)),
                };
                if distinct == keys {
                    let most = *counts.iter().max().expect("there are replicas");
                    assert!(most < 2 * 64, "{replicas} replicas, step {step}: {most}");
                }
            }
        }
    }

    #[test]
    fn credit_counts_what_is_low_and_what_is_at_its_limit() {
        let mut credit = Credit::new(2, false, 4, 2);
        // 8 slots, 4 of them kept for bursts; less than a credit and a burst is left.
        assert!(!credit.is_low() && credit.left(0) == 4);
        assert!(credit.spend(0) && credit.spend(0) && !credit.is_low());
        assert!(credit.spend(0) && credit.is_low());
        assert!(credit.spend(0) && credit.left(0) == 0 && credit.left(1) == 4);
        let since = Counters::new(2);
        credit.give_back(0, &since);
        assert!(credit.is_low());
        credit.give_back(0, &since);
        assert!(!credit.is_low());
        (0..6).for_each(|_| assert!(credit.spend(0)));
        assert!(credit.is_at_limit(0) && !credit.is_other_at_limit(Some(0)));
        assert!(credit.is_other_at_limit(Some(1)) && credit.is_other_at_limit(None));
        assert!(!credit.spend(0), "no slot is left");
    }

    #[test]
    fn an_age_is_never_less_than_it_is_and_more_by_one_round_at_most() {
        let at = |nanos| Instant::from_nanos(nanos);
        let since = Counters::new(1);
        let mut credit = Credit::new(1, false, 8, 1);
        let ask = |credit: &mut Credit, count, now| {
            (0..count).for_each(|_| assert!(credit.spend(0)));
            credit.sent(0, at(now), &since);
            oldest(&since[0])
        };
        assert_eq!(ask(&mut credit, 2, 10), Some(at(10)));
        assert_eq!(ask(&mut credit, 1, 20), Some(at(10)));
        (0..2).for_each(|_| credit.give_back(0, &since));
        // The remaining one was sent at 20; the next round takes that into account.
        assert_eq!(ask(&mut credit, 1, 30), Some(at(10)));
        assert_eq!(ask(&mut credit, 1, 40), Some(at(10)));
        (0..3).for_each(|_| credit.give_back(0, &since));
        assert_eq!(oldest(&since[0]), None, "all are answered");
        assert_eq!(ask(&mut credit, 1, 50), Some(at(50)));
        credit.give_back(0, &since);
        // A flush without a request, as after a panic.
        assert_eq!(ask(&mut credit, 0, 60), None);
        assert_eq!(ask(&mut credit, 1, 70), Some(at(70)));
    }
}
