//! Outboxes on one thread.

use super::*;
use crate::inbox::{Receiver, inboxes};
use crate::waiting::Pace;

fn outbox(count: usize, capacity: usize) -> (Outbox<u32>, Vec<Receiver<u32>>) {
    let pace = |capacity| Pace::new(capacity, 1);
    let (inboxes, receivers) = inboxes(0, count, capacity, false, pace);
    (Outbox::new(inboxes, 7, false, None), receivers)
}

fn taken(inbox: &mut Receiver<u32>) -> Vec<u32> {
    inbox.ask();
    let taken = core::iter::from_fn(|| inbox.take().map(|(_, message, _)| message)).collect();
    inbox.settle();
    taken
}

#[test]
fn targets_that_share_a_place_keep_their_order() {
    let (mut outbox, mut inboxes) = outbox(2 * PLACES, 256);
    let targets = [3, 5, PLACES + 3, 3, 5, PLACES + 3, 3];
    (0..70).for_each(|at| outbox.put(targets[at % targets.len()], at as u32));
    let announced = outbox.publish();
    for target in [3, 5, PLACES + 3] {
        let sent = (0..70).filter(|at| targets[at % targets.len()] == target);
        let sent: Vec<u32> = sent.map(|at| at as u32).collect();
        assert!(announced.contains(&(target as u32)));
        assert_eq!(taken(&mut inboxes[target]), sent);
    }
}

#[test]
fn what_finds_no_room_goes_later_and_in_order() {
    let (mut outbox, mut inboxes) = outbox(2, 4);
    (0..10).for_each(|message| outbox.put(message as usize % 2, message));
    outbox.publish();
    assert!(outbox.is_stuck() && outbox.first_stuck() == Some(0));
    outbox.put(1, 11);
    assert_eq!(taken(&mut inboxes[0]), [0, 2, 4, 6]);
    outbox.look();
    // The other inbox is still full.
    assert!(outbox.is_stuck() && outbox.first_stuck() == Some(1));
    assert_eq!(taken(&mut inboxes[1]), [1, 3, 5, 7]);
    outbox.look();
    outbox.publish();
    assert!(!outbox.is_stuck());
    assert_eq!(taken(&mut inboxes[0]), [8]);
    assert_eq!(taken(&mut inboxes[1]), [9, 11]);
}

#[test]
fn few_messages_go_before_one_that_is_sent_at_once() {
    let (mut outbox, mut inboxes) = outbox(1, 4);
    outbox.put(0, 1);
    assert_eq!(outbox.try_put(0, 2), Ok(()));
    outbox.put(0, 3);
    outbox.publish();
    assert_eq!(taken(&mut inboxes[0]), [1, 2, 3]);
    outbox.put(0, 4);
    let mut lost = Vec::new();
    outbox.abandon(|message| lost.push(message));
    assert_eq!(lost, [4]);
}

#[test]
fn runs_without_room_keep_their_order() {
    let (mut outbox, mut inboxes) = outbox(2, 16);
    // Longer and shorter than a run that goes straight to its inbox.
    let runs = [
        (0, 40),
        (1, 2 * RUN),
        (0, 3),
        (1, 1),
        (0, 1),
        (1, RUN),
        (0, RUN),
    ];
    let targets = runs.map(|(target, count)| vec![target; count]).concat();
    for (message, &target) in targets.iter().enumerate() {
        outbox.put(target, message as u32);
    }
    let mut all = [Vec::new(), Vec::new()];
    outbox.publish();
    while outbox.is_stuck() {
        for (all, inbox) in all.iter_mut().zip(&mut inboxes) {
            inbox.ask();
            // Part of it, so that a run finds room for a part of it.
            all.extend(
                (0..5)
                    .map_while(|_| inbox.take())
                    .map(|(_, message, _)| message),
            );
            inbox.settle();
        }
        outbox.look();
        outbox.publish();
    }
    for (target, (all, inbox)) in all.iter_mut().zip(&mut inboxes).enumerate() {
        all.extend(taken(inbox));
        let sent = (0..targets.len()).filter(|&at| targets[at] == target);
        assert_eq!(*all, sent.map(|at| at as u32).collect::<Vec<_>>());
    }
}

#[test]
fn what_is_kept_is_given_up_once() {
    let (mut outbox, _inboxes) = outbox(3, 4);
    (0..9).for_each(|message| outbox.put(message as usize % 3, message));
    let mut lost = Vec::new();
    outbox.abandon(|message| lost.push(message));
    lost.sort_unstable();
    assert_eq!(lost, (0..9).collect::<Vec<_>>());
}

#[test]
fn more_than_few_messages_keep_their_order() {
    for count in 1..3 * FEW as u32 {
        let (mut outbox, mut inboxes) = outbox(2, 64);
        for round in 0..3 {
            (0..count).for_each(|at| outbox.put(at as usize % 2, round * count + at));
            if round == 1 {
                assert_eq!(outbox.try_put(0, 1000), Ok(()));
            }
            outbox.publish();
        }
        for (target, inbox) in inboxes.iter_mut().enumerate() {
            let sent = (0..3).flat_map(|round| {
                let of_round = (0..count).map(move |at| (at as usize % 2, round * count + at));
                of_round.chain((round == 1).then_some((0, 1000)))
            });
            let sent: Vec<u32> = sent
                .filter_map(|(to, message)| (to == target).then_some(message))
                .collect();
            assert_eq!(taken(inbox), sent);
        }
    }
}
