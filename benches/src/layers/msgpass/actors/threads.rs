//! Threads that read a channel: crossbeam's, or std's where the rivals are not built.

use std::thread;

#[cfg(all(rast_rivals, feature = "rivals"))]
use crossbeam_channel::{Sender, unbounded};
#[cfg(not(all(rast_rivals, feature = "rivals")))]
use std::sync::mpsc::{Sender, channel as unbounded};

use super::{Actor, Book, Peers, Rival, Starts};

/// A thread per actor.
pub(in super::super) struct Threads;

/// `None` ends the thread. A closed channel cannot, because all threads own all senders.
impl<M> Peers<M> for Book<Sender<Option<M>>> {
    #[inline]
    fn send(&self, to: usize, message: M) {
        if self.at(to).send(Some(message)).is_err() {
            panic!("the thread is there");
        }
    }
}

/// Ends the threads, also after a panic, because the scope waits for them.
struct Ends<M>(Vec<Sender<Option<M>>>);

impl<M> Drop for Ends<M> {
    fn drop(&mut self) {
        for sender in &self.0 {
            // A thread that has panicked is reported by the scope.
            let _ = sender.send(None);
        }
    }
}

impl Rival for Threads {
    const NAME: &'static str = if cfg!(all(rast_rivals, feature = "rivals")) {
        "threads, crossbeam-channel"
    } else {
        "threads, std mpsc"
    };

    fn run<A: Actor, R>(
        actors: Vec<A>,
        _: &[usize],
        _: usize,
        drive: impl FnOnce(&dyn Peers<A::Message>) -> R,
    ) -> R {
        let book = Book::new();
        thread::scope(|scope| {
            let (starting, starts) = Starts::new();
            let start = |mut actor: A| {
                let starting = starting.clone();
                let (sender, receiver) = unbounded();
                let book: Book<Sender<Option<A::Message>>> = book.clone();
                scope.spawn(move || {
                    drop(starting);
                    while let Ok(Some(message)) = receiver.recv() {
                        actor.handle(message, &book);
                    }
                });
                sender
            };
            let senders: Vec<Sender<Option<A::Message>>> = actors.into_iter().map(start).collect();
            let _ends = Ends(senders.clone());
            book.fill(senders);
            drop(starting);
            starts.wait();
            drive(&book)
        })
    }
}
