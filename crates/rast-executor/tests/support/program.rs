//! Random programs over tasks: threads spawn, wake, abort, poll and drop in every order, and record
//! what happens.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rast_executor::primitive::sync::Mutex;
use rast_executor::primitive::{Random, thread};
use rast_executor::{JoinError, JoinHandle, yield_now};

use crate::history::{Event, History, check};

/// What runs the tasks of a program.
pub(crate) trait Subject: Send + Sync + 'static {
    /// The handle of a task.
    type Join: Future<Output = Outcome> + Send + Unpin;

    fn spawn(&self, task: Scripted) -> Self::Join;

    fn abort(join: &Self::Join);

    /// Runs a task on the calling thread, if the subject has no threads of its own.
    fn turn(&self) {}

    /// Gives the executor the time to answer what was asked.
    fn settle(&self, is_answered: &dyn Fn() -> bool);

    /// Ends the executor: every handle is ready after it.
    fn shut_down(&self);
}

/// What a handle returned.
pub(crate) enum Outcome {
    Output(Output),
    Cancelled,
    Panicked,
}

impl From<Result<Output, JoinError>> for Outcome {
    fn from(result: Result<Output, JoinError>) -> Self {
        match result {
            Ok(output) => Self::Output(output),
            Err(error) if error.is_panic() => Self::Panicked,
            Err(_) => Self::Cancelled,
        }
    }
}

/// The handle of a task of this crate.
pub(crate) struct Join(pub(crate) JoinHandle<Output>);

impl Future for Join {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.0).poll(cx).map(Outcome::from)
    }
}

/// What tasks and threads share.
struct World {
    history: History,
    /// A waker of each task, from its last poll.
    wakers: Vec<Mutex<Option<Waker>>>,
}

impl World {
    fn take(&self, task: usize) -> Option<Waker> {
        self.wakers[task].lock().take()
    }

    fn put(&self, task: usize, waker: Waker) {
        // The old one is dropped without the lock.
        let old = self.wakers[task].lock().replace(waker);
        drop(old);
    }

    /// Wakes a task, if there is a waker.
    fn wake(&self, task: usize, way: Way) {
        let Some(waker) = self.take(task) else {
            return;
        };
        let wakes = if way == Way::Twice { 2 } else { 1 };
        for _ in 0..wakes {
            self.history.record(Event::Wake, task);
        }
        match way {
            Way::Value => waker.wake(),
            Way::Reference => {
                waker.wake_by_ref();
                self.put(task, waker);
            }
            Way::Twice => {
                #[allow(clippy::waker_clone_wake, reason = "waking by value is what is tested")]
                waker.clone().wake();
                waker.wake();
            }
        }
    }
}

/// How a task is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Value,
    Reference,
    Twice,
}

/// What a poll does before it returns `Pending`.
#[derive(Clone, Copy, Debug)]
enum Step {
    Wait,
    Wake(usize, Way),
    WakeItself(Way),
    Yield,
    Panic,
}

/// What a thread does.
#[derive(Clone, Copy, Debug)]
enum Op {
    Spawn(usize),
    Wake(usize, Way),
    DropWaker(usize),
    Abort(usize),
    Join(usize),
    Detach(usize),
    Turn,
}

/// The future of a task: a step at each poll, then the output.
pub(crate) struct Scripted {
    number: usize,
    steps: std::vec::IntoIter<Step>,
    drop_panics: bool,
    world: Arc<World>,
}

impl Future for Scripted {
    type Output = Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Output> {
        let this = &mut *self;
        let (number, world) = (this.number, &this.world);
        world.history.record(Event::PollBegins, number);
        world.put(number, cx.waker().clone());
        match this.steps.next() {
            None => {
                world.history.record(Event::PollIsReady, number);
                let world = Arc::clone(world);
                return Poll::Ready(Output { number, world });
            }
            Some(Step::Panic) => {
                world.history.record(Event::PollPanics, number);
                // Without the hook, which would print it.
                resume_unwind(Box::new("as the program says"));
            }
            Some(Step::Wait) => {}
            Some(Step::Wake(other, way)) => world.wake(other, way),
            Some(Step::WakeItself(way)) => world.wake(number, way),
            Some(Step::Yield) => {
                world.history.record(Event::Wake, number);
                assert!(pin!(yield_now()).poll(cx).is_pending());
            }
        }
        world.history.record(Event::PollPends, number);
        Poll::Pending
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        let Self { number, world, .. } = self;
        if self.drop_panics {
            world.history.record(Event::DropPanics, *number);
            if !std::thread::panicking() {
                resume_unwind(Box::new("as the program says"));
            }
        } else {
            world.history.record(Event::Drop, *number);
            // A destructor may wake its own task, and others.
            world.wake(*number, Way::Value);
        }
    }
}

/// The output of a task.
pub(crate) struct Output {
    number: usize,
    world: Arc<World>,
}

impl Output {
    /// A second output of the same task, which no correct executor makes.
    pub(crate) fn again(&self) -> Self {
        Self {
            number: self.number,
            world: Arc::clone(&self.world),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.world.history.record(Event::OutputDropped, self.number);
    }
}

fn way(random: &mut Random) -> Way {
    [Way::Value, Way::Reference, Way::Twice][random.below(3)]
}

/// How large a program is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) threads: usize,
    /// Operations of each thread.
    pub(crate) ops: usize,
    pub(crate) tasks: usize,
    /// The most steps of a task.
    pub(crate) steps: usize,
}

/// Shared by the threads of a program.
struct Run<S: Subject> {
    subject: S,
    world: Arc<World>,
    tasks: Vec<Mutex<Option<Scripted>>>,
    joins: Vec<Mutex<Option<S::Join>>>,
}

impl<S: Subject> Run<S> {
    fn act(&self, op: Op) {
        match op {
            Op::Spawn(task) => {
                let scripted = self.tasks[task].lock().take();
                if let Some(scripted) = scripted {
                    self.world.history.record(Event::Spawn, task);
                    let join = self.subject.spawn(scripted);
                    *self.joins[task].lock() = Some(join);
                }
            }
            Op::Wake(task, way) => self.world.wake(task, way),
            Op::DropWaker(task) => drop(self.world.take(task)),
            Op::Abort(task) => {
                if let Some(join) = self.take(task) {
                    self.world.history.record(Event::Abort, task);
                    S::abort(&join);
                    self.world.history.record(Event::Aborted, task);
                    self.give_back(task, join);
                }
            }
            Op::Join(task) => {
                if let Some(join) = self.take(task)
                    && let Some(join) = poll(&self.world, task, join)
                {
                    self.give_back(task, join);
                }
            }
            Op::Detach(task) => drop(self.take(task)),
            Op::Turn => self.subject.turn(),
        }
        self.subject.turn();
    }

    fn take(&self, task: usize) -> Option<S::Join> {
        self.joins[task].lock().take()
    }

    fn give_back(&self, task: usize, join: S::Join) {
        *self.joins[task].lock() = Some(join);
    }
}

/// Polls a handle, and gives it back if it is not ready.
fn poll<J>(world: &World, task: usize, mut join: J) -> Option<J>
where
    J: Future<Output = Outcome> + Unpin,
{
    let mut cx = Context::from_waker(Waker::noop());
    let outcome = match Pin::new(&mut join).poll(&mut cx) {
        Poll::Pending => return Some(join),
        Poll::Ready(outcome) => outcome,
    };
    let event = match &outcome {
        Outcome::Output(_) => Event::Taken,
        Outcome::Cancelled => Event::Cancelled,
        Outcome::Panicked => Event::Panicked,
    };
    world.history.record(event, task);
    None
}

/// Runs the program of a seed, and returns what its history breaks.
pub(crate) fn run<S: Subject>(seed: u64, size: Size, subject: S) -> Result<(), String> {
    let mut random = Random::new(seed);
    let world = Arc::new(World {
        history: History::new(64 * (size.threads * size.ops + size.tasks * size.steps + 1)),
        wakers: (0..size.tasks).map(|_| Mutex::new(None)).collect(),
    });
    let scripted = |number| {
        let step = |random: &mut Random| match random.below(16) {
            0..5 => Step::Wait,
            5..9 => Step::Wake(random.below(size.tasks), way(random)),
            9..12 => Step::WakeItself(way(random)),
            12..15 => Step::Yield,
            _ => Step::Panic,
        };
        let steps = random.below(size.steps + 1);
        let steps: Vec<_> = (0..steps).map(|_| step(&mut random)).collect();
        Mutex::new(Some(Scripted {
            number,
            steps: steps.into_iter(),
            drop_panics: random.below(12) == 0,
            world: Arc::clone(&world),
        }))
    };
    let tasks = (0..size.tasks).map(scripted).collect();
    let program = |_| {
        let op = |_| {
            let task = random.below(size.tasks);
            match random.below(16) {
                0..5 => Op::Spawn(task),
                5..9 => Op::Wake(task, way(&mut random)),
                9 => Op::DropWaker(task),
                10 => Op::Abort(task),
                11..13 => Op::Join(task),
                13 => Op::Detach(task),
                _ => Op::Turn,
            }
        };
        (0..size.ops).map(op).collect()
    };
    let programs: Vec<Vec<Op>> = (0..size.threads).map(program).collect();
    let run = Arc::new(Run {
        subject,
        world: Arc::clone(&world),
        tasks,
        joins: (0..size.tasks).map(|_| Mutex::new(None)).collect(),
    });
    let start = |ops: Vec<Op>| {
        let run = Arc::clone(&run);
        thread::spawn(move || ops.into_iter().for_each(|op| run.act(op)))
    };
    let threads: Vec<_> = programs.into_iter().map(start).collect();
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked")?;
    }
    run.subject.settle(&|| world.history.is_answered());
    world.history.record(Event::Quiet, 0);
    world.history.record(Event::Shutdown, 0);
    for task in &run.tasks {
        // What was not spawned is dropped here, where no executor contains a panic.
        if let Some(mut scripted) = task.lock().take() {
            scripted.drop_panics = false;
        }
    }
    run.subject.shut_down();
    for (task, join) in run.joins.iter().enumerate() {
        let join = join.lock().take();
        if join.and_then(|join| poll(&world, task, join)).is_some() {
            return Err(format!(
                "a handle is not ready after the shutdown: task {task}"
            ));
        }
    }
    (0..size.tasks).for_each(|task| drop(world.take(task)));
    let entries = world.history.entries();
    check(&entries.ok_or("an entry is not written, though all threads ended")?)
}
