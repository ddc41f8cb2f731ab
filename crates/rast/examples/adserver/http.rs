//! HTTP/1.1 without sockets: heads of requests, their bodies, and replies.
//!
//! A head is parsed by `httparse` and reduced to what the server needs: where the path is, how the
//! body is framed, whether the connection stays open. A body is `Content-Length` bytes or chunked;
//! any other transfer coding is answered with 501.

use std::io::Write as _;
use std::ops::Range;

/// The most bytes of a head: the request line and the headers.
pub(crate) const HEAD_MAX: usize = 16 << 10;
/// The most bytes of a body.
pub(crate) const BODY_MAX: usize = 1 << 20;
/// The most headers of a head.
const HEADERS_MAX: usize = 64;
/// The most bytes of the line before a chunk, and of the trailers.
const LINE_MAX: usize = 1 << 10;

/// Methods that the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
    Put,
    Delete,
    Other,
}

/// How the end of a body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(usize),
    Chunked,
}

/// What a head says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its bytes, with the empty line.
    pub(crate) len: usize,
    pub(crate) method: Method,
    /// The bytes of the path.
    pub(crate) path: Range<usize>,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    /// The client waits for `100 Continue` before it sends the body.
    pub(crate) expects: bool,
}

/// Why a request failed: the status of the reply, and the reason.
pub(crate) type Failure = (u16, &'static str);

// After these, which refuse a request before it reaches a handler, the connection is closed.
const MALFORMED: Failure = (400, "the request is malformed");
const BODY_TOO_LARGE: Failure = (413, "the body is too large");
const HEAD_TOO_LARGE: Failure = (431, "the head is too large");
const NOT_IMPLEMENTED: Failure = (501, "the transfer coding is not implemented");
const VERSION: Failure = (505, "the version is not supported");

/// Parses a head at the begin of `bytes`; `None` if its end is missing.
pub(crate) fn head(bytes: &[u8]) -> Result<Option<Head>, Failure> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    // One byte more than a head may have, so that a longer one is told from one that is cut.
    let seen = &bytes[..bytes.len().min(HEAD_MAX + 1)];
    let len = match request.parse(seen) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if seen.len() <= HEAD_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(HEAD_TOO_LARGE);
        }
        Err(httparse::Error::Version) => return Err(VERSION),
        Err(_) => return Err(MALFORMED),
    };
    if len > HEAD_MAX {
        return Err(HEAD_TOO_LARGE);
    }
    let (Some(path), Some(method)) = (request.path, request.method) else {
        return Err(MALFORMED);
    };
    let begin = path.as_ptr().addr() - bytes.as_ptr().addr();
    let mut head = Head {
        len,
        method: match method {
            "GET" => Method::Get,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "DELETE" => Method::Delete,
            _ => Method::Other,
        },
        path: begin..begin + path.len(),
        framing: Framing::Length(0),
        keep_alive: request.version == Some(1),
        expects: false,
    };
    let has_host = read_headers(&mut head, request.headers)?;
    if request.version == Some(1) && !has_host {
        return Err(MALFORMED);
    }
    Ok(Some(head))
}

/// Takes what the headers say; returns whether there is a `Host`.
fn read_headers(head: &mut Head, headers: &[httparse::Header<'_>]) -> Result<bool, Failure> {
    let (mut length, mut is_chunked, mut has_host) = (None, false, false);
    for header in headers {
        let is = |name: &str| header.name.eq_ignore_ascii_case(name);
        let value = || str::from_utf8(header.value).map(str::trim).unwrap_or("");
        if is("content-length") {
            let stated = content_length(value())?;
            if length.is_some_and(|length| length != stated) {
                return Err(MALFORMED);
            }
            length = Some(stated);
        } else if is("transfer-encoding") {
            if is_chunked || !value().eq_ignore_ascii_case("chunked") {
                return Err(NOT_IMPLEMENTED);
            }
            is_chunked = true;
        } else if is("connection") {
            for token in value().split(',').map(str::trim) {
                if token.eq_ignore_ascii_case("close") {
                    head.keep_alive = false;
                }
            }
        } else if is("expect") {
            head.expects = value().eq_ignore_ascii_case("100-continue");
        } else if is("host") {
            has_host = true;
        }
    }
    head.framing = match (is_chunked, length) {
        // Both: the two ends of a connection could find different bodies.
        (true, Some(_)) => return Err(MALFORMED),
        (true, None) => Framing::Chunked,
        (false, Some(length)) if length > BODY_MAX => return Err(BODY_TOO_LARGE),
        (false, length) => Framing::Length(length.unwrap_or(0)),
    };
    Ok(has_host)
}

fn content_length(value: &str) -> Result<usize, Failure> {
    if value.is_empty() || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(MALFORMED);
    }
    // Digits alone, so what does not fit is too large.
    value.parse().map_err(|_| BODY_TOO_LARGE)
}

/// Moves chunks from the start of `wire` to `body`. Returns how many bytes of `wire` were consumed,
/// and whether the last chunk and the trailers were among them.
pub(crate) fn dechunk(wire: &[u8], body: &mut Vec<u8>) -> Result<(usize, bool), Failure> {
    let mut done = 0;
    loop {
        let rest = &wire[done..];
        let (line, size) = match httparse::parse_chunk_size(rest) {
            Ok(httparse::Status::Complete(parsed)) => parsed,
            Ok(httparse::Status::Partial) if rest.len() <= LINE_MAX => return Ok((done, false)),
            Ok(httparse::Status::Partial) | Err(_) => return Err(MALFORMED),
        };
        if size == 0 {
            let mut trailers = [httparse::EMPTY_HEADER; 8];
            return match httparse::parse_headers(&rest[line..], &mut trailers) {
                Ok(httparse::Status::Complete((len, _))) => Ok((done + line + len, true)),
                Ok(httparse::Status::Partial) if rest.len() - line <= LINE_MAX => Ok((done, false)),
                Ok(httparse::Status::Partial) | Err(_) => Err(MALFORMED),
            };
        }
        let room = (BODY_MAX - body.len()) as u64;
        if size > room {
            return Err(BODY_TOO_LARGE);
        }
        let end = line + size as usize;
        match rest.get(end..end + 2) {
            Some(b"\r\n") => {}
            Some(_) => return Err(MALFORMED),
            None => return Ok((done, false)),
        }
        body.extend_from_slice(&rest[line..end]);
        done += end + 2;
    }
}

/// Replies of a connection that are not written yet.
#[derive(Debug)]
pub(crate) struct Replies {
    pub(crate) bytes: Vec<u8>,
    /// The reactor, which each reply names.
    pub(crate) reactor: usize,
    /// The connection stays after the reply that is written next.
    pub(crate) keep_alive: bool,
}

/// Room for the digits of a body's length.
const LENGTH_DIGITS: usize = 8;

impl Replies {
    /// Adds a reply. `body` appends its body.
    pub(crate) fn reply(&mut self, status: u16, body: impl FnOnce(&mut Vec<u8>)) {
        let bytes = &mut self.bytes;
        // Writes to a vector do not fail.
        let _ = write!(bytes, "HTTP/1.1 {status} {}\r\n", reason(status));
        let _ = write!(bytes, "x-reactor: {}\r\n", self.reactor);
        if !self.keep_alive {
            bytes.extend_from_slice(b"connection: close\r\n");
        }
        bytes.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
        let digits = bytes.len();
        bytes.extend_from_slice(&[b' '; LENGTH_DIGITS]);
        bytes.extend_from_slice(b"\r\n\r\n");
        let begin = bytes.len();
        body(bytes);
        let len = bytes.len() - begin;
        // Blanks before a value are no part of it.
        let _ = write!(&mut bytes[digits..digits + LENGTH_DIGITS], "{len:8}");
    }

    /// Adds a reply that says why a request failed.
    pub(crate) fn error(&mut self, status: u16, why: &str) {
        self.reply(status, |bytes| {
            let _ = write!(bytes, "{{\"error\":\"{why}\"}}");
        });
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        408 => "Request Timeout",
        413 => "Content Too Large",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "Unknown",
    }
}

/// A request, borrowed from the buffers of its connection.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) body: &'a mut [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "POST /ads HTTP/1.1\r\nhost: a\r\n";

    #[test]
    fn a_head_ends_where_it_ends() {
        let bytes = format!("{HEAD}content-length: 5\r\n\r\nhello");
        for cut in 0..bytes.len() - 5 {
            assert_eq!(head(&bytes.as_bytes()[..cut]), Ok(None), "{cut}");
        }
        let parsed = head(bytes.as_bytes()).unwrap().unwrap();
        assert_eq!(&bytes[parsed.path.clone()], "/ads");
        assert_eq!(parsed.len, bytes.len() - 5);
        assert_eq!(parsed.framing, Framing::Length(5));
        assert!(parsed.keep_alive && !parsed.expects);
    }

    #[test]
    fn heads_are_refused() {
        let filler = "a".repeat(HEAD_MAX);
        for (rest, status) in [
            (format!("x: {filler}\r\n\r\n"), 431),
            (format!("x: {filler}"), 431),
            ("x: y\r\n".repeat(HEADERS_MAX) + "\r\n", 431),
            (format!("content-length: {}\r\n\r\n", BODY_MAX + 1), 413),
            (format!("content-length: {}\r\n\r\n", "9".repeat(30)), 413),
            ("content-length: -1\r\n\r\n".into(), 400),
            ("content-length: 1\r\ncontent-length: 2\r\n\r\n".into(), 400),
            (
                "content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n".into(),
                400,
            ),
            ("transfer-encoding: gzip\r\n\r\n".into(), 501),
            ("x\r\n\r\n".into(), 400),
        ] {
            let refused = head(format!("{HEAD}{rest}").as_bytes()).unwrap_err();
            assert_eq!(refused.0, status, "{rest:.40}");
        }
        assert_eq!(head(b"GET / HTTP/1.1\r\n\r\n"), Err(MALFORMED));
        assert_eq!(head(b"GET / HTTP/2.7\r\n\r\n"), Err(VERSION));
    }

    #[test]
    fn chunks_come_in_any_pieces() {
        let wire = b"3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nt: u\r\n\r\nGET";
        let mut body = Vec::new();
        assert_eq!(dechunk(wire, &mut body), Ok((wire.len() - 3, true)));
        assert_eq!(body, b"abc0123456789");
        let (mut body, mut held, mut ended) = (Vec::new(), Vec::new(), 0);
        for &byte in &wire[..wire.len() - 3] {
            held.push(byte);
            let (done, is_last) = dechunk(&held, &mut body).unwrap();
            held.drain(..done);
            ended += usize::from(is_last);
        }
        assert_eq!((body.as_slice(), ended), (&b"abc0123456789"[..], 1));
    }

    #[test]
    fn chunks_are_refused() {
        let mut body = vec![0; BODY_MAX - 2];
        assert_eq!(dechunk(b"3\r\nabc\r\n", &mut body), Err(BODY_TOO_LARGE));
        body.clear();
        for wire in [&b"3\r\nabcd\r\n"[..], b"x\r\n", &[b' '; 2000]] {
            assert_eq!(dechunk(wire, &mut body), Err(MALFORMED));
        }
    }

    #[test]
    fn a_reply_states_its_length() {
        let mut replies = Replies {
            bytes: Vec::new(),
            reactor: 3,
            keep_alive: false,
        };
        replies.error(404, "no");
        let mut headers = [httparse::EMPTY_HEADER; 8];
        let mut parsed = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(len) = parsed.parse(&replies.bytes).unwrap() else {
            panic!("the head is cut")
        };
        assert_eq!(parsed.code, Some(404));
        let stated = parsed.headers.iter().find(|h| h.name == "content-length");
        let stated = str::from_utf8(stated.unwrap().value).unwrap();
        assert_eq!(stated.trim().parse(), Ok(replies.bytes.len() - len));
    }
}
