//! `--demo`: a server, a skewed load over real sockets, and a live view.
//!
//! Most of the time the clients (see `load`) use only a few keys, the hot keys. Once per second the
//! hot keys change: they are then the keys of all partitions that the next worker owns at that
//! moment. This is the worst case for the balancer, which moves partitions while the clients run. A
//! phase of evenly chosen keys follows, in which the moves must stop.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rast::primitive::Histogram;

use crate::args::Demo;
use crate::load::{self, Board, Choice, KEYS};
use crate::route::PARTITIONS;
use crate::say;
use crate::server::Server;
use crate::shared::GraphView;
use crate::signals::Signals;

/// How skewed the load is: the exponent of Zipf's law.
const SKEW: f64 = 1.1;
/// How often other keys become the hot ones.
const SHIFT: Duration = Duration::from_secs(1);
/// How many times the skewed load goes on, with the same hot keys, while nothing has moved.
const PATIENCE: u32 = 20;
/// How often the line is drawn on a terminal.
const REDRAW: Duration = Duration::from_millis(250);
/// How often a line is printed elsewhere.
const PRINT: Duration = Duration::from_secs(1);

/// Runs the demonstration; the error says what it has found.
pub(crate) fn run(server: Server, demo: Demo, signals: &Signals) -> Result<(), String> {
    let address = server.address();
    let workers = server.shared().settings.workers;
    say(&format!(
        "kv on {address}: {PARTITIONS} partitions on {workers} workers, {} clients with {KEYS} \
         keys each, Zipf {SKEW}, each {} s the keys of another worker are hot\n\
         load: per worker, the share of its time spent in partitions / partitions it owns",
        demo.clients,
        SHIFT.as_secs(),
    ));
    let router = server.shared().router;
    let board = Arc::new(Board::default());
    board
        .hot
        .store(owned_by(0, &server.shared().view()), Ordering::Relaxed);
    let skewed = Choice::zipf(SKEW);
    let clients: Vec<JoinHandle<Result<u64, String>>> = (0..demo.clients)
        .map(|number| {
            let (board, skewed) = (Arc::clone(&board), skewed.clone());
            let name = format!("kv-client-{number}");
            std::thread::Builder::new()
                .name(name)
                .spawn(move || load::client(number, address, &skewed, &board, router))
                .map_err(|error| format!("cannot start a client: {error}"))
        })
        .collect::<Result<_, _>>()?;

    let mut watcher = Watcher::new(&board);
    let ended = |clients: &[JoinHandle<_>]| clients.iter().any(JoinHandle::is_finished);
    let go_on = || !signals.received() && !server.has_failed() && !ended(&clients);
    let view = || server.shared().view();
    watcher.phase("skewed", demo.span, true, &go_on, &view);
    // Otherwise no decision is due before the end.
    let may_move = server.shared().settings.reshard < demo.span * PATIENCE;
    for _ in 0..PATIENCE {
        // The machine may be so busy with other work that the workers have little to do, or that
        // the balancer needs more than a second to tell the skew from noise.
        if workers == 1 || !may_move || view().moved > 0 || !go_on() {
            break;
        }
        say("nothing has moved yet: the same keys stay hot");
        watcher.phase("skewed", demo.span, false, &go_on, &view);
    }
    let after_skewed = view();
    // Relaxed, here and below: flags of the load; nothing hangs on their order.
    board.hot.store(0, Ordering::Relaxed);
    board.uniform.store(true, Ordering::Relaxed);
    watcher.phase("uniform", demo.span / 4, false, &go_on, &view);
    let after_uniform = view();

    board.stop.store(true, Ordering::Relaxed);
    let mut replies = 0;
    let mut faults = Vec::new();
    for client in clients {
        match client.join() {
            Ok(Ok(count)) => replies += count,
            Ok(Err(fault)) => faults.push(fault),
            Err(_) => faults.push("a client panicked".to_owned()),
        }
    }
    let ending = server.drain();
    faults.extend(ending.faults);
    if faults.is_empty() {
        say(&format!(
            "{replies} requests, each with one reply, in order and right"
        ));
    }
    watcher.summary(&after_skewed, &after_uniform);
    if workers > 1 && after_skewed.moved == 0 && !signals.received() {
        faults.push("no partition moved under the skewed load".to_owned());
    }
    if faults.is_empty() {
        Ok(())
    } else {
        Err(faults.join("; "))
    }
}

/// The partitions of one worker, a bit each; workers take turns.
fn owned_by(turn: usize, view: &GraphView) -> u64 {
    let worker = turn % view.workers.len().max(1);
    let owned = view
        .owners
        .iter()
        .enumerate()
        .filter(|&(_, &owner)| owner == worker);
    owned.fold(0, |mask, (partition, _)| mask | 1 << partition)
}

/// Draws the live view.
struct Watcher {
    board: Arc<Board>,
    /// The latencies of all windows.
    all: Histogram<5>,
    terminal: bool,
    start: Instant,
}

impl Watcher {
    fn new(board: &Arc<Board>) -> Self {
        let terminal = std::io::stdout().is_terminal();
        Self {
            board: Arc::clone(board),
            all: Histogram::new(),
            terminal,
            start: Instant::now(),
        }
    }

    /// Takes the latencies since the last call.
    fn window(&mut self) -> Histogram<5> {
        let window = std::mem::take(&mut *self.board.latencies.lock());
        self.all.merge(&window);
        window
    }

    /// Watches one phase until its time is over or it cannot go on.
    fn phase(
        &mut self,
        name: &str,
        span: Duration,
        shifting: bool,
        go_on: &dyn Fn() -> bool,
        view: &dyn Fn() -> GraphView,
    ) {
        let begin = Instant::now();
        let every = if self.terminal {
            REDRAW
        } else {
            PRINT.min(span)
        };
        self.window();
        let mut last = begin;
        let mut shifted = begin;
        let mut turn = 0;
        while begin.elapsed() < span && go_on() {
            std::thread::sleep(crate::LOOK.min(span.saturating_sub(begin.elapsed())));
            if shifting && shifted.elapsed() >= SHIFT {
                shifted += SHIFT;
                turn += 1;
                self.board
                    .hot
                    .store(owned_by(turn, &view()), Ordering::Relaxed);
            }
            let over = begin.elapsed() >= span && last.elapsed() >= every / 2;
            if over || last.elapsed() >= every {
                let window = self.window();
                self.draw(name, &window, last.elapsed(), &view());
                last = Instant::now();
            }
        }
        if self.terminal {
            say("");
        }
    }

    fn draw(&self, name: &str, window: &Histogram<5>, span: Duration, view: &GraphView) {
        let mut line = format!(
            "{:6.1}s {name:<7} {:>9.0} req/s  p50 {}  p99 {}  p99.9 {}  load",
            self.start.elapsed().as_secs_f64(),
            window.count() as f64 / span.as_secs_f64(),
            shown(window.quantile(0.5)),
            shown(window.quantile(0.99)),
            shown(window.quantile(0.999)),
        );
        for worker in &view.workers {
            // Writing to a String cannot fail.
            let _ = write!(
                line,
                " {:3.0}%/{:<2}",
                worker.load * 100.0,
                worker.partitions
            );
        }
        let _ = write!(line, "  moved {}  epoch {}", view.moved, view.epoch);
        if self.terminal {
            let mut out = std::io::stdout().lock();
            // Without wrapping, so that a narrow terminal shows one line all the same.
            // The terminal may have gone; that ends nothing.
            let _ = write!(out, "\r\x1b[?7l{line}\x1b[K\x1b[?7h").and_then(|()| out.flush());
        } else {
            say(&line);
        }
    }

    fn summary(&mut self, skewed: &GraphView, uniform: &GraphView) {
        self.window();
        say(&format!(
            "latency: p50 {}, p99 {}, p99.9 {}, max {}",
            shown(self.all.quantile(0.5)),
            shown(self.all.quantile(0.99)),
            shown(self.all.quantile(0.999)),
            shown(self.all.quantile(1.0)),
        ));
        say(&format!(
            "partitions moved: {} under the skewed load, {} under the uniform one; {} epochs",
            skewed.moved,
            uniform.moved - skewed.moved,
            uniform.epoch,
        ));
    }
}

/// A latency in three figures.
fn shown(nanos: u64) -> String {
    let micros = nanos as f64 / 1e3;
    match micros {
        ..1e3 => format!("{micros:5.0} us"),
        ..1e6 => format!("{:5.2} ms", micros / 1e3),
        _ => format!("{:5.2} s ", micros / 1e6),
    }
}
