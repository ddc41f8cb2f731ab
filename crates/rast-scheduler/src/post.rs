//! Posting to a scheduler from any thread, and joining it as a worker.

use core::fmt;
use core::future::Future;
use core::iter;
use std::vec::Vec;

use rast_timers::primitive::thread;
use rast_timers::queue::Closed;
use rast_timers::{Instant, Nanos};

use crate::cell::Body;
use crate::future::{Async, AsyncCx, Plain};
use crate::join::{JoinHandle, Joined, Once};
use crate::owned::{NEVER, NOW, Owned, nanos};
use crate::remote::Remote;
use crate::task::Task;
use crate::worker;

impl Remote {
    /// Posts a task to run at its [`deadline`](Task::deadline), or at once if none was set.
    ///
    /// # Errors
    ///
    /// [`Closed`] with the task if the scheduler was dropped.
    #[inline]
    pub fn post(&self, task: Task) -> Result<(), Closed<Task>> {
        self.0.post(task.0).map_err(|task| Closed(Task(task)))
    }

    /// Posts a task to run at `at` and not before, unless it is woken or signalled first.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    #[inline]
    pub fn post_at(&self, mut task: Task, at: Instant) -> Result<(), Closed<Task>> {
        task.0.set_due(nanos(at));
        self.post(task)
    }

    /// Posts a task to run after `span` and not before, unless it is woken or signalled first.
    /// Reads the clock.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    #[inline]
    pub fn post_after(&self, task: Task, span: Nanos) -> Result<(), Closed<Task>> {
        self.post_at(task, self.now().saturating_add(span))
    }

    /// Posts a task to run when it is woken or signalled.
    ///
    /// # Errors
    ///
    /// As [`post`](Self::post).
    #[inline]
    pub fn post_wait(&self, mut task: Task) -> Result<(), Closed<Task>> {
        task.0.set_due(NEVER);
        self.post(task)
    }

    /// Posts tasks in order. Each keeps its deadline. Consecutive tasks of equal priority (a run)
    /// are posted by one read-modify-write.
    ///
    /// # Errors
    ///
    /// If the scheduler was dropped, [`Closed`] with the tasks that were not posted.
    ///
    /// # Panics
    ///
    /// If the iterator panics; the tasks of the current run then end.
    pub fn post_many(
        &self,
        tasks: impl IntoIterator<Item = Task>,
    ) -> Result<(), Closed<Vec<Task>>> {
        let mut tasks = tasks.into_iter().map(|task| task.0).peekable();
        while let Some(class) = tasks.peek().map(Owned::class) {
            let run = iter::from_fn(|| tasks.next_if(|task| task.class() == class));
            if let Err(refused) = self.0.push_many(class, run) {
                let all = refused.into_iter().chain(tasks).map(Task).collect();
                return Err(Closed(all));
            }
            self.0.idle().notify();
        }
        Ok(())
    }

    /// Runs `f` once. The handle returns its result, or its panic.
    ///
    /// If the scheduler was dropped, or is dropped before it runs `f`, the handle returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
    ///
    /// ```
    /// let scheduler = rast_scheduler::Scheduler::new(1)?;
    /// assert_eq!(scheduler.spawn(|| 6 * 7).join()?, 42);
    /// assert!(scheduler.spawn(|| panic!("no")).join().unwrap_err().is_panic());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn<F, T>(&self, f: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.launch(Once::new(f))
    }

    /// Runs a future to completion. One worker at a time polls it; each poll is a step. A signal to
    /// the task is a wake-up.
    ///
    /// ```
    /// let scheduler = rast_scheduler::Scheduler::new(2)?;
    /// let four = scheduler.spawn_future(async { 4 });
    /// let nine = scheduler.spawn_future(async move { four.await.unwrap() + 5 });
    /// assert_eq!(nine.join()?, 9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_future<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.launch(Plain(future))
    }

    /// Runs an `async` body, which can sleep, wait for signals and hop between schedulers through
    /// its [`AsyncCx`].
    ///
    /// ```
    /// use rast_scheduler::{Scheduler, timers::Nanos};
    ///
    /// let scheduler = Scheduler::new(1)?;
    /// let task = scheduler.spawn_async(|cx| async move {
    ///     cx.sleep(Nanos::from_micros(10)).await;
    ///     cx.signal().await;
    ///     "signalled"
    /// });
    /// task.handle().signal()?;
    /// assert_eq!(task.join()?, "signalled");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn_async<F, Fut>(&self, body: F) -> JoinHandle<Fut::Output>
    where
        F: FnOnce(AsyncCx) -> Fut,
        Fut: Future + Send + 'static,
        Fut::Output: Send + 'static,
    {
        let (task, handle) = Async::task(self.clone(), body);
        // A rejected post ends the task, which the handle reports.
        let _ = self.0.post(task);
        handle
    }

    fn launch<B, T>(&self, body: B) -> JoinHandle<T>
    where
        B: Body<Joint = Joined<T>>,
        T: Send + 'static,
    {
        let mut task = Owned::new(body, Joined::new());
        task.set_due(NOW);
        let handle = JoinHandle::new(task.reference());
        // A rejected post ends the task, which the handle reports.
        let _ = self.0.post(task);
        handle
    }

    /// Runs tasks on the calling thread until the scheduler stops. Blocking.
    ///
    /// # Errors
    ///
    /// [`NoSeat`] at once if the scheduler is not running, or if the maximum number of threads of
    /// the user ([`Builder::guests`](crate::Builder::guests)) already run its tasks.
    ///
    /// ```
    /// use rast_scheduler::Scheduler;
    /// use std::thread;
    ///
    /// let scheduler = Scheduler::builder().workers(0).guests(1).start()?;
    /// let remote = scheduler.remote();
    /// let guest = thread::spawn(move || remote.work());
    /// assert_eq!(scheduler.spawn(|| 1).join()?, 1);
    /// scheduler.stop()?;
    /// guest.join().unwrap()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn work(&self) -> Result<(), NoSeat> {
        let mut crew = self.0.crew.lock();
        if !crew.is_running {
            return Err(NoSeat);
        }
        let guests = &mut crew.seats[self.0.config.workers..];
        let seat = guests.iter_mut().find_map(Option::take).ok_or(NoSeat)?;
        crew.threads[seat.worker] = Some(thread::current_id());
        self.0.enter(seat.worker);
        drop(crew);
        worker::work(&self.0, seat);
        Ok(())
    }
}

/// The maximum number of user threads already works, or the scheduler is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSeat;

impl fmt::Display for NoSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no seat is free for a thread of the user")
    }
}

impl core::error::Error for NoSeat {}
