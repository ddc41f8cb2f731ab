//! A load that becomes skewed while both workers are busy: what the moves of processors gain.
//!
//! A hub has 64 jobs under way at 16 cells. When a job is done, the hub sends the next one. Each
//! worker also has a poller, which is pinned to it, works in every turn and is never idle. So both
//! workers are saturated before and after the skew. The workers are pinned to different processors.
//!
//! At first all cells get jobs. After the skew, jobs go only to the cells that the hub's worker
//! holds at that moment. So this worker has to do all jobs, and the other worker has only its
//! poller. Only finished jobs count, from the sixth window after the skew on.

use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rast::msgpass::{Builder, Cx, Handle, Next, Process, Receive, graph};
use rast::sharder::Static;

use super::LAYER;
use crate::harness::Scenario;
use crate::workers::Sample;

const CELLS: usize = 16;
/// Jobs under way.
const FLIGHT: u64 = 64;
/// How long a job takes, and a turn of a poller.
const WORK: Duration = Duration::from_micros(5);
/// The time between two decisions of the balancer.
const WINDOW: Duration = Duration::from_millis(20);
/// Windows before the skew, and between the skew and the measurement.
const WINDOWS: u32 = 5;

graph! {
    graph Skew {
        processors { hub: Hub [source], cell: [Cell; CELLS], poller: [Poller; 2] [source] }
        edges {
            hub -> cell: Job [burst = FLIGHT as usize, cap = 256];
            cell -> hub: Done [unbounded, cap = 256];
        }
    }
}

/// What the bench tells the hub.
#[derive(Default)]
struct Board {
    /// A bit for each cell that gets jobs.
    cells: AtomicU64,
    /// The jobs from now on are measured.
    measures: AtomicBool,
}

struct Hub {
    board: Arc<Board>,
    /// The cell of the last job.
    last: usize,
    /// When the first measured job was done.
    since: Option<Instant>,
    /// Jobs that are still to be measured.
    left: u64,
    measured: mpsc::Sender<Duration>,
}
struct Cell;
struct Poller;
struct Job;
struct Done;

impl Hub {
    /// Sends a job to the next cell that gets any.
    fn next(&mut self, cx: &mut Cx<'_, Skew, Self>) {
        // Relaxed: the word guards no other memory.
        let cells = self.board.cells.load(Ordering::Relaxed);
        let mut after = (1..=CELLS).map(|step| (self.last + step) % CELLS);
        let next = after.find(|cell| (cells >> cell) & 1 == 1);
        self.last = next.expect("a cell gets jobs");
        cx.to::<Cell>().at(self.last).send(Job);
    }
}

fn work() {
    let start = Instant::now();
    while start.elapsed() < WORK {
        spin_loop();
    }
}

impl Process<Skew> for Hub {
    fn ping(&mut self, cx: &mut Cx<'_, Skew, Self>) -> Next {
        (0..FLIGHT).for_each(|_| self.next(cx));
        Next::Idle
    }
}
impl Receive<Skew, Cell, Done> for Hub {
    fn receive(&mut self, Done: Done, cx: &mut Cx<'_, Skew, Self>) {
        match self.since {
            // Relaxed: the word guards no other memory.
            None if self.board.measures.load(Ordering::Relaxed) => {
                self.since = Some(Instant::now());
            }
            Some(since) if self.left > 0 => {
                self.left -= 1;
                if self.left == 0 {
                    self.measured
                        .send(since.elapsed())
                        .expect("the bench waits");
                }
            }
            _ => {}
        }
        self.next(cx);
    }
}
impl Process<Skew> for Cell {}
impl Receive<Skew, Hub, Job> for Cell {
    fn receive(&mut self, Job: Job, cx: &mut Cx<'_, Skew, Self>) {
        work();
        cx.to::<Hub>().send(Done);
    }
}
impl Process<Skew> for Poller {
    fn ping(&mut self, _: &mut Cx<'_, Skew, Self>) -> Next {
        work();
        Next::Again
    }
}

/// A bit for each cell that the worker of the hub holds.
fn beside_the_hub(app: &Handle<Skew>) -> u64 {
    let instances = app.metrics().instances;
    let worker = instances[0].worker;
    let cells = instances.iter().skip(1).take(CELLS);
    let beside = cells.filter(|cell| cell.worker == worker);
    beside.fold(0, |bits, cell| bits | 1 << cell.replica)
}

fn run(ops: u64, setting: fn(Builder<Skew>) -> Builder<Skew>) -> Sample {
    let board = Arc::new(Board::default());
    // Relaxed, as below: threads start after it, and later it is a wish.
    board.cells.store((1 << CELLS) - 1, Ordering::Relaxed);
    let (measured, elapsed) = mpsc::channel();
    let hub = Hub {
        board: Arc::clone(&board),
        last: 0,
        since: None,
        left: ops,
        measured,
    };
    let builder = Skew::builder(hub, (0..CELLS).map(|_| Cell), (0..2).map(|_| Poller));
    let builder = builder.workers(2).period(WINDOW).pin_threads();
    let builder = builder.pin::<Poller>(0, 0).pin::<Poller>(1, 1);
    let app = setting(builder).start().expect("a valid graph");
    thread::sleep(WINDOW * WINDOWS);
    let before = app.metrics().moves;
    board.cells.store(beside_the_hub(&app), Ordering::Relaxed);
    thread::sleep(WINDOW * WINDOWS);
    board.measures.store(true, Ordering::Relaxed);
    let elapsed = elapsed.recv().expect("the hub measures");
    let after = app.metrics().moves - before;
    drop(app); // stops the graph and joins its workers
    Sample::new(ops, elapsed)
        .by(2)
        .with("moves before the change", before as f64)
        .with("moves after it", after as f64)
}

/// The scenario.
pub(super) fn scenario() -> Scenario {
    Scenario::new(
        LAYER,
        "skewed load that saturates two workers",
        20_000,
        1_000,
    )
    .ours("rast graph, Greedy", |ops| run(ops, |graph| graph))
    .ours("rast graph, Static", |ops| {
        run(ops, |graph| graph.balancer(Static))
    })
}
