//! Tasks of tokio that read a channel.

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::{Actor, Book, Peers, Rival, Starts};

/// tokio's tasks with mpsc channels.
pub(in super::super) struct Tasks;

/// Tokio's runtime with so many threads.
pub(super) fn runtime(threads: usize) -> Runtime {
    let runtime = Builder::new_multi_thread().worker_threads(threads).build();
    runtime.expect("a runtime")
}

impl<M> Peers<M> for Book<UnboundedSender<M>> {
    #[inline]
    fn send(&self, to: usize, message: M) {
        if self.at(to).send(message).is_err() {
            panic!("the task is there");
        }
    }
}

impl Rival for Tasks {
    const NAME: &'static str = "tokio unbounded mpsc";

    fn run<A: Actor, R>(
        actors: Vec<A>,
        _: &[usize],
        threads: usize,
        drive: impl FnOnce(&dyn Peers<A::Message>) -> R,
    ) -> R {
        let runtime = runtime(threads);
        let book = Book::new();
        let (starting, starts) = Starts::new();
        let start = |mut actor: A| {
            let starting = starting.clone();
            let (sender, mut receiver) = unbounded_channel();
            let book: Book<UnboundedSender<A::Message>> = book.clone();
            runtime.spawn(async move {
                drop(starting);
                while let Some(message) = receiver.recv().await {
                    actor.handle(message, &book);
                }
            });
            sender
        };
        let senders = actors.into_iter().map(start).collect();
        book.fill(senders);
        drop(starting);
        starts.wait();
        // The tasks own the senders too, so they end with the runtime.
        drive(&book)
    }
}
