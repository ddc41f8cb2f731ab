//! Many receivers of one lane, and places of a door that sinks hold.

use core::task::{Context, Waker};
use std::pin::Pin;
use std::sync::Arc as RealArc;
use std::sync::atomic::AtomicUsize as RealUsize;

use rast_msgpass::__private::{Door, Lane, Task};
use rast_msgpass::SharedReceiver;
use rast_msgpass::primitive::sync::Arc;
use rast_msgpass::primitive::sync::atomic::Ordering;
use rast_msgpass::primitive::{EventCount, model, thread};
use rast_msgpass::queue::spsc;

use crate::{Rings, Sleepers, receiver};

/// The receivers of a lane of one sender, and that sender's ends.
fn shared(
    capacity: usize,
) -> (
    spsc::Producer<u32>,
    Arc<Lane>,
    SharedReceiver<u32, Sleepers>,
) {
    let lane = Arc::new(Lane::new(1));
    let (producer, ring) = spsc::ring::<u32>(capacity);
    let sleepers = Arc::new(EventCount::new());
    let out = receiver(vec![ring], &lane, &sleepers).share();
    (producer, lane, out)
}

fn rings() -> (RealArc<Rings>, Waker) {
    let rings = RealArc::new(Rings(RealUsize::new(0)));
    let waker = Waker::from(RealArc::clone(&rings));
    (rings, waker)
}

/// Two receivers that block get the two messages of one announcement: the one that is woken wakes
/// the other.
#[test]
fn shared_receivers_wake_each_other() {
    model::model(|| {
        let (mut producer, lane, out) = shared(2);
        let other = out.clone();
        let receiver = thread::spawn(move || other.recv().unwrap());
        producer.push(1).unwrap();
        producer.push(2).unwrap();
        lane.announce(0);
        let sum = out.recv().unwrap() + receiver.join().unwrap();
        assert_eq!(sum, 3);
    });
}

/// A message that comes while a receiver takes another one is not left to a receiver that has gone.
#[test]
fn shared_receivers_leave_no_message_behind() {
    model::model(|| {
        let (mut producer, lane, out) = shared(2);
        let other = out.clone();
        let receiver = thread::spawn(move || other.recv().unwrap());
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            lane.announce(0);
            producer.push(2).unwrap();
            lane.announce(0);
        });
        let sum = out.recv().unwrap() + receiver.join().unwrap();
        assert_eq!(sum, 3);
        sender.join().unwrap();
    });
}

/// A future that is dropped, at whatever moment, hands its wake-up on to the other one.
#[test]
fn a_dropped_receive_hands_its_wake_up_on() {
    model::model(|| {
        let (mut producer, lane, out) = shared(1);
        let (_, first_waker) = rings();
        let (second_rings, second_waker) = rings();
        let mut first = out.recv_async();
        let mut second = out.recv_async();
        let mut cx = Context::from_waker(&first_waker);
        assert!(Pin::new(&mut first).poll(&mut cx).is_pending());
        let mut cx = Context::from_waker(&second_waker);
        assert!(Pin::new(&mut second).poll(&mut cx).is_pending());
        let sender = thread::spawn(move || {
            producer.push(7).unwrap();
            lane.announce(0);
        });
        drop(first);
        sender.join().unwrap();
        assert_eq!(second_rings.0.load(Ordering::SeqCst), 1);
        assert!(Pin::new(&mut second).poll(&mut cx).is_ready());
    });
}

/// A receiver that polls while another one waits leaves it neither asleep nor without a message.
#[test]
fn a_poll_that_takes_passes_a_later_wake_up_on() {
    model::model(|| {
        let (mut producer, lane, out) = shared(2);
        let (first_rings, first_waker) = rings();
        let (second_rings, second_waker) = rings();
        let mut first = out.recv_async();
        let mut second = out.recv_async();
        let mut first_cx = Context::from_waker(&first_waker);
        assert!(Pin::new(&mut first).poll(&mut first_cx).is_pending());
        let mut second_cx = Context::from_waker(&second_waker);
        assert!(Pin::new(&mut second).poll(&mut second_cx).is_pending());
        let sender = thread::spawn(move || {
            producer.push(1).unwrap();
            lane.announce(0);
            producer.push(2).unwrap();
            lane.announce(0);
        });
        // Polled at any moment, as by another branch of its task.
        let has_one = Pin::new(&mut first).poll(&mut first_cx).is_ready();
        sender.join().unwrap();
        match has_one {
            true => assert!(second_rings.0.load(Ordering::SeqCst) > 0),
            // It has to look once more, and wakes the other then.
            false => {
                assert!(first_rings.0.load(Ordering::SeqCst) > 0);
                assert!(Pin::new(&mut first).poll(&mut first_cx).is_ready());
                assert!(second_rings.0.load(Ordering::SeqCst) > 0);
            }
        }
        assert!(Pin::new(&mut second).poll(&mut second_cx).is_ready());
    });
}

/// The end reaches each receiver.
#[test]
fn the_end_reaches_each_shared_receiver() {
    model::model(|| {
        let (producer, lane, out) = shared(1);
        let other = out.clone();
        let receiver = thread::spawn(move || other.recv().is_err());
        let sender = thread::spawn(move || {
            drop(producer);
            lane.end();
        });
        assert!(out.recv().is_err());
        assert!(receiver.join().unwrap());
        sender.join().unwrap();
    });
}

/// A door whose places are all held is spent only if nothing is in it, and nothing gets into it.
#[test]
fn a_door_with_a_held_place_is_spent_only_without_messages() {
    model::model(|| {
        let door = Arc::new(Door::<u32>::new(1));
        let (_, waker) = rings();
        let mut task = Task::default();
        let held = door.poll_hold(&mut task, &mut Context::from_waker(&waker));
        assert!(held.is_ready());
        let theirs = Arc::clone(&door);
        let sink = thread::spawn(move || theirs.send_held(1).is_ok());
        door.close();
        let is_spent = door.is_spent();
        let sent = sink.join().unwrap();
        assert!(
            !(is_spent && sent),
            "what was accepted is not in a spent door"
        );
        assert_eq!(door.pop().is_some(), sent);
        if sent {
            door.release(1);
        }
        assert!(door.is_spent());
    });
}

/// A held place that is freed wakes the task that waits for it.
#[test]
fn a_held_place_that_is_freed_wakes_a_task() {
    model::model(|| {
        let door = Arc::new(Door::<u32>::new(1));
        let (_, waker) = rings();
        let mut task = Task::default();
        let held = door.poll_hold(&mut task, &mut Context::from_waker(&waker));
        assert!(held.is_ready());
        let theirs = Arc::clone(&door);
        let sink = thread::spawn(move || theirs.free_held());
        let (rings, waker) = rings();
        let mut cx = Context::from_waker(&waker);
        let (mut message, mut task) = (Some(2), Task::default());
        let sent = door.poll_send(&mut message, &mut task, &mut cx);
        sink.join().unwrap();
        if sent.is_pending() {
            assert_eq!(rings.0.load(Ordering::SeqCst), 1);
            assert!(door.poll_send(&mut message, &mut task, &mut cx).is_ready());
        }
        assert_eq!(door.len(), 1);
        assert_eq!(door.pop(), Some(2));
    });
}

/// A task that takes a place while another task is woken for it, and is then woken itself before
/// its poll ends, passes that wake-up on.
#[test]
fn a_wake_up_at_the_end_of_a_poll_is_passed_on() {
    model::model(|| {
        let door = Arc::new(Door::<u32>::new(1));
        door.try_send(0).unwrap();
        let (first_rings, first_waker) = rings();
        let (mut first_message, mut first_task) = (Some(1), Task::default());
        let (_, second_waker) = rings();
        let (mut second_message, mut second_task) = (Some(2), Task::default());
        let mut first_cx = Context::from_waker(&first_waker);
        let first = door.poll_send(&mut first_message, &mut first_task, &mut first_cx);
        let mut second_cx = Context::from_waker(&second_waker);
        let second = door.poll_send(&mut second_message, &mut second_task, &mut second_cx);
        assert!(first.is_pending() && second.is_pending());
        assert_eq!(door.pop(), Some(0));
        door.release(1);
        assert_eq!(first_rings.0.load(Ordering::SeqCst), 1);

        let theirs = Arc::clone(&door);
        let other = thread::spawn(move || {
            let mut first_cx = Context::from_waker(&first_waker);
            let first = theirs.poll_send(&mut first_message, &mut first_task, &mut first_cx);
            if theirs.pop().is_some() {
                theirs.release(1);
            }
            first.is_ready()
        });
        // Polled without a wake-up, as by another branch of its task.
        let _ = door.poll_send(&mut second_message, &mut second_task, &mut second_cx);
        let first = other.join().unwrap();
        while door.pop().is_some() {
            door.release(1);
        }
        assert!(first || first_rings.0.load(Ordering::SeqCst) > 1);
    });
}
