//! A pipeline over a file: lines are read, parsed by four replicas, and counted by path.
//!
//! `cargo run --release --example log-pipeline [FILE]`
//!
//! A line is `STATUS PATH BYTES`. Without `FILE`, the program makes and reads a file of 100,000
//! lines. The reader is not called while the parsers have no room.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use rast::msgpass::{Cx, Egress, Next, Process, Receive, graph};

/// Lines that one call of the reader sends.
const BURST: usize = 64;

struct Line(String);
struct Hit {
    path: String,
    bytes: u64,
}
struct Row {
    path: String,
    hits: u64,
    bytes: u64,
}
/// The reader has sent all lines that it could read.
struct End(io::Result<u64>);

graph! {
    graph App {
        processors { reader: Reader [source], parser: [Parser; 4], count: [Count; 4] }
        edges {
            reader -> parser: Line [route = any, burst = 64];
            parser -> count: Hit;
            count -> egress: Row [unbounded];
            reader -> egress: End;
        }
    }
}

struct Reader {
    lines: io::Lines<BufReader<File>>,
    read: u64,
}
impl Process<App> for Reader {
    fn ping(&mut self, cx: &mut Cx<'_, App, Self>) -> Next {
        for _ in 0..BURST {
            match self.lines.next() {
                Some(Ok(line)) => cx.to::<Parser>().any().send(Line(line)),
                Some(Err(error)) => {
                    cx.to::<Egress>().send(End(Err(error)));
                    return Next::Idle;
                }
                None => {
                    cx.to::<Egress>().send(End(Ok(self.read)));
                    return Next::Idle;
                }
            }
            self.read += 1;
        }
        Next::Again
    }
}

#[derive(Default)]
struct Parser {
    malformed: u64,
}
impl Process<App> for Parser {}
impl Receive<App, Reader, Line> for Parser {
    fn receive(&mut self, Line(line): Line, cx: &mut Cx<'_, App, Self>) {
        let mut words = line.split_ascii_whitespace();
        let (Some(_status), Some(path), Some(Ok(bytes))) =
            (words.next(), words.next(), words.next().map(str::parse))
        else {
            self.malformed += 1;
            return;
        };
        // All hits of a path meet in one replica.
        let key = path
            .bytes()
            .fold(0, |hash: u64, byte| hash.rotate_left(7) ^ u64::from(byte));
        let path = path.to_owned();
        cx.to::<Count>().key(key).send(Hit { path, bytes });
    }
}

#[derive(Default)]
struct Count(HashMap<String, (u64, u64)>);
impl Process<App> for Count {
    /// All hits have been counted: sends the table.
    fn flush(&mut self, cx: &mut Cx<'_, App, Self>) {
        for (path, (hits, bytes)) in self.0.drain() {
            cx.to::<Egress>().send(Row { path, hits, bytes });
        }
    }
}
impl Receive<App, Parser, Hit> for Count {
    fn receive(&mut self, Hit { path, bytes }: Hit, _: &mut Cx<'_, App, Self>) {
        let (hits, sum) = self.0.entry(path).or_default();
        (*hits, *sum) = (*hits + 1, *sum + bytes);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args_os().nth(1) {
        Some(file) => run(Path::new(&file)).map(drop),
        None => {
            let path = std::env::temp_dir().join(format!("rast-log-{}", std::process::id()));
            let mut file = io::BufWriter::new(File::create(&path)?);
            for n in 0..100_000_u64 {
                writeln!(file, "200 /page/{} {}", n % 97, n % 1_000)?;
            }
            writeln!(file, "no such line")?;
            file.into_inner()?.sync_data()?;
            let result = run(&path);
            fs::remove_file(&path)?;
            assert_eq!(result?, (100_001, 100_000, 1));
            Ok(())
        }
    }
}

/// Returns how many lines there were, how many were counted, and how many were malformed.
fn run(path: &Path) -> Result<(u64, u64, u64), Box<dyn Error>> {
    let lines = BufReader::new(File::open(path)?).lines();
    let app = App::builder(
        Reader { lines, read: 0 },
        (0..4).map(|_| Parser::default()),
        (0..4).map(|_| Count::default()),
    )
    .start()?;
    let mut end = app.egress::<Reader, End>(0);
    let table = app.egress::<Count, Row>(0);
    let End(read) = end.recv()?;
    // Rows come while it drains, so a thread reads them.
    let rows = std::thread::spawn(move || {
        let mut rows: Vec<Row> = table.into_iter().collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.hits));
        rows
    });
    let report = app.drain(Duration::from_secs(60))?;
    let rows = rows.join().expect("it does not panic");
    for row in rows.iter().take(5) {
        println!("{:>8} hits {:>10} bytes  {}", row.hits, row.bytes, row.path);
    }
    let malformed = report
        .take_states::<App, Parser>()
        .iter()
        .map(|p| p.malformed)
        .sum();
    let counted = rows.iter().map(|row| row.hits).sum();
    let read = read?;
    println!("{read} lines, {counted} counted, {malformed} malformed");
    Ok((read, counted, malformed))
}
