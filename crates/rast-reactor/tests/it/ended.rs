//! Epochs after the end of a reactor: what destructors read, change and commit then.
#![cfg(not(any(rast_loom, rast_shuttle)))]

use std::cell::RefCell;
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;

use crate::support::{Value, on, own, put, reactors, update};
use rast_reactor::registry::{Changes, Id, NoKey, NotCommitted, Resource, change, read};

thread_local! {
    /// Dropped at the end of its thread, when the reactor has ended.
    static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
}

/// Calls a closure when it is dropped.
struct AtEnd(Option<Box<dyn FnOnce()>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

fn at_end(f: impl FnOnce() + 'static) {
    AT_END.with(|end| *end.borrow_mut() = Some(AtEnd(Some(Box::new(f)))));
}

/// Changes that were rejected because of the limit, so that they have no transaction.
fn full(id: Id<Value>, number: u64) -> Changes {
    let held = read();
    let mut number = number;
    loop {
        number += 1;
        match update(id, number).commit() {
            Ok(committed) => drop(committed),
            Err(NotCommitted::Full(changes)) => break changes,
            Err(error) => panic!("{error:?}"),
        }
        assert!(held.get(id).is_some());
    }
}

#[test]
fn changes_open_no_transaction_after_the_end_of_their_reactor() {
    let (reactors, live) = reactors(1, |resources| own(resources).retired_max(1));
    let (sender, receiver) = mpsc::channel();
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(1)).await;
        let changes = full(id, 1);
        at_end(move || {
            // A transaction could be opened here, and nothing would keep what it sees.
            let opened = catch_unwind(AssertUnwindSafe(|| changes.before().get(id).is_some()));
            let message = opened.err().and_then(|error| error.downcast::<&str>().ok());
            sender.send(message.map(|message| *message)).unwrap();
        });
    });
    drop(reactors);
    let message = receiver.recv().unwrap().expect("a transaction was opened");
    assert!(message.contains("has ended"), "{message}");
}

#[test]
fn changes_are_not_committed_after_the_end_of_their_reactor() {
    struct Other(u64);
    impl Resource for Other {
        type Key = NoKey;
    }
    let resources = |resources| own(resources).own::<Other>(1).retired_max(1);
    let (reactors, live) = reactors(2, resources);
    let (to_one, one) = mpsc::channel();
    let (to_zero, zero) = mpsc::channel();
    let (sender, receiver) = mpsc::channel();
    on(&reactors, 0, move || async move {
        let id = put(1, live.value(1)).await;
        let changes = update(id, 2);
        at_end(move || {
            to_one.send(()).unwrap();
            zero.recv().unwrap();
            // The other owner has freed the commits that this reactor applied last.
            let is_conflict = matches!(changes.commit(), Err(NotCommitted::Conflict(_)));
            sender.send(is_conflict).unwrap();
        });
    });
    let frees = move || {
        one.recv().unwrap();
        for n in 0..100 {
            let mut changes = change();
            changes
                .add(Other(n))
                .unwrap_or_else(|error| panic!("{error}"));
            drop(changes.commit().unwrap());
            assert!(n < 9 || read().of::<Other>().iter().any(|(_, other)| other.0 == n));
        }
        to_zero.send(()).unwrap();
    };
    let last = reactors.reactor(1).unwrap().spawn(move || async move {
        let _end = AtEnd(Some(Box::new(frees)));
        pending::<()>().await;
    });
    last.detach();
    on(&reactors, 1, || async {});
    drop(reactors);
    assert!(receiver.recv().unwrap(), "they were committed");
}

#[cfg(feature = "io")]
mod buffers {
    use super::*;
    use crate::support::io::{Hook, Hooked};
    use crate::support::turn;
    use rast_reactor::io::{TcpListener, TcpStream};
    use rast_reactor::registry::Resources;
    use rast_reactor::spawn_local;

    impl Hook for AtEnd {}

    #[test]
    fn a_buffer_that_is_dropped_at_the_end_reads_what_is_kept() {
        let resources = |resources: Resources| resources.own::<Value>(1).retired_max(1);
        let (reactors, live) = reactors(2, resources);
        let (to_one, one) = mpsc::channel();
        let (to_zero, zero) = mpsc::channel();
        let (sender, receiver) = mpsc::channel();
        let id = on(&reactors, 1, move || async move {
            let id = put(1, live.value(1)).await;
            let destroys = move || {
                one.recv().unwrap();
                drop(update(id, 2).commit());
                // A commit at the limit destroys what it may.
                drop(update(id, 3).commit());
                to_zero.send(()).unwrap();
            };
            spawn_local(async move {
                let _end = AtEnd(Some(Box::new(destroys)));
                pending::<()>().await;
            })
            .detach();
            turn().await;
            id
        });
        on(&reactors, 0, move || async move {
            let reads = move || {
                let read = read();
                let value = read.get(id).unwrap();
                to_one.send(()).unwrap();
                zero.recv().unwrap();
                let alive = catch_unwind(AssertUnwindSafe(|| value.number()));
                sender.send(alive.ok()).unwrap();
            };
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).await.unwrap();
            let server = listener.accept().await.unwrap();
            spawn_local(async move {
                let end = AtEnd(Some(Box::new(reads)));
                drop(client.read(Hooked::new(64, end)).await);
                drop(server);
            })
            .detach();
            turn().await;
        });
        drop(reactors);
        assert_eq!(receiver.recv(), Ok(Some(1)));
    }
}
