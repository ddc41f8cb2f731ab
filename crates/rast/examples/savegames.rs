//! The workload for which the task scheduler was made: saved games in a slow remote store.
//!
//! Each player locks a profile, fetches a blob, changes it, stores it and unlocks the profile. All
//! of these steps except the change are requests to the remote store, which answers each of them
//! after a delay. Then the player rests. A *visit* to a player costs processor time, even if there
//! is nothing to do.
//!
//! The scheduler visits a player when an answer has come or the rest is over. The *updater*, a
//! common first design of such a service, visits all players once in a period. The program runs the
//! scheduler, and then the updater: with each of five periods, or only with the period given by
//! `--period-ms`. Each run has the same length and the same load.
//!
//! The remote store is a thread of this process. Its processor time is printed separately; only its
//! calls that hand an answer to the service count as time of the service.
//!
//! `cargo run --release --example savegames -- --players 10000 --delay-us 5000 --visit-us 10
//! --rest-ms 1000 --period-ms 5 --workers 2 --seconds 3`
//!
//! The result is the number of saves per second of processor time. For a save, the scheduler visits
//! a player five times, and the updater visits it in each pass. A pass takes the period, or the
//! time of the visits to all players if that is longer. So the parameters bound the ratio of the
//! two results: see [`Load::visits_of_updater`].

use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rast::primitive::Histogram;
use rast::scheduler::timers::Nanos;
#[cfg(any(target_os = "linux", target_os = "android"))]
use rast::scheduler::timers::{Clock, ThreadClock};
use rast::scheduler::{Next, Scheduler, Task, TaskHandle};

/// What can be set.
#[derive(Clone, Copy, Debug)]
struct Load {
    players: u64,
    delay: Duration,
    visit: Duration,
    rest: Duration,
    /// `None`: each of [`PERIODS`].
    period: Option<Duration>,
    workers: usize,
    run: Duration,
}

impl Load {
    fn from_args() -> Result<Self, String> {
        let mut load = Self {
            players: 10_000,
            delay: Duration::from_millis(5),
            visit: Duration::from_micros(10),
            rest: Duration::from_millis(1000),
            period: None,
            workers: 2,
            run: Duration::from_secs(3),
        };
        let mut args = env::args().skip(1);
        while let Some(flag) = args.next() {
            let value = args.next().ok_or(format!("{flag} needs a number"))?;
            let number: u64 = value
                .parse()
                .map_err(|_| format!("{flag}: {value} is no number"))?;
            match flag.as_str() {
                "--players" => load.players = number.max(1),
                "--delay-us" => load.delay = Duration::from_micros(number),
                "--visit-us" => load.visit = Duration::from_micros(number),
                "--rest-ms" => load.rest = Duration::from_millis(number),
                "--period-ms" => load.period = Some(Duration::from_millis(number)),
                "--workers" => load.workers = number.clamp(1, 32) as usize,
                "--seconds" => load.run = Duration::from_secs(number.max(1)),
                _ => return Err(format!("{flag} is no flag of this example")),
            }
        }
        Ok(load)
    }
}

/// Periods of the updater.
const PERIODS: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
];

/// Visits to a player for a save, by the scheduler: one after the rest and one after each of four
/// answers.
const VISITS: f64 = 5.0;

impl Load {
    /// Visits to a player for a save, by the updater: as many as there are passes in the time of
    /// four answers and a rest.
    fn visits_of_updater(&self, period: Duration) -> f64 {
        let visits = self
            .visit
            .mul_f64(self.players as f64 / self.workers as f64);
        let pass = period.max(visits).as_secs_f64();
        let passes = |span: Duration| (span.as_secs_f64() / pass).ceil().max(1.0);
        4.0 * passes(self.delay) + passes(self.rest)
    }
}

/// What the remote calls when it answers.
type Answer = Box<dyn FnOnce() + Send>;

/// Answers each request after the same delay. Stores in `own` the nanoseconds of processor time
/// that it took, without those of the answers.
fn remote(requests: &Receiver<Answer>, delay: Duration, own: &AtomicU64) {
    let mut open: VecDeque<(Instant, Answer)> = VecDeque::new();
    let mut answers = 0;
    loop {
        let now = Instant::now();
        let begin = thread_time();
        while open.front().is_some_and(|first| first.0 <= now) {
            if let Some((_, answer)) = open.pop_front() {
                answer();
            }
        }
        let end = thread_time();
        answers += end - begin;
        own.store(end - answers, Ordering::Relaxed);
        let wait = open.front().map_or(Duration::MAX, |first| first.0 - now);
        match requests.recv_timeout(wait.min(Duration::from_secs(1))) {
            Ok(answer) => {
                open.push_back((Instant::now() + delay, answer));
                open.extend(
                    requests
                        .try_iter()
                        .map(|answer| (Instant::now() + delay, answer)),
                );
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// The processor time of a visit.
fn work(span: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// Where a player is; the requests in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    Rests,
    Locks,
    Fetches,
    Stores,
    Unlocks,
}

/// The steps of one player, by either program.
struct Player {
    stage: Stage,
    began: Instant,
    requests: Sender<Answer>,
    latencies: Arc<Mutex<Histogram<5>>>,
}

impl Player {
    /// Goes on after a rest or an answer; `true` if a request is under way then.
    fn advance(&mut self, answer: impl FnOnce() -> Answer) -> bool {
        self.stage = match self.stage {
            Stage::Rests => {
                self.began = Instant::now();
                Stage::Locks
            }
            Stage::Locks => Stage::Fetches,
            // The blob is changed in this visit.
            Stage::Fetches => Stage::Stores,
            Stage::Stores => Stage::Unlocks,
            Stage::Unlocks => Stage::Rests,
        };
        if self.stage == Stage::Rests {
            let nanos = self.began.elapsed().as_nanos() as u64;
            self.latencies.lock().expect("no panic").record(nanos);
            return false;
        }
        // At the end of the run the remote is gone.
        self.requests.send(answer()).is_ok()
    }
}

/// What a run came to; latencies in nanoseconds, processor times in seconds.
struct Run {
    latencies: Histogram<5>,
    service: Option<f64>,
    remote: f64,
}

impl Run {
    /// Lets the program run for its time.
    fn watch(load: &Load, own: &AtomicU64, latencies: &Mutex<Histogram<5>>) -> Self {
        let begin = cpu_time();
        thread::sleep(load.run);
        let remote = own.load(Ordering::Relaxed) as f64 / 1e9;
        let process = cpu_time().zip(begin).map(|(end, begin)| end - begin);
        Self {
            latencies: std::mem::take(&mut *latencies.lock().expect("no panic")),
            service: process.map(|process| process - remote),
            remote,
        }
    }
}

/// The first rest of a player: they do not begin at once.
fn first_rest(load: &Load, number: u64) -> Duration {
    load.rest.mul_f64(number as f64 / load.players as f64)
}

fn by_scheduler(load: &Load) -> Result<Run, Box<dyn Error>> {
    let (requests, receiver) = mpsc::channel();
    let own = Arc::new(AtomicU64::new(0));
    let store = {
        let (own, delay) = (Arc::clone(&own), load.delay);
        thread::spawn(move || remote(&receiver, delay, &own))
    };
    let scheduler = Scheduler::builder()
        .workers(load.workers)
        .name("saves")
        .start()?;
    let latencies = Arc::new(Mutex::new(Histogram::new()));
    for number in 0..load.players {
        let mut player = Player {
            stage: Stage::Rests,
            began: Instant::now(),
            requests: requests.clone(),
            latencies: Arc::clone(&latencies),
        };
        let (visit, rest) = (load.visit, Nanos::from(load.rest));
        let task = Task::new(move |cx| {
            work(visit);
            cx.take_signal();
            let handle: TaskHandle = cx.handle();
            let answer = || -> Answer {
                Box::new(move || {
                    // A player that has left needs no answer.
                    let _ = handle.signal();
                })
            };
            if player.advance(answer) {
                Next::Wait
            } else {
                cx.after(rest)
            }
        });
        scheduler.post_after(task, Nanos::from(first_rest(load, number)))?;
    }
    drop(requests);
    let run = Run::watch(load, &own, &latencies);
    drop(scheduler);
    store.join().expect("the remote does not panic");
    Ok(run)
}

fn by_updater(load: &Load, period: Duration) -> Run {
    let (requests, receiver) = mpsc::channel();
    let own = Arc::new(AtomicU64::new(0));
    let store = {
        let (own, delay) = (Arc::clone(&own), load.delay);
        thread::spawn(move || remote(&receiver, delay, &own))
    };
    let latencies = Arc::new(Mutex::new(Histogram::new()));
    let is_over = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..load.workers as u64)
        .map(|worker| {
            let load = *load;
            let is_over = Arc::clone(&is_over);
            let begin = Instant::now();
            let mut players: Vec<_> = (worker..load.players)
                .step_by(load.workers)
                .map(|number| {
                    let player = Player {
                        stage: Stage::Rests,
                        began: begin,
                        requests: requests.clone(),
                        latencies: Arc::clone(&latencies),
                    };
                    let until = begin + first_rest(&load, number);
                    (player, until, Arc::new(AtomicBool::new(false)))
                })
                .collect();
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let pass = Instant::now();
                    for (player, until, answered) in &mut players {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        work(load.visit);
                        let is_due = if player.stage == Stage::Rests {
                            *until <= Instant::now()
                        } else {
                            answered.swap(false, Ordering::Acquire)
                        };
                        let answer = || -> Answer {
                            let answered = Arc::clone(answered);
                            Box::new(move || answered.store(true, Ordering::Release))
                        };
                        if is_due && !player.advance(answer) {
                            *until = Instant::now() + load.rest;
                        }
                    }
                    thread::sleep(period.saturating_sub(pass.elapsed()));
                }
            })
        })
        .collect();
    drop(requests);
    let run = Run::watch(load, &own, &latencies);
    is_over.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("the updater does not panic");
    }
    store.join().expect("the remote does not panic");
    run
}

/// Nanoseconds of processor time of the calling thread; none where the system does not tell.
fn thread_time() -> u64 {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Some(clock) = ThreadClock::new() {
        return clock.now().as_nanos();
    }
    0
}

/// Seconds of processor time of this process, where the system tells: in hundredths on Linux.
fn cpu_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

/// Prints a run; returns its saves per second of the service's processor time, where the system
/// tells that.
fn print(name: &str, load: &Load, run: &Run) -> Option<f64> {
    let saves = run.latencies.count();
    let at = |share: f64| Duration::from_nanos(run.latencies.quantile(share));
    let rate = saves as f64 / load.run.as_secs_f64();
    let (p50, p99) = (at(0.5), at(0.99));
    print!("{name:<16} {saves:>8} saves {rate:>9.0}/s  p50 {p50:>8.2?}  p99 {p99:>8.2?}");
    let Some(cpu) = run.service else {
        println!();
        return None;
    };
    let saves_of_second = saves as f64 / cpu.max(0.01);
    println!(
        "  cpu {cpu:.2} s (the remote {:.2} s), {saves_of_second:.0} saves per cpu second",
        run.remote
    );
    Some(saves_of_second)
}

fn main() -> Result<(), Box<dyn Error>> {
    let load = Load::from_args()?;
    println!("{load:?}");
    let least = load.delay * 4 + load.visit * 5;
    println!("the least latency of a save is {least:.2?}: four answers and five visits");
    let ours = print("scheduler", &load, &by_scheduler(&load)?);
    let periods = load.period.map_or(PERIODS.to_vec(), |period| vec![period]);
    let (mut best, mut bound) = (0.0_f64, f64::MAX);
    for period in periods {
        let name = format!("updater, {period:?}");
        let theirs = print(&name, &load, &by_updater(&load, period));
        best = best.max(theirs.unwrap_or(0.0));
        bound = bound.min(load.visits_of_updater(period) / VISITS);
    }
    println!(
        "bound: the updater visits a player {:.0} times for a save, the scheduler {VISITS}: {bound:.1} times the saves",
        bound * VISITS
    );
    if let Some(ours) = ours.filter(|_| best > 0.0) {
        println!(
            "saves per cpu second over the updater's best: {:.2}",
            ours / best
        );
    }
    Ok(())
}
