//! The time of an echo in an open loop: requests are sent by a schedule, whatever the server does.
//!
//! 50 connections take the requests in turn. The time of a request counts from when it was due. So
//! if the server is late with one request, the times of the requests behind it grow too. The rate
//! is half of the peak rate of the slowest contender. This peak is measured once before the first
//! run, in a closed loop. The client spins on its processor.
//!
//! Runs that are judged by p99 are short. Several times per second, the host takes a processor away
//! for some milliseconds. One such pause determines the p99 of a run of a second. Most runs of 80
//! ms have no pause.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::echo::{BYTES, Clients, MANY, start};
#[cfg(all(rast_rivals, feature = "rivals"))]
use super::servers::rivals;
use super::servers::{self, Between, Serve};
use super::{LAYER, on_processor};
use crate::harness::Scenario;
use crate::histogram::Histogram;
use crate::workers::Sample;

/// Requests by which a peak is measured.
const PEAK: u64 = 20_000;
/// Requests of a run that is judged by p99, and by p99.9.
const SHORT: u64 = 5_000;
const LONG: u64 = 50_000;
/// Requests that warm up, and are not recorded.
const WARM: u64 = 1_000;

/// The names of the contenders, and half of their least peak rate.
struct Field {
    serves: Vec<(&'static str, Serve)>,
    period: OnceCell<Duration>,
    between: Between,
}

impl Field {
    /// The time between two requests.
    fn period(&self) -> Duration {
        let slowest = || {
            let times = self.serves.iter().map(|&(_, serve)| {
                let (server, mut clients) = start(serve, MANY);
                let time = on_processor(1, || {
                    clients.run(PEAK / 4);
                    let begin = Instant::now();
                    clients.run(PEAK);
                    begin.elapsed()
                });
                drop((clients, server));
                time
            });
            times.max().expect("one at least") / PEAK as u32 * 2
        };
        *self.period.get_or_init(slowest)
    }
}

/// Sends a number of requests, one each `period`; returns the times from when each was due to its
/// answer.
fn open_loop(clients: &mut Clients, ops: u64, period: Duration) -> Histogram {
    for stream in &clients.streams {
        stream.set_nonblocking(true).expect("a socket option");
    }
    let mut histogram = Histogram::new();
    let mut due: Vec<VecDeque<(Duration, bool)>> = vec![VecDeque::new(); MANY];
    let mut received = [0; MANY];
    let mut bytes = [0; 64 * BYTES];
    let warm = WARM.min(ops / 2);
    let begin = Instant::now();
    let (mut sent, mut answered) = (0, 0);
    while answered < ops {
        while sent < ops && begin.elapsed() >= period * sent as u32 {
            let index = sent as usize % MANY;
            let wrote = clients.streams[index].write(&[b'.'; BYTES]);
            assert_eq!(wrote.expect("the server reads"), BYTES);
            due[index].push_back((period * sent as u32, sent >= warm));
            sent += 1;
        }
        for index in clients.wait(0) {
            match clients.streams[index].read(&mut bytes) {
                Ok(count @ 1..) => received[index] += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                end => panic!("the server answers: {end:?}"),
            }
            let now = begin.elapsed();
            while received[index] >= BYTES {
                received[index] -= BYTES;
                answered += 1;
                let (due, is_recorded) = due[index].pop_front().expect("it was sent");
                if is_recorded {
                    histogram.record(now.saturating_sub(due).as_nanos() as u64);
                }
            }
        }
    }
    for stream in &clients.streams {
        stream.set_nonblocking(false).expect("a socket option");
    }
    histogram
}

/// A server in an open loop at the given rate; judged by the given quantile.
fn at_rate(field: &Rc<Field>, serve: Serve, judge: f64) -> impl FnMut(u64) -> Sample + 'static {
    let field = Rc::clone(field);
    let mut pair = None;
    move |ops| {
        let period = field.period();
        let (_, clients) = pair.get_or_insert_with(|| start(serve, MANY));
        let (histogram, elapsed) = on_processor(1, || {
            let begin = Instant::now();
            (open_loop(clients, ops, period), begin.elapsed())
        });
        let sample = Sample::new(ops, elapsed)
            .judged_by(histogram.quantile(judge))
            .with("requests/s", 1e9 / period.as_nanos() as f64)
            .with("p50 ns", histogram.quantile(0.5))
            .with("p99 ns", histogram.quantile(0.99))
            .with("p99.9 ns", histogram.quantile(0.999))
            .by(2);
        if field.between == Between::Ends {
            pair = None;
        }
        sample
    }
}

/// A row of contenders with one rate.
fn row(
    name: &'static str,
    ours: &[(&'static str, Serve)],
    rivals: &[(&'static str, Serve)],
    between: Between,
    judge: f64,
) -> Scenario {
    let field = Rc::new(Field {
        serves: ours.iter().chain(rivals).copied().collect(),
        period: OnceCell::new(),
        between,
    });
    let ops = if judge > 0.99 { LONG } else { SHORT };
    let row = Scenario::new(LAYER, name, ops, 400);
    let row = ours.iter().fold(row, |row, &(name, serve)| {
        row.ours(name, at_rate(&field, serve, judge))
    });
    rivals.iter().fold(row, |row, &(name, serve)| {
        row.rival(name, at_rate(&field, serve, judge))
    })
}

/// The scenarios of this file.
pub(super) fn scenarios() -> Vec<Scenario> {
    #[cfg(all(rast_rivals, feature = "rivals"))]
    let (uring_rivals, epoll_rivals): (&[(_, Serve)], &[(_, Serve)]) = (
        &[
            ("tokio", rivals::tokio),
            ("monoio, io_uring", rivals::monoio),
            ("compio, io_uring", rivals::compio),
        ],
        &[
            ("tokio", rivals::tokio),
            ("monoio, epoll", rivals::monoio_epoll),
        ],
    );
    #[cfg(not(all(rast_rivals, feature = "rivals")))]
    let (uring_rivals, epoll_rivals): (&[(_, Serve)], &[(_, Serve)]) = (&[], &[]);
    let mut all = Vec::new();
    if servers::has_uring() {
        all.push(row(
            "echo p99 by io_uring, half of the least peak",
            &[("rast, io_uring", servers::uring)],
            uring_rivals,
            Between::Waits,
            0.99,
        ));
    }
    all.push(row(
        "echo p99 by readiness, half of the least peak",
        &[("rast, readiness", servers::readiness)],
        epoll_rivals,
        Between::Waits,
        0.99,
    ));
    all.push(row(
        "echo p99.9 with background tasks of 10 ms",
        &[
            ("rast, with tasks", servers::with_background),
            ("rast, without", servers::best),
        ],
        &[],
        Between::Ends,
        0.999,
    ));
    all
}
