//! A gate: admits a limited number of users at once, the others in order.

use core::cell::RefCell;
use core::fmt;
use core::task::{Context, Poll};
use std_alloc::rc::Rc;
use std_alloc::vec::Vec;

use crate::error::error;
use crate::line::{Ended, Line, Place, Wait};
use crate::waker_list::{WakerList, wake_all};

struct State {
    users: usize,
    users_max: usize,
    is_closed: bool,
    line: Line<()>,
    /// Tasks that wait for the last user to leave.
    draining: WakerList,
}

struct Core(RefCell<State>);

/// Limits how many users are inside the gate at once; the others wait in order. A user enters by
/// [`enter`](Self::enter), and leaves by dropping its [`Pass`]. [`close`](Self::close) rejects
/// further users, and waits until all users have left.
///
/// For the tasks of one thread; clones are the same gate. A future that is dropped while it waits
/// leaves the wait list. Cost: a few loads and stores, and one allocation per wait.
///
/// # Examples
///
/// ```
/// use rast_reactor::executor::{LocalExecutor, spawn_local, yield_now};
/// use rast_reactor::{EnterError, Gate};
///
/// LocalExecutor::new().run(async {
///     let gate = Gate::new(1);
///     let pass = gate.enter().await.unwrap();
///     assert_eq!(gate.try_enter().err(), Some(EnterError::Full));
///     let theirs = gate.clone();
///     let waits = spawn_local(async move { theirs.enter().await.is_ok() });
///     yield_now().await;
///     drop(pass);
///     assert!(waits.await.unwrap());
///     // No user is in after this, and none will be.
///     gate.close().await;
///     assert!(gate.enter().await.is_err());
/// });
/// ```
#[derive(Clone)]
pub struct Gate(Rc<Core>);

/// A user of a [`Gate`]; dropping it leaves the gate.
#[must_use = "the user leaves when it is dropped"]
pub struct Pass(Rc<Core>);

/// The gate was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateClosed;

/// The reason why [`Gate::try_enter`] rejected a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnterError {
    /// The maximum number is inside, or others wait.
    Full,
    /// The gate was closed.
    Closed,
}

impl fmt::Display for EnterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "the gate is full",
            Self::Closed => "the gate is closed",
        })
    }
}

error!(GateClosed, "the gate is closed");
impl core::error::Error for EnterError {}

impl Gate {
    /// Makes an open gate. With 0 users every user waits until it is closed.
    #[must_use]
    pub fn new(users_max: usize) -> Self {
        Self(Rc::new(Core(RefCell::new(State {
            users: 0,
            users_max,
            is_closed: false,
            line: Line::new(),
            draining: WakerList::default(),
        }))))
    }

    /// Waits until there is room, and enters.
    ///
    /// # Errors
    ///
    /// [`GateClosed`] if the gate was closed, also while it waited.
    pub async fn enter(&self) -> Result<Pass, GateClosed> {
        match self.try_enter() {
            Ok(pass) => return Ok(pass),
            Err(EnterError::Closed) => return Err(GateClosed),
            Err(EnterError::Full) => {}
        }
        if Wait::new(&self.0, ()).await {
            Ok(Pass(Rc::clone(&self.0)))
        } else {
            Err(GateClosed)
        }
    }

    /// Enters if there is room and no user waits.
    ///
    /// # Errors
    ///
    /// [`EnterError`].
    pub fn try_enter(&self) -> Result<Pass, EnterError> {
        let mut state = self.0.0.borrow_mut();
        if state.is_closed {
            return Err(EnterError::Closed);
        }
        if !state.line.is_empty() || state.users >= state.users_max {
            return Err(EnterError::Full);
        }
        state.users += 1;
        Ok(Pass(Rc::clone(&self.0)))
    }

    /// Closes the gate at once: waiting users get an error. Then waits until the last user has
    /// left. It may be called again, and its future may be dropped; the gate stays closed.
    ///
    /// A user that closes the gate must leave before it awaits this.
    pub fn close(&self) -> impl Future<Output = ()> + use<> {
        let mut ended = Ended::new();
        {
            let mut state = self.0.0.borrow_mut();
            state.is_closed = true;
            state.line.refuse_all(&mut ended);
        }
        ended.wake();
        let mut drain = Drain {
            core: Rc::clone(&self.0),
            entry: None,
        };
        core::future::poll_fn(move |cx| drain.poll(cx))
    }

    /// Returns `true` if the gate was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.0.borrow().is_closed
    }

    /// Returns the number of users inside.
    #[must_use]
    pub fn users(&self) -> usize {
        self.0.0.borrow().users
    }

    /// Returns the number of waiting users.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.0.borrow().line.len()
    }
}

/// A wait for the last user. Dropping it removes its waker, so that a gate keeps no abandoned task
/// alive.
struct Drain {
    core: Rc<Core>,
    /// In the list of the gate.
    entry: Option<u64>,
}

impl Drain {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        // Cloned and dropped outside of the borrow, since wakers are user code.
        let mut clone = None;
        loop {
            {
                let state = &mut *self.core.0.borrow_mut();
                if state.users == 0 {
                    return Poll::Ready(());
                }
                let draining = &mut state.draining;
                if draining.wait(&mut self.entry, cx.waker(), &mut clone) {
                    return Poll::Pending;
                }
            }
            clone = Some(cx.waker().clone());
        }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let left = self.core.0.borrow_mut().draining.remove(&mut self.entry);
        drop(left);
    }
}

impl Core {
    /// A user leaves: the next one enters, or the last one ends the drain.
    fn leave(&self) {
        let mut ended = Ended::new();
        let draining: Vec<_> = {
            let mut state = self.0.borrow_mut();
            debug_assert!(state.users > 0, "gate: a user that leaves is in");
            if state.line.is_empty() {
                state.users -= 1;
            } else {
                state.line.serve(&mut ended);
            }
            if state.is_closed && state.users == 0 {
                state.draining.drain().collect()
            } else {
                Vec::new()
            }
        };
        ended.wake();
        wake_all(draining);
    }
}

impl Place for Core {
    type Wants = ();

    fn line<R>(&self, f: impl FnOnce(&mut Line<()>) -> R) -> R {
        f(&mut self.0.borrow_mut().line)
    }

    fn give_back(&self, (): &()) {
        self.leave();
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.0.borrow();
        f.debug_struct("Gate")
            .field("users", &state.users)
            .field("users_max", &state.users_max)
            .field("waiting", &state.line.len())
            .field("is_closed", &state.is_closed)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pass")
    }
}
