//! One more attempt after a deadlock.

use core::time::Duration;

use crate::random::{between, part};
use crate::wait_graph::LockScope;

/// How [`retry`](crate::retry) waits before it tries again.
///
/// ```
/// use rast_reactor::Retry;
/// use std::time::Duration;
///
/// let retry = Retry::new().wait(Duration::from_millis(10)).jitter_percent(20);
/// # let _ = retry;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    wait: Duration,
    jitter_percent: u32,
}

impl Retry {
    /// Waits 1 s, plus or minus 50 %.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            wait: Duration::from_secs(1),
            jitter_percent: 50,
        }
    }

    /// Sets the time to wait.
    #[must_use]
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets by how many percent the wait is longer or shorter at most; over 100 counts as 100.
    #[must_use]
    pub const fn jitter_percent(mut self, percent: u32) -> Self {
        self.jitter_percent = if percent > 100 { 100 } else { percent };
        self
    }

    /// Runs `attempt`. If it returns an error, and a wait of its scope was refused because of a
    /// deadlock, `run` sleeps and then calls `attempt` once more.
    ///
    /// The first attempt and its guards are dropped before the sleep.
    ///
    /// # Errors
    ///
    /// The error of the last attempt.
    ///
    /// # Panics
    ///
    /// Outside of an executor, if it has to wait.
    ///
    /// ```
    /// use rast_reactor::executor::Deterministic;
    /// use rast_reactor::{Deadlock, Lock, Retry};
    ///
    /// let lock = Lock::new(1);
    /// let mut attempts = 0;
    /// let result = Deterministic::new(1).run(Retry::new().run(async |scope| {
    ///     attempts += 1;
    ///     let held = lock.shared(scope).await?;
    ///     // A scope that upgrades waits for itself.
    ///     let _alone = lock.exclusive(scope).await?;
    ///     Ok::<u32, Deadlock>(*held)
    /// }));
    /// assert_eq!((result, attempts), (Err(Deadlock), 2));
    /// ```
    pub async fn run<T, E>(
        self,
        mut attempt: impl AsyncFnMut(&mut LockScope) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut scope = LockScope::new();
        let result = attempt(&mut scope).await;
        if result.is_ok() || !scope.is_deadlocked() {
            return result;
        }
        drop(result);
        let jitter = part(self.wait, self.jitter_percent);
        let wait = between(self.wait - jitter, self.wait.saturating_add(jitter));
        rast_executor::sleep(wait).await;
        attempt(&mut LockScope::new()).await
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs `attempt`, and once more after a deadlock: [`Retry::run`] with a wait of 1 s, plus or minus
/// 50 %.
///
/// # Errors
///
/// The error of the last attempt.
///
/// # Panics
///
/// Outside of an executor, if it has to wait.
///
/// ```
/// use rast_reactor::executor::LocalExecutor;
/// use rast_reactor::{Deadlock, Lock, retry};
///
/// let lock = Lock::new(1);
/// let got = LocalExecutor::new().run(retry(async |scope| {
///     Ok::<u32, Deadlock>(*lock.shared(scope).await?)
/// }));
/// assert_eq!(got, Ok(1));
/// ```
pub async fn retry<T, E>(attempt: impl AsyncFnMut(&mut LockScope) -> Result<T, E>) -> Result<T, E> {
    Retry::new().run(attempt).await
}
