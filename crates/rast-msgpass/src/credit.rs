//! Credit of requests, and debts of answers.
//!
//! A client counts the requests that were sent and not answered, a server
//! those that were taken and not answered. Where the answers come by a ring
//! per pair, the client counts per server; where they come by an inbox, all
//! servers share its slots, so it keeps one count.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The slots for answers: as many again as there are credits, so that the
/// handling of an answer may ask again before others come back.
pub(crate) const fn answers_held(credit: usize) -> usize {
    credit.saturating_mul(2)
}

/// A client's requests without answers.
pub(crate) struct Credit {
    /// Per target; one for all where they share the slots for answers.
    debts: Vec<usize>,
    burst: usize,
    /// The most that an invocation may start with, plus the burst.
    credit: usize,
    /// As `credit`, for the handling of answers of other targets.
    limit: usize,
    /// The slots for answers.
    held: usize,
    /// How many counts leave no room for a burst below `credit`.
    low: usize,
    /// The same below `limit`.
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

    /// Counts an answer, or a waiver.
    #[inline]
    pub(crate) fn give_back(&mut self, target: usize) {
        let place = self.place(target);
        let debt = &mut self.debts[place];
        assert!(*debt > 0, "an answer belongs to a request that was sent");
        *debt -= 1;
        self.low -= usize::from(*debt + self.burst == self.credit);
        self.at_limit -= usize::from(*debt + self.burst == self.limit);
    }

    /// Returns whether this target has no credit for a burst.
    pub(crate) fn is_low_at(&self, target: usize) -> bool {
        self.debts[self.place(target)] + self.burst > self.credit
    }

    /// Returns how many requests there are slots for the answers of.
    pub(crate) fn slots(&self, target: usize) -> usize {
        self.held - self.debts[self.place(target)]
    }

    /// Returns whether a target has no credit for a burst.
    #[inline]
    pub(crate) fn is_low(&self) -> bool {
        self.low > 0
    }

    /// Returns how many requests a target has credit for.
    pub(crate) fn left(&self, target: usize) -> usize {
        self.credit.saturating_sub(self.debts[self.place(target)])
    }

    /// Returns whether a target owes so much that only its own answers are
    /// handled.
    pub(crate) fn is_at_limit(&self, target: usize) -> bool {
        self.debts[self.place(target)] + self.burst > self.limit
    }

    /// Returns whether a target other than `target` is at its limit.
    pub(crate) fn is_other_at_limit(&self, target: Option<usize>) -> bool {
        let own = target.is_some_and(|target| self.is_at_limit(target));
        self.at_limit > usize::from(own)
    }
}

/// A server's requests without answers, per client.
pub(crate) enum Owed {
    Each(Vec<usize>),
    /// Only those that it owes something: their number is bounded by the
    /// requests, not by the clients.
    Some(HashMap<usize, usize, BuildHasherDefault<Mix>>),
}

impl Owed {
    #[inline]
    pub(crate) fn owe(&mut self, client: usize) -> usize {
        let debt = match self {
            Self::Each(debts) => &mut debts[client],
            Self::Some(debts) => debts.entry(client).or_insert(0),
        };
        *debt += 1;
        *debt
    }

    #[inline]
    pub(crate) fn get(&self, client: usize) -> usize {
        match self {
            Self::Each(debts) => debts[client],
            Self::Some(debts) => debts.get(&client).copied().unwrap_or(0),
        }
    }

    /// Counts an answer; returns `false` if none is owed.
    #[inline]
    #[must_use]
    pub(crate) fn pay(&mut self, client: usize) -> bool {
        match self {
            Self::Each(debts) => match debts[client] {
                0 => false,
                _ => {
                    debts[client] -= 1;
                    true
                }
            },
            Self::Some(debts) => match debts.get_mut(&client) {
                None => false,
                Some(1) => debts.remove(&client).is_some(),
                Some(debt) => {
                    *debt -= 1;
                    true
                }
            },
        }
    }

    /// Returns a client that is owed something.
    pub(crate) fn any(&self) -> Option<usize> {
        match self {
            Self::Each(debts) => debts.iter().position(|&debt| debt > 0),
            Self::Some(debts) => debts.keys().next().copied(),
        }
    }
}

/// Returns the replica that a key goes to: of `replicas`, by a hash of the key,
/// so that keys that follow each other, or have a common factor, spread evenly.
///
/// It is what [`Port::key`](crate::Port::key) and
/// [`IngressSender::key`](crate::IngressSender::key) go by. Equal keys get the
/// same replica, in every run of one version of this crate.
///
/// # Panics
///
/// When `replicas` is zero, or more than `u32::MAX`.
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

/// A multiplication whose halves are folded: each bit of the key counts in the
/// upper half of the result.
#[inline]
const fn mix(key: u64) -> u64 {
    let product = (key ^ 0x2d35_8dcc_aa6c_78a5) as u128 * 0x9e37_79b9_7f4a_7c15;
    let folded = product as u64 ^ (product >> 64) as u64;
    folded.wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// The hash of a number, for tables.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = mix(self.0 ^ number as u64);
    }
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

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
        credit.give_back(0);
        assert!(credit.is_low());
        credit.give_back(0);
        assert!(!credit.is_low());
        (0..6).for_each(|_| assert!(credit.spend(0)));
        assert!(credit.is_at_limit(0) && !credit.is_other_at_limit(Some(0)));
        assert!(credit.is_other_at_limit(Some(1)) && credit.is_other_at_limit(None));
        assert!(!credit.spend(0), "no slot is left");
    }

    #[test]
    fn debts_are_the_same_in_both_forms() {
        for mut owed in [Owed::Each(vec![0; 3]), Owed::Some(HashMap::default())] {
            assert_eq!((owed.owe(2), owed.owe(2), owed.owe(0)), (1, 2, 1));
            assert!(owed.pay(2) && owed.get(2) == 1 && owed.pay(0) && !owed.pay(0));
            assert_eq!(owed.any(), Some(2));
            assert!(owed.pay(2) && owed.any().is_none());
        }
    }
}
