//! Quotes that come faster than a screen can show them: only the newest per symbol is drawn.
//!
//! `cargo run --release --example quotes -- [SECONDS]`
//!
//! Two threads put a few million quotes per second under 16 symbols; one consumer draws them at a
//! pace of 20 per second and symbol. The columns show how many quotes were put and drawn, and how
//! old a drawn quote was.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rast::conflate::timers::Nanos;
use rast::conflate::{Conflator, Pace};
use rast::primitive::Random;

const SYMBOLS: [&str; 16] = [
    "AUDUSD", "EURCHF", "EURGBP", "EURJPY", "EURUSD", "GBPJPY", "GBPUSD", "NZDUSD", "USDCAD",
    "USDCHF", "USDJPY", "USDNOK", "USDSEK", "USDSGD", "XAGUSD", "XAUUSD",
];

#[derive(Clone, Copy, Debug)]
struct Quote {
    bid: f64,
    ask: f64,
    at: Instant,
}

/// What the screen shows of a symbol.
#[derive(Clone, Copy, Default)]
struct Line {
    bid: f64,
    ask: f64,
    age: Duration,
    drawn: u64,
}

fn main() {
    let span = std::env::args()
        .nth(1)
        .map_or(Some(3.0), |text| text.parse().ok());
    let span = span.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let span = span.expect("the first argument is a number of seconds");
    let quotes = Conflator::<usize, Quote>::builder()
        .keys(SYMBOLS.len())
        .pace(Pace::rate(20, Nanos::from_secs(1)))
        .build();
    let stop = AtomicBool::new(false);
    let mut lines = [Line::default(); SYMBOLS.len()];
    thread::scope(|scope| {
        for feed in 0..2_u64 {
            let (quotes, stop) = (&quotes, &stop);
            scope.spawn(move || put(quotes, feed, stop));
        }
        draw(&quotes, span, &mut lines);
        stop.store(true, Relaxed);
    });
    quotes.close();
    let left = quotes.drain(|_, _| {});
    let figures = quotes.figures();
    assert_eq!(
        figures.submitted,
        figures.handled + figures.conflated + figures.panicked + figures.returned
    );
    print(&format!(
        "{} quotes put, {} drawn, {} conflated, {left} left: one drawn for {:.0} put\n",
        figures.submitted,
        figures.handled,
        figures.conflated,
        figures.conflation().unwrap_or(0.0),
    ));
}

/// A feed: walks the prices at random and puts each by the handle of its symbol.
fn put(quotes: &Conflator<usize, Quote>, feed: u64, stop: &AtomicBool) {
    let mut producer = quotes.producer();
    let handles: Vec<_> = (0..SYMBOLS.len())
        .map(|symbol| quotes.handle(&symbol).expect("the table grows"))
        .collect();
    let mut numbers = Random::new(feed);
    let mut at = Instant::now();
    for turn in 0_u64.. {
        if turn % 64 == 0 {
            if stop.load(Relaxed) {
                return;
            }
            at = Instant::now();
        }
        let random = numbers.draw();
        let symbol = (random >> 60) as usize;
        let bid = 1.0 + symbol as f64 + (random >> 40 & 0xffff) as f64 * 1e-6;
        let ask = bid + 2e-5;
        if producer
            .put(&handles[symbol], Quote { bid, ask, at })
            .is_err()
        {
            return;
        }
    }
}

/// Draws what the pace lets through, until the time is over.
fn draw(quotes: &Conflator<usize, Quote>, span: Duration, lines: &mut [Line; SYMBOLS.len()]) {
    let mut consumer = quotes.consumer().expect("any number of consumers");
    let is_live = std::io::stdout().is_terminal();
    let (start, mut shown) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < span {
        consumer.pass(|symbol, quote| {
            let line = &mut lines[*symbol];
            line.bid = quote.bid;
            line.ask = quote.ask;
            line.age = quote.at.elapsed();
            line.drawn += 1;
        });
        if is_live && start.elapsed() - shown > Duration::from_millis(100) {
            shown = start.elapsed();
            show(lines, quotes);
            // Back to the first line.
            print(&format!("\x1b[{}A", SYMBOLS.len() + 1));
        }
        thread::sleep(Duration::from_millis(5));
    }
    show(lines, quotes);
}

fn show(lines: &[Line; SYMBOLS.len()], quotes: &Conflator<usize, Quote>) {
    let submitted = quotes.figures().submitted;
    let mut text = format!("{submitted:>12} put\n");
    for (symbol, line) in SYMBOLS.iter().zip(lines) {
        text += &format!(
            "{symbol}  {:>9.5} / {:>9.5}  {:>8.1?} old  {:>5} drawn\n",
            line.bid, line.ask, line.age, line.drawn
        );
    }
    print(&text);
}

/// Prints; a reader that is gone, as `quotes | head` is, ends neither the program nor its checks.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
