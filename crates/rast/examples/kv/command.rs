//! The table of commands: name, arity, and how arguments become a typed command.
//!
//! A command is answered in one of four ways:
//!
//! - [`Command::Local`]: by the I/O processor, because the command touches no data;
//! - [`Command::One`]: by the one partition that owns its key;
//! - [`Command::Many`]: by the partitions that own its keys;
//! - [`Command::Every`]: by all partitions.

use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::admin::{self, SYNTAX};
use crate::clients::Filter;
use crate::encode::Protocol;
use crate::message::{Expiry, Key, Only, Op, Set, SetAnswer, TtlUnit};
use crate::refusal::Refusal;
use crate::resp::{Argument, integer};
use crate::value::Value;

/// A command, checked and typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Answered without the graph.
    Local(Local),
    /// One key: the partition of that key answers.
    One(Op),
    /// Several keys.
    Many(Many),
    /// All partitions.
    Every(Every),
}

/// Commands that touch no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Local {
    /// PING, with a message to send back.
    Ping(Option<Vec<u8>>),
    /// ECHO.
    Echo(Vec<u8>),
    /// Anything whose answer is `OK`.
    Accepted,
    /// QUIT: `OK`, then the connection is closed.
    Quit,
    /// COMMAND.
    CommandTable,
    /// COMMAND COUNT.
    CommandCount,
    /// COMMAND LIST, of the names that match a pattern.
    CommandList(Vec<u8>),
    /// COMMAND INFO.
    CommandInfo(Vec<Vec<u8>>),
    /// COMMAND DOCS.
    CommandDocs(Vec<Vec<u8>>),
    /// CONFIG GET.
    ConfigGet(Vec<Vec<u8>>),
    /// CLIENT SETNAME and SETINFO.
    ClientTell(Told, Vec<u8>),
    /// CLIENT GETNAME.
    ClientGetName,
    /// CLIENT ID.
    ClientId,
    /// CLIENT INFO.
    ClientInfo,
    /// CLIENT LIST, of all or of these numbers.
    ClientList(Option<Vec<u64>>),
    /// CLIENT KILL; whether the answer is `OK` instead of a count.
    ClientKill(Filter, bool),
    /// CLIENT NO-EVICT.
    ClientNoEvict(bool),
    /// CLIENT NO-TOUCH.
    ClientNoTouch(bool),
    /// CLIENT TRACKINGINFO.
    ClientTrackingInfo,
    /// HELLO, with the version, if any, and the name that SETNAME gives.
    Hello(Option<Protocol>, Option<Vec<u8>>),
    /// RESET.
    Reset,
    /// Anything whose answer is a fixed number.
    Number(i64),
    /// Anything whose answer is a list of strings.
    Bulks(Vec<Vec<u8>>),
    /// The help of a command with subcommands.
    Help(&'static [&'static str]),
}

/// What a client tells about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// CLIENT SETNAME.
    Name,
    /// CLIENT SETINFO lib-name.
    Library,
    /// CLIENT SETINFO lib-ver.
    Version,
}

/// Commands over several keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    /// MGET.
    Get(Vec<Key>),
    /// MSET.
    Set(Vec<(Key, Value)>),
    /// DEL, UNLINK.
    Remove(Vec<Key>),
    /// EXISTS, TOUCH.
    Exists(Vec<Key>),
}

/// Commands over all partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Every {
    /// KEYS.
    Keys(Vec<u8>),
    /// DBSIZE.
    Size,
    /// FLUSHALL, FLUSHDB.
    Flush,
    /// INFO, with its sections in lower case; none means the default ones.
    Info(Vec<String>),
}

/// The error of an argument that has to be a number.
pub(crate) const NOT_AN_INTEGER: Refusal =
    Refusal::new("ERR value is not an integer or out of range");

/// One row of the table.
pub(crate) struct Spec {
    /// The name in lower case.
    pub(crate) name: &'static str,
    /// The number of arguments with the name; a negative one is the least number.
    pub(crate) arity: i64,
    /// Flags as COMMAND reports them, between spaces.
    pub(crate) flags: &'static str,
    /// First key, last key, step between keys; zeros when there is none.
    pub(crate) keys: (i64, i64, i64),
    /// The group as COMMAND DOCS reports it.
    pub(crate) group: &'static str,
    /// What the command does, in one line.
    pub(crate) summary: &'static str,
    parse: fn(&mut [Argument]) -> Result<Command, Refusal>,
}

macro_rules! table {
    ($($name:literal $arity:literal $flags:literal ($a:literal $b:literal $c:literal)
        $group:literal $summary:literal => $parse:expr;)*) => {
        &[$(Spec {
            name: $name, arity: $arity, flags: $flags, keys: ($a, $b, $c),
            group: $group, summary: $summary, parse: $parse,
        }),*]
    };
}

/// All commands, ordered by name.
pub(crate) static TABLE: &[Spec] = table! {
    "append" 3 "write denyoom fast" (1 1 1) "string" "Appends to a value." => |f| {
        let [_, key, value] = taken(f);
        one(Op::Append(key, value.into()))
    };
    "auth" -2 "noscript loading stale fast" (0 0 0) "connection" "Accepts the default user."
        => admin::auth;
    "client" -2 "noscript loading stale" (0 0 0) "connection" "Names and numbers a connection."
        => admin::client;
    "command" -1 "loading stale" (0 0 0) "server" "Describes the commands." => admin::command;
    "config" -2 "admin noscript loading stale" (0 0 0) "server" "Shows the settings." => admin::config;
    "dbsize" 1 "readonly fast" (0 0 0) "server" "Counts the keys."
        => |_| Ok(Command::Every(Every::Size));
    "decr" 2 "write denyoom fast" (1 1 1) "string" "Subtracts one."
        => |f| on_key(f, |key| Op::Add(key, -1));
    "decrby" 3 "write denyoom fast" (1 1 1) "string" "Subtracts a number." => |f| {
        let [_, key, by] = taken(f);
        let by = integer(&by).ok_or(NOT_AN_INTEGER)?;
        let by = by.checked_neg().ok_or("ERR decrement would overflow")?;
        one(Op::Add(key, by))
    };
    "del" -2 "write" (1 -1 1) "generic" "Deletes keys."
        => |f| Ok(Command::Many(Many::Remove(keys(f))));
    "echo" 2 "fast loading stale" (0 0 0) "connection" "Sends its argument back." => |f| {
        let [_, text] = taken(f);
        local(Local::Echo(text.into()))
    };
    "exists" -2 "readonly fast" (1 -1 1) "generic" "Counts the keys that exist."
        => |f| Ok(Command::Many(Many::Exists(keys(f))));
    "expire" -3 "write fast" (1 1 1) "generic" "Sets the seconds until a key expires."
        => |f| expire(f, 1000, "expire");
    "flushall" -1 "write" (0 0 0) "server" "Deletes all keys." => flush;
    "flushdb" -1 "write" (0 0 0) "server" "Deletes all keys." => flush;
    "get" 2 "readonly fast" (1 1 1) "string" "Gets a value." => |f| on_key(f, Op::Get);
    "getdel" 2 "write fast" (1 1 1) "string" "Gets a value and deletes its key."
        => |f| on_key(f, Op::Take);
    "getset" 3 "write denyoom fast" (1 1 1) "string" "Sets a value and gets the old one." => |f| {
        let [_, key, value] = taken(f);
        one(Op::Set(Set { answer: SetAnswer::Old, ..plain(key, value) }))
    };
    "hello" -1 "noscript loading stale fast" (0 0 0) "connection" "Agrees on the protocol."
        => admin::hello;
    "incr" 2 "write denyoom fast" (1 1 1) "string" "Adds one."
        => |f| on_key(f, |key| Op::Add(key, 1));
    "incrby" 3 "write denyoom fast" (1 1 1) "string" "Adds a number." => |f| {
        let [_, key, by] = taken(f);
        one(Op::Add(key, integer(&by).ok_or(NOT_AN_INTEGER)?))
    };
    "info" -1 "loading stale" (0 0 0) "server" "Shows figures of the server." => |f| {
        let lower = |name: &Argument| String::from_utf8_lossy(name).to_ascii_lowercase();
        Ok(Command::Every(Every::Info(f.iter().skip(1).map(lower).collect())))
    };
    "keys" 2 "readonly" (0 0 0) "generic" "Lists the keys that match a pattern." => |f| {
        let [_, pattern] = taken(f);
        Ok(Command::Every(Every::Keys(pattern.into())))
    };
    "mget" -2 "readonly fast" (1 -1 1) "string" "Gets several values."
        => |f| Ok(Command::Many(Many::Get(keys(f))));
    "mset" -3 "write denyoom" (1 -1 2) "string" "Sets several values." => mset;
    "persist" 2 "write fast" (1 1 1) "generic" "Removes the expiry of a key."
        => |f| on_key(f, Op::Persist);
    "pexpire" -3 "write fast" (1 1 1) "generic" "Sets the milliseconds until a key expires."
        => |f| expire(f, 1, "pexpire");
    "ping" -1 "fast" (0 0 0) "connection" "Answers PONG." => |f| {
        if f.len() > 2 {
            return Err(Refusal::wrong_number("ping"));
        }
        local(Local::Ping(f.get(1).map(|text| text.to_vec())))
    };
    "psetex" 4 "write denyoom" (1 1 1) "string" "Sets a value and its milliseconds to live."
        => |f| setex(f, 1, "psetex");
    "pttl" 2 "readonly fast" (1 1 1) "generic" "Gets the milliseconds until a key expires."
        => |f| on_key(f, |key| Op::Ttl(key, TtlUnit::Milliseconds));
    "quit" -1 "fast loading stale" (0 0 0) "connection" "Closes the connection."
        => |_| local(Local::Quit);
    "reset" 1 "noscript loading stale fast" (0 0 0) "connection" "Resets the connection."
        => |_| local(Local::Reset);
    "select" 2 "fast loading stale" (0 0 0) "connection" "Selects the only database, 0." => |f| {
        let [_, index] = taken(f);
        match integer(&index) {
            None => Err(NOT_AN_INTEGER),
            Some(0) => local(Local::Accepted),
            Some(_) => Err("ERR DB index is out of range".into()),
        }
    };
    "set" -3 "write denyoom" (1 1 1) "string" "Sets a value." => set;
    "setex" 4 "write denyoom" (1 1 1) "string" "Sets a value and its seconds to live."
        => |f| setex(f, 1000, "setex");
    "setnx" 3 "write denyoom fast" (1 1 1) "string" "Sets a value if there is none." => |f| {
        let [_, key, value] = taken(f);
        one(Op::Set(Set { only: Only::Absent, answer: SetAnswer::Count, ..plain(key, value) }))
    };
    "strlen" 2 "readonly fast" (1 1 1) "string" "Gets the length of a value."
        => |f| on_key(f, Op::Length);
    "touch" -2 "readonly fast" (1 -1 1) "generic" "Counts the keys that exist."
        => |f| Ok(Command::Many(Many::Exists(keys(f))));
    "ttl" 2 "readonly fast" (1 1 1) "generic" "Gets the seconds until a key expires."
        => |f| on_key(f, |key| Op::Ttl(key, TtlUnit::Seconds));
    "type" 2 "readonly fast" (1 1 1) "generic" "Gets the type of a value."
        => |f| on_key(f, Op::Type);
    "unlink" -2 "write fast" (1 -1 1) "generic" "Deletes keys."
        => |f| Ok(Command::Many(Many::Remove(keys(f))));
};

/// The row of a command, whose name may be in any case.
pub(crate) fn lookup(name: &[u8]) -> Option<&'static Spec> {
    TABLE.get(place(name)?)
}

fn place(name: &[u8]) -> Option<usize> {
    let mut lower = [0; 16];
    lower.get_mut(..name.len())?.copy_from_slice(name);
    lower.make_ascii_lowercase();
    WORDS.binary_search(&u128::from_be_bytes(lower)).ok()
}

/// The names as numbers, zeros behind: they have the order of the names.
static WORDS: [u128; TABLE.len()] = {
    let mut words = [0; TABLE.len()];
    let mut at = 0;
    while at < words.len() {
        let name = TABLE[at].name.as_bytes();
        let mut word = [0; 16];
        word.split_at_mut(name.len()).0.copy_from_slice(name);
        words[at] = u128::from_be_bytes(word);
        at += 1;
    }
    words
};

/// The names of all commands, in the order of the table, and after them those of all subcommands.
pub(crate) fn names() -> &'static [&'static str] {
    static NAMES: OnceLock<Vec<&str>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let mut names: Vec<&str> = TABLE.iter().map(|spec| spec.name).collect();
        for (container, subcommands) in admin::CONTAINERS {
            for (sub, _) in subcommands {
                names.push(format!("{container}|{sub}").leak());
            }
        }
        names
    })
}

/// Whether a command of this arity may have so many arguments, its name included.
pub(crate) fn fits(arity: i64, given: usize) -> bool {
    let given = i64::try_from(given).unwrap_or(i64::MAX);
    if arity < 0 {
        given >= -arity
    } else {
        given == arity
    }
}

/// Whether this is the first line or a header of an HTTP request, which a web page may have made a
/// browser send (see `conn`).
pub(crate) fn is_foreign(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// The place in [`names`] of the command in row `at`, with its subcommand.
fn named(at: usize, frame: &[Argument]) -> usize {
    // The commands that have subcommands have no keys.
    let (true, Some(sub)) = (TABLE[at].keys.0 == 0, frame.get(1)) else {
        return at;
    };
    let mut behind = TABLE.len();
    for (container, subcommands) in admin::CONTAINERS {
        if container == TABLE[at].name {
            let same = |&(name, _): &(&str, i64)| sub.eq_ignore_ascii_case(name.as_bytes());
            let place = subcommands.iter().position(same);
            return place.map_or(at, |place| behind + place);
        }
        behind += subcommands.len();
    }
    at
}

/// Turns the arguments of one command into a typed command; returns the place of
/// its name in [`names`] too, if there is such a command.
pub(crate) fn parse(frame: &mut [Argument]) -> (Option<usize>, Result<Command, Refusal>) {
    let Some(at) = frame.first().and_then(|name| place(name)) else {
        return (None, Err(Refusal::unknown(frame)));
    };
    let spec = &TABLE[at];
    let name = Some(named(at, frame));
    if !fits(spec.arity, frame.len()) {
        return (name, Err(Refusal::wrong_number(spec.name)));
    }
    (name, (spec.parse)(frame))
}

#[cold]
fn invalid_expire(name: &str) -> Refusal {
    format!("ERR invalid expire time in '{name}' command").into()
}

fn one(op: Op) -> Result<Command, Refusal> {
    Ok(Command::One(op))
}

pub(crate) fn local(local: Local) -> Result<Command, Refusal> {
    Ok(Command::Local(local))
}

/// The arguments of a command of fixed arity, which the table has checked.
fn taken<const N: usize>(frame: &mut [Argument]) -> [Argument; N] {
    std::array::from_fn(|at| frame.get_mut(at).map(std::mem::take).unwrap_or_default())
}

/// An operation on the key that is the only argument.
fn on_key(frame: &mut [Argument], op: impl FnOnce(Key) -> Op) -> Result<Command, Refusal> {
    let [_, key] = taken(frame);
    one(op(key))
}

/// The arguments behind the name, one after the other.
fn arguments(frame: &mut [Argument]) -> impl Iterator<Item = Argument> {
    frame.iter_mut().skip(1).map(std::mem::take)
}

fn keys(frame: &mut [Argument]) -> Vec<Key> {
    arguments(frame).collect()
}

/// A SET without options.
fn plain(key: Argument, value: Argument) -> Set {
    Set {
        key,
        value: value.into(),
        expiry: Expiry::Clear,
        only: Only::Always,
        answer: SetAnswer::Done,
    }
}

/// Milliseconds from a number of `unit` milliseconds, if it is a lifetime at all.
fn lifetime(text: &[u8], unit: i64, name: &str) -> Result<u64, Refusal> {
    let number = integer(text).ok_or(NOT_AN_INTEGER)?;
    let millis = number
        .checked_mul(unit)
        .filter(|&millis| (1..=LONGEST).contains(&millis));
    millis
        .and_then(|millis| u64::try_from(millis).ok())
        .ok_or_else(|| invalid_expire(name))
}

/// Milliseconds from now to a time of the day that is given as a number of `unit`
/// milliseconds since 1970; zero if it is past.
fn until(text: &[u8], unit: i64, name: &str) -> Result<u64, Refusal> {
    let number = integer(text).ok_or(NOT_AN_INTEGER)?;
    let at = number.checked_mul(unit).filter(|&at| at > 0);
    let at = at.ok_or_else(|| invalid_expire(name))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let left = at.saturating_sub(i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
    if left > LONGEST {
        return Err(invalid_expire(name));
    }
    Ok(u64::try_from(left).unwrap_or(0))
}

/// The longest time to live in milliseconds, about 292 years. A deadline is in nanoseconds, and
/// also has room for the clock's reading.
const LONGEST: i64 = i64::MAX / 1_000_000;

fn setex(frame: &mut [Argument], unit: i64, name: &str) -> Result<Command, Refusal> {
    let [_, key, time, value] = taken(frame);
    let expiry = Expiry::After(lifetime(&time, unit, name)?);
    one(Op::Set(Set {
        expiry,
        ..plain(key, value)
    }))
}

fn set(frame: &mut [Argument]) -> Result<Command, Refusal> {
    let mut arguments = arguments(frame);
    let (Some(key), Some(value)) = (arguments.next(), arguments.next()) else {
        return Err(Refusal::wrong_number("set"));
    };
    let mut set = plain(key, value);
    while let Some(option) = arguments.next() {
        let unset = set.expiry == Expiry::Clear;
        let mut time = || arguments.next().ok_or(SYNTAX);
        match option.to_ascii_lowercase().as_slice() {
            b"nx" if set.only != Only::Present => set.only = Only::Absent,
            b"xx" if set.only != Only::Absent => set.only = Only::Present,
            b"get" => set.answer = SetAnswer::Old,
            b"keepttl" if unset => set.expiry = Expiry::Keep,
            b"ex" if unset => set.expiry = Expiry::After(lifetime(&time()?, 1000, "set")?),
            b"px" if unset => set.expiry = Expiry::After(lifetime(&time()?, 1, "set")?),
            b"exat" if unset => set.expiry = Expiry::After(until(&time()?, 1000, "set")?),
            b"pxat" if unset => set.expiry = Expiry::After(until(&time()?, 1, "set")?),
            _ => return Err(SYNTAX),
        }
    }
    one(Op::Set(set))
}

fn mset(frame: &mut [Argument]) -> Result<Command, Refusal> {
    if frame.len().is_multiple_of(2) {
        return Err(Refusal::wrong_number("mset"));
    }
    let mut pairs = Vec::with_capacity(frame.len() / 2);
    let mut arguments = arguments(frame);
    while let (Some(key), Some(value)) = (arguments.next(), arguments.next()) {
        pairs.push((key, value.into()));
    }
    Ok(Command::Many(Many::Set(pairs)))
}

fn expire(frame: &mut [Argument], unit: i64, name: &str) -> Result<Command, Refusal> {
    let mut arguments = arguments(frame);
    let (Some(key), Some(time)) = (arguments.next(), arguments.next()) else {
        return Err(Refusal::wrong_number(name));
    };
    let number = integer(&time).ok_or(NOT_AN_INTEGER)?;
    let millis = number
        .checked_mul(unit)
        .filter(|&millis| millis <= LONGEST)
        .ok_or_else(|| invalid_expire(name))?;
    let mut only = Only::Always;
    for option in arguments {
        let wanted = match option.to_ascii_lowercase().as_slice() {
            b"nx" => Only::Absent,
            b"xx" => Only::Present,
            b"gt" => Only::Later,
            b"lt" => Only::Earlier,
            _ => {
                return Err(Refusal::naming("ERR Unsupported option ", &option, ""));
            }
        };
        only = match (only, wanted) {
            (Only::Always, wanted) => wanted,
            (given, wanted) if given == wanted => wanted,
            // No expiry counts as the latest one, so nothing is later than it.
            (Only::Present, Only::Later) | (Only::Later, Only::Present) => Only::Later,
            (Only::Present | Only::PresentEarlier, Only::Earlier)
            | (Only::Earlier | Only::PresentEarlier, Only::Present) => Only::PresentEarlier,
            (Only::Later, Only::Earlier) | (Only::Earlier, Only::Later) => {
                return Err("ERR GT and LT options at the same time are not compatible".into());
            }
            _ => {
                return Err(
                    "ERR NX and XX, GT or LT options at the same time are not compatible".into(),
                );
            }
        };
    }
    one(Op::Expire(key, millis, only))
}

fn flush(frame: &mut [Argument]) -> Result<Command, Refusal> {
    let plain = match frame.get(1) {
        None => true,
        Some(mode) => mode.eq_ignore_ascii_case(b"async") || mode.eq_ignore_ascii_case(b"sync"),
    };
    if plain && frame.len() <= 2 {
        Ok(Command::Every(Every::Flush))
    } else {
        Err(SYNTAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        let words = crate::inline::split(line.as_bytes()).expect("balanced quotes");
        let mut frame: Vec<Argument> = words.into_iter().map(Argument::from).collect();
        parse(&mut frame)
            .1
            .map_err(|refusal| String::from_utf8_lossy(refusal.as_ref()).into_owned())
    }

    fn key(text: &str) -> Key {
        text.as_bytes().into()
    }

    #[test]
    fn the_table_is_ordered_and_found_in_any_case() {
        assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(
            TABLE
                .iter()
                .all(|spec| lookup(spec.name.as_bytes()).is_some())
        );
        assert!(lookup(b"GeT").is_some());
        assert!(lookup(b"a-name-that-is-longer-than-any").is_none());
    }

    #[test]
    fn set_takes_its_options_in_any_order() {
        let set = |expiry, only, answer| {
            Ok(Command::One(Op::Set(Set {
                key: key("k"),
                value: Value::from(b"v".to_vec()),
                expiry,
                only,
                answer,
            })))
        };
        assert_eq!(
            parsed("SET k v"),
            set(Expiry::Clear, Only::Always, SetAnswer::Done)
        );
        assert_eq!(
            parsed("set k v nx PX 5 get"),
            set(Expiry::After(5), Only::Absent, SetAnswer::Old)
        );
        assert_eq!(
            parsed("set k v ex 2 XX"),
            set(Expiry::After(2000), Only::Present, SetAnswer::Done)
        );
        assert_eq!(
            parsed("set k v keepttl"),
            set(Expiry::Keep, Only::Always, SetAnswer::Done)
        );
        for line in [
            "set k v nx xx",
            "set k v ex",
            "set k v ex 1 px 1",
            "set k v ex 1 keepttl",
        ] {
            assert_eq!(parsed(line), Err("ERR syntax error".to_owned()), "{line}");
        }
    }

    #[test]
    fn refusals_have_the_words_of_redis() {
        let cases = [
            (
                "foo a b",
                "ERR unknown command 'foo', with args beginning with: 'a' 'b' ",
            ),
            (
                "foo",
                "ERR unknown command 'foo', with args beginning with: ",
            ),
            ("get", "ERR wrong number of arguments for 'get' command"),
            ("GET a b", "ERR wrong number of arguments for 'get' command"),
            ("mset a", "ERR wrong number of arguments for 'mset' command"),
            (
                "mset a b c",
                "ERR wrong number of arguments for 'mset' command",
            ),
            (
                "ping a b",
                "ERR wrong number of arguments for 'ping' command",
            ),
            ("incrby k x", "ERR value is not an integer or out of range"),
            (
                "decrby k -9223372036854775808",
                "ERR decrement would overflow",
            ),
            ("set k v ex 0", "ERR invalid expire time in 'set' command"),
            ("set k v px -1", "ERR invalid expire time in 'set' command"),
            (
                "set k v ex 9223372036854775807",
                "ERR invalid expire time in 'set' command",
            ),
            (
                "set k v ex a",
                "ERR value is not an integer or out of range",
            ),
            ("setex k 0 v", "ERR invalid expire time in 'setex' command"),
            (
                "expire k 9223372036854775807",
                "ERR invalid expire time in 'expire' command",
            ),
            ("expire k 1 zz", "ERR Unsupported option zz"),
            (
                "expire k 1 nx gt",
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ),
            ("select 1", "ERR DB index is out of range"),
            ("select x", "ERR value is not an integer or out of range"),
            ("hello 4", "NOPROTO unsupported protocol version"),
            ("hello 1", "NOPROTO unsupported protocol version"),
            (
                "hello x",
                "ERR Protocol version is not an integer or out of range",
            ),
            ("hello 2 what", "ERR Syntax error in HELLO option 'what'"),
            (
                "client what",
                "ERR unknown subcommand 'what'. Try CLIENT HELP.",
            ),
            (
                "client setname",
                "ERR wrong number of arguments for 'client|setname' command",
            ),
            (
                r#"client setname "a b""#,
                "ERR Client names cannot contain spaces, newlines or special characters.",
            ),
            ("client setinfo what x", "ERR Unrecognized option 'what'"),
            (
                "config get",
                "ERR wrong number of arguments for 'config|get' command",
            ),
            ("flushall now", "ERR syntax error"),
        ];
        for (line, words) in cases {
            assert_eq!(parsed(line), Err(words.to_owned()), "{line}");
        }
    }

    #[test]
    fn a_long_unknown_command_is_cut() {
        let line = format!("{} {} b", "x".repeat(300), "y".repeat(300));
        let words = parsed(&line).expect_err("unknown");
        assert!(words.len() < 400, "{}", words.len());
    }

    #[test]
    fn keys_and_pairs_are_kept_in_order() {
        assert_eq!(
            parsed("mget a b a"),
            Ok(Command::Many(Many::Get(vec![key("a"), key("b"), key("a")])))
        );
        assert_eq!(
            parsed("mset a 1 b x"),
            Ok(Command::Many(Many::Set(vec![
                (key("a"), Value::Int(1)),
                (key("b"), Value::from(b"x".to_vec()))
            ])))
        );
        assert_eq!(
            parsed("expire k -1 xx lt"),
            Ok(Command::One(Op::Expire(
                key("k"),
                -1000,
                Only::PresentEarlier
            )))
        );
    }
}
