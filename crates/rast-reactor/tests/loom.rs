//! Models: the credits of a pair, the wake-ups of the pool.
#![cfg(feature = "std")]

use rast_reactor::parts::{CREDITS, Pair, Sent};
use rast_reactor::primitive::sync::Arc;
use rast_reactor::primitive::{Parker, model, thread};
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
