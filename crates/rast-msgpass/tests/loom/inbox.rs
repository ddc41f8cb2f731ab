//! The places and the ring of one inbox: the order of a pair, and that no message stays.

use rast_msgpass::__private::inbox::{Senders, Taker, inbox};
use rast_msgpass::primitive::sync::Arc;
use rast_msgpass::primitive::sync::atomic::{AtomicBool, Ordering};
use rast_msgpass::primitive::{model, thread};

const LOCAL: u32 = 1;
const MOVES: u32 = 2;
const REMOTE: u32 = 3;

/// A turn of a sender on the receiver's worker; `has_pushed`: it has pushed to the ring before.
fn send(senders: &Senders, taker: &Taker, has_pushed: &mut bool, tag: u32, message: u32) {
    // SAFETY: all turns, and the receiver's, are on the thread of the test.
    if !unsafe { senders.put(*has_pushed, tag, message) } {
        assert!(senders.push(tag, message));
        *has_pushed = true;
        // The wake-up of the push.
        taker.ask();
    }
}

/// Wake-ups from another worker: whether one is on its way.
#[derive(Default)]
struct Notes {
    note: AtomicBool,
    /// A sender was handed over.
    moved: AtomicBool,
}

/// A turn of the receiver.
fn receive(taker: &mut Taker, notes: &Notes, taken: &mut Vec<(u32, u32)>) {
    // Acquire: as a wake-up that arrives.
    if notes.note.swap(false, Ordering::Acquire) {
        taker.ask();
    }
    taken.extend(core::iter::from_fn(|| taker.take()));
}

fn messages_of(tag: u32, taken: &[(u32, u32)]) -> Vec<u32> {
    let own = taken.iter().filter(|(by, _)| *by == tag);
    own.map(|&(_, message)| message).collect()
}

/// A sender pushes to the ring on another worker and moves to the receiver's. Another one is there
/// all the time. The messages of each arrive in order.
#[test]
fn inbox_keeps_the_order_of_a_pair() {
    model::model(|| {
        let (senders, mut taker) = inbox(8);
        let notes = Arc::new(Notes::default());
        let (theirs, notes_of_theirs) = (senders.clone(), Arc::clone(&notes));
        let other = thread::spawn(move || {
            assert!(theirs.push(MOVES, 1));
            // The sharder hands the sender over, before the wake-up arrives or after.
            notes_of_theirs.moved.store(true, Ordering::Release);
            notes_of_theirs.note.store(true, Ordering::Release);
        });
        let mut taken = Vec::new();
        let (mut is_here, mut has_pushed) = (false, false);
        for message in 1..=2 {
            send(&senders, &taker, &mut has_pushed, LOCAL, message);
            if !is_here && notes.moved.load(Ordering::Acquire) {
                is_here = true;
                send(&senders, &taker, &mut true, MOVES, 2);
            }
            receive(&mut taker, &notes, &mut taken);
        }
        other.join().unwrap();
        if !is_here {
            send(&senders, &taker, &mut true, MOVES, 2);
        }
        receive(&mut taker, &notes, &mut taken);
        assert_eq!(messages_of(LOCAL, &taken), [1, 2]);
        assert_eq!(messages_of(MOVES, &taken), [1, 2]);
    });
}

/// Two senders on other workers push to the ring. A receiver that finds a claimed slot unwritten
/// looks again at the wake-up of its sender.
#[test]
fn inbox_leaves_no_message() {
    model::model(|| {
        let (senders, mut taker) = inbox(4);
        let notes = Arc::new(Notes::default());
        let others = [REMOTE, REMOTE + 1].map(|tag| {
            let (theirs, notes) = (senders.clone(), Arc::clone(&notes));
            thread::spawn(move || {
                assert!(theirs.push(tag, 1));
                // A read-modify-write, because each wake-up is a mark of its own: of two plain
                // stores one may count as older than what the receiver has taken.
                notes.note.swap(true, Ordering::AcqRel);
            })
        });
        let mut taken = Vec::new();
        send(&senders, &taker, &mut false, LOCAL, 1);
        receive(&mut taker, &notes, &mut taken);
        for other in others {
            other.join().unwrap();
        }
        receive(&mut taker, &notes, &mut taken);
        for tag in [LOCAL, REMOTE, REMOTE + 1] {
            assert_eq!(messages_of(tag, &taken), [1]);
        }
    });
}
