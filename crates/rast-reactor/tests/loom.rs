//! Models: the credits of a pair, the wake-ups of the pool, commits and their epochs.

use rast_reactor::executor::LocalExecutor;
use rast_reactor::parts::{CREDITS, Ledger, Pair, Reader, Registry, Sent, Turns, Writer};
use rast_reactor::primitive::cell::UnsafeCell;
use rast_reactor::primitive::sync::Arc;
use rast_reactor::primitive::sync::atomic::{AtomicUsize, Ordering};
use rast_reactor::primitive::{Parker, Unparker, model, thread};
use rast_reactor::registry::{NoKey, Resource, Resources, change, read};
use rast_reactor::{Policy, Pool};

/// A pair whose credits were all taken.
fn spent() -> (Arc<Pair>, Sent) {
    let (pair, sent) = (Arc::new(Pair::new()), Sent::default());
    for _ in 0..CREDITS {
        assert!(sent.take(&pair));
    }
    (pair, sent)
}

#[test]
fn a_caller_without_a_credit_is_woken_by_one_that_comes_back() {
    model::model(|| {
        let (pair, sent) = spent();
        let parker = Parker::new();
        let (theirs, unparker) = (Arc::clone(&pair), parker.unparker());
        let target = thread::spawn(move || {
            if theirs.give_back() {
                unparker.unpark();
            }
        });
        while !sent.take_or_wait(&pair) {
            parker.park();
        }
        assert!(!sent.take(&pair), "one came back");
        target.join().unwrap();
    });
}

#[test]
fn two_that_return_credits_lose_no_wake_up() {
    model::model(|| {
        let (pair, sent) = spent();
        let parker = Parker::new();
        let targets = [(); 2].map(|()| {
            let (pair, unparker) = (Arc::clone(&pair), parker.unparker());
            thread::spawn(move || {
                if pair.give_back() {
                    unparker.unpark();
                }
            })
        });
        for _ in 0..2 {
            while !sent.take_or_wait(&pair) {
                parker.park();
            }
        }
        assert!(!sent.take(&pair), "two came back");
        for target in targets {
            target.join().unwrap();
        }
    });
}

/// A credit of a call, which the target returns, on its thread.
struct Credit(Arc<Pair>, Unparker);

impl Drop for Credit {
    fn drop(&mut self) {
        if self.0.give_back() {
            self.1.unpark();
        }
    }
}

#[test]
fn the_credit_of_a_call_that_is_given_up_comes_back_once() {
    // The caller drops its call while the target begins it, drops it, or ends. The caller's next
    // call waits for that credit, which is the last.
    model::model(|| {
        let executor = LocalExecutor::new();
        let remote = executor.remote();
        let caller = thread::spawn(move || {
            let (pair, sent) = spent();
            let parker = Parker::new();
            let credit = Credit(Arc::clone(&pair), parker.unparker());
            let mut batch = remote.batch();
            let call = batch.spawn(move || {
                drop(credit);
                async {}
            });
            batch.send();
            call.abort();
            drop(call);
            while !sent.take_or_wait(&pair) {
                parker.park();
            }
            assert!(!sent.take(&pair), "one came back");
        });
        executor.run(async {});
        drop(executor);
        caller.join().unwrap();
    });
}

#[test]
fn tasks_of_two_classes_wake_a_thread_each() {
    // The low task runs on the thread of class 2 alone, the high one on either.
    model::model(|| {
        let pool = Pool::builder().threads([1, 0, 1]).build().unwrap();
        let parker = Parker::new();
        let ran = Arc::new(AtomicUsize::new(0));
        let run = |policy| {
            let (ran, unparker) = (Arc::clone(&ran), parker.unparker());
            let task = move || {
                // Relaxed: the unpark publishes it.
                ran.fetch_add(1, Ordering::Relaxed);
                unparker.unpark();
            };
            let call = pool.run(policy, task);
            call.unwrap_or_else(|_| panic!("the pool is empty"))
        };
        let calls = [run(Policy::Low), run(Policy::High)];
        // Without both wake-ups this waits for ever. Relaxed: as above.
        while ran.load(Ordering::Relaxed) < 2 {
            parker.park();
        }
        drop(calls);
    });
}

#[test]
fn a_task_for_a_thread_that_falls_asleep_wakes_it() {
    model::model(|| {
        let pool = Pool::builder().threads([0, 0, 1]).build().unwrap();
        let parker = Parker::new();
        let unparker = parker.unparker();
        let task = pool.run(Policy::High, move || unparker.unpark());
        let Ok(call) = task else {
            panic!("the pool is empty")
        };
        // Without a wake-up of the pool's thread this waits for ever.
        parker.park();
        drop(call);
    });
}

/// Two values: commits name the one that is current.
type Values = Arc<[Value; 2]>;

/// A value that is written before it is committed, and again when it is destroyed.
struct Value(UnsafeCell<u32>);

// SAFETY: that its accesses are ordered is what the models show.
unsafe impl Send for Value {}
// SAFETY: as above.
unsafe impl Sync for Value {}

impl Value {
    fn read(&self) {
        // SAFETY: as the model shows.
        let alive = self.0.with(|value| unsafe { *value });
        assert_eq!(alive, 1, "it was made, and is not destroyed");
    }

    fn set(&self, alive: u32) {
        // SAFETY: as the model shows.
        self.0.with_mut(|value| unsafe { *value = alive });
    }
}

/// A commit: the value that it makes current. Its end is an access too.
struct Commit(usize, Value);

impl Drop for Commit {
    fn drop(&mut self) {
        self.1.set(2);
    }
}

fn values() -> Values {
    Arc::new([Value(UnsafeCell::new(1)), Value(UnsafeCell::new(0))])
}

/// A ledger of reactor 0, and the reader of reactor 1; that of reactor 0 is at its end.
fn ledger() -> (Writer<Commit>, Reader<Commit>) {
    let (writer, mut followers) = Ledger::of(0, 2);
    let reader = Reader::new(followers.split_off(1));
    drop(Reader::new(followers));
    (writer, reader)
}

/// Follows; returns which value is current then.
fn follow(reader: &mut Reader<Commit>, before: usize, is_read: bool) -> usize {
    let mut current = before;
    reader.follow(is_read, |_, commit| {
        commit.1.read();
        current = commit.0;
    });
    current
}

/// Commits the second value; destroys the first one if no reactor reads it.
fn replace(writer: &mut Writer<Commit>, values: &Values) {
    values[1].set(1);
    let number = writer.push(Commit(1, Value(UnsafeCell::new(1))), 0);
    let scan = writer.scan();
    if scan.passed >= number {
        values[0].set(2);
    }
    writer.free(scan);
}

/// Reactor 1 does `reads`, while its owner replaces the first value.
fn while_replaced(reads: fn(Reader<Commit>, &Values)) {
    model::model(move || {
        let (mut writer, reader) = ledger();
        let values = values();
        let theirs = Arc::clone(&values);
        let reactor = thread::spawn(move || reads(reader, &theirs));
        replace(&mut writer, &values);
        reactor.join().unwrap();
    });
}

#[test]
fn what_a_commit_replaced_is_not_read_after_a_turn() {
    while_replaced(|mut reader, values| {
        values[0].read();
        let current = follow(&mut reader, 0, false);
        reader.publish(None, |_| {});
        values[current].read();
    });
}

#[test]
fn what_an_open_transaction_sees_is_kept() {
    while_replaced(|mut reader, values| {
        let oldest = Some(reader.epoch());
        let current = follow(&mut reader, 0, true);
        reader.publish(oldest, |_| {});
        // The transaction sees the first one still, one that is opened now the current one.
        values[0].read();
        values[current].read();
        reader.publish(None, |_| {});
    });
}

#[test]
fn a_reactor_that_wakes_reads_nothing_that_was_destroyed_while_it_slept() {
    while_replaced(|mut reader, values| {
        values[0].read();
        if reader.park(None, |_| {}) {
            reader.unpark(None);
        }
        let current = follow(&mut reader, 0, false);
        values[current].read();
    });
}

#[test]
fn a_commit_is_freed_after_all_have_applied_it() {
    model::model(|| {
        let (mut writer, mut reader) = ledger();
        let reactor = thread::spawn(move || {
            follow(&mut reader, 0, false);
            reader.publish(None, |_| {});
            follow(&mut reader, 0, false);
        });
        for number in 1..=2 {
            writer.push(Commit(number, Value(UnsafeCell::new(1))), 0);
        }
        writer.free(writer.scan());
        reactor.join().unwrap();
    });
}

#[test]
fn an_owner_that_sleeps_is_woken_when_its_commit_is_applied() {
    model::model(|| {
        let (mut writer, mut followers) = Ledger::<()>::of(0, 2);
        let mut reader = Reader::new(followers.split_off(1));
        let mut own = Reader::new(followers);
        let parker = Parker::new();
        let unparker = parker.unparker();
        let reactor = thread::spawn(move || {
            reader.follow(false, |_, ()| {});
            reader.publish(None, |_| unparker.unpark());
            if !reader.park(None, |_| unparker.unpark()) {
                reader.follow(false, |_, ()| {});
                reader.publish(None, |_| unparker.unpark());
            }
            reader
        });
        let number = writer.push((), 0);
        own.follow(false, |_, ()| {});
        own.publish(None, |_| {});
        loop {
            writer.begin_wait();
            let is_parked = own.park(None, |_| unreachable!("it owns the one ledger"));
            assert!(is_parked, "its own commits are applied");
            if writer.scan().applied >= number {
                break;
            }
            // Without a wake-up this waits for ever.
            parker.park();
            own.unpark(None);
            writer.end_wait();
        }
        drop(reactor.join().unwrap());
    });
}

/// One of two resources that each commit changes together. Its end is an access too.
struct Half(UnsafeCell<u32>);

// SAFETY: that its accesses are ordered is what the model shows.
unsafe impl Send for Half {}
// SAFETY: as above.
unsafe impl Sync for Half {}

impl Half {
    fn new(version: u32) -> Self {
        Self(UnsafeCell::new(version))
    }

    fn version(&self) -> u32 {
        // SAFETY: as the model shows.
        self.0.with(|version| unsafe { *version })
    }
}

impl Resource for Half {
    type Key = NoKey;
}

impl Drop for Half {
    fn drop(&mut self) {
        // SAFETY: as the model shows.
        self.0.with_mut(|version| unsafe { *version = 0 });
    }
}

/// The versions that a transaction sees.
fn versions() -> Vec<u32> {
    let read = read();
    let halves = read.of::<Half>();
    let versions = halves.iter().map(|(_, half)| half.version());
    versions.collect()
}

/// Adds the two, and then replaces both.
fn change_both(turns: &Turns) {
    let mut changes = change();
    let mut add = || changes.add(Half::new(1)).unwrap();
    let both = [add(), add()];
    drop(changes.commit().unwrap());
    let mut changes = change();
    for half in both {
        changes.replace(half, Half::new(2)).unwrap();
    }
    drop(changes.commit().unwrap());
    // Destroys what was replaced, if the reader is past it.
    turns.turn();
}

#[test]
fn two_resources_of_a_commit_are_seen_together() {
    model::model(|| {
        let resources = Resources::new().own::<Half>(0);
        let mut registries = Registry::of(resources, 2);
        let theirs = registries.pop().unwrap();
        let own = registries.pop().unwrap();
        let reader = thread::spawn(move || {
            theirs.run(|turns| {
                let mut last = Vec::new();
                for _ in 0..2 {
                    turns.turn();
                    let seen = versions();
                    assert!([&[][..], &[1, 1], &[2, 2]].contains(&&*seen), "{seen:?}");
                    assert!(seen >= last, "commits are seen in order");
                    last = seen;
                }
            });
        });
        own.run(change_both);
        reader.join().unwrap();
    });
}
