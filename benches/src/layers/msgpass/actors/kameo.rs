//! Actors of kameo, in tokio's runtime.

use kameo::actor::{ActorRef, Spawn};
use kameo::error::Infallible;
use kameo::mailbox;
use kameo::message::{Context, Message};

use super::tasks::runtime;
use super::{Actor, Book, Peers, Rival};

/// kameo.
pub(in super::super) struct Kameo;

struct Letter<M>(M);

struct Shell<A: Actor> {
    actor: A,
    book: Book<ActorRef<Self>>,
}

impl<A: Actor> kameo::actor::Actor for Shell<A> {
    type Args = Self;
    type Error = Infallible;

    async fn on_start(shell: Self, _: ActorRef<Self>) -> Result<Self, Infallible> {
        Ok(shell)
    }
}

impl<A: Actor> Message<Letter<A::Message>> for Shell<A> {
    type Reply = ();

    async fn handle(
        &mut self,
        Letter(message): Letter<A::Message>,
        _: &mut Context<Self, Self::Reply>,
    ) {
        self.actor.handle(message, &self.book);
    }
}

impl<A: Actor> Peers<A::Message> for Book<ActorRef<Shell<A>>> {
    #[inline]
    fn send(&self, to: usize, message: A::Message) {
        if self.at(to).tell(Letter(message)).try_send().is_err() {
            panic!("the actor is there");
        }
    }
}

impl Rival for Kameo {
    const NAME: &'static str = "kameo";

    fn run<A: Actor, R>(
        actors: Vec<A>,
        _: &[usize],
        threads: usize,
        drive: impl FnOnce(&dyn Peers<A::Message>) -> R,
    ) -> R {
        let runtime = runtime(threads);
        let book = Book::new();
        let addresses: Vec<_> = {
            let _entered = runtime.enter();
            let start = |actor| {
                let book = book.clone();
                Shell::spawn_with_mailbox(Shell { actor, book }, mailbox::unbounded())
            };
            actors.into_iter().map(start).collect()
        };
        runtime.block_on(async {
            for address in &addresses {
                address.wait_for_startup().await;
            }
        });
        book.fill(addresses.clone());
        let result = drive(&book);
        for address in &addresses {
            address.kill();
        }
        runtime.block_on(async {
            for address in &addresses {
                address.wait_for_shutdown().await;
            }
        });
        result
    }
}
