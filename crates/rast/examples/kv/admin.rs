//! Commands about connections and the server, which have subcommands or options of
//! their own: CLIENT, COMMAND, CONFIG, HELLO.
//!
//! The table in `command` has checked the least number of arguments.

use crate::command::{Command, Local, Refusal, SYNTAX, local, wrong_number};
use crate::resp::{Frame, integer};

#[cold]
fn unknown_subcommand(name: &[u8], container: &str) -> Refusal {
    let shown = String::from_utf8_lossy(&name[..name.len().min(128)]);
    format!("ERR unknown subcommand '{shown}'. Try {container} HELP.").into()
}

/// CLIENT and its subcommands.
pub(crate) fn client(frame: Frame) -> Result<Command, Refusal> {
    let sub = frame[1].to_ascii_lowercase();
    let wrong = |name: &str| Err(wrong_number(&format!("client|{name}")));
    match (sub.as_slice(), frame.len()) {
        (b"setname", 3) => Ok(Command::Local(Local::ClientSetName(client_name(
            &frame[2],
        )?))),
        (b"setname", _) => wrong("setname"),
        (b"getname", 2) => local(Local::ClientGetName),
        (b"getname", _) => wrong("getname"),
        (b"id", 2) => local(Local::ClientId),
        (b"id", _) => wrong("id"),
        (b"setinfo", 4) => {
            client_info(&frame[2], &frame[3])?;
            local(Local::Accepted)
        }
        (b"setinfo", _) => wrong("setinfo"),
        (b"no-evict" | b"no-touch", 3) => {
            let on = frame[2].eq_ignore_ascii_case(b"on");
            let known = on || frame[2].eq_ignore_ascii_case(b"off");
            if known {
                local(Local::Accepted)
            } else {
                Err(SYNTAX)
            }
        }
        _ => Err(unknown_subcommand(&frame[1], "CLIENT")),
    }
}

/// Printable bytes without a space, and not past 4 KiB: they are kept for as long as
/// the connection lives.
fn client_name(name: &[u8]) -> Result<Vec<u8>, Refusal> {
    if name.len() <= 1 << 12 && name.iter().all(u8::is_ascii_graphic) {
        return Ok(name.to_vec());
    }
    Err("ERR Client names cannot contain spaces, newlines or special characters.".into())
}

fn client_info(option: &[u8], value: &[u8]) -> Result<(), Refusal> {
    let lower = option.to_ascii_lowercase();
    if lower != b"lib-name" && lower != b"lib-ver" {
        let shown = String::from_utf8_lossy(option).into_owned();
        return Err(format!("ERR Unrecognized option '{shown}'").into());
    }
    if !value.iter().all(u8::is_ascii_graphic) {
        let shown = String::from_utf8_lossy(&lower).into_owned();
        return Err(
            format!("ERR {shown} cannot contain spaces, newlines or special characters.").into(),
        );
    }
    Ok(())
}

/// COMMAND and its subcommands.
pub(crate) fn command(frame: Frame) -> Result<Command, Refusal> {
    let Some(sub) = frame.get(1) else {
        return local(Local::CommandTable);
    };
    let sub = sub.to_ascii_lowercase();
    match sub.as_slice() {
        b"count" if frame.len() == 2 => local(Local::CommandCount),
        b"count" => Err(wrong_number("command|count")),
        b"list" if frame.len() == 2 => local(Local::CommandList),
        b"info" if frame.len() == 2 => local(Local::CommandTable),
        b"info" => local(Local::CommandInfo(frame.into_iter().skip(2).collect())),
        b"docs" => local(Local::CommandDocs(frame.into_iter().skip(2).collect())),
        _ => Err(unknown_subcommand(&frame[1], "COMMAND")),
    }
}

/// CONFIG and its subcommands.
pub(crate) fn config(frame: Frame) -> Result<Command, Refusal> {
    let sub = frame[1].to_ascii_lowercase();
    match sub.as_slice() {
        b"get" if frame.len() >= 3 => local(Local::ConfigGet(frame.into_iter().skip(2).collect())),
        b"get" => Err(wrong_number("config|get")),
        b"set" if frame.len() >= 4 => {
            let name = String::from_utf8_lossy(&frame[2]).into_owned();
            Err(format!(
                "ERR CONFIG SET failed (possibly related to argument '{name}') - \
                 can't set immutable config"
            )
            .into())
        }
        b"set" => Err(wrong_number("config|set")),
        _ => Err(unknown_subcommand(&frame[1], "CONFIG")),
    }
}

/// HELLO: only the second version of the protocol is spoken.
pub(crate) fn hello(frame: Frame) -> Result<Command, Refusal> {
    let mut arguments = frame.into_iter().skip(1);
    if let Some(version) = arguments.next() {
        match integer(&version) {
            Some(2) => {}
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
                Some(given) => name = Some(client_name(&given)?),
                None => return Err(hello_syntax(&option)),
            },
            // There is no password, so the default user may give any.
            b"auth" => match (arguments.next(), arguments.next()) {
                (Some(user), Some(_password)) if user == b"default" => {}
                (Some(_), Some(_)) => {
                    return Err(
                        "WRONGPASS invalid username-password pair or user is disabled.".into(),
                    );
                }
                _ => return Err(hello_syntax(&option)),
            },
            _ => return Err(hello_syntax(&option)),
        }
    }
    local(Local::Hello(name))
}

#[cold]
fn hello_syntax(option: &[u8]) -> Refusal {
    format!(
        "ERR Syntax error in HELLO option '{}'",
        String::from_utf8_lossy(option)
    )
    .into()
}
