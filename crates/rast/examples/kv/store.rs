//! The state of one partition: a map from key to value and expiry.
//!
//! ```text
//!  map: key ─▶ Entry { value, expiry: Option<(deadline, handle)> }
//!                                                       │
//!  deadlines (indexed heap): deadline ─▶ key ◀──────────┘
//! ```
//!
//! 1. A key with an expiry has exactly one deadline in the heap, and each deadline belongs to such
//!    a key.
//! 2. A key is found only until its deadline. An access to a key whose deadline has passed first
//!    removes the key. `expire_some` removes the other expired keys in bounded slices.
//! 3. Each operation that makes the partition larger, also by doubling the table, first checks the
//!    limit that all partitions share. A refused operation changes nothing.

use std::sync::Arc;

use hashbrown::HashMap;
use rast::timers::{DeadlineStore, Handle, HeapStore, Instant, Nanos};

use crate::glob;
use crate::memory::{Account, Memory};
use crate::message::{
    Body, ChargedKeys, Expiry, Key, Only, Op, PartitionStats, Set, SetAnswer, TtlUnit,
};
use crate::value::Value;

/// What a deadline costs besides a long key: heap slot and slab entry.
const DEADLINE: usize = 72;

/// Steps that the pattern of KEYS may take in one partition: this number, which takes a few
/// milliseconds, or four per stored byte if that is more. Four per byte suffice for patterns that
/// do not go back and forth.
const KEYS_STEPS: usize = 1 << 20;

const OUT_OF_MEMORY: Body = Body::Error("OOM command not allowed when used memory > 'maxmemory'.");
const NOT_AN_INTEGER: Body = Body::Error("ERR value is not an integer or out of range");
const OVERFLOW: Body = Body::Error("ERR increment or decrement would overflow");
const TOO_LONG: Body = Body::Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
const TOO_SLOW: Body = Body::Error("ERR the pattern takes too long over the keys that stand");
const TOO_MANY_KEYS: Body = Body::Error("ERR the reply would exceed the output limit");

#[derive(Debug)]
struct Entry {
    value: Value,
    expiry: Option<(Instant, Handle)>,
}

/// One partition.
#[derive(Debug)]
pub(crate) struct Store {
    map: HashMap<Key, Entry>,
    deadlines: HeapStore<Key>,
    account: Account,
    /// Where answers of many keys are charged while they are on their way.
    buffers: Arc<Memory>,
    longest: usize,
    expired: u64,
    hits: u64,
    misses: u64,
}

impl Store {
    /// An empty partition whose values hold at most `longest` bytes.
    pub(crate) fn new(memory: &Arc<Memory>, buffers: &Arc<Memory>, longest: usize) -> Self {
        Self {
            map: HashMap::new(),
            deadlines: HeapStore::new(),
            account: Account::new(memory),
            buffers: Arc::clone(buffers),
            longest,
            expired: 0,
            hits: 0,
            misses: 0,
        }
    }

    /// Carries out one request.
    pub(crate) fn apply(&mut self, op: Op, now: Instant) -> Body {
        match op {
            Op::Get(key) => Body::Value(self.look_up(&key, now)),
            Op::Take(key) => {
                let value = self.look_up(&key, now);
                self.remove(&key);
                Body::Value(value)
            }
            Op::Set(set) => self.set(set, now),
            Op::Add(key, by) => self.add(key, by, now),
            Op::Append(key, bytes) => self.append(key, bytes, now),
            Op::Length(key) => Body::Int(
                self.look_up(&key, now)
                    .map_or(0, |value| count(value.length())),
            ),
            Op::Expire(key, millis, only) => self.expire(&key, millis, only, now),
            Op::Persist(key) => {
                self.forget_if_past(&key, now);
                Body::Int(i64::from(self.clear_expiry(&key)))
            }
            Op::Ttl(key, unit) => Body::Int(self.time_to_live(&key, unit, now)),
            Op::Type(key) => {
                self.forget_if_past(&key, now);
                Body::Status(if self.map.contains_key(&key) {
                    "string"
                } else {
                    "none"
                })
            }
            Op::MGet(keys) => {
                let found = keys
                    .into_iter()
                    .map(|(at, key)| (at, self.look_up(&key, now)));
                Body::Values(found.collect())
            }
            Op::MSet(pairs) => self.set_all(pairs, now),
            Op::Remove(keys) => {
                let gone = keys.iter().filter(|key| {
                    self.forget_if_past(key, now);
                    self.remove(key)
                });
                Body::Int(count(gone.count()))
            }
            Op::Exists(keys) => {
                let found = keys.iter().filter(|key| self.look_up(key, now).is_some());
                Body::Int(count(found.count()))
            }
            Op::Keys { pattern, most } => self.keys(&pattern, most, now),
            Op::Size => Body::Int(count(self.map.len())),
            Op::Flush => {
                self.clear();
                Body::Status("OK")
            }
            Op::Stats => Body::Stats(self.stats()),
        }
    }

    /// The earliest deadline of a key.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next_deadline()
    }

    /// Removes at most `budget` keys whose deadline is past; returns how many.
    pub(crate) fn expire_some(&mut self, now: Instant, budget: usize) -> usize {
        let Self {
            map,
            deadlines,
            account,
            expired,
            ..
        } = self;
        let swept = deadlines.expire(now, budget, |due| {
            if let Some((key, entry)) = map.remove_entry(&due.value) {
                account.sub(cost(&key, &entry.value) + deadline_cost(&key));
                *expired += 1;
            }
        });
        self.settle();
        swept.fired
    }

    fn stats(&self) -> PartitionStats {
        PartitionStats {
            keys: self.map.len() as u64,
            expiring: self.deadlines.len() as u64,
            expired: self.expired,
            hits: self.hits,
            misses: self.misses,
            bytes: self.account.held(),
        }
    }

    fn look_up(&mut self, key: &[u8], now: Instant) -> Option<Value> {
        self.forget_if_past(key, now);
        let found = self.map.get(key).map(|entry| entry.value.clone());
        if found.is_some() {
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        found
    }

    fn forget_if_past(&mut self, key: &[u8], now: Instant) {
        if self.deadlines.is_empty() {
            return;
        }
        let expiry = self.map.get(key).and_then(|entry| entry.expiry);
        if expiry.is_some_and(|(at, _)| at <= now) {
            self.remove(key);
            self.expired += 1;
        }
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, entry)) = self.map.remove_entry(key) else {
            return false;
        };
        let mut freed = cost(&key, &entry.value);
        if let Some((_, handle)) = entry.expiry {
            self.deadlines.cancel(handle);
            freed += deadline_cost(&key);
        }
        self.account.sub(freed);
        true
    }

    fn clear(&mut self) {
        self.map = HashMap::new();
        self.deadlines = HeapStore::new();
        self.account.set(0);
    }

    /// Frees the table of a partition that has become empty.
    fn settle(&mut self) {
        if self.map.is_empty() && self.map.capacity() > 0 {
            self.clear();
        }
    }

    fn set(&mut self, set: Set, now: Instant) -> Body {
        self.forget_if_past(&set.key, now);
        let holds = match set.only {
            Only::Absent => !self.map.contains_key(&set.key),
            Only::Present => self.map.contains_key(&set.key),
            _ => true,
        };
        let old_value = match set.answer {
            SetAnswer::Old => self.map.get(&set.key).map(|entry| entry.value.clone()),
            _ => None,
        };
        if holds && !self.put(set.key, set.value, set.expiry, now) {
            return OUT_OF_MEMORY;
        }
        match set.answer {
            SetAnswer::Old => Body::Value(old_value),
            SetAnswer::Count => Body::Int(i64::from(holds)),
            SetAnswer::Done if holds => Body::Status("OK"),
            SetAnswer::Done => Body::Value(None),
        }
    }

    fn set_all(&mut self, pairs: Vec<(Key, Value)>, now: Instant) -> Body {
        // Counted as if every key were new and the table doubled for them.
        let growth: usize = pairs.iter().map(|(key, value)| cost(key, value)).sum();
        if !self
            .account
            .has_room(growth + self.table_growth(pairs.len()))
        {
            return OUT_OF_MEMORY;
        }
        for (key, value) in pairs {
            self.forget_if_past(&key, now);
            if !self.put(key, value, Expiry::Clear, now) {
                return OUT_OF_MEMORY;
            }
        }
        Body::Status("OK")
    }

    /// Writes a value, if the memory for it is there.
    fn put(&mut self, key: Key, value: Value, expiry: Expiry, now: Instant) -> bool {
        if expiry == Expiry::Clear && self.deadlines.is_empty() {
            // The plain SET of a key that is there: one look at the table.
            if let Some(entry) = self.map.get_mut(&key) {
                let (old, new) = (entry.value.cost(), value.cost());
                if !self.account.has_room(new.saturating_sub(old)) {
                    return false;
                }
                self.account.add(new);
                self.account.sub(old);
                entry.value = value;
                return true;
            }
        }
        let old = self.map.get(&key).map(|entry| entry.value.cost());
        let needed = match old {
            Some(old) => value.cost().saturating_sub(old),
            None => cost(&key, &value) + self.table_growth(1),
        };
        let timed = match expiry {
            Expiry::After(_) => deadline_cost(&key),
            _ => 0,
        };
        if !self.account.has_room(needed + timed) {
            return false;
        }
        if expiry == Expiry::Clear {
            self.clear_expiry(&key);
        }
        if let Some(old) = old {
            self.account.add(value.cost());
            self.account.sub(old);
            if let Some(entry) = self.map.get_mut(&key) {
                entry.value = value;
            }
        } else if !matches!(expiry, Expiry::After(_)) {
            // The key itself goes into the table; a copy is needed only where its
            // expiry is still to be set.
            self.insert(key, value);
            return true;
        } else {
            self.insert(key.clone(), value);
        }
        if let Expiry::After(millis) = expiry {
            self.set_expiry(&key, now.saturating_add(Nanos::from_millis(millis)));
        }
        true
    }

    fn insert(&mut self, key: Key, value: Value) {
        let table = self.map.allocation_size();
        self.account.add(cost(&key, &value));
        self.map.insert(
            key,
            Entry {
                value,
                expiry: None,
            },
        );
        self.account
            .add(self.map.allocation_size().saturating_sub(table));
    }

    /// What the table would grow by if `more` keys were added.
    fn table_growth(&self, more: usize) -> usize {
        let free = self.map.capacity() - self.map.len();
        if more <= free {
            return 0;
        }
        // Twice the entries at a load of at most seven eighths, and control bytes.
        let entries = ((self.map.len() + more) * 8 / 7).next_power_of_two();
        let bytes = entries * (size_of::<(Key, Entry)>() + 1);
        bytes.saturating_sub(self.map.allocation_size())
    }

    fn add(&mut self, key: Key, by: i64, now: Instant) -> Body {
        self.forget_if_past(&key, now);
        let Some(entry) = self.map.get_mut(&key) else {
            let set = self.put(key, Value::Int(by), Expiry::Clear, now);
            return if set { Body::Int(by) } else { OUT_OF_MEMORY };
        };
        let Value::Int(number) = &mut entry.value else {
            return NOT_AN_INTEGER;
        };
        let Some(sum) = number.checked_add(by) else {
            return OVERFLOW;
        };
        *number = sum;
        Body::Int(sum)
    }

    fn append(&mut self, key: Key, bytes: Vec<u8>, now: Instant) -> Body {
        self.forget_if_past(&key, now);
        let Some(entry) = self.map.get_mut(&key) else {
            let len = count(bytes.len());
            let set = self.put(key, bytes.into(), Expiry::Clear, now);
            return if set { Body::Int(len) } else { OUT_OF_MEMORY };
        };
        let len = entry.value.length() + bytes.len();
        if len > self.longest {
            return TOO_LONG;
        }
        // The vector doubles at most; a value that a reply still shares is copied.
        if !self.account.has_room(len + bytes.len()) {
            return OUT_OF_MEMORY;
        }
        let before = entry.value.cost();
        entry.value.append(&bytes);
        let after = entry.value.cost();
        self.account.add(after);
        self.account.sub(before);
        Body::Int(count(len))
    }

    fn expire(&mut self, key: &[u8], millis: i64, only: Only, now: Instant) -> Body {
        self.forget_if_past(key, now);
        let Some(entry) = self.map.get(key) else {
            return Body::Int(0);
        };
        let old = entry.expiry.map(|(at, _)| at);
        let at = match u64::try_from(millis) {
            Ok(millis) => now.saturating_add(Nanos::from_millis(millis)),
            Err(_) => now,
        };
        let holds = match only {
            Only::Always => true,
            Only::Absent => old.is_none(),
            Only::Present => old.is_some(),
            Only::Later => old.is_some_and(|old| at > old),
            Only::Earlier => old.is_none_or(|old| at < old),
            Only::PresentEarlier => old.is_some_and(|old| at < old),
        };
        if !holds {
            return Body::Int(0);
        }
        if at <= now {
            self.remove(key);
            return Body::Int(1);
        }
        if old.is_none() && !self.account.has_room(deadline_cost(key)) {
            return OUT_OF_MEMORY;
        }
        self.set_expiry(key, at);
        Body::Int(1)
    }

    fn set_expiry(&mut self, key: &[u8], at: Instant) {
        let Some((key, entry)) = self.map.get_key_value_mut(key) else {
            return;
        };
        if let Some((old, handle)) = &mut entry.expiry {
            *old = at;
            if self.deadlines.reschedule(*handle, at) == Some(*handle) {
                return;
            }
        }
        self.account.add(deadline_cost(key));
        entry.expiry = Some((at, self.deadlines.insert(at, key.clone())));
    }

    fn clear_expiry(&mut self, key: &[u8]) -> bool {
        if self.deadlines.is_empty() {
            return false;
        }
        let Some((_, handle)) = self.map.get_mut(key).and_then(|entry| entry.expiry.take()) else {
            return false;
        };
        self.deadlines.cancel(handle);
        self.account.sub(deadline_cost(key));
        true
    }

    fn time_to_live(&mut self, key: &[u8], unit: TtlUnit, now: Instant) -> i64 {
        self.forget_if_past(key, now);
        let Some(entry) = self.map.get(key) else {
            return -2;
        };
        let Some((at, _)) = entry.expiry else {
            return -1;
        };
        let millis = at.saturating_since(now).as_nanos().div_ceil(1_000_000);
        let shown = match unit {
            TtlUnit::Milliseconds => millis,
            TtlUnit::Seconds => (millis + 500) / 1000,
        };
        i64::try_from(shown).unwrap_or(i64::MAX)
    }

    fn keys(&self, pattern: &[u8], most: usize, now: Instant) -> Body {
        let all = pattern == b"*";
        let mut steps = KEYS_STEPS.max(usize::try_from(self.account.held()).unwrap_or(0) * 4);
        let mut keys = Vec::new();
        let mut charge = Account::new(&self.buffers);
        let mut bytes = 0;
        for (key, entry) in &self.map {
            let past = entry.expiry.is_some_and(|(at, _)| at <= now);
            if past {
                continue;
            }
            let found = match all {
                true => Some(true),
                false => glob::matches(pattern, key, &mut steps),
            };
            match found {
                Some(true) => {}
                Some(false) => continue,
                None => return TOO_SLOW,
            }
            let more = Key::cost(key.len()) + 2 * size_of::<Key>();
            bytes += more;
            if bytes > most || !charge.has_room(more) {
                return TOO_MANY_KEYS;
            }
            charge.add(more);
            keys.push(key.clone());
        }
        Body::Keys(ChargedKeys::new(keys, charge))
    }
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What a key and its value occupy outside the table.
fn cost(key: &[u8], value: &Value) -> usize {
    Key::cost(key.len()) + value.cost()
}

fn deadline_cost(key: &[u8]) -> usize {
    Key::cost(key.len()) + DEADLINE
}

#[cfg(test)]
mod tests {
    use super::*;
    use rast::primitive::Random;

    fn store(limit: u64) -> (Arc<Memory>, Store) {
        let memory = Memory::new(limit);
        let store = Store::new(&memory, &memory, 1000);
        (memory, store)
    }

    fn key(text: &str) -> Key {
        text.as_bytes().into()
    }

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn set(key_text: &str, value: &str, expiry: Expiry) -> Op {
        let value = Value::from(value.as_bytes().to_vec());
        let only = Only::Always;
        Op::Set(Set {
            key: key(key_text),
            value,
            expiry,
            only,
            answer: SetAnswer::Done,
        })
    }

    fn value(text: &str) -> Body {
        Body::Value(Some(Value::from(text.as_bytes().to_vec())))
    }

    const OK: Body = Body::Status("OK");
    const NIL: Body = Body::Value(None);

    #[test]
    fn a_key_lives_until_its_deadline() {
        let (_memory, mut store) = store(1 << 20);
        assert_eq!(store.apply(set("k", "v", Expiry::After(10)), at(0)), OK);
        assert_eq!(
            store.apply(Op::Ttl(key("k"), TtlUnit::Milliseconds), at(4)),
            Body::Int(6)
        );
        assert_eq!(store.apply(Op::Get(key("k")), at(9)), value("v"));
        assert_eq!(store.apply(Op::Get(key("k")), at(10)), NIL);
        assert_eq!(
            store.apply(Op::Ttl(key("k"), TtlUnit::Seconds), at(10)),
            Body::Int(-2)
        );
        assert_eq!(store.next_deadline(), None);
        assert_eq!(store.stats().expired, 1);
    }

    #[test]
    fn set_clears_or_keeps_the_expiry_as_told() {
        let (_memory, mut store) = store(1 << 20);
        store.apply(set("k", "v", Expiry::After(10)), at(0));
        store.apply(set("k", "w", Expiry::Keep), at(1));
        assert_eq!(
            store.apply(Op::Ttl(key("k"), TtlUnit::Milliseconds), at(1)),
            Body::Int(9)
        );
        store.apply(set("k", "x", Expiry::Clear), at(2));
        assert_eq!(
            store.apply(Op::Ttl(key("k"), TtlUnit::Milliseconds), at(2)),
            Body::Int(-1)
        );
        store.apply(set("k", "x", Expiry::After(5)), at(2));
        assert_eq!(store.apply(Op::Persist(key("k")), at(3)), Body::Int(1));
        assert_eq!(store.apply(Op::Persist(key("k")), at(3)), Body::Int(0));
        assert_eq!(store.apply(Op::Get(key("k")), at(100)), value("x"));
    }

    #[test]
    fn expire_obeys_its_conditions() {
        let (_memory, mut store) = store(1 << 20);
        let expire = |millis, only| Op::Expire(key("k"), millis, only);
        assert_eq!(store.apply(expire(5, Only::Always), at(0)), Body::Int(0));
        store.apply(set("k", "v", Expiry::Clear), at(0));
        assert_eq!(store.apply(expire(5, Only::Present), at(0)), Body::Int(0));
        assert_eq!(store.apply(expire(5, Only::Later), at(0)), Body::Int(0));
        assert_eq!(
            store.apply(expire(5, Only::PresentEarlier), at(0)),
            Body::Int(0)
        );
        assert_eq!(store.apply(expire(5, Only::Earlier), at(0)), Body::Int(1));
        assert_eq!(store.apply(expire(9, Only::Absent), at(0)), Body::Int(0));
        assert_eq!(store.apply(expire(9, Only::Later), at(0)), Body::Int(1));
        assert_eq!(store.next_deadline(), Some(at(9)));
        assert_eq!(store.apply(expire(-1, Only::Always), at(0)), Body::Int(1));
        assert_eq!(store.apply(Op::Get(key("k")), at(0)), NIL);
        assert_eq!(store.next_deadline(), None);
    }

    #[test]
    fn active_expiry_works_in_slices() {
        let (memory, mut store) = store(1 << 20);
        for number in 0..100 {
            store.apply(
                set(&format!("k{number}"), "text", Expiry::After(number + 1)),
                at(0),
            );
        }
        assert_eq!(store.expire_some(at(50), 30), 30);
        assert_eq!(store.expire_some(at(50), 30), 20);
        assert_eq!(store.expire_some(at(50), 30), 0);
        assert_eq!(store.apply(Op::Size, at(50)), Body::Int(50));
        assert_eq!(store.next_deadline(), Some(at(51)));
        while store.expire_some(at(1000), 30) > 0 {}
        assert_eq!(store.stats().bytes, 0);
        drop(store);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn numbers_add_up_and_refuse_to_overflow() {
        let (_memory, mut store) = store(1 << 20);
        assert_eq!(store.apply(Op::Add(key("n"), 5), at(0)), Body::Int(5));
        assert_eq!(store.apply(Op::Add(key("n"), -7), at(0)), Body::Int(-2));
        store.apply(set("n", &i64::MAX.to_string(), Expiry::Clear), at(0));
        assert_eq!(store.apply(Op::Add(key("n"), 1), at(0)), OVERFLOW);
        assert_eq!(
            store.apply(Op::Get(key("n")), at(0)),
            value(&i64::MAX.to_string())
        );
        for text in ["1.5", " 1", "01", ""] {
            store.apply(set("n", text, Expiry::Clear), at(0));
            assert_eq!(
                store.apply(Op::Add(key("n"), 1), at(0)),
                NOT_AN_INTEGER,
                "{text:?}"
            );
            assert_eq!(store.apply(Op::Get(key("n")), at(0)), value(text));
        }
    }

    #[test]
    fn append_counts_bytes_and_leaves_shared_values_alone() {
        let (_memory, mut store) = store(1 << 20);
        let append = |text: &str| Op::Append(key("k"), text.as_bytes().to_vec());
        assert_eq!(store.apply(append("1"), at(0)), Body::Int(1));
        assert_eq!(store.apply(append("2"), at(0)), Body::Int(2));
        assert_eq!(store.apply(Op::Add(key("k"), 1), at(0)), Body::Int(13));
        assert_eq!(store.apply(append("x"), at(0)), Body::Int(3));
        let shared = store.apply(Op::Get(key("k")), at(0));
        assert_eq!(store.apply(append("y"), at(0)), Body::Int(4));
        assert_eq!(shared, value("13x"));
        assert_eq!(store.apply(Op::Get(key("k")), at(0)), value("13xy"));
        assert_eq!(store.apply(Op::Length(key("k")), at(0)), Body::Int(4));
        let long = "z".repeat(997);
        assert_eq!(store.apply(append(&long), at(0)), TOO_LONG);
    }

    #[test]
    fn conditions_and_answers_of_set() {
        let (_memory, mut store) = store(1 << 20);
        let set = |text: &str, only, answer| {
            Op::Set(Set {
                key: key("k"),
                value: Value::from(text.as_bytes().to_vec()),
                expiry: Expiry::Clear,
                only,
                answer,
            })
        };
        assert_eq!(
            store.apply(set("a", Only::Present, SetAnswer::Done), at(0)),
            NIL
        );
        assert_eq!(
            store.apply(set("a", Only::Absent, SetAnswer::Count), at(0)),
            Body::Int(1)
        );
        assert_eq!(
            store.apply(set("b", Only::Absent, SetAnswer::Count), at(0)),
            Body::Int(0)
        );
        assert_eq!(
            store.apply(set("b", Only::Always, SetAnswer::Old), at(0)),
            value("a")
        );
        assert_eq!(
            store.apply(set("c", Only::Absent, SetAnswer::Old), at(0)),
            value("b")
        );
        assert_eq!(store.apply(Op::Take(key("k")), at(0)), value("b"));
        assert_eq!(store.apply(Op::Type(key("k")), at(0)), Body::Status("none"));
    }

    #[test]
    fn the_memory_limit_refuses_growth_and_allows_the_rest() {
        let (memory, mut store) = store(64 * 1024);
        let text = "v".repeat(500);
        let mut stored = 0;
        while store.apply(set(&format!("k{stored}"), &text, Expiry::Clear), at(0)) == OK {
            stored += 1;
            assert!(stored < 200, "the limit was never met");
        }
        assert!(stored > 40, "{stored}");
        assert!(store.account.held() <= 64 * 1024);
        assert_eq!(store.apply(Op::Size, at(0)), Body::Int(stored));
        let append = Op::Append(key("k0"), vec![b'x'; 400]);
        assert_eq!(store.apply(append, at(0)), OUT_OF_MEMORY);
        assert_eq!(store.apply(Op::Get(key("k0")), at(0)), value(&text));
        assert_eq!(
            store.apply(Op::Remove(vec![key("k0"), key("k1")]), at(0)),
            Body::Int(2)
        );
        assert_eq!(store.apply(set("new", &text, Expiry::Clear), at(0)), OK);
        assert_eq!(store.apply(Op::Flush, at(0)), OK);
        drop(store);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn accounting_balances_after_any_sequence() {
        let (memory, mut store) = store(1 << 22);
        let mut numbers = Random::new(0x1234_5678_9abc_def0);
        for step in 0..20_000_u64 {
            let random = numbers.draw();
            let name = key(&format!("k{}", random % 50));
            let millis = 1 + (random >> 8) % 40;
            let op = match (random >> 32) % 8 {
                0 => set(&format!("k{}", random % 50), "text", Expiry::After(millis)),
                1 => set(&format!("k{}", random % 50), "12", Expiry::Keep),
                2 => set(&format!("k{}", random % 50), "longer text", Expiry::Clear),
                3 => Op::Append(name, b"ab".to_vec()),
                4 => Op::Expire(name, i64::try_from(millis).unwrap_or(1) - 2, Only::Always),
                5 => Op::Persist(name),
                6 => Op::Remove(vec![name]),
                _ => Op::Get(name),
            };
            store.apply(op, at(step / 4));
            let timed = store
                .map
                .values()
                .filter(|entry| entry.expiry.is_some())
                .count();
            assert_eq!(timed, store.deadlines.len());
        }
        let entries: usize = store
            .map
            .iter()
            .map(|(key, entry)| {
                cost(key, &entry.value) + entry.expiry.map_or(0, |_| deadline_cost(key))
            })
            .sum();
        assert_eq!(
            store.account.held(),
            (entries + store.map.allocation_size()) as u64
        );
        drop(store);
        assert_eq!(memory.used(), 0);
    }

    #[test]
    fn keys_respects_pattern_expiry_and_limit() {
        let (_memory, mut store) = store(1 << 20);
        for name in ["aa", "ab", "b"] {
            store.apply(set(name, "v", Expiry::Clear), at(0));
        }
        store.apply(set("ac", "v", Expiry::After(1)), at(0));
        let ask = |most| Op::Keys {
            pattern: Arc::new(b"a*".to_vec()),
            most,
        };
        let Body::Keys(ChargedKeys {
            keys: mut found, ..
        }) = store.apply(ask(1000), at(1))
        else {
            panic!("KEYS answers keys");
        };
        found.sort_by(|one, other| (**one).cmp(other));
        assert_eq!(found, [key("aa"), key("ab")]);
        assert_eq!(store.apply(ask(60), at(1)), TOO_MANY_KEYS);
    }

    #[test]
    fn keys_gives_a_pattern_up_that_takes_too_long() {
        let (_memory, mut store) = store(1 << 24);
        store.apply(set(&"a".repeat(1 << 20), "v", Expiry::Clear), at(0));
        let pattern = format!("*{}b", "a".repeat(1 << 19));
        let op = Op::Keys {
            pattern: Arc::new(pattern.into_bytes()),
            most: 1 << 20,
        };
        assert_eq!(store.apply(op, at(1)), TOO_SLOW);
    }
}
