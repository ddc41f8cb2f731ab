//! The load of the demonstration: the requests of each client, and the replies that must follow.
//!
//! Each client has keys of its own, so it knows every reply byte by byte before it sends the
//! request. A reply that is missing, doubled, late or out of order shows as a difference.

use rast::primitive::sync::Mutex;
use rast::primitive::{Histogram, Random};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::encode;
use crate::route::Router;

/// Keys of one client.
pub(crate) const KEYS: usize = 5000;
/// Requests on their way at a time, per client.
const DEPTH: usize = 16;
/// How long a reply may take before it counts as missing. It is a guard against a hang, and no
/// measurement: a machine that is busy elsewhere may stop the server for seconds.
const PATIENCE: Duration = Duration::from_secs(120);

/// How the keys of a request are chosen.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    /// The share of requests for the first keys, up to each.
    cumulative: Arc<[f64]>,
}

impl Choice {
    /// Zipf's law: the key of rank `r` is requested with the weight `1 / r^exponent`. An exponent
    /// of zero is uniform.
    pub(crate) fn zipf(exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=KEYS)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|share| *share /= sum);
        Self {
            cumulative: cumulative.into(),
        }
    }

    /// The rank for a number drawn evenly from zero to one.
    fn rank(&self, drawn: f64) -> usize {
        self.cumulative
            .partition_point(|&share| share < drawn)
            .min(KEYS - 1)
    }
}

/// What the clients and their watcher share.
#[derive(Debug, Default)]
pub(crate) struct Board {
    /// Latencies of replies, in nanoseconds.
    pub(crate) latencies: Mutex<Histogram<5>>,
    /// Shifts which keys are the hot ones.
    pub(crate) shift: AtomicU64,
    /// The partitions, a bit each, whose keys are the hot ones; none is all.
    pub(crate) hot: AtomicU64,
    /// Keys are chosen evenly.
    pub(crate) uniform: AtomicBool,
    /// The clients end.
    pub(crate) stop: AtomicBool,
}

/// Runs one client until the board says stop; returns the number of replies. The
/// router tells which keys are in which partition, where the board asks for that.
pub(crate) fn client(
    number: usize,
    address: SocketAddr,
    skewed: &Choice,
    board: &Board,
    router: Router,
) -> Result<u64, String> {
    let even = Choice::zipf(0.0);
    let mut client = Client::connect(number, address)?;
    // Relaxed, here and below: flags of the load; nothing hangs on their order.
    while !board.stop.load(Ordering::Relaxed) {
        let choice = if board.uniform.load(Ordering::Relaxed) {
            &even
        } else {
            skewed
        };
        let shift = board.shift.load(Ordering::Relaxed) as usize;
        client.prefer(board.hot.load(Ordering::Relaxed), router);
        client.batch(choice, shift);
        let start = Instant::now();
        client.exchange()?;
        let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut latencies = board.latencies.lock();
        (0..DEPTH).for_each(|_| latencies.record(nanos));
    }
    client.quit()
}

struct Client {
    number: usize,
    stream: TcpStream,
    random: Random,
    /// The keys by rank, and the partitions whose keys come first.
    order: Vec<usize>,
    hot: u64,
    /// The number written last under each key; zero is none.
    written: Vec<u64>,
    /// How far each counter has counted.
    counted: Vec<u64>,
    requests: u64,
    sent: Vec<u8>,
    expected: Vec<u8>,
    received: Vec<u8>,
}

impl Client {
    fn connect(number: usize, address: SocketAddr) -> Result<Self, String> {
        let open = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        };
        let stream = open().map_err(|error| format!("client {number} cannot connect: {error}"))?;
        Ok(Self {
            number,
            stream,
            random: Random::new(number as u64),
            order: (0..KEYS).collect(),
            hot: 0,
            written: vec![0; KEYS],
            counted: vec![0; KEYS],
            requests: 0,
            sent: Vec::new(),
            expected: Vec::new(),
            received: Vec::new(),
        })
    }

    fn choose(&mut self, choice: &Choice, shift: usize) -> usize {
        self.order[(choice.rank(self.random.fraction()) + shift) % KEYS]
    }

    /// Puts the keys of some partitions first in rank.
    fn prefer(&mut self, hot: u64, router: Router) {
        if hot != self.hot {
            self.hot = hot;
            let mut order = std::mem::take(&mut self.order);
            // Stable: within both parts the keys keep their order.
            order.sort_by_key(|&at| hot >> router.partition(self.key(at).as_bytes()) & 1 == 0);
            self.order = order;
        }
    }

    /// Writes a batch of requests and the replies that they must get.
    fn batch(&mut self, choice: &Choice, shift: usize) {
        self.sent.clear();
        self.expected.clear();
        for _ in 0..DEPTH {
            self.requests += 1;
            let at = self.choose(choice, shift);
            match self.random.draw() % 20 {
                0..=8 => {
                    self.ask(&["GET", &self.key(at)]);
                    self.expect_value(at);
                }
                9..=13 => {
                    self.written[at] = self.requests;
                    self.ask(&["SET", &self.key(at), &self.value(at)]);
                    encode::simple(&mut self.expected, "OK");
                }
                14..=17 => {
                    self.counted[at] += 1;
                    self.ask(&["INCR", &format!("n{}:{at}", self.number)]);
                    encode::int(&mut self.expected, self.counted[at] as i64);
                }
                18 => {
                    let text = self.requests.to_string();
                    self.ask(&["ECHO", &text]);
                    encode::bulk(&mut self.expected, text.as_bytes());
                }
                _ => {
                    let other = self.choose(choice, shift);
                    self.ask(&["MGET", &self.key(at), &self.key(other)]);
                    encode::array(&mut self.expected, 2);
                    self.expect_value(at);
                    self.expect_value(other);
                }
            }
        }
    }

    fn key(&self, at: usize) -> String {
        format!("k{}:{at}", self.number)
    }

    fn value(&self, at: usize) -> String {
        format!("value {} of key {at}", self.written[at])
    }

    fn expect_value(&mut self, at: usize) {
        if self.written[at] == 0 {
            encode::nil(&mut self.expected, encode::Protocol::Two);
        } else {
            let value = self.value(at);
            encode::bulk(&mut self.expected, value.as_bytes());
        }
    }

    fn ask(&mut self, words: &[&str]) {
        encode::array(&mut self.sent, words.len());
        for word in words {
            encode::bulk(&mut self.sent, word.as_bytes());
        }
    }

    /// Sends the batch and reads exactly the replies that must come.
    fn exchange(&mut self) -> Result<(), String> {
        let number = self.number;
        self.stream
            .write_all(&self.sent)
            .map_err(|error| format!("client {number} cannot send: {error}"))?;
        self.received.resize(self.expected.len(), 0);
        self.stream
            .read_exact(&mut self.received)
            .map_err(|error| format!("client {number} misses a reply: {error}"))?;
        if self.received == self.expected {
            return Ok(());
        }
        let equal = self
            .received
            .iter()
            .zip(&self.expected)
            .take_while(|(a, b)| a == b)
            .count();
        let shown = |bytes: &[u8]| {
            let from = equal.saturating_sub(20);
            bytes[from..bytes.len().min(equal + 40)]
                .escape_ascii()
                .to_string()
        };
        let (wrong, right) = (shown(&self.received), shown(&self.expected));
        Err(format!(
            "client {number} got a wrong reply: \"{wrong}\" instead of \"{right}\""
        ))
    }

    /// Ends the connection and sees that nothing more than the replies came.
    fn quit(mut self) -> Result<u64, String> {
        self.sent.clear();
        self.expected.clear();
        self.ask(&["QUIT"]);
        encode::simple(&mut self.expected, "OK");
        self.exchange()?;
        let number = self.number;
        match self.stream.read(&mut [0; 1]) {
            Ok(0) => Ok(self.requests),
            Ok(_) => Err(format!(
                "client {number} got more replies than it sent requests"
            )),
            Err(error) => Err(format!(
                "client {number} saw no end of its connection: {error}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zipf_prefers_the_first_ranks_and_zero_is_uniform() {
        let skewed = Choice::zipf(1.1);
        assert_eq!(skewed.rank(0.0), 0);
        assert_eq!(skewed.rank(1.0), KEYS - 1);
        assert!(skewed.rank(0.5) < 50);
        let even = Choice::zipf(0.0);
        assert!(even.rank(0.5).abs_diff(KEYS / 2) <= 1);
    }
}
