//! Commands that touch no data: answered where they are read.

use std::sync::Arc;

use crate::clients::Client;
use crate::command::{self, Local, Spec, TABLE, Told};
use crate::encode::{self, Protocol};
use crate::glob;
use crate::shared::{COMPATIBLE_VERSION, Shared};

/// What a connection has agreed on.
#[derive(Debug)]
pub(crate) struct Session {
    /// Its row in the list of clients.
    pub(crate) client: Arc<Client>,
    /// The version that replies are written in.
    pub(crate) protocol: Protocol,
}

impl Session {
    /// The session of a client that has just connected.
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self {
            client,
            protocol: Protocol::default(),
        }
    }

    fn speak(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        self.client.speaks_third(protocol == Protocol::Three);
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
    let protocol = session.protocol;
    match command {
        Local::Ping(None) => encode::simple(out, "PONG"),
        Local::Ping(Some(text)) | Local::Echo(text) => encode::bulk(out, &text),
        Local::Accepted => encode::simple(out, "OK"),
        Local::Number(number) => encode::int(out, number),
        Local::Quit => {
            encode::simple(out, "OK");
            return Then::Close;
        }
        Local::CommandTable => {
            encode::array(out, TABLE.len());
            TABLE.iter().for_each(|spec| describe(spec, protocol, out));
        }
        Local::CommandCount => encode::int(out, i64::try_from(TABLE.len()).unwrap_or(i64::MAX)),
        Local::CommandList(pattern) => {
            let mut steps = PATTERN_STEPS;
            let mut matches = |spec: &&Spec| {
                glob::matches(&pattern, spec.name.as_bytes(), &mut steps) == Some(true)
            };
            let names = TABLE.iter().filter(|spec| matches(spec));
            bulks(names.map(|spec| spec.name.as_bytes()), out);
        }
        Local::CommandInfo(names) => {
            encode::array(out, names.len());
            for name in &names {
                if out.len() > shared.settings.limits.backlog {
                    // The connection is closed for it.
                    break;
                }
                match command::lookup(name) {
                    Some(spec) => describe(spec, protocol, out),
                    None => encode::nil(out, protocol),
                }
            }
        }
        Local::CommandDocs(names) => docs(&names, protocol, out),
        Local::Bulks(all) => bulks(all.iter().map(Vec::as_slice), out),
        Local::Help(lines) => {
            encode::array(out, lines.len());
            lines.iter().for_each(|line| encode::simple(out, line));
        }
        Local::ConfigGet(patterns) => config_get(&patterns, protocol, shared, out),
        Local::Hello(wanted, name) => {
            if let Some(name) = name {
                session.client.tell(|words| words.name = name);
            }
            if let Some(wanted) = wanted {
                session.speak(wanted);
            }
            hello(session, out);
        }
        Local::Reset => {
            session.speak(Protocol::default());
            session.client.reset();
            encode::simple(out, "RESET");
        }
        client => return of_client(client, session, shared, out),
    }
    Then::Stay
}

/// Writes the answer of CLIENT's subcommands.
fn of_client(command: Local, session: &Session, shared: &Shared, out: &mut Vec<u8>) -> Then {
    let (client, protocol) = (&session.client, session.protocol);
    match command {
        Local::ClientTell(what, told) => {
            client.tell(|words| match what {
                Told::Name => words.name = told,
                Told::Library => words.library = told,
                Told::Version => words.version = told,
            });
            encode::simple(out, "OK");
        }
        Local::ClientGetName => match client.words().name {
            name if name.is_empty() => encode::nil(out, protocol),
            name => encode::bulk(out, &name),
        },
        Local::ClientId => encode::int(out, client.number()),
        Local::ClientInfo => {
            let mut text = String::new();
            client.describe(command::names(), &mut text);
            encode::text(out, protocol, &text);
        }
        Local::ClientList(only) => {
            let most = shared.settings.limits.backlog;
            let text = shared.clients.list(only.as_deref(), command::names(), most);
            encode::text(out, protocol, &text);
        }
        Local::ClientKill(filter, old_form) => {
            let (killed, own) = shared.clients.kill(&filter, client.place.number);
            match (old_form, killed) {
                (false, _) => encode::int(out, killed),
                (true, 0) => encode::error(out, "ERR No such client"),
                (true, _) => encode::simple(out, "OK"),
            }
            if own {
                return Then::Close;
            }
        }
        Local::ClientNoEvict(on) => {
            client.set_no_evict(on);
            encode::simple(out, "OK");
        }
        Local::ClientNoTouch(on) => {
            client.set_no_touch(on);
            encode::simple(out, "OK");
        }
        Local::ClientTrackingInfo => {
            encode::map(out, protocol, 3);
            encode::bulk(out, b"flags");
            encode::set(out, protocol, 1);
            encode::bulk(out, b"off");
            encode::bulk(out, b"redirect");
            encode::int(out, -1);
            encode::bulk(out, b"prefixes");
            encode::array(out, 0);
        }
        other => unreachable!("{other:?} is no subcommand of CLIENT"),
    }
    Then::Stay
}

fn bulks<'a>(all: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let all: Vec<&[u8]> = all.collect();
    encode::array(out, all.len());
    all.iter().for_each(|bytes| encode::bulk(out, bytes));
}

/// A row of COMMAND: name, arity, flags, first key, last key, step, then the
/// lists that newer servers add, left empty.
fn describe(spec: &Spec, protocol: Protocol, out: &mut Vec<u8>) {
    encode::array(out, 10);
    encode::bulk(out, spec.name.as_bytes());
    encode::int(out, spec.arity);
    encode::set(out, protocol, spec.flags.split_whitespace().count());
    spec.flags
        .split_whitespace()
        .for_each(|flag| encode::simple(out, flag));
    let (first, last, step) = spec.keys;
    encode::int(out, first);
    encode::int(out, last);
    encode::int(out, step);
    for _ in 0..4 {
        encode::set(out, protocol, 0);
    }
}

fn docs(names: &[Vec<u8>], protocol: Protocol, out: &mut Vec<u8>) {
    let all = names.is_empty();
    let wanted = |spec: &&Spec| {
        all || names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(spec.name.as_bytes()))
    };
    let rows: Vec<&Spec> = TABLE.iter().filter(wanted).collect();
    encode::map(out, protocol, rows.len());
    for spec in rows {
        encode::bulk(out, spec.name.as_bytes());
        encode::map(out, protocol, 3);
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

/// Steps that the patterns of one CONFIG GET or COMMAND LIST may take. A name that is not reached
/// within these steps does not match.
const PATTERN_STEPS: usize = 1 << 20;

fn config_get(patterns: &[Vec<u8>], protocol: Protocol, shared: &Shared, out: &mut Vec<u8>) {
    let mut steps = PATTERN_STEPS;
    let mut found = shared.config();
    let patterns: Vec<_> = patterns.iter().map(|p| p.to_ascii_lowercase()).collect();
    found.retain(|(name, _)| {
        let mut matches = |pattern: &Vec<u8>| glob::matches(pattern, name.as_bytes(), &mut steps);
        patterns
            .iter()
            .any(|pattern| matches(pattern) == Some(true))
    });
    encode::map(out, protocol, found.len());
    for (name, value) in found {
        encode::bulk(out, name.as_bytes());
        encode::bulk(out, value.as_bytes());
    }
}

fn hello(session: &Session, out: &mut Vec<u8>) {
    let protocol = session.protocol;
    encode::map(out, protocol, 7);
    encode::bulk(out, b"server");
    encode::bulk(out, b"redis");
    encode::bulk(out, b"version");
    encode::bulk(out, COMPATIBLE_VERSION.as_bytes());
    encode::bulk(out, b"proto");
    encode::int(out, if protocol == Protocol::Three { 3 } else { 2 });
    encode::bulk(out, b"id");
    encode::int(out, session.client.number());
    encode::bulk(out, b"mode");
    encode::bulk(out, b"standalone");
    encode::bulk(out, b"role");
    encode::bulk(out, b"master");
    encode::bulk(out, b"modules");
    encode::array(out, 0);
}
