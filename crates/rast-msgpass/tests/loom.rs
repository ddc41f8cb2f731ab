//! The protocols of the graph under loom: doors in, lanes out, gated senders,
//! and the counts that prove rest.
//!
//! The sharder's part, parking a worker and waking it, is modelled in its own
//! crate; here an event count stands for it, with the same shape: the sleeper
//! fences and looks once more, the waker writes, fences and looks for sleepers.
#![cfg(any(rast_loom, rast_shuttle))]

#[path = "loom/inbox.rs"]
mod inbox;
#[path = "loom/outside.rs"]
mod outside;

use core::sync::atomic::AtomicUsize as RealUsize;
use core::task::{Context, Waker};
use std::sync::Arc as RealArc;

use rast_msgpass::__private::{
    Calm, Counter, Door, EgressReceiver, Lane, Pace, Task, Waiting, Wake,
};
use rast_msgpass::primitive::sync::Arc;
use rast_msgpass::primitive::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use rast_msgpass::primitive::{EventCount, model, thread};
use rast_msgpass::queue::spsc;
use rast_msgpass::sharder::ShardId;
use rast_msgpass::{AnswerError, Ask};

/// Stands for the sharder: shards sleep on it.
struct Sleepers(Arc<EventCount>);

impl Wake for Sleepers {
    fn wake(&self, _: ShardId) {
        self.0.notify_all();
    }
}

fn receiver<M>(
    rings: Vec<spsc::Consumer<M>>,
    lane: &Arc<Lane>,
    sleepers: &Arc<EventCount>,
) -> EgressReceiver<M, Sleepers> {
    let sleepers = Sleepers(Arc::clone(sleepers));
    EgressReceiver::from_rings(rings, Arc::clone(lane), 1, sleepers)
}

/// A receiver that blocks gets what two senders announce, whatever the moment.
#[test]
fn egress_wakes_a_blocked_receiver() {
    model::model(|| {
        let lane = Arc::new(Lane::new(2));
        let sleepers = Arc::new(EventCount::new());
        let (mut first, ring0) = spsc::ring::<u32>(1);
        let (mut second, ring1) = spsc::ring::<u32>(1);
        let mut out = receiver(vec![ring0, ring1], &lane, &sleepers);
        let theirs = Arc::clone(&lane);
        let sender = thread::spawn(move || {
            first.push(1).unwrap();
            theirs.announce(0);
            second.push(2).unwrap();
            theirs.announce(1);
        });
        let mut sum = out.recv().unwrap();
        sum += out.recv().unwrap();
        assert_eq!(sum, 3);
        sender.join().unwrap();
    });
}

/// A waker is called whenever the receiver has found the lane empty and
/// something came since; the receiver sleeps on nothing else.
#[test]
fn egress_calls_the_waker() {
    model::model(|| {
        let lane = Arc::new(Lane::new(2));
        let sleepers = Arc::new(EventCount::new());
        let (mut first, ring0) = spsc::ring::<u32>(1);
        let (mut second, ring1) = spsc::ring::<u32>(1);
        let mut out = receiver(vec![ring0, ring1], &lane, &sleepers);
        let loop_event = Arc::new((AtomicBool::new(false), EventCount::new()));
        let theirs = Arc::clone(&loop_event);
        out.set_waker(move || {
            // A read-modify-write, as an event descriptor or an unpark is: of two
            // plain stores one may count as older than what the loop has taken.
            theirs.0.swap(true, Ordering::AcqRel);
            theirs.1.notify_all();
        });
        let (one, two) = (Arc::clone(&lane), Arc::clone(&lane));
        let first = thread::spawn(move || {
            first.push(1).unwrap();
            one.announce(0);
        });
        let second = thread::spawn(move || {
            second.push(2).unwrap();
            two.announce(1);
        });
        let mut sum = 0;
        while sum < 3 {
            // The event loop: sleep until woken, then drain until empty.
            while !loop_event.0.swap(false, Ordering::AcqRel) {
                let key = loop_event.1.prepare();
                match loop_event.0.load(Ordering::Acquire) {
                    true => loop_event.1.cancel(key),
                    false => loop_event.1.wait(key),
                }
            }
            out.drain(usize::MAX, |number| sum += number);
        }
        first.join().unwrap();
        second.join().unwrap();
    });
}

/// What was announced by a bit is in the ring when the bit is taken.
#[test]
fn egress_bit_publishes_the_ring() {
    model::model(|| {
        let lane = Arc::new(Lane::new(1));
        let sleepers = Arc::new(EventCount::new());
        let (mut producer, ring) = spsc::ring::<u32>(2);
        let mut out = receiver(vec![ring], &lane, &sleepers);
        let theirs = Arc::clone(&lane);
        let announced = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&announced);
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            theirs.announce(0);
            // Relaxed on purpose: the bit alone has to carry the push.
            seen.store(1, Ordering::Relaxed);
            producer
        });
        let mut taken = out.drain(2, drop);
        let producer = sender.join().unwrap();
        taken += out.drain(2, drop);
        assert_eq!((taken, announced.load(Ordering::Relaxed)), (1, 1));
        drop(producer);
    });
}

/// A lane that says it is closed has nothing in it.
#[test]
fn egress_closed_is_empty() {
    model::model(|| {
        let lane = Arc::new(Lane::new(1));
        let sleepers = Arc::new(EventCount::new());
        let (mut producer, ring) = spsc::ring::<u32>(2);
        let out = receiver(vec![ring], &lane, &sleepers);
        let theirs = Arc::clone(&lane);
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            // Not announced: the fence of that would publish the push too.
            theirs.end();
        });
        assert!(!out.is_closed(), "nothing was taken");
        sender.join().unwrap();
        assert!(!out.is_closed(), "nothing was taken");
    });
}

/// A receiver that finds the lane ended takes everything that was pushed.
#[test]
fn egress_end_comes_last() {
    model::model(|| {
        let lane = Arc::new(Lane::new(1));
        let sleepers = Arc::new(EventCount::new());
        let (mut producer, ring) = spsc::ring::<u32>(2);
        let mut out = receiver(vec![ring], &lane, &sleepers);
        let theirs = Arc::clone(&lane);
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            theirs.announce(0);
            theirs.end();
        });
        let mut taken = 0;
        while out.recv().is_ok() {
            taken += 1;
        }
        assert_eq!(taken, 1);
        sender.join().unwrap();
    });
}

/// A sender that found no room and sleeps is woken by who makes room.
fn gated_sender(capacity: usize, burst: usize, messages: u32) {
    let waiting = Arc::new(Waiting::new(1, 1));
    let sleepers = Arc::new(EventCount::new());
    let (mut producer, mut consumer) = spsc::ring::<u32>(capacity);
    let (theirs, list) = (Arc::clone(&sleepers), Arc::clone(&waiting));
    let sender = thread::spawn(move || {
        for number in 0..messages {
            // The processor runs only with room for its burst.
            while producer.room() < burst {
                // The sharder's part: a turn after each wake-up.
                let key = theirs.prepare();
                list.enter(0, 0);
                match producer.room() < burst {
                    true => theirs.wait(key),
                    false => theirs.cancel(key),
                }
            }
            producer.push(number).unwrap();
        }
    });
    // As many as open the gate for the last message; then the sender alone goes on.
    let enough = messages + burst as u32 - capacity as u32;
    let mut pace = Pace::new(capacity, burst);
    let mut next = 0;
    while next < enough {
        let Some(number) = consumer.take() else {
            thread::yield_now();
            continue;
        };
        assert_eq!(number, next);
        next += 1;
        let is_quarter = pace.take();
        assert!(is_quarter || pace.holds());
        consumer.release();
        if pace.release() {
            waiting.look(0, true, |_| sleepers.notify_all());
        }
    }
    sender.join().unwrap();
    assert_eq!(consumer.len() as u32, messages - enough);
}

#[test]
fn gated_sender_is_woken() {
    model::model(|| gated_sender(2, 1, 4));
}

#[test]
fn gated_sender_with_a_burst_is_woken() {
    model::model(|| gated_sender(4, 2, 5));
}

/// Two senders in one list are woken by one look, and one that leaves a list
/// for another wakes the one that stays.
#[test]
fn waiting_list_loses_nobody() {
    model::model(|| {
        let waiting = Arc::new(Waiting::new(2, 1));
        let room = Arc::new(AtomicUsize::new(0));
        let woken = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let senders: Vec<_> = (0..2)
            .map(|sender| {
                let (waiting, room) = (Arc::clone(&waiting), Arc::clone(&room));
                thread::spawn(move || {
                    waiting.enter(sender, 0);
                    // Relaxed on purpose: the fences have to order it.
                    room.load(Ordering::Relaxed) > 0
                })
            })
            .collect();
        room.store(1, Ordering::Relaxed);
        let marks = Arc::clone(&woken);
        waiting.look(0, true, |sender| {
            marks[sender].store(true, Ordering::Relaxed)
        });
        for (sender, thread) in senders.into_iter().enumerate() {
            let saw = thread.join().unwrap();
            assert!(saw || woken[sender].load(Ordering::Relaxed));
            // Who was woken can enter again; who was not is in the list still.
            assert_ne!(
                waiting.is_waiting(sender),
                woken[sender].load(Ordering::Relaxed)
            );
        }
    });
}

/// A sender that needs room at one of two receivers waits in one list for both: it sees the room
/// of each receiver that did not find it.
#[test]
fn one_list_for_two_receivers_loses_no_room() {
    model::model(|| {
        let waiting = Arc::new(Waiting::new(1, 1));
        let rooms = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let woken = Arc::new(AtomicBool::new(false));
        let sender = {
            let (waiting, rooms) = (Arc::clone(&waiting), Arc::clone(&rooms));
            thread::spawn(move || {
                waiting.enter(0, 0);
                // Relaxed on purpose: the fences have to order it.
                rooms.iter().any(|room| room.load(Ordering::Relaxed) > 0)
            })
        };
        let receive = |receiver: usize| {
            let (waiting, rooms) = (Arc::clone(&waiting), Arc::clone(&rooms));
            let woken = Arc::clone(&woken);
            move || {
                rooms[receiver].store(1, Ordering::Relaxed);
                waiting.look(0, true, |_| woken.store(true, Ordering::Relaxed));
            }
        };
        let other = thread::spawn(receive(1));
        receive(0)();
        other.join().unwrap();
        let saw = sender.join().unwrap();
        assert!(saw || woken.load(Ordering::Relaxed));
    });
}

/// A list is whole under its lock, whichever threads enter, leave and wake.
#[test]
fn waiting_list_keeps_its_links() {
    model::model(|| {
        let waiting = Arc::new(Waiting::new(3, 1));
        waiting.enter(0, 0);
        waiting.enter(1, 0);
        let theirs = Arc::clone(&waiting);
        let enters = thread::spawn(move || theirs.enter(2, 0));
        let theirs = Arc::clone(&waiting);
        let leaves = thread::spawn(move || theirs.leave(1, 0));
        let mut found = Vec::new();
        waiting.wake(0, 2, |sender| found.push(sender));
        enters.join().unwrap();
        let has_left = leaves.join().unwrap();
        waiting.look(0, false, |sender| found.push(sender));
        let expected: &[usize] = if has_left { &[0, 2] } else { &[0, 1, 2] };
        assert_eq!(found, expected);
        assert!((0..3).all(|sender| !waiting.is_waiting(sender)));
    });
}

/// A sender that sees that it was removed from a list sees the slots that were returned before.
#[test]
fn a_woken_sender_sees_the_room() {
    model::model(|| {
        let waiting = Arc::new(Waiting::new(1, 1));
        let room = Arc::new(AtomicUsize::new(0));
        waiting.enter(0, 0);
        let (theirs, slots) = (Arc::clone(&waiting), Arc::clone(&room));
        let sender = thread::spawn(move || {
            // Relaxed on purpose: the link has to order it.
            theirs.is_waiting(0) || slots.load(Ordering::Relaxed) == 1
        });
        room.store(1, Ordering::Relaxed);
        // Without a fence, which would order it too.
        waiting.wake(0, 1, |_| {});
        assert!(sender.join().unwrap());
    });
}

/// There is room for one, and the first sender in the list does not use it: the other one finds it,
/// or is woken.
#[test]
fn a_wake_up_that_is_not_used_is_passed_on() {
    model::model(|| {
        let waiting = Arc::new(Waiting::new(2, 1));
        let room = Arc::new(AtomicUsize::new(0));
        let woken = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        waiting.enter(0, 0);
        let (theirs, slots) = (Arc::clone(&waiting), Arc::clone(&room));
        let other = thread::spawn(move || {
            theirs.enter(1, 0);
            // Relaxed on purpose: the fences have to order it.
            slots.load(Ordering::Relaxed) > 0
        });
        let (theirs, slots, marks) = (Arc::clone(&waiting), Arc::clone(&room), Arc::clone(&woken));
        // A turn of the first sender; `true` if it has passed the wake-up on.
        let turn = move || {
            let is_woken = !theirs.is_waiting(0);
            if is_woken && slots.load(Ordering::Relaxed) > 0 {
                theirs.wake(0, 1, |sender| marks[sender].store(true, Ordering::Relaxed));
            }
            is_woken
        };
        let first = thread::spawn(move || (turn(), turn));
        room.store(1, Ordering::Relaxed);
        if waiting.has_any(0, true) {
            let marks = &woken;
            waiting.wake(0, 1, |sender| {
                marks[sender].store(true, Ordering::Relaxed);
            });
        }
        let (has_passed, turn) = first.join().unwrap();
        // It was woken, so a turn follows.
        assert!(has_passed || turn());
        let saw = other.join().unwrap();
        assert!(saw || woken[1].load(Ordering::Relaxed));
    });
}

/// What a door accepts is taken out once, and not more than fits is accepted.
#[test]
fn door_is_bounded_and_loses_nothing() {
    model::model(|| {
        let door = Arc::new(Door::<u32>::new(1));
        let senders: Vec<_> = (0..2)
            .map(|number| {
                let door = Arc::clone(&door);
                thread::spawn(move || door.try_send(number).is_ok())
            })
            .collect();
        let mut taken = 0;
        if door.pop().is_some() {
            taken += 1;
            door.release(1);
        }
        let accepted = senders
            .into_iter()
            .map(|sender| usize::from(sender.join().unwrap()))
            .sum::<usize>();
        while door.pop().is_some() {
            taken += 1;
            door.release(1);
        }
        assert_eq!(accepted, taken);
        assert!(accepted >= 1);
        assert_eq!(door.len(), 0);
    });
}

/// A sender that waits for room gets it, or gets its message back.
#[test]
fn door_wakes_senders_for_room_and_for_the_end() {
    model::model(|| {
        let door = Arc::new(Door::<u32>::new(1));
        door.try_send(1).unwrap();
        let theirs = Arc::clone(&door);
        let sender = thread::spawn(move || theirs.send_until(2, None));
        assert_eq!(door.pop(), Some(1));
        door.release(1);
        door.close();
        let sent = sender.join().unwrap();
        match sent {
            Ok(()) => assert_eq!(door.pop(), Some(2)),
            Err(error) => assert!(error.is_closed() && error.into_inner() == 2),
        }
    });
}

/// Counts its calls. Outside of the model: it is read after the threads were joined.
struct Rings(RealUsize);

impl std::task::Wake for Rings {
    fn wake(self: RealArc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A task that found a door full is woken by the receiver that makes room, or by the end, whatever
/// the moment.
#[test]
fn door_wakes_tasks_for_room_and_for_the_end() {
    for ends in [false, true] {
        model::model(move || {
            let door = Arc::new(Door::<u32>::new(1));
            door.try_send(1).unwrap();
            let theirs = Arc::clone(&door);
            let receiver = thread::spawn(move || match ends {
                true => theirs.close(),
                false => {
                    assert_eq!(theirs.pop(), Some(1));
                    theirs.release(1);
                }
            });
            let rings = RealArc::new(Rings(RealUsize::new(0)));
            let waker = Waker::from(RealArc::clone(&rings));
            let mut cx = Context::from_waker(&waker);
            let (mut message, mut task) = (Some(2), Task::default());
            let sent = door.poll_send(&mut message, &mut task, &mut cx);
            receiver.join().unwrap();
            if sent.is_pending() {
                assert_eq!(rings.0.load(Ordering::SeqCst), 1);
                let sent = door.poll_send(&mut message, &mut task, &mut cx);
                assert_eq!(sent.is_ready(), true);
                door.cancel(&mut task);
            }
            assert_eq!(door.len(), 1);
        });
    }
}

/// An answer reaches the thread that asks, or comes back to the one that answers.
#[test]
fn an_answer_has_one_place() {
    model::model(|| {
        let (ask, mut answer) = Ask::<(), u32>::new(());
        let server = thread::spawn(move || ask.into_parts().1.send(5));
        let taken = answer.try_take();
        drop(answer);
        let sent = server.join().unwrap();
        assert_eq!(taken.is_ok() && sent.is_err(), false);
        if sent.is_err() {
            assert_eq!(taken, Err(AnswerError::Pending));
        }
    });
    model::model(|| {
        let (ask, answer) = Ask::<(), u32>::new(());
        let server = thread::spawn(move || drop(ask));
        // loom has no time: the answer is waited for.
        assert_eq!(
            answer.wait(core::time::Duration::MAX),
            Err(AnswerError::Dropped)
        );
        server.join().unwrap();
    });
}

/// A closed door whose count is zero stays empty, and what entered is counted.
#[test]
fn door_that_is_spent_stays_spent() {
    model::model(|| {
        let door = Arc::new(Door::<u32>::new(2));
        let entered = Arc::new(Counter::new());
        let accepted = Arc::new(AtomicUsize::new(0));
        let (theirs, count) = (Arc::clone(&door), Arc::clone(&accepted));
        let sender = thread::spawn(move || {
            if theirs.try_send(1).is_ok() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let (theirs, count) = (Arc::clone(&door), Arc::clone(&entered));
        let worker = thread::spawn(move || {
            if theirs.pop().is_some() {
                count.add(1);
                theirs.release(1);
            }
        });
        door.close();
        let spent = door.is_spent();
        let seen = entered.get();
        sender.join().unwrap();
        worker.join().unwrap();
        if spent {
            assert_eq!(seen, accepted.load(Ordering::Relaxed) as u64);
            assert!(door.pop().is_none());
        }
    });
}

/// Once all workers have seen that the graph drains, no ping is missing in the
/// counts and none comes any more.
#[test]
fn calm_counts_every_ping() {
    model::model(|| {
        let calm = Arc::new(Calm::new(1));
        let sent = Arc::new(Counter::new());
        let (asked, count) = (Arc::clone(&calm), Arc::clone(&sent));
        let worker = thread::spawn(move || {
            for _ in 0..2 {
                asked.see(0);
                if !asked.is_asked() {
                    count.add(1);
                }
            }
            asked.see(0);
        });
        calm.ask();
        let seen = calm.all_see().then(|| sent.get());
        worker.join().unwrap();
        if let Some(seen) = seen {
            assert_eq!(seen, sent.get());
        }
    });
}

/// Received read first and sent read after, being equal, say that there was a
/// moment of rest. Here there is none: each handler sends one more message.
#[test]
fn equal_counts_mean_rest() {
    model::model(|| {
        let sent = Arc::new([Counter::new(), Counter::new()]);
        let received = Arc::new([Counter::new(), Counter::new()]);
        let (mut there, mut ring) = spsc::ring::<u32>(1);
        // Message 1 is under way before the look begins.
        sent[0].add(1);
        there.push(1).unwrap();
        let (theirs, counts) = (Arc::clone(&sent), Arc::clone(&received));
        let looks = thread::spawn(move || {
            let received = counts[0].get_after() + counts[1].get_after();
            let sent = theirs[0].get() + theirs[1].get();
            assert_ne!(received, sent, "a message is under way at any moment");
        });
        let (mut back, mut returned) = spsc::ring::<u32>(1);
        assert_eq!(ring.pop(), Some(1));
        // The handler of the second processor sends one back.
        sent[1].add(1);
        back.push(2).unwrap();
        received[1].add_after(1);
        // The handler of the first sends another.
        assert_eq!(returned.pop(), Some(2));
        sent[0].add(1);
        there.push(3).unwrap();
        received[0].add_after(1);
        looks.join().unwrap();
    });
}
