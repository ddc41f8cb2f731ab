//! Epochs and requests that wrap, and callers that break the order of a round.

use super::*;

/// Two workers swap their shards while the epoch and the count of requests wrap; each request
/// opens one epoch.
#[test]
fn epochs_and_requests_wrap() {
    let owners = |of: [u16; 2]| {
        let owners = of.map(WorkerId).to_vec();
        Assignment::new(owners, 2).expect("there are two workers")
    };
    let (baton, mut members) = Baton::new(owners([0, 1]));
    // Even, so that the page in use stays the first.
    let start = u32::MAX - 3;
    let word = Word::new(start, 2, 0).bits();
    baton.word.store(word, Ordering::Relaxed);
    baton.requests.store(start, Ordering::Relaxed);
    for member in &mut members {
        (member.epoch, member.served) = (start, start);
        assert_eq!(member.take(), 1);
    }
    for turn in 0..8 {
        assert!(members.iter().all(|member| !member.is_wanted()));
        baton.request();
        let mut lead = None;
        for (at, member) in members.iter_mut().enumerate() {
            assert!(member.is_wanted() && member.is_open());
            if let Promise::Lead(leader) = member.promise() {
                lead = Some((at, leader));
            }
        }
        let (at, leader) = lead.expect("the last to promise leads");
        let next = owners(if turn % 2 == 0 { [1, 0] } else { [0, 1] });
        members[at].publish(leader, Some(&next));
        for member in &mut members {
            assert!(member.look());
            assert_eq!(member.epoch(), start.wrapping_add(turn + 1));
            member.release_next();
        }
        for member in &mut members {
            assert_eq!((member.take(), member.held().len()), (1, 1));
            assert_eq!(member.with_assignment(Assignment::clone), next);
        }
    }
}

/// The place of a shard in its holder's list is read only while the shard is held, also by a
/// caller that keeps to no order.
#[test]
#[should_panic(expected = "a worker that left has no epoch")]
fn a_worker_that_left_looks_for_no_place() {
    let first = Assignment::round_robin(2, 2);
    let (_, mut members) = Baton::new(first);
    for member in &mut members {
        assert_eq!(member.take(), 1);
    }
    members[0].leave();
    members[0].release_next();
    let _ = members[0].promise();
    let Promise::Lead(leader) = members[1].promise() else {
        panic!("the last to promise leads");
    };
    let next = Assignment::new([1, 0].map(WorkerId).to_vec(), 2).expect("they exist");
    members[1].publish(leader, Some(&next));
    members[0].look();
}
