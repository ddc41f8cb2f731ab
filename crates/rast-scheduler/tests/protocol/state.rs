//! A state of the model: the scheduler's words and queues, and each thread's place and local
//! variables.

/// Tasks, workers and threads of the user that a state has room for, and places of a queue.
pub(crate) const TASKS: usize = 3;
pub(crate) const WORKERS: usize = 2;
pub(crate) const USERS: usize = 2;

/// Flags of a status.
pub(crate) const WAITING: u8 = 1;
pub(crate) const WOKEN: u8 = 2;
pub(crate) const SIGNALED: u8 = 4;
pub(crate) const FINISHED: u8 = 8;

/// No task, no worker.
pub(crate) const NONE: u8 = u8::MAX;

/// No deadline.
pub(crate) const NEVER: u8 = u8::MAX;

/// A first-in first-out list of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Fifo {
    len: u8,
    tasks: [u8; TASKS],
}

impl Fifo {
    pub(crate) fn push(&mut self, task: u8) -> Result<(), String> {
        let place = self.tasks.get_mut(usize::from(self.len));
        *place.ok_or("a task is in a queue twice")? = task;
        self.len += 1;
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<u8> {
        if self.len == 0 {
            return None;
        }
        let first = self.tasks[0];
        self.tasks.rotate_left(1);
        self.len -= 1;
        self.tasks[usize::from(self.len)] = 0;
        Some(first)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> {
        self.tasks.into_iter().take(usize::from(self.len))
    }
}

/// A task: its status, what its holder wrote, and its entry in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Task {
    pub(crate) status: u8,
    /// 0 at once, a time, or [`NEVER`].
    pub(crate) due: u8,
    pub(crate) is_stored: bool,
    /// Steps that it took.
    pub(crate) turn: u8,
    pub(crate) is_posted: bool,
    /// It was woken, and no step has begun since.
    pub(crate) is_owed: bool,
    pub(crate) is_running: bool,
    pub(crate) is_returned: bool,
    /// The thread that closes the scheduler has it.
    is_collected: bool,
}

impl Task {
    /// Puts a task in the hands of the thread that closes the scheduler.
    pub(crate) fn collect(&mut self) {
        (self.is_collected, self.is_stored) = (true, false);
    }

    /// Ends a task that is in those hands; returns whether it was.
    pub(crate) fn end_collected(&mut self) -> bool {
        let was = self.is_collected;
        self.is_collected = false;
        if was {
            self.status |= FINISHED;
        }
        was
    }

    /// In how many places it is beside queues and threads.
    pub(crate) fn places(&self) -> usize {
        usize::from(self.status & WAITING != 0)
            + usize::from(self.is_returned)
            + usize::from(self.is_collected)
    }
}

/// Where a thread is: the access that it makes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum At {
    #[default]
    Begin,
    /// The user's operations.
    Push,
    /// A look at the sleepers after a push, and what follows from it.
    Look,
    NotifyAsleep,
    NotifyChoose,
    NotifyMark,
    Unpark,
    StopUnpark,
    StopWait,
    /// The close, after a stop: what was posted, what is stored, the front queue, and the end of
    /// all tasks.
    CloseTake,
    CloseStore,
    CloseFront,
    CloseEnd,
    /// A worker's batch.
    BatchLook,
    Pop,
    ShareRing,
    SharePosted,
    ShareNext,
    ShareKeeper,
    Enter,
    Answer,
    WaitLook,
    WaitPush,
    /// The role.
    RoundLook,
    RoundDue,
    RoundTry,
    Expire,
    Take,
    Admit,
    Store,
    Publish,
    Release,
    Hasten,
    HastenUnpark,
    /// Stealing and sleep.
    Steal,
    StealLook,
    Keep,
    Announce,
    AnnounceMark,
    LookStop,
    LookRings,
    LookPosted,
    LookNext,
    LookRole,
    LookRelease,
    SleepNext,
    SleepKeep,
    SleepLimit,
    Sleep,
    RiseKeeper,
    RiseAsleep,
    RiseNotified,
    Done,
}

/// A thread's locals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Thread {
    pub(crate) at: At,
    /// Where it goes on after a notification.
    pub(crate) back: At,
    pub(crate) operation: u8,
    pub(crate) task: u8,
    /// A mask it has read, a worker it has chosen.
    pub(crate) seen: u8,
    pub(crate) chosen: u8,
    /// The clock as it read it, or until when it sleeps.
    pub(crate) now: u8,
    pub(crate) limit: u8,
    pub(crate) before: u8,
    pub(crate) moved: bool,
    pub(crate) ran: u8,
    /// Tasks that it took from the front.
    pub(crate) taken: Fifo,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) tasks: [Task; TASKS],
    pub(crate) front: Fifo,
    pub(crate) rings: [Fifo; WORKERS],
    /// The worker that has the role.
    pub(crate) role: u8,
    /// What the role published.
    pub(crate) next: u8,
    pub(crate) asleep: u8,
    pub(crate) notified: u8,
    pub(crate) tokens: u8,
    pub(crate) keeper: u8,
    pub(crate) is_stopping: bool,
    /// The front queue refuses.
    pub(crate) is_closed: bool,
    pub(crate) clock: u8,
    /// The first thread of the user was stopped by the system, for ever.
    pub(crate) is_frozen: bool,
    pub(crate) workers: [Thread; WORKERS],
    pub(crate) users: [Thread; USERS],
}

impl State {
    pub(crate) fn new() -> Self {
        let worker = Thread {
            at: At::BatchLook,
            task: NONE,
            ..Thread::default()
        };
        let user = Thread {
            task: NONE,
            ..Thread::default()
        };
        Self {
            tasks: [Task::default(); TASKS],
            front: Fifo::default(),
            rings: [Fifo::default(); WORKERS],
            role: NONE,
            next: NEVER,
            asleep: 0,
            notified: 0,
            tokens: 0,
            keeper: NONE,
            is_stopping: false,
            is_closed: false,
            clock: 0,
            is_frozen: false,
            workers: [worker; WORKERS],
            users: [user; USERS],
        }
    }
}
