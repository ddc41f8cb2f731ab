//! Cuts a command over several partitions into requests, and puts their replies
//! together again.
//!
//! Replies arrive in any order. A part of MGET knows the places of its values. DEL and EXISTS add
//! the numbers of their parts. MSET and FLUSHALL end when all parts have ended. The first error of
//! a part becomes the reply.

use std::sync::Arc;

use crate::command::{Every, Many};
use crate::encode::{self, Protocol};
use crate::message::{Body, Key, Op, PartitionStats};
use crate::route::{PARTITIONS, Router};
use crate::shared::Shared;
use crate::value::Value;

/// What is being put together.
#[derive(Debug)]
enum Whole {
    Values(Vec<Option<Value>>),
    Sum(i64),
    Done,
    Keys(Vec<Key>),
    Info {
        sections: Vec<String>,
        stats: PartitionStats,
    },
}

/// A command whose replies are on their way.
#[derive(Debug)]
pub(crate) struct Gather {
    missing: usize,
    /// Bytes of the parts that have arrived.
    held: usize,
    whole: Whole,
    error: Option<&'static str>,
}

/// The parts of a command over several keys: partition and request.
pub(crate) fn split(many: Many, router: Router) -> (Gather, Vec<(usize, Op)>) {
    match many {
        Many::Get(keys) => {
            let values = vec![None; keys.len()];
            let placed = (0_u32..).zip(keys);
            let parts = by_partition(placed, |(_, key)| router.partition(key), Op::MGet);
            gather(Whole::Values(values), parts)
        }
        Many::Set(pairs) => {
            let parts = by_partition(pairs, |(key, _)| router.partition(key), Op::MSet);
            gather(Whole::Done, parts)
        }
        Many::Remove(keys) => {
            let parts = by_partition(keys, |key| router.partition(key), Op::Remove);
            gather(Whole::Sum(0), parts)
        }
        Many::Exists(keys) => {
            let parts = by_partition(keys, |key| router.partition(key), Op::Exists);
            gather(Whole::Sum(0), parts)
        }
    }
}

/// The parts of a command over all partitions; `most` bounds the bytes of the reply.
pub(crate) fn spread(every: Every, most: usize) -> (Gather, Vec<(usize, Op)>) {
    let (whole, op) = match every {
        Every::Keys(pattern) => {
            let pattern = Arc::new(pattern);
            (Whole::Keys(Vec::new()), Op::Keys { pattern, most })
        }
        Every::Size => (Whole::Sum(0), Op::Size),
        Every::Flush => (Whole::Done, Op::Flush),
        Every::Info(sections) => (
            Whole::Info {
                sections,
                stats: PartitionStats::default(),
            },
            Op::Stats,
        ),
    };
    gather(whole, (0..PARTITIONS).map(|at| (at, op.clone())).collect())
}

fn gather(whole: Whole, parts: Vec<(usize, Op)>) -> (Gather, Vec<(usize, Op)>) {
    (
        Gather {
            missing: parts.len(),
            held: 0,
            whole,
            error: None,
        },
        parts,
    )
}

/// Makes a request of the items of each partition, in the order of first mention.
fn by_partition<T>(
    items: impl IntoIterator<Item = T>,
    partition: impl Fn(&T) -> usize,
    op: fn(Vec<T>) -> Op,
) -> Vec<(usize, Op)> {
    let mut places = [usize::MAX; PARTITIONS];
    let mut groups: Vec<(usize, Vec<T>)> = Vec::new();
    for item in items {
        let at = partition(&item);
        if let Some((_, group)) = groups.get_mut(places[at]) {
            group.push(item);
        } else {
            places[at] = groups.len();
            groups.push((at, vec![item]));
        }
    }
    let parts = groups.into_iter().map(|(at, group)| (at, op(group)));
    parts.collect()
}

impl Gather {
    /// Takes in the reply of one part; returns whether it was the last.
    pub(crate) fn take(&mut self, body: Body) -> bool {
        match (&mut self.whole, body) {
            (_, Body::Error(text)) => self.error = self.error.or(Some(text)),
            (Whole::Values(all), Body::Values(some)) => {
                for (place, value) in some {
                    self.held += bytes(value.as_ref());
                    if let Some(slot) = all.get_mut(place as usize) {
                        *slot = value;
                    }
                }
            }
            (Whole::Sum(sum), Body::Int(part)) => *sum += part,
            (Whole::Keys(all), Body::Keys(some)) => {
                self.held += some.keys.iter().map(|key| key.len() + 32).sum::<usize>();
                all.extend(some.keys);
            }
            (Whole::Info { stats, .. }, Body::Stats(part)) => stats.add(&part),
            (Whole::Done, Body::Status(_)) => {}
            (whole, body) => unreachable!("a part of {whole:?} was answered by {body:?}"),
        }
        self.missing -= 1;
        self.missing == 0
    }

    /// Bytes of the parts that have arrived.
    pub(crate) fn held(&self) -> usize {
        self.held
    }

    /// Writes the whole reply.
    pub(crate) fn write(&self, shared: &Shared, protocol: Protocol, out: &mut Vec<u8>) {
        if let Some(text) = self.error {
            return encode::error(out, text);
        }
        match &self.whole {
            Whole::Values(values) => {
                encode::array(out, values.len());
                for value in values {
                    write_value(value.as_ref(), protocol, out);
                }
            }
            Whole::Sum(sum) => encode::int(out, *sum),
            Whole::Done => encode::simple(out, "OK"),
            Whole::Keys(keys) => {
                encode::array(out, keys.len());
                for key in keys {
                    encode::bulk(out, key);
                }
            }
            Whole::Info { sections, stats } => {
                encode::text(out, protocol, &shared.info(sections, stats));
            }
        }
    }
}

/// The bytes that a value takes in a reply, without its header.
pub(crate) fn bytes(value: Option<&Value>) -> usize {
    value.map_or(0, Value::length)
}

/// Writes a value, or nil.
pub(crate) fn write_value(value: Option<&Value>, protocol: Protocol, out: &mut Vec<u8>) {
    match value {
        None => encode::nil(out, protocol),
        Some(value) => value.write(out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Settings;

    fn written(gather: &Gather) -> String {
        let mut out = Vec::new();
        gather.write(&Shared::new(Settings::default()), Protocol::Two, &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn mget_keeps_the_order_of_its_keys() {
        let keys: Vec<Key> = (0..100)
            .map(|n| format!("k{n}").into_bytes().into())
            .collect();
        let (mut gather, mut parts) = split(Many::Get(keys.clone()), Router::new());
        assert!(parts.len() > 1);
        parts.reverse();
        let last = parts.len() - 1;
        for (turn, (_, op)) in parts.into_iter().enumerate() {
            let Op::MGet(keys) = op else {
                panic!("a part of MGET")
            };
            let some = keys
                .into_iter()
                .map(|(place, key)| (place, (place != 7).then(|| Value::from(key.to_vec()))));
            assert_eq!(gather.take(Body::Values(some.collect())), turn == last);
        }
        let mut expected = "*100\r\n".to_owned();
        for n in 0..100 {
            let text = format!("k{n}");
            let line = format!("${}\r\n{text}\r\n", text.len());
            expected.push_str(if n == 7 { "$-1\r\n" } else { &line });
        }
        assert_eq!(written(&gather), expected);
    }

    #[test]
    fn equal_keys_share_a_part_and_sums_add_up() {
        let key: Key = b"same".as_slice().into();
        let (mut gather, parts) = split(Many::Exists(vec![key.clone(); 3]), Router::new());
        assert_eq!(parts.len(), 1);
        assert!(gather.take(Body::Int(3)));
        assert_eq!(written(&gather), ":3\r\n");
    }

    #[test]
    fn an_error_of_a_part_is_the_error_of_the_whole() {
        let (mut gather, parts) = spread(Every::Flush, 0);
        assert_eq!(parts.len(), PARTITIONS);
        for (at, _) in parts {
            gather.take(if at == 5 {
                Body::Error("OOM no")
            } else {
                Body::Status("OK")
            });
        }
        assert_eq!(written(&gather), "-OOM no\r\n");
    }

    #[test]
    fn info_sums_the_figures() {
        let (mut gather, parts) = spread(Every::Info(vec!["keyspace".to_owned()]), 0);
        for _ in parts {
            gather.take(Body::Stats(PartitionStats {
                keys: 4,
                ..PartitionStats::default()
            }));
        }
        assert!(written(&gather).contains("keys=128,"));
    }
}
