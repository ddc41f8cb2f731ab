//! Actors of actix: each runs in an arbiter, which is a thread with an event loop.

use actix::{Addr, Arbiter, Context, Handler, Message, System};

use super::{Actor, Book, Peers, Rival, Starts};

/// actix.
pub(in super::super) struct Actix;

struct Letter<M>(M);

impl<M: Send + 'static> Message for Letter<M> {
    type Result = ();
}

struct Shell<A: Actor> {
    actor: A,
    book: Book<Addr<Self>>,
}

impl<A: Actor> actix::Actor for Shell<A> {
    type Context = Context<Self>;
}

impl<A: Actor> Handler<Letter<A::Message>> for Shell<A> {
    type Result = ();

    #[inline]
    fn handle(&mut self, Letter(message): Letter<A::Message>, _: &mut Context<Self>) {
        self.actor.handle(message, &self.book);
    }
}

impl<A: Actor> Peers<A::Message> for Book<Addr<Shell<A>>> {
    #[inline]
    fn send(&self, to: usize, message: A::Message) {
        self.at(to).do_send(Letter(message));
    }
}

impl Rival for Actix {
    const NAME: &'static str = "actix";

    fn run<A: Actor, R>(
        actors: Vec<A>,
        homes: &[usize],
        threads: usize,
        drive: impl FnOnce(&dyn Peers<A::Message>) -> R,
    ) -> R {
        // An arbiter needs the `System` of its thread.
        let system = System::new();
        let arbiters: Vec<Arbiter> = (0..threads).map(|_| Arbiter::new()).collect();
        let book = Book::new();
        let (starting, starts) = Starts::new();
        let start = |(actor, &home): (A, &usize)| {
            let (book, starting) = (book.clone(), starting.clone());
            let handle = arbiters[home].handle();
            actix::Actor::start_in_arbiter(&handle, move |_| {
                drop(starting);
                Shell { actor, book }
            })
        };
        let addresses = actors.into_iter().zip(homes).map(start).collect();
        book.fill(addresses);
        drop(starting);
        starts.wait();
        let result = drive(&book);
        for arbiter in &arbiters {
            arbiter.stop();
        }
        for arbiter in arbiters {
            arbiter.join().expect("no actor panics");
        }
        drop(system);
        result
    }
}
