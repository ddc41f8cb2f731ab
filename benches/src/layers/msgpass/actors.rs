//! The actors of a program, which are written once and run by each rival.
//!
//! A rival starts the actors and gives each one an unbounded mailbox. An actor sends to any other
//! actor by its index, and never waits inside `handle`. Mailboxes are unbounded in the Savina
//! suite: with bounded ones, some of its programs would block for ever.
//!
//! | rival | how an actor runs |
//! | --- | --- |
//! | actix | in an arbiter (a thread) chosen by `homes`; `do_send` ignores the bound of the mailbox |
//! | ractor | in a task of tokio's runtime of several threads |
//! | kameo | the same, with its unbounded mailbox |
//! | tokio | a task that reads an unbounded mpsc channel, in the same runtime |
//! | threads | a thread that reads an unbounded channel |

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};

#[cfg(all(rast_rivals, feature = "rivals"))]
mod actix;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod kameo;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod ractor;
#[cfg(all(rast_rivals, feature = "rivals"))]
mod tasks;
mod threads;

#[cfg(all(rast_rivals, feature = "rivals"))]
pub(super) use self::{actix::Actix, kameo::Kameo, ractor::Ractor, tasks::Tasks};
pub(super) use threads::Threads;

/// One actor of a program.
pub(super) trait Actor: Send + Unpin + 'static {
    /// What every actor of the program receives.
    type Message: Send + Unpin + 'static;

    /// Handles one message.
    fn handle(&mut self, message: Self::Message, to: &impl Peers<Self::Message>);
}

/// The actors of a program, by index.
pub(super) trait Peers<M> {
    /// Sends without waiting.
    fn send(&self, to: usize, message: M);
}

/// A rival, which runs actors.
pub(super) trait Rival {
    /// The name of its row.
    const NAME: &'static str;

    /// Starts the actors, calls `drive` with their addresses, and stops them when it returns.
    ///
    /// `homes` has the thread of each actor, a number below `threads`. Only rivals that place
    /// actors on threads use it.
    fn run<A: Actor, R>(
        actors: Vec<A>,
        homes: &[usize],
        threads: usize,
        drive: impl FnOnce(&dyn Peers<A::Message>) -> R,
    ) -> R;
}

/// A token: an actor drops it when it has started.
type Starting = Sender<Infallible>;

/// Waits until all actors have started.
struct Starts(Receiver<Infallible>);

impl Starts {
    /// Makes the first token; each actor gets a clone.
    fn new() -> (Starting, Self) {
        let (starting, starts) = channel();
        (starting, Self(starts))
    }

    fn wait(self) {
        // No thread sends, so this returns when all tokens are dropped.
        assert!(self.0.recv().is_err(), "a token is not sent");
    }
}

/// The addresses of all actors, which are known once all are started.
struct Book<S>(Arc<OnceLock<Vec<S>>>);

impl<S> Book<S> {
    fn new() -> Self {
        Self(Arc::new(OnceLock::new()))
    }

    fn fill(&self, addresses: Vec<S>) {
        assert!(self.0.set(addresses).is_ok(), "it is filled once");
    }

    #[inline]
    fn at(&self, index: usize) -> &S {
        &self.0.get().expect("messages come after the start")[index]
    }
}

impl<S> Clone for Book<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
