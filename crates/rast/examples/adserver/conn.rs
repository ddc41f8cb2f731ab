//! A connection: it parses bytes into requests, passes them to a [`Site`], and writes the replies.
//!
//! Requests of a connection are answered in order. The replies to requests that came together
//! (pipelining) are sent by one write. A connection reuses its memory for each request, and holds
//! no receive buffer while it waits for the next one.
//!
//! A request that is not complete within the time limit of the server is answered with 408. The
//! time begins when the requests before it are answered, so it includes the write of their replies.
//! The timer of this limit is armed only for a request that arrives in several parts.
//!
//! A connection is closed if a read, or the write of a whole batch of replies, takes 10 s. The
//! timer of the connection may notice this up to 10 s later. So even if a client only reads one
//! byte from time to time, the memory of its replies is freed after at most 20 s.
//!
//! After the reply to a refused request, further bytes of the client are read and dropped for up to
//! a second. Without this, the close would reset the connection because of the unread bytes, and
//! the client would lose the reply.

use std::future::poll_fn;
use std::io;
use std::mem;
use std::net::Shutdown;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use rast::reactor::io::{Active, TcpStream};
use rast::reactor::{Lane, LaneSleep};

use crate::http::{self, Failure, Framing, HEAD_MAX, Head, Replies, Request};

/// Replies are written at the latest when they have more bytes.
const REPLIES_MAX: usize = 64 << 10;
/// A read, or the write of a batch of replies, closes the connection if it takes this time, or up
/// to twice as long.
const IDLE: Duration = Duration::from_secs(10);
/// A new connection that has sent nothing counts as an active request for this time.
const GRACE: Duration = Duration::from_millis(100);
/// The request is not complete within its time.
const TOO_SLOW: Failure = (408, "the request took too long");
/// How long bytes are dropped after the last reply.
const LINGER: Duration = Duration::from_secs(1);

/// When the wait for a reply began.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The accept of the connection, for its first reply.
    pub(crate) accepted: Option<Instant>,
    /// The send of the request, if it states it.
    pub(crate) sent_ns: Option<u64>,
}

/// Answers the requests of a listener.
pub(crate) trait Site {
    /// Answers a request; returns when it was sent, if it states it.
    async fn answer(&self, request: Request<'_>, out: &mut Replies) -> Option<u64>;

    /// Counts an active request; `None` if the site counts none.
    fn begin(&self) -> Option<Active> {
        None
    }

    /// Replies were written.
    fn answered(&self, _: Answered) {}
}

/// The timeouts of a reactor's connections.
#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    idle: Lane,
    grace: Lane,
    linger: Lane,
    request: Lane,
}

impl Timeouts {
    /// Makes the timeouts of the reactor that runs the caller. A request may take the time
    /// `request` from its first byte, or from the answer to the earlier request, to its last byte.
    pub(crate) fn new(request: Duration) -> Self {
        Self {
            idle: Lane::new(IDLE),
            grace: Lane::new(GRACE),
            linger: Lane::new(LINGER),
            request: Lane::new(request),
        }
    }
}

/// Awaits `future` until `limit` is ready; `None` if that comes first.
pub(crate) async fn within<T>(
    future: impl Future<Output = T>,
    limit: impl Future<Output = ()>,
) -> Option<T> {
    let (mut future, mut limit) = (pin!(future), pin!(limit));
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        limit.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Bytes that were read, and the head of a request whose body is incomplete.
#[derive(Default)]
struct Reading {
    input: Vec<u8>,
    /// Where the request begins.
    begin: usize,
    /// The head, while its body is not complete.
    head: Option<Head>,
    /// The body, if it comes in chunks.
    body: Vec<u8>,
    /// The client was told to send the body.
    was_told: bool,
}

impl Reading {
    /// Parses the bytes that were read: the head of a request that is complete, if there is one.
    fn step(&mut self) -> Result<Option<Head>, Failure> {
        if self.begin == self.input.len() {
            return Ok(None);
        }
        if self.head.is_none() {
            let Some(head) = http::head(&self.input[self.begin..])? else {
                return Ok(None);
            };
            self.body.clear();
            self.was_told = false;
            self.head = Some(head);
        }
        let Some(head) = &self.head else {
            return Ok(None);
        };
        let begin = self.begin + head.len;
        let is_complete = match head.framing {
            Framing::Length(length) => self.input.len() - begin >= length,
            Framing::Chunked => {
                let (done, is_last) = http::dechunk(&self.input[begin..], &mut self.body)?;
                self.input.drain(begin..begin + done);
                is_last
            }
        };
        Ok(is_complete.then(|| self.head.take()).flatten())
    }

    /// Drops consumed bytes and adds new ones.
    fn extend(&mut self, bytes: &[u8]) {
        self.input.drain(..self.begin);
        self.begin = 0;
        self.input.extend_from_slice(bytes);
    }

    /// Returns `true` if a part of a request was read.
    fn is_partial(&self) -> bool {
        self.begin < self.input.len()
    }

    /// Frees the memory of a large request.
    fn shrink(&mut self) {
        if self.begin == self.input.len() {
            self.input.clear();
            self.begin = 0;
            self.input.shrink_to(2 * HEAD_MAX);
            self.body.clear();
            self.body.shrink_to(2 * HEAD_MAX);
        }
    }
}

/// A connection on its reactor.
struct Connection<S> {
    stream: TcpStream,
    site: Rc<S>,
    reading: Reading,
    replies: Replies,
    /// The request that runs or is being received.
    active: Option<Active>,
    answered: Answered,
}

/// Serves a connection until it is closed. `active` counts its first request from the accept on.
pub(crate) async fn serve<S: Site>(
    stream: TcpStream,
    site: Rc<S>,
    reactor: usize,
    timeouts: Timeouts,
    active: Option<Active>,
) {
    let mut connection = Connection {
        stream,
        site,
        reading: Reading::default(),
        replies: Replies {
            bytes: Vec::new(),
            reactor,
            keep_alive: true,
        },
        active,
        answered: Answered {
            accepted: Some(Instant::now()),
            sent_ns: None,
        },
    };
    // What the peer or the system says ends this connection and no other.
    if let Ok(true) = connection.run(&timeouts).await {
        let limit = timeouts.linger.sleep();
        let _ = within(connection.linger(), limit).await;
    }
}

impl<S: Site> Connection<S> {
    /// Answers requests; returns `true` if this end closes the connection.
    async fn run(&mut self, timeouts: &Timeouts) -> io::Result<bool> {
        let _ = self.stream.set_nodelay(true);
        let mut idle = Idle {
            lane: &timeouts.idle,
            sleep: pin!(timeouts.idle.sleep()),
            was_active: true,
        };
        // Armed while a request is incomplete.
        let mut request = pin!(None::<LaneSleep>);
        if self.active.is_some() {
            let first = within(self.stream.chunk(), timeouts.grace.sleep()).await;
            match first {
                Some(Ok(Some(chunk))) => self.reading.extend(&chunk),
                Some(Ok(None)) => return Ok(false),
                Some(Err(error)) => return Err(error),
                None => self.active = None,
            }
        }
        loop {
            match self.reading.step() {
                Ok(Some(head)) => {
                    request.set(None);
                    let keep_alive = head.keep_alive;
                    self.answer(head).await;
                    if !keep_alive {
                        self.write(&mut idle).await?;
                        return Ok(true);
                    }
                    if self.replies.bytes.len() > REPLIES_MAX {
                        // Before the write, which may wait for the client.
                        self.limit(&mut request, &timeouts.request);
                        self.write(&mut idle).await?;
                    }
                }
                Err(failure) => return self.refuse(failure, &mut idle).await,
                Ok(None) => {
                    // Before the write, which may wait for the client.
                    self.limit(&mut request, &timeouts.request);
                    self.prepare(&mut idle).await?;
                    let limit = poll_fn(|cx| match request.as_mut().as_pin_mut() {
                        Some(sleep) => sleep.poll(cx),
                        None => Poll::Pending,
                    });
                    let Some(read) = within(idle.unless(self.stream.chunk()), limit).await else {
                        return self.refuse(TOO_SLOW, &mut idle).await;
                    };
                    // Nothing came for too long, or the peer has closed.
                    let Some(chunk) = read.transpose()?.flatten() else {
                        return Ok(false);
                    };
                    if self.active.is_none() {
                        self.active = self.site.begin();
                    }
                    self.reading.extend(&chunk);
                }
            }
        }
    }

    /// Arms the time limit if a part of a request was read.
    fn limit(&self, request: &mut Pin<&mut Option<LaneSleep>>, lane: &Lane) {
        if self.reading.is_partial() && request.is_none() {
            request.set(Some(lane.sleep()));
        }
    }

    /// Answers that a request is refused; this end then closes the connection.
    async fn refuse(&mut self, (status, why): Failure, idle: &mut Idle<'_>) -> io::Result<bool> {
        self.replies.keep_alive = false;
        self.replies.error(status, why);
        self.write(idle).await?;
        Ok(true)
    }

    /// Writes replies before more is read, and ends the active request if no further one has begun.
    async fn prepare(&mut self, idle: &mut Idle<'_>) -> io::Result<()> {
        if let Some(head) = &self.reading.head
            && head.expects
            && !mem::replace(&mut self.reading.was_told, true)
        {
            let told = b"HTTP/1.1 100 Continue\r\n\r\n";
            self.replies.bytes.extend_from_slice(told);
        }
        self.reading.shrink();
        self.write(idle).await?;
        if self.reading.input.is_empty() {
            self.active = None;
        }
        Ok(())
    }

    async fn answer(&mut self, head: Head) {
        let reading = &mut self.reading;
        let body = reading.begin + head.len;
        let end = match head.framing {
            Framing::Length(length) => body + length,
            Framing::Chunked => body,
        };
        let (front, rest) = reading.input[reading.begin..end].split_at_mut(head.len);
        let request = Request {
            method: head.method,
            path: str::from_utf8(&front[head.path]).unwrap_or_default(),
            body: match head.framing {
                Framing::Length(_) => rest,
                Framing::Chunked => &mut reading.body,
            },
        };
        self.replies.keep_alive = head.keep_alive;
        let sent_ns = self.site.answer(request, &mut self.replies).await;
        self.answered.sent_ns = sent_ns.or(self.answered.sent_ns);
        self.reading.begin = end;
    }

    /// Writes the replies that there are; an error if the client reads too slowly.
    async fn write(&mut self, idle: &mut Idle<'_>) -> io::Result<()> {
        if self.replies.bytes.is_empty() {
            return Ok(());
        }
        let bytes = mem::take(&mut self.replies.bytes);
        let written = idle.unless(self.stream.write_all(bytes)).await;
        let (written, mut bytes) = written.ok_or(io::ErrorKind::TimedOut)?;
        bytes.clear();
        bytes.shrink_to(2 * REPLIES_MAX);
        self.replies.bytes = bytes;
        written?;
        self.site.answered(mem::take(&mut self.answered));
        Ok(())
    }

    /// Reads and drops what the client sends, until it closes.
    async fn linger(&mut self) -> io::Result<()> {
        self.active = None;
        self.stream.shutdown(Shutdown::Write)?;
        while self.stream.chunk().await?.is_some() {}
        Ok(())
    }
}

/// One timer for all reads and writes of a connection: when it expires, it begins again if one of
/// them has ended since it began.
struct Idle<'a> {
    lane: &'a Lane,
    sleep: Pin<&'a mut LaneSleep>,
    was_active: bool,
}

impl Idle<'_> {
    /// Awaits a read or a write; `None` if it lasts longer than the time of the lane, or up to
    /// twice as long.
    async fn unless<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        loop {
            match within(future.as_mut(), self.sleep.as_mut()).await {
                Some(output) => {
                    self.was_active = true;
                    return Some(output);
                }
                None if mem::take(&mut self.was_active) => self.sleep.set(self.lane.sleep()),
                None => return None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use rast::reactor::executor::timers::{ManualClock, Nanos};
    use rast::reactor::executor::{block_on, yield_now};
    use rast::reactor::io::TcpListener;
    use rast::reactor::{Reactors, spawn_local};

    /// The time limit of a request.
    const LIMIT: Duration = Duration::from_secs(60);

    fn requests(reading: &mut Reading) -> Vec<(String, Vec<u8>)> {
        let mut requests = Vec::new();
        while let Ok(Some(head)) = reading.step() {
            let begin = reading.begin;
            let path = &reading.input[begin..][head.path.clone()];
            let path = str::from_utf8(path).unwrap().to_owned();
            let body = begin + head.len;
            let (end, body) = match head.framing {
                Framing::Length(length) => {
                    (body + length, reading.input[body..body + length].to_vec())
                }
                Framing::Chunked => (body, reading.body.clone()),
            };
            reading.begin = end;
            requests.push((path, body));
        }
        requests
    }

    #[test]
    fn pipelined_requests_are_read_in_any_pieces() {
        let wire = b"POST /a HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi\
            POST /b HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            GET /c HTTP/1.1\r\nhost: x\r\n\r\n";
        let expected = [("/a", "hi"), ("/b", "abc"), ("/c", "")];
        let expected = expected.map(|(path, body)| (path.to_owned(), body.as_bytes().to_vec()));
        for piece in [1, 7, 64, wire.len()] {
            let mut reading = Reading::default();
            let mut found = Vec::new();
            for bytes in wire.chunks(piece) {
                reading.extend(bytes);
                found.extend(requests(&mut reading));
                reading.shrink();
            }
            assert_eq!(found, expected, "pieces of {piece}");
            assert!(reading.input.is_empty());
        }
    }

    /// A site that no request reaches.
    struct Nothing;

    impl Site for Nothing {
        async fn answer(&self, _: Request<'_>, _: &mut Replies) -> Option<u64> {
            panic!("no request is complete")
        }
    }

    /// Runs a test on a reactor, with a connection that `site` serves, its client, and a clock that
    /// the test moves. The connection may be idle for ever.
    fn on_a_connection<S: Site + 'static>(
        site: impl FnOnce() -> S + Send + 'static,
        test: impl AsyncFnOnce(&mut std::net::TcpStream, ManualClock) + Send + 'static,
    ) {
        let clock = ManualClock::new();
        let reactors = Reactors::builder().number(1).clock(clock.clone());
        let reactors = reactors.build().unwrap();
        let reactor = reactors.reactor(0).unwrap();
        let test = reactor.spawn(move || async move {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = std::net::TcpStream::connect(address).unwrap();
            client.set_nonblocking(true).unwrap();
            let timeouts = Timeouts {
                idle: Lane::new(1000 * LIMIT),
                ..Timeouts::new(LIMIT)
            };
            let stream = listener.accept().await.unwrap();
            let served = spawn_local(serve(stream, Rc::new(site()), 0, timeouts, None));
            test(&mut client, clock).await;
            drop(client);
            served.await.unwrap();
        });
        block_on(test).unwrap();
    }

    /// Reads what there is; `None` if there is nothing.
    fn read(client: &mut std::net::TcpStream, bytes: &mut [u8]) -> Option<usize> {
        match io::Read::read(client, bytes) {
            Ok(count) => Some(count),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                None
            }
        }
    }

    /// A client that sends a byte from time to time, each well within the time for which a
    /// connection may be idle.
    #[test]
    fn a_request_that_comes_byte_by_byte_is_ended() {
        on_a_connection(
            || Nothing,
            async |client, clock| {
                let mut sent = 0;
                let mut reply = [0; 512];
                let count = loop {
                    // The head never ends; it stays below the limit of its size.
                    assert!(sent < HEAD_MAX, "the connection is still open");
                    if io::Write::write(client, b"G").is_ok() {
                        sent += 1;
                    }
                    if let Some(count) = read(client, &mut reply) {
                        break count;
                    }
                    clock.advance(Nanos::from_secs(1));
                    yield_now().await;
                };
                let reply = &reply[..count];
                assert!(reply.starts_with(b"HTTP/1.1 408 "), "{reply:?}");
            },
        );
    }

    /// A site whose replies no socket holds.
    struct Large;

    const LARGE: usize = 64 << 20;

    impl Site for Large {
        async fn answer(&self, _: Request<'_>, out: &mut Replies) -> Option<u64> {
            out.bytes.resize(LARGE, b'x');
            None
        }
    }

    /// A client that sends a request and a part of the next one, and reads the reply of the first
    /// only after the limit of the second.
    #[test]
    fn a_request_has_no_more_time_while_the_reply_before_it_is_written() {
        on_a_connection(
            || Large,
            async |client, clock| {
                let both = b"GET / HTTP/1.1\r\nhost: x\r\n\r\nG";
                io::Write::write_all(client, both).unwrap();
                let mut bytes = vec![0; 1 << 16];
                // The write of the reply has begun, and waits for the client.
                let mut count = loop {
                    match read(client, &mut bytes) {
                        Some(count) => break count,
                        None => yield_now().await,
                    }
                };
                clock.advance(Nanos::from_secs(LIMIT.as_secs() + 1));
                while count < LARGE {
                    match read(client, &mut bytes) {
                        Some(more) => count += more,
                        None => yield_now().await,
                    }
                }
                assert_eq!(count, LARGE, "the first reply alone");
                let mut turns = 0;
                let count = loop {
                    if let Some(count) = read(client, &mut bytes) {
                        break count;
                    }
                    // By the limit, a later arming would end the request too.
                    clock.advance(Nanos::from_millis(1));
                    turns += 1;
                    assert!(turns < LIMIT.as_millis(), "the limit began after the write");
                    yield_now().await;
                };
                let reply = &bytes[..count];
                assert!(reply.starts_with(b"HTTP/1.1 408 "), "{reply:?}");
            },
        );
    }
}
