//! Which types may cross and be shared between threads, and which may not.
//!
//! The checks run when this file is compiled.
#![cfg(not(rast_loom))]

use std::cell::Cell;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use misuse::{has, lacks};

mod primitive {
    use super::*;
    use rast::primitive::{
        AtomicTaggedPtr, CachePadded, EventCount, Parker, Signal, Snapshot, SnapshotGuard,
        TaggedPtr, Unparker,
    };

    // One thread parks on a parker, any thread wakes it.
    has!(Parker: Send);
    lacks!(Parker: Sync, Clone);
    has!(Unparker: Send, Sync, Clone);
    has!(Signal: Send, Sync);
    has!(EventCount: Send, Sync);
    // A guard pins the thread that loaded it.
    has!(Snapshot<u8>: Send, Sync);
    lacks!(SnapshotGuard<'static, u8>: Send);
    // A tagged pointer is a value like a raw pointer; its atomic form is shared.
    has!(TaggedPtr<u8>: Copy);
    has!(AtomicTaggedPtr<u8>: Send, Sync);
    has!(CachePadded<u8>: Send, Sync);
    lacks!(CachePadded<Rc<u8>>: Send, Sync);
    lacks!(CachePadded<Cell<u8>>: Sync);
}

mod alloc {
    use super::*;
    use rast::alloc::{Allocator, RastAlloc};

    has!(RastAlloc: Send, Sync, Copy, Allocator, std::alloc::GlobalAlloc);
    has!(RastAlloc: UnwindSafe, RefUnwindSafe);
}

mod queue {
    use super::*;
    use rast::queue::spsc::{Consumer, Producer};
    use rast::queue::{Closed, Full, Queue};

    // A half moves between threads and is used by one at a time.
    has!(Producer<u8>: Send);
    lacks!(Producer<u8>: Sync, Clone);
    has!(Consumer<u8>: Send);
    lacks!(Consumer<u8>: Sync, Clone);
    // What may not change threads may not go through.
    lacks!(Producer<Rc<u8>>: Send);
    lacks!(Consumer<Rc<u8>>: Send);
    // An item that is Send is enough: the queue hands out items, never references to them.
    has!(Queue<Cell<u8>>: Send, Sync);
    lacks!(Queue<u8>: Clone);
    lacks!(Queue<Rc<u8>>: Send, Sync);
    // An error tells about itself whatever the item is.
    struct Opaque;
    has!(Full<Opaque>: std::error::Error);
    has!(Closed<Opaque>: std::error::Error);
}

mod timers {
    use super::*;
    use rast::timers::{Clock, Instant, ManualClock, MonotonicClock, Nanos, PeriodicTimer, Tick};

    has!(MonotonicClock: Clock, Send, Sync, Copy);
    has!(ManualClock: Clock, Send, Sync, Clone);
    has!(Tick: Send, Sync);
    has!(PeriodicTimer<MonotonicClock>: Send);
    // A point in time plus a point in time is nothing.
    lacks!(Instant: std::ops::Add<Instant>);
    lacks!(Instant: From<Nanos>, From<u64>);
}

mod sharder {
    use super::*;
    use rast::sharder::{Assignment, Handle, Outcome, ShardId, Sharder, WorkerId};

    struct Idle;

    impl rast::sharder::Controller for Idle {
        type Shard = Cell<u8>;
        type Load = ();

        fn process(
            &self,
            _: &mut rast::sharder::WorkerCx<'_>,
            _: ShardId,
            _: &mut Cell<u8>,
            _: Option<&mut ()>,
        ) -> rast::sharder::Progress {
            rast::sharder::Progress::Idle
        }

        fn new_load(&self, _: ShardId) {}
    }

    // Anyone may hold a handle; who runs the sharder has it alone.
    has!(Handle: Send, Sync, Clone);
    has!(Sharder<Idle>: Send);
    lacks!(Sharder<Idle>: Clone);
    has!(Outcome<Idle>: Send);
    has!(Assignment: Send, Sync, Clone);
    // A shard's number is not a worker's, nor an integer by accident.
    lacks!(ShardId: From<WorkerId>, PartialEq<WorkerId>, PartialEq<u32>, std::ops::Add<u32>);
}

mod msgpass {
    use super::*;
    use rast::msgpass::{
        Cx, Egress, EgressReceiver, Handle, Ingress, IngressSender, Process, Receive, Report,
        Stopper, graph,
    };

    graph! {
        graph App {
            processors { echo: Echo }
            edges {
                ingress -> echo: Word;
                echo -> egress: Word;
            }
        }
    }

    // A processor and a message may hold what is not Sync: one thread at a time has them.
    struct Echo(Cell<u8>);
    struct Word(Cell<u8>);

    impl Process<App> for Echo {}

    impl Receive<App, Ingress, Word> for Echo {
        fn receive(&mut self, word: Word, cx: &mut Cx<'_, App, Self>) {
            self.0.set(word.0.get());
            cx.to::<Egress>().send(word);
        }
    }

    // Any thread may send in; one at a time receives from a lane, and stops by the handle.
    has!(IngressSender<App, Echo, Word>: Send, Sync, Clone);
    has!(EgressReceiver<Word>: Send);
    lacks!(EgressReceiver<Word>: Clone);
    has!(Handle<App>: Send);
    lacks!(Handle<App>: Clone);
    has!(Stopper: Send, Sync, Clone);
    has!(Report: Send, Sync);
    // A context is lent as a whole or not at all: what one handler may send, no two threads do.
    lacks!(Cx<'static, App, Echo>: Sync, Clone);

    #[test]
    fn what_is_not_sync_passes_through() {
        let handle = App::builder(Echo(Cell::new(0))).start().unwrap();
        let words = handle.ingress::<Echo, Word>();
        let mut echoes = handle.egress::<Echo, Word>(0);
        words.send(Word(Cell::new(7))).unwrap();
        assert_eq!(echoes.recv().unwrap().0.get(), 7);
        drop(handle);
    }
}

#[test]
fn the_checks_above_compiled() {}
