//! Commands that touch no data: answered where they are read.
//!
//! They describe the server and the connection: what client libraries ask for
//! when they connect, and what `redis-cli` and `redis-benchmark` ask before they
//! start.

use crate::command::{self, Local, Spec, TABLE};
use crate::encode;
use crate::glob;
use crate::shared::{COMPATIBLE_VERSION, Shared};

/// What a connection has told about itself.
#[derive(Debug)]
pub(crate) struct Session {
    number: i64,
    name: Vec<u8>,
}

impl Session {
    /// The session of connection `number`.
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number: i64::try_from(number).unwrap_or(i64::MAX),
            name: Vec::new(),
        }
    }
}

/// What happens to the connection after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Then {
    /// It goes on.
    Stay,
    /// It is closed.
    Close,
}

/// Writes the answer of `command`.
pub(crate) fn answer(
    command: Local,
    session: &mut Session,
    shared: &Shared,
    out: &mut Vec<u8>,
) -> Then {
    match command {
        Local::Ping(None) => encode::simple(out, "PONG"),
        Local::Ping(Some(text)) | Local::Echo(text) => encode::bulk(out, &text),
        Local::Accepted => encode::simple(out, "OK"),
        Local::Quit => {
            encode::simple(out, "OK");
            return Then::Close;
        }
        Local::CommandTable => {
            encode::array(out, TABLE.len());
            TABLE.iter().for_each(|spec| describe(spec, out));
        }
        Local::CommandCount => encode::int(out, i64::try_from(TABLE.len()).unwrap_or(i64::MAX)),
        Local::CommandList => {
            encode::array(out, TABLE.len());
            TABLE
                .iter()
                .for_each(|spec| encode::bulk(out, spec.name.as_bytes()));
        }
        Local::CommandInfo(names) => {
            encode::array(out, names.len());
            for name in &names {
                match command::lookup(name) {
                    Some(spec) => describe(spec, out),
                    None => out.extend_from_slice(b"*-1\r\n"),
                }
            }
        }
        Local::CommandDocs(names) => docs(&names, out),
        Local::ConfigGet(patterns) => config_get(&patterns, shared, out),
        Local::ClientSetName(name) => {
            session.name = name;
            encode::simple(out, "OK");
        }
        Local::ClientGetName if session.name.is_empty() => encode::nil(out),
        Local::ClientGetName => encode::bulk(out, &session.name),
        Local::ClientId => encode::int(out, session.number),
        Local::Hello(name) => {
            if let Some(name) = name {
                session.name = name;
            }
            hello(session, out);
        }
    }
    Then::Stay
}

/// A row of COMMAND: name, arity, flags, first key, last key, step, then the
/// lists that newer servers add, left empty.
fn describe(spec: &Spec, out: &mut Vec<u8>) {
    encode::array(out, 10);
    encode::bulk(out, spec.name.as_bytes());
    encode::int(out, spec.arity);
    encode::array(out, spec.flags.split_whitespace().count());
    spec.flags
        .split_whitespace()
        .for_each(|flag| encode::simple(out, flag));
    let (first, last, step) = spec.keys;
    encode::int(out, first);
    encode::int(out, last);
    encode::int(out, step);
    for _ in 0..4 {
        encode::array(out, 0);
    }
}

fn docs(names: &[Vec<u8>], out: &mut Vec<u8>) {
    let all = names.is_empty();
    let wanted = |spec: &&Spec| {
        all || names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(spec.name.as_bytes()))
    };
    let rows: Vec<&Spec> = TABLE.iter().filter(wanted).collect();
    encode::array(out, rows.len() * 2);
    for spec in rows {
        encode::bulk(out, spec.name.as_bytes());
        encode::array(out, 6);
        for (field, text) in [
            ("summary", spec.summary),
            ("since", "1.0.0"),
            ("group", spec.group),
        ] {
            encode::bulk(out, field.as_bytes());
            encode::bulk(out, text.as_bytes());
        }
    }
}

/// Steps that the patterns of one CONFIG GET may take; what they do not reach
/// does not match.
const CONFIG_STEPS: usize = 1 << 20;

fn config_get(patterns: &[Vec<u8>], shared: &Shared, out: &mut Vec<u8>) {
    let mut steps = CONFIG_STEPS;
    let mut found = shared.config();
    let patterns: Vec<_> = patterns.iter().map(|p| p.to_ascii_lowercase()).collect();
    found.retain(|(name, _)| {
        let mut matches = |pattern: &Vec<u8>| glob::matches(pattern, name.as_bytes(), &mut steps);
        patterns
            .iter()
            .any(|pattern| matches(pattern) == Some(true))
    });
    encode::array(out, found.len() * 2);
    for (name, value) in found {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, value.as_bytes());
    }
}

fn hello(session: &Session, out: &mut Vec<u8>) {
    encode::array(out, 14);
    encode::bulk(out, b"server");
    encode::bulk(out, b"redis");
    encode::bulk(out, b"version");
    encode::bulk(out, COMPATIBLE_VERSION.as_bytes());
    encode::bulk(out, b"proto");
    encode::int(out, 2);
    encode::bulk(out, b"id");
    encode::int(out, session.number);
    encode::bulk(out, b"mode");
    encode::bulk(out, b"standalone");
    encode::bulk(out, b"role");
    encode::bulk(out, b"master");
    encode::bulk(out, b"modules");
    encode::array(out, 0);
}
