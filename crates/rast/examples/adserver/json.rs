//! JSON in and out.
//!
//! A reactor has one parser, whose memory is reused for each document. A document over 64 KiB
//! would stall the reactor for too long, so a thread of the background pool parses it.

use std::cell::RefCell;
use std::io::Write as _;
use std::mem;

use rast::reactor::{CallError, Policy, background_task};
use simd_json::prelude::{ValueAsScalar as _, ValueIntoString as _};
use simd_json::tape::{Tape, Value};
use simd_json::{Buffers, fill_tape};

use crate::events::{Event, Events};
use crate::http::Failure;

/// Documents above it are parsed in the background.
pub(crate) const LARGE: usize = 64 << 10;

/// Memory for parsing.
pub(crate) struct Parser {
    buffers: Buffers,
    tape: Tape<'static>,
}

/// A document is not JSON, or not what is expected.
pub(crate) const MALFORMED: Failure = (400, "the document is malformed");
/// The background pool has no room.
pub(crate) const POOL_FULL: Failure = (503, "the background pool is full");

impl Parser {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Buffers::default(),
            tape: Tape::null(),
        }
    }

    /// Parses a document and has `read` take what it needs; allocates nothing once the memory is
    /// large enough.
    pub(crate) fn parse<T>(
        &mut self,
        body: &mut [u8],
        read: impl FnOnce(Value<'_, '_>) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut tape = mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let parsed = fill_tape(body, &mut self.buffers, &mut tape);
        let value = parsed.ok().and_then(|()| read(tape.as_value()));
        self.tape = tape.reset();
        value.ok_or(MALFORMED)
    }
}

thread_local! {
    /// The parser of a thread of the pool.
    static POOLED: RefCell<Parser> = RefCell::new(Parser::new());
}

/// Parses a large document in the background pool.
pub(crate) async fn parse_large<T: Send + 'static>(
    body: &[u8],
    events: &Events,
    read: impl FnOnce(Value<'_, '_>) -> Option<T> + Send + 'static,
) -> Result<T, Failure> {
    let mut body = body.to_vec();
    let parse = move || POOLED.with_borrow_mut(|parser| parser.parse(&mut body, read));
    let Ok(call) = background_task(Policy::Medium, parse) else {
        events.add(Event::PoolFull);
        return Err(POOL_FULL);
    };
    events.add(Event::Background);
    match call.await {
        Ok(parsed) => parsed,
        Err(CallError::Panicked(payload)) => std::panic::resume_unwind(payload),
        Err(_) => Err(POOL_FULL),
    }
}

/// A member of an object that is a number; `Err` if it is something else.
pub(crate) fn number(value: Value<'_, '_>, name: &str) -> Result<Option<u64>, ()> {
    match value.as_object().and_then(|object| object.get(name)) {
        None => Ok(None),
        Some(member) => member.as_u64().map(Some).ok_or(()),
    }
}

/// A member of an object that is a string.
pub(crate) fn string<'a>(value: Value<'_, 'a>, name: &str) -> Option<&'a str> {
    value.as_object()?.get(name)?.into_string()
}

/// Appends a string with its quotes.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            // Writes to a vector do not fail.
            0..=31 => drop(write!(out, "\\u{byte:04x}")),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parser_is_used_again() {
        let mut parser = Parser::new();
        let mut parse = |text: &str| {
            let mut body = text.as_bytes().to_vec();
            parser.parse(&mut body, |value| number(value, "n").ok().flatten())
        };
        assert_eq!(parse(r#"{"a":[1,{"n":2}],"n":3}"#), Ok(3));
        for bad in ["", "{", r#"{"n":}"#, "[1]", r#"{"n":"3"}"#] {
            assert_eq!(parse(bad), Err(MALFORMED), "{bad}");
        }
        assert_eq!(parse(r#"{"n":18446744073709551615}"#), Ok(u64::MAX));
    }

    #[test]
    fn strings_are_escaped() {
        let mut out = Vec::new();
        write_string(&mut out, "a\"\\\n\u{e9}");
        assert_eq!(out, "\"a\\\"\\\\\\u000a\u{e9}\"".as_bytes());
        let mut parser = Parser::new();
        let mut body = [b"{\"t\":".as_slice(), &out, b"}"].concat();
        let text = parser.parse(&mut body, |value| string(value, "t").map(str::to_owned));
        assert_eq!(text.as_deref(), Ok("a\"\\\n\u{e9}"));
    }
}
