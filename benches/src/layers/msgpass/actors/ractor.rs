//! Actors of ractor, in tokio's runtime.

use std::marker::PhantomData;

use ractor::{ActorProcessingErr, ActorRef};

use super::tasks::runtime;
use super::{Actor, Book, Peers, Rival};

/// ractor.
pub(in super::super) struct Ractor;

struct Shell<A>(PhantomData<fn() -> A>);

struct State<A: Actor> {
    actor: A,
    book: Book<ActorRef<A::Message>>,
}

impl<A: Actor> ractor::Actor for Shell<A> {
    type Msg = A::Message;
    type State = State<A>;
    type Arguments = State<A>;

    async fn pre_start(
        &self,
        _: ActorRef<A::Message>,
        state: State<A>,
    ) -> Result<State<A>, ActorProcessingErr> {
        Ok(state)
    }

    async fn handle(
        &self,
        _: ActorRef<A::Message>,
        message: A::Message,
        state: &mut State<A>,
    ) -> Result<(), ActorProcessingErr> {
        state.actor.handle(message, &state.book);
        Ok(())
    }
}

impl<M: ractor::Message> Peers<M> for Book<ActorRef<M>> {
    #[inline]
    fn send(&self, to: usize, message: M) {
        if self.at(to).cast(message).is_err() {
            panic!("the actor is there");
        }
    }
}

impl Rival for Ractor {
    const NAME: &'static str = "ractor";

    fn run<A: Actor, R>(
        actors: Vec<A>,
        _: &[usize],
        threads: usize,
        drive: impl FnOnce(&dyn Peers<A::Message>) -> R,
    ) -> R {
        let runtime = runtime(threads);
        let book = Book::new();
        let (mut addresses, mut joins) = (Vec::new(), Vec::new());
        runtime.block_on(async {
            for actor in actors {
                let book = book.clone();
                let state = State { actor, book };
                let started = ractor::Actor::spawn(None, Shell(PhantomData), state).await;
                let (address, join) = started.expect("it starts");
                addresses.push(address);
                joins.push(join);
            }
        });
        book.fill(addresses.clone());
        let result = drive(&book);
        for address in addresses {
            address.stop(None);
        }
        runtime.block_on(async {
            for join in joins {
                join.await.expect("no actor panics");
            }
        });
        result
    }
}
