//! Commands about connections and the server, which have subcommands or options of
//! their own: AUTH, CLIENT, COMMAND, CONFIG, HELLO.
//!
//! The table in `command` has checked the least number of arguments.

use crate::clients::Filter;
use crate::command::{self, Command, Local, Told, local};
use crate::encode::Protocol;
use crate::help;
use crate::refusal::Refusal;
use crate::resp::{Argument, integer};
use crate::shared::SETTINGS;

/// The error of an option that does not belong there.
pub(crate) const SYNTAX: Refusal = Refusal::new("ERR syntax error");

const WRONG_PASSWORD: Refusal =
    Refusal::new("WRONGPASS invalid username-password pair or user is disabled.");

/// `ON` or `OFF`.
fn switch(word: &[u8]) -> Result<bool, Refusal> {
    if word.eq_ignore_ascii_case(b"on") {
        Ok(true)
    } else if word.eq_ignore_ascii_case(b"off") {
        Ok(false)
    } else {
        Err(SYNTAX)
    }
}

/// AUTH: there is no password, so the default user may give any.
pub(crate) fn auth(frame: &mut [Argument]) -> Result<Command, Refusal> {
    match &*frame {
        [_, _] => Err(
            "ERR AUTH <password> called without any password configured for the \
                       default user. Are you sure your configuration is correct?"
                .into(),
        ),
        [_, user, _] if **user == *b"default" => local(Local::Accepted),
        [_, _, _] => Err(WRONG_PASSWORD),
        _ => Err(SYNTAX),
    }
}

/// CLIENT and its subcommands.
pub(crate) fn client(frame: &mut [Argument]) -> Result<Command, Refusal> {
    match subcommand(frame, "client", CLIENT)?.as_slice() {
        b"caching" => Err(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with \
             OPTIN or OPTOUT mode enabled"
                .into(),
        ),
        b"getname" => local(Local::ClientGetName),
        b"getredir" => local(Local::Number(-1)),
        b"help" => local(Local::Help(help::CLIENT)),
        b"id" => local(Local::ClientId),
        b"info" => local(Local::ClientInfo),
        b"kill" => client_kill(frame),
        b"list" => client_list(frame),
        b"no-evict" => local(Local::ClientNoEvict(switch(&frame[2])?)),
        b"no-touch" => local(Local::ClientNoTouch(switch(&frame[2])?)),
        b"reply" => match frame[2].to_ascii_lowercase().as_slice() {
            b"on" => local(Local::Accepted),
            b"off" | b"skip" => Err("ERR CLIENT REPLY OFF and SKIP are not supported".into()),
            _ => Err(SYNTAX),
        },
        b"setname" => local(Local::ClientTell(Told::Name, client_name(&frame[2])?)),
        b"setinfo" => client_info(&frame[2], &frame[3]),
        b"tracking" => match switch(&frame[2])? {
            false => local(Local::Accepted),
            true => Err("ERR CLIENT TRACKING ON is not supported".into()),
        },
        b"trackinginfo" => local(Local::ClientTrackingInfo),
        // No client ever waits in a command, so none is to be woken.
        _ => match (integer(&frame[2]), frame.get(3)) {
            (None, _) => Err(command::NOT_AN_INTEGER),
            (Some(_), Some(how)) if !is_unblock(how) => {
                Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into())
            }
            (Some(_), _) => local(Local::Number(0)),
        },
    }
}

fn is_unblock(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"timeout") || word.eq_ignore_ascii_case(b"error")
}

/// The subcommands of CLIENT with their numbers of arguments, as in the table.
const CLIENT: &[(&str, i64)] = &[
    ("caching", 3),
    ("getname", 2),
    ("getredir", 2),
    ("help", 2),
    ("id", 2),
    ("info", 2),
    ("kill", -3),
    ("list", -2),
    ("no-evict", 3),
    ("no-touch", 3),
    ("reply", 3),
    ("setinfo", 4),
    ("setname", 3),
    ("tracking", -3),
    ("trackinginfo", 2),
    ("unblock", -3),
];

/// The subcommands of COMMAND.
const COMMAND: &[(&str, i64)] = &[
    ("count", 2),
    ("docs", -2),
    ("getkeys", -3),
    ("help", 2),
    ("info", -2),
    ("list", -2),
];

/// The subcommands of CONFIG.
const CONFIG: &[(&str, i64)] = &[("get", -3), ("help", 2), ("set", -4)];

/// The commands that have subcommands, each with them.
pub(crate) const CONTAINERS: [(&str, &[(&str, i64)]); 3] =
    [("client", CLIENT), ("command", COMMAND), ("config", CONFIG)];

/// The subcommand in lower case, if it is one of these and may have so many arguments.
fn subcommand(
    frame: &[Argument],
    container: &str,
    all: &[(&str, i64)],
) -> Result<Vec<u8>, Refusal> {
    let sub = frame[1].to_ascii_lowercase();
    let Some((name, arity)) = all.iter().find(|(name, _)| name.as_bytes() == sub) else {
        let after = format!("'. Try {} HELP.", container.to_ascii_uppercase());
        return Err(Refusal::naming(
            "ERR unknown subcommand '",
            &frame[1],
            &after,
        ));
    };
    if !command::fits(*arity, frame.len()) {
        return Err(Refusal::wrong_number(&format!("{container}|{name}")));
    }
    Ok(sub)
}

/// A name has only printable bytes, no space, and at most 1 KiB, because it is kept for as long as
/// the connection lives.
fn client_name(name: &[u8]) -> Result<Vec<u8>, Refusal> {
    if is_printable(name) {
        return Ok(name.to_vec());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}

fn is_printable(text: &[u8]) -> bool {
    text.len() <= 1 << 10 && text.iter().all(u8::is_ascii_graphic)
}

fn client_info(option: &[u8], value: &[u8]) -> Result<Command, Refusal> {
    let lower = option.to_ascii_lowercase();
    let what = match lower.as_slice() {
        b"lib-name" => Told::Library,
        b"lib-ver" => Told::Version,
        _ => return Err(Refusal::naming("ERR Unrecognized option '", option, "'")),
    };
    if !is_printable(value) {
        let after = " cannot contain spaces, newlines or special characters.";
        return Err(Refusal::naming("ERR ", &lower, after));
    }
    local(Local::ClientTell(what, value.to_vec()))
}

/// Whether clients of a type can be here; the error says that there is no such type.
fn client_type(name: &[u8]) -> Result<bool, Refusal> {
    match name.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(true),
        b"master" | b"pubsub" | b"replica" | b"slave" => Ok(false),
        _ => Err(Refusal::naming("ERR Unknown client type '", name, "'")),
    }
}

fn client_list(frame: &[Argument]) -> Result<Command, Refusal> {
    let Some(option) = frame.get(2) else {
        return local(Local::ClientList(None));
    };
    if option.eq_ignore_ascii_case(b"type") && frame.len() == 4 {
        let all = client_type(&frame[3])?;
        return local(Local::ClientList((!all).then(Vec::new)));
    }
    if option.eq_ignore_ascii_case(b"id") && frame.len() > 3 {
        let number = |text: &Argument| {
            let number = integer(text).and_then(|number| u64::try_from(number).ok());
            number.ok_or(Refusal::new("ERR Invalid client ID"))
        };
        let numbers: Result<Vec<u64>, Refusal> = frame[3..].iter().map(number).collect();
        return local(Local::ClientList(Some(numbers?)));
    }
    Err(SYNTAX)
}

fn client_kill(frame: &[Argument]) -> Result<Command, Refusal> {
    if let [_, _, address] = frame {
        let filter = Filter {
            address: Some(address.to_vec()),
            ..Filter::default()
        };
        return local(Local::ClientKill(filter, true));
    }
    let mut filter = Filter {
        spares_asker: true,
        ..Filter::default()
    };
    let mut options = frame[2..].iter();
    while let Some(option) = options.next() {
        let value = options.next().ok_or(SYNTAX)?;
        match option.to_ascii_lowercase().as_slice() {
            b"id" => {
                let number = integer(value).and_then(|number| u64::try_from(number).ok());
                let number = number.filter(|&number| number > 0);
                let wrong = Refusal::new("ERR client-id should be greater than 0");
                filter.number = Some(number.ok_or(wrong)?);
            }
            b"type" => filter.none |= !client_type(value)?,
            b"addr" => filter.address = Some(value.to_vec()),
            b"laddr" => filter.local = Some(value.to_vec()),
            b"user" if **value == *b"default" => {}
            b"user" => return Err(Refusal::naming("ERR No such user '", value, "'")),
            b"skipme" if value.eq_ignore_ascii_case(b"yes") => filter.spares_asker = true,
            b"skipme" if value.eq_ignore_ascii_case(b"no") => filter.spares_asker = false,
            _ => return Err(SYNTAX),
        }
    }
    local(Local::ClientKill(filter, false))
}

/// COMMAND and its subcommands.
pub(crate) fn command(frame: &mut [Argument]) -> Result<Command, Refusal> {
    if frame.len() == 1 {
        return local(Local::CommandTable);
    }
    match subcommand(frame, "command", COMMAND)?.as_slice() {
        b"count" => local(Local::CommandCount),
        b"getkeys" => command_keys(&frame[2..]),
        b"help" => local(Local::Help(help::COMMAND)),
        b"info" if frame.len() == 2 => local(Local::CommandTable),
        b"info" => local(Local::CommandInfo(behind(frame))),
        b"list" => command_list(frame),
        _ => local(Local::CommandDocs(behind(frame))),
    }
}

/// The arguments behind the subcommand.
fn behind(frame: &[Argument]) -> Vec<Vec<u8>> {
    frame.iter().skip(2).map(|word| word.to_vec()).collect()
}

/// COMMAND LIST; there are no modules and no categories to filter by.
fn command_list(frame: &[Argument]) -> Result<Command, Refusal> {
    match &frame[2..] {
        [] => local(Local::CommandList(b"*".to_vec())),
        [by, kind, what] if by.eq_ignore_ascii_case(b"filterby") => {
            match kind.to_ascii_lowercase().as_slice() {
                b"pattern" => local(Local::CommandList(what.to_ascii_lowercase())),
                b"module" | b"aclcat" => local(Local::CommandList(Vec::new())),
                _ => Err(SYNTAX),
            }
        }
        _ => Err(SYNTAX),
    }
}

/// COMMAND GETKEYS: the keys among the arguments of another command.
fn command_keys(frame: &[Argument]) -> Result<Command, Refusal> {
    let Some(spec) = frame.first().and_then(|name| command::lookup(name)) else {
        return Err("ERR Invalid command specified".into());
    };
    let (first, last, step) = spec.keys;
    if first == 0 {
        return Err("ERR The command has no key arguments".into());
    }
    if !command::fits(spec.arity, frame.len()) {
        return Err("ERR Invalid number of arguments specified for command".into());
    }
    let end = if last < 0 {
        frame.len().saturating_sub(last.unsigned_abs() as usize - 1)
    } else {
        last as usize + 1
    };
    let keys = (first as usize..end.min(frame.len())).step_by(step.max(1) as usize);
    local(Local::Bulks(keys.map(|at| frame[at].to_vec()).collect()))
}

/// CONFIG and its subcommands.
pub(crate) fn config(frame: &mut [Argument]) -> Result<Command, Refusal> {
    match subcommand(frame, "config", CONFIG)?.as_slice() {
        b"get" => local(Local::ConfigGet(behind(frame))),
        b"help" => local(Local::Help(help::CONFIG)),
        _ if !SETTINGS
            .iter()
            .any(|name| frame[2].eq_ignore_ascii_case(name.as_bytes())) =>
        {
            Err(Refusal::naming(
                "ERR Unknown option or number of arguments for CONFIG SET - '",
                &frame[2],
                "'",
            ))
        }
        _ => Err(Refusal::naming(
            "ERR CONFIG SET failed (possibly related to argument '",
            &frame[2],
            "') - can't set immutable config",
        )),
    }
}

/// HELLO: the version of the protocol, and who asks.
pub(crate) fn hello(frame: &mut [Argument]) -> Result<Command, Refusal> {
    let mut arguments = frame.iter().skip(1);
    let mut protocol = None;
    if let Some(version) = arguments.next() {
        protocol = match integer(version) {
            Some(2) => Some(Protocol::Two),
            Some(3) => Some(Protocol::Three),
            Some(_) => return Err("NOPROTO unsupported protocol version".into()),
            None => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
        }
    }
    let mut name = None;
    while let Some(option) = arguments.next() {
        match option.to_ascii_lowercase().as_slice() {
            b"setname" => match arguments.next() {
                Some(given) => name = Some(client_name(given)?),
                None => return Err(hello_syntax(option)),
            },
            b"auth" => match (arguments.next(), arguments.next()) {
                // There is no password, so the default user may give any.
                (Some(user), Some(_password)) if **user == *b"default" => {}
                (Some(_), Some(_)) => return Err(WRONG_PASSWORD),
                _ => return Err(hello_syntax(option)),
            },
            _ => return Err(hello_syntax(option)),
        }
    }
    local(Local::Hello(protocol, name))
}

#[cold]
fn hello_syntax(option: &[u8]) -> Refusal {
    Refusal::naming("ERR Syntax error in HELLO option '", option, "'")
}
