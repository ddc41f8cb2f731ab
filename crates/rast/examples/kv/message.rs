//! What travels through the graph: a request into a partition, its reply out.
//!
//! ```text
//!  I/O processor ── Request ──▶ partition ── Reply ──▶ the same I/O processor
//! ```
//!
//! A partition answers each request with exactly one reply, whose room the request reserves. For
//! commands over several keys, see `gather`.

use std::sync::Arc;

pub(crate) use crate::key::Key;
use crate::memory::Account;
use crate::value::Value;

/// Names one connection of one I/O processor; the generation tells a late reply to a
/// closed connection from a reply to the one that took over its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId {
    /// The slot in the I/O processor's table.
    pub(crate) slot: u32,
    /// How often that slot was filled before.
    pub(crate) generation: u32,
}

/// Where a reply goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The connection of the I/O processor that asked.
    pub(crate) connection: ConnectionId,
    /// The command's number on that connection.
    pub(crate) sequence: u64,
}

/// One request to one partition.
#[derive(Debug)]
pub(crate) struct Request {
    /// Where its reply goes.
    pub(crate) to: Address,
    /// What to do.
    pub(crate) op: Op,
}

/// The answer to one request.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Where it goes.
    pub(crate) to: Address,
    /// What was found.
    pub(crate) body: Body,
}

/// What happens to a key's expiry when it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expiry {
    /// The key no longer expires.
    Clear,
    /// The key keeps its expiry (KEEPTTL).
    Keep,
    /// The key expires after so many milliseconds.
    After(u64),
}

/// When a SET or an EXPIRE takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    /// In any case.
    Always,
    /// If there is none (NX): no key for SET, no expiry for EXPIRE.
    Absent,
    /// If there is one (XX).
    Present,
    /// If the new expiry is later (GT).
    Later,
    /// If the new expiry is earlier, or there is none (LT).
    Earlier,
    /// If there is an expiry and the new one is earlier (XX LT).
    PresentEarlier,
}

/// What a SET does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Set {
    /// The key.
    pub(crate) key: Key,
    /// Its new value.
    pub(crate) value: Value,
    /// Its new expiry.
    pub(crate) expiry: Expiry,
    /// When to set.
    pub(crate) only: Only,
    /// What to answer.
    pub(crate) answer: SetAnswer,
}

/// What a partition is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// GET.
    Get(Key),
    /// GETDEL.
    Take(Key),
    /// SET in all its forms.
    Set(Set),
    /// INCR, DECR, INCRBY, DECRBY.
    Add(Key, i64),
    /// APPEND.
    Append(Key, Vec<u8>),
    /// STRLEN.
    Length(Key),
    /// EXPIRE, PEXPIRE, in milliseconds from now; zero or less deletes the key.
    Expire(Key, i64, Only),
    /// PERSIST.
    Persist(Key),
    /// PTTL, and TTL in seconds.
    Ttl(Key, TtlUnit),
    /// TYPE.
    Type(Key),
    /// This partition's part of MGET: each key with its place in the reply.
    MGet(Vec<(u32, Key)>),
    /// This partition's part of MSET.
    MSet(Vec<(Key, Value)>),
    /// This partition's part of DEL or UNLINK.
    Remove(Vec<Key>),
    /// This partition's part of EXISTS.
    Exists(Vec<Key>),
    /// This partition's part of KEYS; refuses past `most` bytes.
    Keys {
        /// The glob pattern, which all partitions share.
        pattern: Arc<Vec<u8>>,
        /// Most bytes of the keys that may be answered.
        most: usize,
    },
    /// This partition's part of DBSIZE.
    Size,
    /// This partition's part of FLUSHALL.
    Flush,
    /// This partition's part of INFO.
    Stats,
}

impl Op {
    /// The key of an operation on one key.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Get(key)
            | Self::Take(key)
            | Self::Set(Set { key, .. })
            | Self::Add(key, _)
            | Self::Append(key, _)
            | Self::Length(key)
            | Self::Expire(key, ..)
            | Self::Persist(key)
            | Self::Ttl(key, _)
            | Self::Type(key) => Some(key),
            Self::MGet(_)
            | Self::MSet(_)
            | Self::Remove(_)
            | Self::Exists(_)
            | Self::Keys { .. }
            | Self::Size
            | Self::Flush
            | Self::Stats => None,
        }
    }
}

/// What a SET answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetAnswer {
    /// `OK`, or nil when the condition did not hold.
    Done,
    /// The old value (SET with GET).
    Old,
    /// One or zero (SETNX).
    Count,
}

/// The unit of a TTL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TtlUnit {
    /// Seconds, rounded to the nearest.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

/// Keys on their way, charged to the connections' buffers until they arrive.
#[derive(Debug)]
pub(crate) struct ChargedKeys {
    /// The keys.
    pub(crate) keys: Vec<Key>,
    /// Gives the bytes back when the keys have arrived.
    _charge: Account,
}

impl ChargedKeys {
    /// Keys whose bytes `charge` holds.
    pub(crate) fn new(keys: Vec<Key>, charge: Account) -> Self {
        Self {
            keys,
            _charge: charge,
        }
    }
}

impl PartialEq for ChargedKeys {
    fn eq(&self, other: &Self) -> bool {
        self.keys == other.keys
    }
}

/// What a partition answers.
#[derive(Debug, PartialEq)]
pub(crate) enum Body {
    /// A status line such as `OK`.
    Status(&'static str),
    /// An error line, code first.
    Error(&'static str),
    /// An integer.
    Int(i64),
    /// A value or nil.
    Value(Option<Value>),
    /// Values with their places in the reply.
    Values(Vec<(u32, Option<Value>)>),
    /// Keys.
    Keys(ChargedKeys),
    /// Figures for INFO.
    Stats(PartitionStats),
}

/// The figures of one partition, or their sum over several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionStats {
    /// Keys that stand.
    pub(crate) keys: u64,
    /// Keys with an expiry.
    pub(crate) expiring: u64,
    /// Keys that have expired since the start.
    pub(crate) expired: u64,
    /// Look-ups that found their key.
    pub(crate) hits: u64,
    /// Look-ups that did not.
    pub(crate) misses: u64,
    /// Bytes that keys, values and tables occupy.
    pub(crate) bytes: u64,
}

impl PartitionStats {
    /// Adds the figures of another partition.
    pub(crate) fn add(&mut self, other: &Self) {
        self.keys += other.keys;
        self.expiring += other.expiring;
        self.expired += other.expired;
        self.hits += other.hits;
        self.misses += other.misses;
        self.bytes += other.bytes;
    }
}
