//! The `http-hello` example as a process, under a load generator and under clients that misbehave.
#![cfg(all(
    feature = "executor",
    feature = "hyper",
    not(any(rast_loom, rast_shuttle))
))]

mod program;

use program::Program;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A client's connection, kept alive.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).expect("the server accepts");
        stream
            .set_read_timeout(Some(program::GUARD))
            .expect("a timeout");
        stream.set_nodelay(true).expect("a socket option");
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("the server reads");
    }

    /// Sends a request for `path`.
    fn ask(&mut self, path: &str) {
        self.send(format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes());
    }

    /// Reads a response: its status and its body; `None` at the end of the connection.
    fn answer(&mut self) -> Option<(u16, String)> {
        let mut line = String::new();
        if self.0.read_line(&mut line).expect("in time") == 0 {
            return None;
        }
        let status = line.split(' ').nth(1).and_then(|word| word.parse().ok());
        let mut len = 0;
        loop {
            line.clear();
            self.0.read_line(&mut line).expect("a header");
            match line.trim_end().split_once(": ") {
                None => break,
                Some(("content-length", text)) => len = text.parse().expect("a number"),
                Some(_) => {}
            }
        }
        let mut body = vec![0; len];
        self.0.read_exact(&mut body).expect("the body");
        Some((
            status.expect("a status"),
            String::from_utf8(body).expect("text"),
        ))
    }
}

/// Opens `connections` connections, each on its own thread. Each sends `requests` requests, of
/// which `depth` are sent before the first answer is read. Returns how many answers were right.
fn load(server: SocketAddr, connections: usize, requests: usize, depth: usize) -> usize {
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..connections)
            .map(|number| {
                scope.spawn(move || {
                    let mut client = Client::connect(server);
                    let mut right = 0;
                    for first in (0..requests).step_by(depth) {
                        for request in first..first + depth {
                            client.ask(&format!("/{number}-{request}"));
                        }
                        for request in first..first + depth {
                            let (status, body) = client.answer().expect("an answer");
                            let expected = format!("Hello, {number}-{request}!\n");
                            right += usize::from(status == 200 && body == expected);
                        }
                    }
                    right
                })
            })
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("a client that ends"))
            .sum()
    })
}

#[test]
fn every_request_of_a_load_is_answered_in_its_order() {
    let server = Program::start("http-hello", &["127.0.0.1:0"]);
    assert_eq!(load(server.address, 1, 500, 1), 500);
    assert_eq!(load(server.address, 32, 100, 1), 3_200);
    assert_eq!(load(server.address, 8, 160, 16), 1_280);
}

#[test]
fn clients_that_leave_or_send_no_http_harm_no_other() {
    let server = Program::start("http-hello", &["127.0.0.1:0"]);
    let mut steady = Client::connect(server.address);
    for round in 0..50 {
        // Leaves at once, leaves in the middle of a head, and before the answer.
        drop(Client::connect(server.address));
        Client::connect(server.address).send(b"GET / HT");
        Client::connect(server.address).ask("/gone");
        let mut wrong = Client::connect(server.address);
        wrong.send(b"\0\x01 this is no request\r\n\r\n");
        assert_eq!(wrong.answer().map(|(status, _)| status), Some(400));
        assert_eq!(wrong.answer(), None, "a broken connection is closed");
        steady.ask("/");
        assert_eq!(
            steady.answer(),
            Some((200, "Hello, world!\n".into())),
            "round {round}"
        );
    }
}

#[test]
fn a_client_that_does_not_end_its_head_is_closed_by_the_timer() {
    let server = Program::start("http-hello", &["127.0.0.1:0", "20"]);
    let mut slow = Client::connect(server.address);
    slow.send(b"GET / HTTP/1.1\r\nhost:");
    let answer = slow.answer();
    assert!(answer.is_none_or(|(status, _)| status == 408));
    // The next one is served.
    assert_eq!(load(server.address, 1, 10, 1), 10);
}
