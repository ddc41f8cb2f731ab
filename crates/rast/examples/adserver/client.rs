//! A client on a thread of its own, with calls that block.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::summary::ensure;

/// A reply that takes longer is an error.
const LIMIT: Duration = Duration::from_secs(10);

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The reactor that answered.
    pub(crate) reactor: usize,
    pub(crate) body: String,
}

impl Reply {
    /// An error unless the status is this one.
    pub(crate) fn require(&self, status: u16, what: &str) -> io::Result<()> {
        ensure(self.status == status, || {
            format!("{what}: {self:?}, not {status}")
        })
    }
}

/// A connection.
pub(crate) struct Client {
    stream: TcpStream,
    input: Vec<u8>,
}

fn malformed(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The bytes of a request.
pub(crate) fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} {path} HTTP/1.1\r\nhost: adserver\r\ncontent-length: {length}\r\n\r\n{body}")
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let input = Vec::new();
        Ok(Self { stream, input })
    }

    /// Sends a request and waits for its reply.
    pub(crate) fn call(&mut self, method: &str, path: &str, body: &str) -> io::Result<Reply> {
        self.send(request(method, path, body))?;
        self.receive()
    }

    /// Sends bytes as they are.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Waits for the next reply.
    pub(crate) fn receive(&mut self) -> io::Result<Reply> {
        loop {
            if let Some(reply) = parse(&mut self.input)? {
                return Ok(reply);
            }
            let mut part = [0; 16 << 10];
            let count = self.stream.read(&mut part)?;
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.input.extend_from_slice(&part[..count]);
        }
    }

    /// Returns `true` if the server closes the connection without a further reply.
    pub(crate) fn is_closed(&mut self) -> io::Result<bool> {
        Ok(self.input.is_empty() && self.stream.read(&mut [0])? == 0)
    }
}

/// Takes a reply from the begin of `input`; `None` if its end is missing.
pub(crate) fn parse(input: &mut Vec<u8>) -> io::Result<Option<Reply>> {
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut head = httparse::Response::new(&mut headers);
    let parsed = head
        .parse(input)
        .map_err(|_| malformed("the head of a reply"))?;
    let httparse::Status::Complete(begin) = parsed else {
        return Ok(None);
    };
    let header = |name: &str| {
        let found = head.headers.iter().find(|header| header.name == name);
        let value = found.and_then(|header| str::from_utf8(header.value).ok());
        value.and_then(|value| value.trim().parse::<usize>().ok())
    };
    let status = head.code.unwrap_or(0);
    if status == 100 {
        input.drain(..begin);
        return parse(input);
    }
    let length = header("content-length").ok_or_else(|| malformed("no content-length"))?;
    let reactor = header("x-reactor").ok_or_else(|| malformed("no x-reactor"))?;
    let Some(body) = input.get(begin..begin + length) else {
        return Ok(None);
    };
    let body = str::from_utf8(body)
        .map_err(|_| malformed("no text"))?
        .to_owned();
    input.drain(..begin + length);
    Ok(Some(Reply {
        status,
        reactor,
        body,
    }))
}
