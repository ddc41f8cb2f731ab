//! The protocol as a machine: one call is one access of one thread to shared memory.
//!
//! Threads are numbered: the workers, the threads of the user, the clock, and one that suspends the
//! first thread of the user for ever at some step. There is one priority, and a round takes all
//! tasks that were posted.

use rast_scheduler::primitive::explore::Machine;

use super::mutant::Mutant;
use super::state::{
    At, FINISHED, NEVER, NONE, SIGNALED, State, TASKS, Thread, USERS, WAITING, WOKEN, WORKERS,
};

/// What a thread of the user does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    /// Posts a task for a time, 0 at once.
    Post(u8, u8),
    Wake(u8),
    Signal(u8),
    Stop,
    /// Stops, ends all tasks, and refuses new ones.
    Close,
}

/// What a step answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    Again,
    At(u8),
    Wait,
    TakeThenWait,
    Exit,
    /// Blocks until that task is finished, then exits.
    After(u8),
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) workers: usize,
    /// Steps of a batch.
    pub(crate) batch: u8,
    pub(crate) users: &'static [&'static [Operation]],
    pub(crate) tasks: &'static [&'static [Answer]],
    /// The last time.
    pub(crate) clock: u8,
    /// Whether the first thread of the user may be stopped; only the tasks above the first count
    /// then.
    pub(crate) freezes: bool,
    pub(crate) mutant: Mutant,
}

impl Machine for Model {
    type State = State;
    type Notes = ();

    fn threads(&self) -> usize {
        self.clock_thread() + 2
    }

    fn start(&self) -> State {
        State::new()
    }

    fn is_enabled(&self, state: &State, thread: usize) -> bool {
        if thread < self.workers {
            return self.can_work(state, &state.workers[thread], thread);
        }
        if thread == self.clock_thread() {
            return state.clock < self.clock;
        }
        if thread > self.clock_thread() {
            return self.freezes && !state.is_frozen && !self.is_done(state, 0);
        }
        let user = thread - self.workers;
        let local = &state.users[user];
        let waits = local.at == At::StopWait
            && state.workers[..self.workers]
                .iter()
                .any(|worker| worker.at != At::Done);
        !(self.is_done(state, user) || waits || user == 0 && state.is_frozen)
    }

    fn step(&self, state: &mut State, thread: usize) -> Result<bool, String> {
        if thread == self.clock_thread() {
            state.clock += 1;
            return Ok(true);
        }
        if thread > self.clock_thread() {
            state.is_frozen = true;
            return Ok(true);
        }
        let mut step = Step {
            model: self,
            s: state,
            thread,
        };
        if thread < self.workers {
            step.work()?;
            return Ok(step.t().at == At::Sleep);
        }
        let user = thread - self.workers;
        let operation = step.s.users[user].operation;
        step.operate()?;
        Ok(state.users[user].operation != operation)
    }

    fn is_inside(&self, state: &State, thread: usize) -> bool {
        if thread < self.workers {
            let at = state.workers[thread].at;
            return !matches!(at, At::BatchLook | At::Sleep | At::Done);
        }
        let user = thread - self.workers;
        user < self.users.len() && state.users[user].at != At::Begin
    }

    fn check(&self, state: &State) -> Result<(), String> {
        for task in 0..self.tasks.len() as u8 {
            let it = &state.tasks[usize::from(task)];
            let hands = state.workers.iter().chain(&state.users);
            let held = hands.clone().filter(|thread| thread.task == task).count();
            let taken = hands.flat_map(|thread| thread.taken.iter());
            let rings = state.rings.iter().flat_map(|ring| ring.iter());
            let in_rings = rings.filter(|&other| other == task).count();
            let places = held
                + in_rings
                + taken
                    .chain(state.front.iter())
                    .filter(|&other| other == task)
                    .count()
                + it.places();
            let wanted = usize::from(it.is_posted && it.status & FINISHED == 0);
            // A task that was put to wait is in the role's hand until it is stored.
            let storing = state
                .workers
                .iter()
                .any(|worker| worker.at == At::Store && worker.task == task);
            if places != wanted + usize::from(storing && !it.is_returned) {
                return Err(format!("task {task} is in {places} places"));
            }
            if it.is_stored && (in_rings > 0 || it.is_running) {
                return Err(format!("task {task} is stored and ready"));
            }
            if it.is_stored && it.status & FINISHED != 0 {
                return Err(format!("task {task} is stored after its end"));
            }
        }
        Ok(())
    }

    fn check_end(&self, state: &State) -> Result<(), String> {
        if state.workers[..self.workers]
            .iter()
            .any(|worker| !matches!(worker.at, At::Sleep | At::Done))
        {
            return Err("a worker is stuck in a step".into());
        }
        if state.is_frozen {
            let left = (1..self.tasks.len()).find(|&task| state.tasks[task].status & FINISHED == 0);
            return left.map_or(Ok(()), |task| {
                Err(format!("task {task} waits for a stopped thread"))
            });
        }
        if (0..self.users.len()).any(|user| !self.is_done(state, user)) {
            return Err("a call does not return".into());
        }
        for (task, it) in state.tasks.iter().enumerate() {
            let rests = it.status & WAITING != 0 && it.is_stored && it.due > state.clock;
            let in_front = state.front.iter().any(|other| usize::from(other) == task);
            let is_left = it.is_returned || in_front && !state.is_closed;
            let may_rest = rests && !state.is_closed || state.is_stopping && is_left;
            if it.is_posted && it.status & FINISHED == 0 && !may_rest {
                return Err(format!("task {task} was forgotten"));
            }
            if rests && (it.is_owed || it.status & (WOKEN | SIGNALED) != 0) {
                return Err(format!("task {task} was woken and sleeps"));
            }
        }
        Ok(())
    }

    fn describe(&self, before: &State, thread: usize, after: &State) -> String {
        if thread >= self.clock_thread() {
            return format!("clock {}, frozen {}", after.clock, after.is_frozen);
        }
        let local = if thread < self.workers {
            &before.workers[thread]
        } else {
            &before.users[thread - self.workers]
        };
        let statuses = after.tasks.map(|task| task.status);
        format!(
            "{:?} task {} -> front {:?} rings {:?} status {statuses:?} asleep {:b} notified {:b}",
            local.at,
            local.task.cast_signed(),
            after.front.iter().collect::<Vec<_>>(),
            after.rings.map(|ring| ring.iter().collect::<Vec<_>>()),
            after.asleep,
            after.notified,
        )
    }
}

impl Model {
    pub(crate) fn new(
        users: &'static [&'static [Operation]],
        tasks: &'static [&'static [Answer]],
    ) -> Self {
        assert!(
            users.len() <= USERS && tasks.len() <= TASKS,
            "a state has no room"
        );
        Self {
            workers: WORKERS,
            batch: 1,
            users,
            tasks,
            clock: 0,
            freezes: false,
            mutant: Mutant::None,
        }
    }

    fn clock_thread(&self) -> usize {
        self.workers + self.users.len()
    }

    fn is_done(&self, state: &State, user: usize) -> bool {
        usize::from(state.users[user].operation) == self.users[user].len()
    }

    fn answer(&self, state: &State, task: u8) -> Answer {
        let task = usize::from(task);
        let turn = usize::from(state.tasks[task].turn);
        self.tasks[task].get(turn).copied().unwrap_or(Answer::Exit)
    }

    fn can_work(&self, state: &State, local: &Thread, worker: usize) -> bool {
        match local.at {
            At::Done => false,
            At::Sleep => state.tokens >> worker & 1 != 0 || local.limit <= state.clock,
            At::Answer => match self.answer(state, local.task) {
                Answer::After(other) => state.tasks[usize::from(other)].status & FINISHED != 0,
                _ => true,
            },
            _ => true,
        }
    }
}

/// One step in the making.
pub(super) struct Step<'a> {
    pub(super) model: &'a Model,
    pub(super) s: &'a mut State,
    pub(super) thread: usize,
}

pub(super) type Outcome = Result<(), String>;

impl Step<'_> {
    pub(super) fn t(&mut self) -> &mut Thread {
        if self.thread < self.model.workers {
            &mut self.s.workers[self.thread]
        } else {
            &mut self.s.users[self.thread - self.model.workers]
        }
    }

    pub(super) fn go(&mut self, at: At) -> Outcome {
        self.t().at = at;
        Ok(())
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.model.mutant == mutant
    }

    /// This worker's bit.
    fn bit(&self) -> u8 {
        1 << self.thread
    }

    /// The flags that keep a task from waiting.
    pub(super) fn urgent(&self) -> u8 {
        if self.is(Mutant::SignalsWait) {
            WOKEN
        } else {
            WOKEN | SIGNALED
        }
    }

    /// Wakes a sleeper, and goes on at `back`.
    pub(super) fn notify(&mut self, back: At) -> Outcome {
        self.t().back = back;
        self.go(At::NotifyAsleep)
    }

    fn notify_step(&mut self) -> Outcome {
        let (back, seen, chosen) = {
            let local = self.t();
            (local.back, local.seen, local.chosen)
        };
        match self.t().at {
            At::NotifyAsleep => {
                self.t().seen = self.s.asleep;
                if self.s.asleep == 0 {
                    return self.go_back(back);
                }
                self.go(At::NotifyChoose)
            }
            At::NotifyChoose => {
                let fresh = seen & !self.s.notified;
                if fresh == 0 {
                    if self.is(Mutant::NoHelp) {
                        return self.go_back(back);
                    }
                    self.t().chosen = seen.trailing_zeros() as u8;
                    return self.go(At::Unpark);
                }
                let keeper = if self.s.keeper == NONE {
                    0
                } else {
                    1 << self.s.keeper
                };
                let others = fresh & !keeper;
                let from = if others == 0 { fresh } else { others };
                self.t().chosen = from.trailing_zeros() as u8;
                self.go(At::NotifyMark)
            }
            At::NotifyMark => {
                let bit = 1 << chosen;
                let is_mine = self.s.notified & bit == 0;
                self.s.notified |= bit;
                self.go(if is_mine {
                    At::Unpark
                } else {
                    At::NotifyAsleep
                })
            }
            _ => {
                self.s.tokens |= 1 << chosen;
                self.go_back(back)
            }
        }
    }

    fn go_back(&mut self, back: At) -> Outcome {
        let local = self.t();
        (local.seen, local.chosen) = (0, 0);
        if self.thread >= self.model.workers {
            return self.end_operation();
        }
        self.go(back)
    }

    fn end_operation(&mut self) -> Outcome {
        let operation = self.t().operation + 1;
        *self.t() = Thread {
            operation,
            task: NONE,
            ..Thread::default()
        };
        Ok(())
    }

    /// A step of a thread of the user.
    fn operate(&mut self) -> Outcome {
        let user = self.thread - self.model.workers;
        let local = self.s.users[user];
        match local.at {
            At::Begin => match self.model.users[user][usize::from(local.operation)] {
                Operation::Post(task, due) => {
                    if self.is(Mutant::LookBeforePush) {
                        self.t().seen = self.s.asleep;
                    }
                    let it = &mut self.s.tasks[usize::from(task)];
                    (it.due, it.is_posted) = (due, true);
                    self.t().task = task;
                    self.go(At::Push)
                }
                Operation::Wake(task) => self.raise(task, WOKEN),
                Operation::Signal(task) => self.raise(task, SIGNALED),
                Operation::Stop | Operation::Close => {
                    self.s.is_stopping = true;
                    self.go(At::StopUnpark)
                }
            },
            At::Push => {
                self.t().task = NONE;
                if self.s.is_closed {
                    return self.refuse(local.task);
                }
                self.s.front.push(local.task)?;
                self.go(At::Look)
            }
            At::Look => {
                let seen = if self.is(Mutant::LookBeforePush) {
                    local.seen
                } else {
                    self.s.asleep
                };
                if seen == 0 {
                    return self.end_operation();
                }
                self.notify(At::Begin)
            }
            At::StopUnpark => {
                if !self.is(Mutant::SilentStop) {
                    self.s.tokens = (1 << self.model.workers) - 1;
                }
                self.go(At::StopWait)
            }
            At::StopWait if self.closes() => {
                for ring in &mut self.s.rings {
                    while let Some(task) = ring.pop() {
                        self.s.tasks[usize::from(task)].collect();
                    }
                }
                self.go(At::CloseTake)
            }
            At::CloseTake | At::CloseStore | At::CloseFront | At::CloseEnd => self.close(),
            At::StopWait => {
                for ring in &mut self.s.rings {
                    while let Some(task) = ring.pop() {
                        self.s.tasks[usize::from(task)].is_returned = true;
                    }
                }
                while let Some(task) = self.s.front.pop() {
                    let it = &mut self.s.tasks[usize::from(task)];
                    (it.is_returned, it.is_stored) = (true, false);
                }
                for it in self.s.tasks.iter_mut().filter(|it| it.is_stored) {
                    it.is_stored = false;
                    if it.status & WAITING != 0 {
                        it.status &= !WAITING;
                        it.is_returned = true;
                    }
                }
                self.end_operation()
            }
            _ => self.notify_step(),
        }
    }

    /// Whether the operation at hand is a close.
    fn closes(&self) -> bool {
        let user = self.thread - self.model.workers;
        let operation = self.s.users[user].operation;
        let operation = self.model.users[user].get(usize::from(operation));
        matches!(operation, Some(Operation::Close))
    }

    /// A step of the close, after the workers have left.
    fn close(&mut self) -> Outcome {
        let early = self.is(Mutant::CloseEarly);
        match self.t().at {
            At::CloseTake => {
                self.s.is_closed |= early;
                self.collect_posted();
                self.go(At::CloseStore)
            }
            At::CloseStore => {
                let Some(it) = self.s.tasks.iter_mut().find(|it| it.is_stored) else {
                    return self.go(At::CloseFront);
                };
                it.is_stored = false;
                if it.status & WAITING != 0 {
                    it.status &= !WAITING;
                    it.collect();
                }
                Ok(())
            }
            At::CloseFront => {
                self.s.is_closed = true;
                if !self.is(Mutant::CloseOnce) {
                    self.collect_posted();
                }
                self.go(At::CloseEnd)
            }
            _ => {
                let ended = self.s.tasks.iter_mut().any(|it| it.end_collected());
                if ended { Ok(()) } else { self.end_operation() }
            }
        }
    }

    fn collect_posted(&mut self) {
        while let Some(task) = self.s.front.pop() {
            self.s.tasks[usize::from(task)].collect();
        }
    }

    /// What becomes of a push that a closed queue refuses: a post gives the task back, a wake-up
    /// ends it.
    fn refuse(&mut self, task: u8) -> Outcome {
        let user = self.thread - self.model.workers;
        let operation = usize::from(self.s.users[user].operation);
        let it = &mut self.s.tasks[usize::from(task)];
        if matches!(self.model.users[user][operation], Operation::Post(..)) {
            it.is_returned = true;
        } else {
            it.status |= FINISHED;
        }
        self.end_operation()
    }

    fn raise(&mut self, task: u8, flag: u8) -> Outcome {
        let moves = self.is(Mutant::AlwaysMove);
        let it = &mut self.s.tasks[usize::from(task)];
        if it.status & FINISHED != 0 {
            return self.end_operation();
        }
        let waited = it.status & WAITING != 0;
        it.status = (it.status | flag) & !WAITING;
        it.is_owed |= flag == WOKEN;
        if waited || moves && it.is_posted {
            self.t().task = task;
            return self.go(At::Push);
        }
        self.end_operation()
    }

    /// Makes a task ready on this worker.
    pub(super) fn ready(&mut self, task: u8) -> Outcome {
        self.s.rings[self.thread].push(task)
    }

    /// After a step of a task.
    fn stepped(&mut self) -> Outcome {
        let batch = self.model.batch;
        let local = self.t();
        local.task = NONE;
        local.ran += 1;
        let at = if local.ran < batch {
            At::BatchLook
        } else {
            At::RoundLook
        };
        self.go(at)
    }

    /// After a round, or without one.
    pub(super) fn rounded(&mut self) -> Outcome {
        let local = self.t();
        let goes_on = local.moved || local.ran > 0;
        (local.moved, local.ran, local.limit, local.before, local.now) = (false, 0, 0, 0, 0);
        self.go(if goes_on { At::BatchLook } else { At::Steal })
    }

    /// A step of a worker.
    fn work(&mut self) -> Outcome {
        let local = *self.t();
        match local.at {
            At::BatchLook | At::Pop | At::Enter | At::Answer | At::WaitLook | At::WaitPush => {
                self.batch(&local)
            }
            At::ShareRing | At::SharePosted | At::ShareNext | At::ShareKeeper => self.share(&local),
            At::RoundLook
            | At::RoundDue
            | At::RoundTry
            | At::Expire
            | At::Take
            | At::Admit
            | At::Store
            | At::Publish
            | At::Release
            | At::Hasten
            | At::HastenUnpark => self.round(&local),
            At::NotifyAsleep | At::NotifyChoose | At::NotifyMark | At::Unpark => self.notify_step(),
            _ => self.sleep(&local),
        }
    }

    fn batch(&mut self, local: &Thread) -> Outcome {
        let task = usize::from(local.task);
        match local.at {
            At::BatchLook => {
                if self.s.is_stopping {
                    return self.go(At::Done);
                }
                let sees = !self.is(Mutant::NoShare);
                self.t().seen = if sees { self.s.asleep } else { 0 };
                self.go(At::Pop)
            }
            At::Pop => {
                self.t().seen = 0;
                let Some(task) = self.s.rings[self.thread].pop() else {
                    return self.go(At::RoundLook);
                };
                self.t().task = task;
                self.go(if local.seen == 0 {
                    At::Enter
                } else {
                    At::ShareRing
                })
            }
            At::Enter => {
                let late = self.is(Mutant::BeginLate);
                let it = &mut self.s.tasks[task];
                if it.status & FINISHED != 0 {
                    return Err(format!("task {task} runs after its end"));
                }
                if !late {
                    it.status &= !WOKEN;
                }
                (it.is_running, it.is_owed) = (true, false);
                self.go(At::Answer)
            }
            At::Answer => {
                let answer = self.model.answer(self.s, local.task);
                let late = self.is(Mutant::BeginLate);
                let it = &mut self.s.tasks[task];
                it.is_running = false;
                it.turn += 1;
                if late {
                    it.status &= !WOKEN;
                }
                it.due = match answer {
                    Answer::Exit | Answer::After(_) => {
                        it.status |= FINISHED;
                        return self.stepped();
                    }
                    Answer::Again => {
                        it.due = 0;
                        self.ready(local.task)?;
                        return self.stepped();
                    }
                    Answer::TakeThenWait => {
                        it.status &= !SIGNALED;
                        NEVER
                    }
                    Answer::Wait => NEVER,
                    Answer::At(due) => due,
                };
                self.go(At::WaitLook)
            }
            At::WaitLook => {
                if self.s.tasks[task].status & self.urgent() == 0 {
                    return self.go(At::WaitPush);
                }
                self.ready(local.task)?;
                self.stepped()
            }
            _ => {
                self.s.front.push(local.task)?;
                self.stepped()
            }
        }
    }

    fn sleep(&mut self, local: &Thread) -> Outcome {
        let bit = self.bit();
        let me = self.thread as u8;
        match local.at {
            At::Steal => {
                let other = self.thread ^ 1;
                let stolen = if self.model.workers > 1 {
                    self.s.rings[other].pop()
                } else {
                    None
                };
                if let Some(task) = stolen {
                    self.t().task = task;
                    let keeps = self.is(Mutant::StealToKeep);
                    return self.go(if keeps { At::Keep } else { At::StealLook });
                }
                self.go(At::Announce)
            }
            At::StealLook => {
                if self.s.is_stopping {
                    return self.go(At::Keep);
                }
                self.go(if self.s.asleep == 0 || self.is(Mutant::NoShare) {
                    At::Enter
                } else {
                    At::ShareRing
                })
            }
            At::Keep => {
                self.ready(local.task)?;
                self.t().task = NONE;
                self.go(At::BatchLook)
            }
            At::Announce => {
                self.s.notified &= !bit;
                self.go(At::AnnounceMark)
            }
            At::AnnounceMark => {
                self.s.asleep |= bit;
                let looks = !self.is(Mutant::NoSecondLook);
                self.go(if looks { At::LookStop } else { At::SleepNext })
            }
            At::LookStop => {
                let stops = self.s.is_stopping;
                self.rise_if(stops, At::LookRings)
            }
            At::LookRings => {
                let others = self.model.workers > 1 && !self.s.rings[self.thread ^ 1].is_empty();
                self.rise_if(others, At::LookPosted)
            }
            At::LookPosted => {
                self.t().now = self.s.clock;
                self.go(if self.s.front.is_empty() {
                    At::LookNext
                } else {
                    At::LookRole
                })
            }
            At::LookNext => self.go(if self.s.next <= local.now {
                At::LookRole
            } else {
                At::SleepNext
            }),
            At::LookRole => {
                if self.s.role != NONE {
                    // The holder of the role looks at the sleepers after it, and sees what is due.
                    if self.is(Mutant::KeepBesideRole) {
                        return self.go(At::SleepNext);
                    }
                    (self.t().now, self.t().limit) = (0, NEVER);
                    return self.go(At::Sleep);
                }
                self.s.role = me;
                if self.is(Mutant::TryRoleTwice) {
                    return self.go(At::LookRelease);
                }
                self.t().back = At::Expire;
                self.go(At::RiseKeeper)
            }
            At::LookRelease => {
                self.s.role = NONE;
                self.rise_if(true, At::Done)
            }
            At::SleepNext => {
                self.t().now = 0;
                self.t().limit = NEVER;
                self.go(if self.s.next == NEVER {
                    At::Sleep
                } else {
                    At::SleepKeep
                })
            }
            At::SleepKeep => {
                if self.s.keeper != NONE {
                    return self.go(At::Sleep);
                }
                self.s.keeper = me;
                self.go(At::SleepLimit)
            }
            At::SleepLimit => {
                self.t().limit = self.s.next;
                let is_over = self.s.next <= self.s.clock;
                self.rise_if(is_over, At::Sleep)
            }
            At::Sleep => {
                self.s.tokens &= !bit;
                self.rise_if(true, At::Done)
            }
            At::RiseKeeper => {
                if self.s.keeper == me {
                    self.s.keeper = NONE;
                }
                self.go(At::RiseAsleep)
            }
            At::RiseAsleep => {
                self.s.asleep &= !bit;
                self.go(At::RiseNotified)
            }
            At::RiseNotified => {
                self.s.notified &= !bit;
                let back = local.back;
                self.t().back = At::Begin;
                self.t().limit = 0;
                self.go(back)
            }
            other => Err(format!("no step at {other:?}")),
        }
    }

    /// Goes back to work, or on at `otherwise`.
    fn rise_if(&mut self, rises: bool, otherwise: At) -> Outcome {
        if !rises {
            return self.go(otherwise);
        }
        self.t().back = At::BatchLook;
        self.t().now = 0;
        self.go(At::RiseKeeper)
    }
}
