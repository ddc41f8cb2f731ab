//! What runs the programs: this crate's tasks on the threads of the program, a runtime, and a plain
//! executor that may have a fault.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use rast_executor::parts::{self, RunQueue, Schedule, Task};
use rast_executor::primitive::sync::Mutex;
use rast_executor::{AbortHandle, Runtime};

use crate::program::{Join, Outcome, Output, Scripted, Subject};

/// A queue of this crate, whose tasks the threads of the program run.
struct Queue(RunQueue);

// SAFETY: there is no list, `is_inside` is false, and the futures are `Send`.
unsafe impl Schedule for Queue {
    fn schedule(&self, task: Task) {
        self.0.push(task);
    }

    fn is_inside(&self) -> bool {
        false
    }

    fn forget(&self, _: &Task) {}
}

/// Tasks of this crate without a runtime.
pub(crate) struct Tasks {
    queue: Arc<Queue>,
    aborts: Mutex<Vec<AbortHandle>>,
}

impl Tasks {
    pub(crate) fn new() -> Self {
        Self {
            queue: Arc::new(Queue(RunQueue::default())),
            aborts: Mutex::new(Vec::new()),
        }
    }

    fn run_all(&self) {
        let mut again = None;
        while let Some(task) = self.queue.0.pop(again.take()) {
            again = parts::run(task);
        }
    }
}

impl Subject for Tasks {
    type Join = Join;

    fn spawn(&self, task: Scripted) -> Join {
        let (task, handle) = parts::spawn(task, &self.queue);
        self.aborts.lock().push(handle.abort_handle());
        self.queue.0.push(task);
        Join(handle)
    }

    fn abort(join: &Join) {
        join.0.abort();
    }

    fn turn(&self) {
        if let Some(task) = self.queue.0.pop(None).and_then(parts::run) {
            self.queue.0.push(task);
        }
    }

    fn settle(&self, _: &dyn Fn() -> bool) {
        self.run_all();
    }

    fn shut_down(&self) {
        let aborts = std::mem::take(&mut *self.aborts.lock());
        aborts.iter().for_each(AbortHandle::abort);
        self.run_all();
    }
}

/// A runtime with its workers.
pub(crate) struct Workers(Mutex<Option<Runtime>>);

impl Workers {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self(Mutex::new(Some(runtime)))
    }
}

impl Subject for Workers {
    type Join = Join;

    fn spawn(&self, task: Scripted) -> Join {
        let handle = self
            .0
            .lock()
            .as_ref()
            .map(|runtime| runtime.handle().clone());
        Join(handle.expect("the program runs").spawn(task))
    }

    fn abort(join: &Join) {
        join.0.abort();
    }

    fn settle(&self, is_answered: &dyn Fn() -> bool) {
        // Under shuttle there is no time, and a turn of each thread is soon over.
        #[cfg(rast_shuttle)]
        for _ in 0..2_000 {
            if is_answered() {
                return;
            }
            rast_executor::primitive::hint::spin_loop();
        }
        #[cfg(not(rast_shuttle))]
        {
            let start = std::time::Instant::now();
            while !is_answered() && start.elapsed().as_secs() < 20 {
                std::thread::yield_now();
            }
        }
    }

    fn shut_down(&self) {
        drop(self.0.lock().take());
    }
}

/// What is wrong with a [`Plain`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A wake-up during a poll is not noted, unless the task is aborted.
    WakeDuringPoll,
    /// A task that is ready is polled again when it is woken.
    PollAfterEnd,
    /// The future is kept until the executor ends.
    LateDrop,
    /// The future of a task that is aborted while it waits is kept.
    LostAbort,
    /// An abort does not prevent further polls.
    PollAfterAbort,
    /// The executor keeps an output too.
    TwoOutputs,
    /// A task whose handle is dropped is dropped with it.
    HandleDrops,
}

#[derive(Default)]
struct State {
    is_queued: bool,
    is_polled: bool,
    is_woken: bool,
    is_aborted: bool,
    is_done: bool,
    outcome: Option<Outcome>,
    kept: Option<Output>,
}

type Ready = Mutex<VecDeque<Arc<PlainTask>>>;

struct PlainTask {
    fault: Option<Fault>,
    ready: Arc<Ready>,
    state: Mutex<State>,
    future: Mutex<Option<Scripted>>,
}

impl PlainTask {
    fn is_wrong_by(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn queue(self: &Arc<Self>, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let is_over = state.is_done && !self.is_wrong_by(Fault::PollAfterEnd);
        if is_over || state.is_queued {
            return;
        }
        if state.is_polled {
            state.is_woken |= state.is_aborted || !self.is_wrong_by(Fault::WakeDuringPoll);
            return;
        }
        state.is_queued = true;
        drop(state);
        self.ready.lock().push_back(Arc::clone(self));
    }

    fn drop_future(&self) -> bool {
        let future = self.future.lock().take();
        let drop = std::panic::AssertUnwindSafe(|| drop(future));
        std::panic::catch_unwind(drop).is_err()
    }

    fn end(&self, outcome: Outcome) {
        let is_kept = self.is_wrong_by(Fault::LateDrop) || self.is_wrong_by(Fault::PollAfterEnd);
        let outcome = if !is_kept && self.drop_future() {
            Outcome::Panicked
        } else {
            outcome
        };
        let mut state = self.state.lock();
        if let Outcome::Output(output) = &outcome
            && self.is_wrong_by(Fault::TwoOutputs)
        {
            state.kept = Some(output.again());
        }
        state.is_done = true;
        state.is_polled = false;
        let old = state.outcome.replace(outcome);
        drop(state);
        drop(old);
    }

    fn run(self: &Arc<Self>) {
        let is_cancelled = {
            let mut state = self.state.lock();
            state.is_queued = false;
            state.is_polled = true;
            state.is_woken = false;
            state.is_aborted && !self.is_wrong_by(Fault::PollAfterAbort)
        };
        if is_cancelled {
            return self.end(Outcome::Cancelled);
        }
        let waker = Waker::from(Arc::clone(self));
        let poll = || {
            let mut future = self.future.lock();
            let future = future
                .as_mut()
                .expect("a task that is not done has its future");
            Pin::new(future).poll(&mut Context::from_waker(&waker))
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)) {
            Ok(Poll::Ready(output)) => self.end(Outcome::Output(output)),
            Err(_) => self.end(Outcome::Panicked),
            Ok(Poll::Pending) => {
                let mut state = self.state.lock();
                state.is_polled = false;
                if state.is_woken {
                    drop(state);
                    self.queue(|_| {});
                }
            }
        }
    }
}

impl Wake for PlainTask {
    fn wake(self: Arc<Self>) {
        self.queue(|_| {});
    }
}

/// An executor without anything clever, right unless it has a fault.
pub(crate) struct Plain {
    fault: Option<Fault>,
    ready: Arc<Ready>,
    all: Mutex<Vec<Arc<PlainTask>>>,
}

impl Plain {
    pub(crate) fn new(fault: Option<Fault>) -> Self {
        Self {
            fault,
            ready: Arc::default(),
            all: Mutex::new(Vec::new()),
        }
    }

    fn pop(&self) -> Option<Arc<PlainTask>> {
        self.ready.lock().pop_front()
    }

    fn run_all(&self) {
        while let Some(task) = self.pop() {
            task.run();
        }
    }
}

/// The handle of a task of a [`Plain`].
pub(crate) struct PlainJoin(Arc<PlainTask>);

impl Future for PlainJoin {
    type Output = Outcome;

    /// Leaves no waker: the programs poll by turns.
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = self.0.state.lock().outcome.take();
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for PlainJoin {
    fn drop(&mut self) {
        if self.0.is_wrong_by(Fault::HandleDrops) && !self.0.state.lock().is_polled {
            self.0.end(Outcome::Cancelled);
        }
    }
}

impl Subject for Plain {
    type Join = PlainJoin;

    fn spawn(&self, task: Scripted) -> PlainJoin {
        let task = Arc::new(PlainTask {
            fault: self.fault,
            ready: Arc::clone(&self.ready),
            state: Mutex::default(),
            future: Mutex::new(Some(task)),
        });
        self.all.lock().push(Arc::clone(&task));
        task.queue(|_| {});
        PlainJoin(task)
    }

    fn abort(join: &PlainJoin) {
        let task = &join.0;
        if task.is_wrong_by(Fault::LostAbort) {
            task.state.lock().is_aborted = true;
        } else {
            task.queue(|state| state.is_aborted = true);
        }
    }

    fn turn(&self) {
        if let Some(task) = self.pop() {
            task.run();
        }
    }

    fn settle(&self, _: &dyn Fn() -> bool) {
        self.run_all();
    }

    fn shut_down(&self) {
        self.run_all();
        let all = std::mem::take(&mut *self.all.lock());
        for task in &all {
            let is_done = task.state.lock().is_done;
            if !is_done {
                task.end(Outcome::Cancelled);
            }
            // A faulty executor has kept it.
            task.drop_future();
        }
    }
}
