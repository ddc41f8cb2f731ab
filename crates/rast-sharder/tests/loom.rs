//! Models of the baton protocol: the real words, pages, holders and seats,
//! driven by threads that stand for workers.
//!
//! State, figures and pages are loom cells, so an access that is not excluded
//! or not ordered fails the model; a wake-up that is lost is a deadlock, which
//! fails it too.
//!
//! Under `--cfg rast_loom` each runs in every interleaving; otherwise it runs as
//! a stress on real threads.

use rast_sharder::primitive::cell::UnsafeCell;
use rast_sharder::primitive::sync::Arc;
use rast_sharder::primitive::sync::atomic::{AtomicU32, Ordering};
use rast_sharder::primitive::{model, thread};
use rast_sharder::protocol::{Baton, Member, Promise};
use rast_sharder::{Assignment, ShardId, WorkerId};

/// What the protocol guards.
struct World {
    /// A shard's state: touched by its holder.
    states: Vec<UnsafeCell<u32>>,
    /// A shard's figures: touched by its holder until it promises, and read
    /// by the leader.
    loads: Vec<UnsafeCell<u32>>,
    /// The window of each worker: touched by the worker until it promises, and
    /// read by the leader.
    windows: Vec<UnsafeCell<u32>>,
    /// A message to a shard, put there from outside.
    message: AtomicU32,
    /// What the leader decides.
    next: Assignment,
}

// SAFETY: the protocol under test excludes concurrent accesses; loom checks it.
unsafe impl Sync for World {}
// SAFETY: cells of numbers.
unsafe impl Send for World {}

impl World {
    fn new(next: Assignment) -> Arc<Self> {
        let cells = || (0..next.shards()).map(|_| UnsafeCell::new(0)).collect();
        Arc::new(Self {
            states: cells(),
            loads: cells(),
            windows: (0..next.workers()).map(|_| UnsafeCell::new(0)).collect(),
            message: AtomicU32::new(0),
            next,
        })
    }

    fn touch(&self, shard: ShardId) {
        // SAFETY: the caller holds the shard; loom fails if that is not enough.
        self.states[shard.index()].with_mut(|state| unsafe { *state += 1 });
    }

    fn update(&self, shard: ShardId) {
        // SAFETY: the caller holds the shard and has not promised; as above.
        self.loads[shard.index()].with_mut(|load| unsafe { *load += 1 });
    }

    fn note(&self, worker: WorkerId) {
        // SAFETY: the caller is this worker and has not promised; as above.
        self.windows[worker.index()].with_mut(|window| unsafe { *window += 1 });
    }

    fn read_all_loads(&self) {
        self.read_loads(usize::MAX);
    }

    /// Reads those of the first so many shards and workers.
    fn read_loads(&self, most: usize) {
        let loads = self.loads.iter().take(most);
        for load in loads.chain(self.windows.iter().take(most)) {
            // SAFETY: the caller leads; as above.
            load.with(|load| unsafe { *load });
        }
    }
}

fn owners(of: &[u16], workers: usize) -> Assignment {
    let owners = of.iter().map(|&worker| WorkerId(worker)).collect();
    Assignment::new(owners, workers).expect("the models name workers that exist")
}

/// One turn as `worker.rs` takes it; returns whether anything happened.
fn turn(member: &mut Member, world: &World, promises: bool) -> bool {
    let mut progressed = member.look();
    if progressed {
        leave_shards(member, world);
        world.note(member.worker());
    }
    progressed |= member.take() > 0;
    for &shard in member.held() {
        world.touch(shard);
        if member.is_open() {
            world.update(shard);
            world.note(member.worker());
        }
    }
    if member.may_promise() && (promises || member.is_wanted()) {
        progressed = true;
        if let Promise::Lead(leader) = member.promise() {
            world.read_all_loads();
            member.publish(leader, Some(&world.next));
        }
    }
    progressed
}

/// What a worker does when nothing happened. Returns what it was woken for.
fn sleep(member: &mut Member) -> Vec<(ShardId, Option<u32>)> {
    member.flush();
    member.park(|park| park.park(None, &mut |_| {}));
    let mut notes = Vec::new();
    member.receive_bits(&mut notes);
    member.receive(usize::MAX, &mut notes);
    notes
}

fn leave_shards(member: &mut Member, world: &World) {
    while let Some(&shard) = member.leaving().last() {
        world.touch(shard);
        member.release_next();
    }
}

fn leave(mut member: Member, world: &World) {
    member.leave();
    leave_shards(&mut member, world);
}

/// A worker that takes a few turns and never sleeps.
fn few_turns(mut member: Member, world: &World, turns: usize) {
    for _ in 0..turns {
        if member.is_stopping() {
            break;
        }
        turn(&mut member, world, true);
    }
    leave(member, world);
}

/// A worker that runs until it is stopped and sleeps when nothing happens.
/// The holder of shard 0 takes the message and stops all.
fn until_stopped(mut member: Member, baton: &Baton, world: &World) {
    let has_message =
        |member: &Member| member.is_local(ShardId(0)) && world.message.load(Ordering::Relaxed) != 0;
    while !member.is_stopping() {
        let progressed = turn(&mut member, world, false);
        if has_message(&member) {
            baton.stop();
        } else if !progressed {
            sleep(&mut member);
        }
    }
    leave(member, world);
}

/// Runs each member on a thread of its own.
fn run_all(
    members: Vec<Member>,
    baton: &Arc<Baton>,
    world: &Arc<World>,
    run: fn(Member, &Baton, &World),
) -> Vec<thread::JoinHandle<()>> {
    let start = |member| {
        let (baton, world) = (baton.clone(), world.clone());
        thread::spawn(move || run(member, &baton, &world))
    };
    members.into_iter().map(start).collect()
}

fn join_all(threads: impl IntoIterator<Item = thread::JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

fn all_free(baton: &Baton, shards: usize) {
    for shard in 0..shards {
        assert_eq!(baton.holder(ShardId::from_index(shard)), None);
    }
}

/// Two workers swap their shards: states, figures and pages are never touched
/// by two at once.
#[test]
fn two_workers_swap_shards() {
    model::model(|| {
        let (baton, members) = Baton::new(owners(&[0, 1], 2));
        let world = World::new(owners(&[1, 0], 2));
        let mut members = members.into_iter();
        let (first, second) = (members.next().unwrap(), members.next().unwrap());
        let theirs = world.clone();
        let other = thread::spawn(move || few_turns(second, &theirs, 3));
        few_turns(first, &world, 3);
        other.join().unwrap();
        all_free(&baton, 2);
    });
}

/// Two epochs: the page that the first epoch used is written again.
#[test]
fn a_page_is_written_when_all_have_left_it() {
    model::model(|| {
        let (baton, members) = Baton::new(owners(&[0], 2));
        let world = World::new(owners(&[1], 2));
        let mut members = members.into_iter();
        let (first, second) = (members.next().unwrap(), members.next().unwrap());
        let theirs = world.clone();
        let other = thread::spawn(move || few_turns(second, &theirs, 4));
        few_turns(first, &world, 4);
        other.join().unwrap();
        all_free(&baton, 1);
    });
}

/// Three workers pass three shards round.
#[test]
fn three_workers_pass_shards_round() {
    model::model(|| {
        let (baton, members) = Baton::new(owners(&[0, 1, 2], 3));
        let world = World::new(owners(&[1, 2, 0], 3));
        let mut members = members.into_iter();
        let first = members.next().unwrap();
        let others: Vec<_> = members
            .map(|member| {
                let world = world.clone();
                thread::spawn(move || few_turns(member, &world, 2))
            })
            .collect();
        few_turns(first, &world, 2);
        join_all(others);
        all_free(&baton, 3);
    });
}

/// A stop ends workers that swap shards and sleep, whenever it comes.
#[test]
fn stop_ends_all_at_any_moment() {
    model::model(|| {
        let (baton, members) = Baton::new(owners(&[0, 1], 2));
        let world = World::new(owners(&[1, 0], 2));
        baton.request();
        let others = run_all(members, &baton, &world, until_stopped);
        baton.stop();
        join_all(others);
        all_free(&baton, 2);
    });
}

/// What was written before a stop is seen by a worker that sees the stop.
#[test]
fn a_stop_publishes_what_was_before_it() {
    model::model(|| {
        let (baton, mut members) = Baton::new(owners(&[0], 1));
        let world = World::new(owners(&[0], 1));
        let (member, theirs) = (members.pop().unwrap(), world.clone());
        let other = thread::spawn(move || {
            if member.is_stopping() {
                theirs.touch(ShardId(0));
            }
        });
        world.touch(ShardId(0));
        baton.stop();
        other.join().unwrap();
    });
}

/// A message to a shard that moves meanwhile wakes the worker that holds it then.
#[test]
fn a_message_finds_its_shard_through_a_move() {
    model::model(|| {
        let (baton, members) = Baton::new(owners(&[0], 2));
        let world = World::new(owners(&[1], 2));
        baton.request();
        let others = run_all(members, &baton, &world, until_stopped);
        world.message.store(1, Ordering::Relaxed);
        baton.wake(ShardId(0));
        join_all(others);
        all_free(&baton, 1);
    });
}

/// A message to a shard that stays wakes its worker.
#[test]
fn a_message_wakes_a_parked_worker() {
    model::model(|| {
        let (baton, mut members) = Baton::new(owners(&[0], 1));
        let world = World::new(owners(&[0], 1));
        let member = members.pop().unwrap();
        let (theirs, their_world) = (baton.clone(), world.clone());
        let other = thread::spawn(move || until_stopped(member, &theirs, &their_world));
        world.message.store(1, Ordering::Relaxed);
        baton.wake(ShardId(0));
        other.join().unwrap();
        all_free(&baton, 1);
    });
}

/// A notification that comes while a worker goes to sleep gives it another round, in which it
/// sees what was written before.
#[test]
fn a_notification_reaches_a_worker_that_goes_to_sleep() {
    model::model(|| {
        let (baton, mut members) = Baton::new(owners(&[0], 1));
        let world = World::new(owners(&[0], 1));
        let mut member = members.pop().unwrap();
        member.take();
        let their_world = world.clone();
        let other = thread::spawn(move || {
            their_world.message.store(1, Ordering::Relaxed);
            baton.notify_all();
        });
        while world.message.load(Ordering::Relaxed) == 0 {
            sleep(&mut member);
        }
        other.join().unwrap();
    });
}

/// A request reaches workers that sleep; the idle one promises too, and the
/// new epoch wakes those who promised.
#[test]
fn a_request_moves_a_shard_between_sleepers() {
    model::model(|| {
        let (baton, members) = Baton::new(owners(&[0], 2));
        let world = World::new(owners(&[1], 2));
        // The message stands for shard 0, but only worker 1 looks at it.
        let others = run_all(members, &baton, &world, until_moved);
        baton.request();
        join_all(others);
        all_free(&baton, 1);
    });
}

/// A worker that runs until worker 1 holds shard 0, which stops all.
fn until_moved(mut member: Member, baton: &Baton, world: &World) {
    while !member.is_stopping() {
        let progressed = turn(&mut member, world, false);
        if member.worker() == WorkerId(1) && member.is_local(ShardId(0)) {
            baton.stop();
        } else if !progressed {
            sleep(&mut member);
        }
    }
    leave(member, world);
}

/// A dedicated worker takes a turn and leaves while the others open two epochs, of which the second
/// writes the first page again: no epoch waits for it, it reads no page, and the leader reads none
/// of its figures.
#[test]
fn a_dedicated_worker_has_no_part_in_epochs() {
    model::model(|| {
        let first = owners(&[0, 1, 2], 3);
        let (baton, mut members) = Baton::new_with_dedicated(first, &[WorkerId(2)]);
        let world = World::new(owners(&[0, 1, 2], 3));
        let mut dedicated = members.pop().unwrap();
        let theirs = world.clone();
        let other = thread::spawn(move || {
            for _ in 0..2 {
                assert!(!turn(&mut dedicated, &theirs, true) || dedicated.held().len() == 1);
            }
            leave(dedicated, &theirs);
        });
        for next in [owners(&[1, 0, 2], 3), owners(&[0, 1, 2], 3)] {
            for member in &mut members {
                member.look();
                leave_shards(member, &world);
            }
            for member in &mut members {
                assert_eq!(member.take(), 1);
            }
            for member in &mut members {
                if let Promise::Lead(leader) = member.promise() {
                    world.read_loads(2);
                    member.publish(leader, Some(&next));
                }
            }
        }
        assert!(members.iter_mut().all(Member::look));
        other.join().unwrap();
        drop(members);
        all_free(&baton, 3);
    });
}

/// Workers at the start of an epoch that they have not seen yet.
fn about_to_move(
    owners_now: &[u16],
    owners_next: &[u16],
    workers: usize,
) -> (Arc<Baton>, Vec<Member>) {
    let (baton, mut members) = Baton::new(owners(owners_now, workers));
    for member in &mut members {
        member.take();
    }
    for member in &mut members {
        if let Promise::Lead(leader) = member.promise() {
            member.publish(leader, Some(&owners(owners_next, workers)));
        }
    }
    (baton, members)
}

/// A worker that promises nothing, and runs until it is stopped. The holder of shard 0 looks
/// for the message when it takes the shard and when it is woken for it, and stops all.
fn until_message(mut member: Member, baton: &Baton, world: &World) {
    let mut notes = Vec::new();
    while !member.is_stopping() {
        let mut progressed = member.look();
        leave_shards(&mut member, world);
        let taken = member.take();
        member.receive_bits(&mut notes);
        member.receive(usize::MAX, &mut notes);
        progressed |= taken > 0 || !notes.is_empty();
        if progressed && world.message.load(Ordering::Relaxed) != 0 && member.is_local(ShardId(0)) {
            baton.stop();
        } else if !progressed {
            notes = sleep(&mut member);
            continue;
        }
        notes.clear();
    }
    leave(member, world);
}

/// Another worker's wake-up finds a shard that moves meanwhile.
#[test]
fn a_note_finds_its_shard_through_a_move() {
    model::model(|| {
        let (baton, mut members) = about_to_move(&[0], &[1], 3);
        let world = World::new(owners(&[1], 3));
        let mut waker = members.pop().unwrap();
        let others = run_all(members, &baton, &world, until_message);
        world.message.store(1, Ordering::Relaxed);
        waker.wake(ShardId(0), 7);
        waker.flush();
        join_all(others);
        drop(waker);
        all_free(&baton, 1);
    });
}

/// As above, from a thread that is no worker.
#[test]
fn a_wake_up_finds_its_shard_through_a_move() {
    model::model(|| {
        let (baton, members) = about_to_move(&[0], &[1], 2);
        let world = World::new(owners(&[1], 2));
        let others = run_all(members, &baton, &world, until_message);
        world.message.store(1, Ordering::Relaxed);
        baton.wake(ShardId(0));
        join_all(others);
        all_free(&baton, 1);
    });
}

/// A ring holds two marks here. A worker wakes more shards than that, and sleeps.
#[test]
fn a_full_ring_loses_no_mark() {
    const SHARDS: usize = 4;
    model::model(|| {
        let (baton, mut members) = Baton::new(owners(&[1; SHARDS], 2));
        for member in &mut members {
            member.take();
        }
        let world = World::new(owners(&[1; SHARDS], 2));
        let mut receiver = members.pop().unwrap();
        let mut waker = members.pop().unwrap();
        let (theirs, their_world) = (baton.clone(), world.clone());
        let other = thread::spawn(move || {
            let mut told = 0_u32;
            while told != (1 << SHARDS) - 1 {
                for (shard, note) in sleep(&mut receiver) {
                    assert!(note.is_none_or(|note| note == shard.0 + 10));
                    told |= 1 << shard.0;
                    their_world.touch(shard);
                }
            }
            theirs.stop();
            drop(receiver);
        });
        for shard in (0..SHARDS).map(ShardId::from_index) {
            world.touch(shard);
            waker.wake(shard, shard.0 + 10);
        }
        while !waker.is_stopping() {
            sleep(&mut waker);
        }
        drop(waker);
        other.join().unwrap();
        all_free(&baton, SHARDS);
    });
}

/// A ring holds two marks here. A dedicated worker wakes more shards than that, and does not come
/// to the end of its round before all of them have had their turns.
#[test]
fn a_dedicated_worker_that_blocks_keeps_no_mark() {
    const SHARDS: usize = 3;
    model::model(|| {
        let first = owners(&[1; SHARDS], 2);
        let (baton, mut members) = Baton::new_with_dedicated(first, &[WorkerId(0)]);
        for member in &mut members {
            member.take();
        }
        let world = World::new(owners(&[1; SHARDS], 2));
        let mut receiver = members.pop().unwrap();
        let mut waker = members.pop().unwrap();
        let their_world = world.clone();
        let other = thread::spawn(move || {
            let mut told = 0_u32;
            while told != (1 << SHARDS) - 1 {
                for (shard, _) in sleep(&mut receiver) {
                    told |= 1 << shard.0;
                    their_world.touch(shard);
                }
            }
        });
        for shard in (0..SHARDS).map(ShardId::from_index) {
            world.touch(shard);
            waker.wake(shard, 0);
        }
        other.join().unwrap();
        drop(waker);
        all_free(&baton, SHARDS);
    });
}

/// Two threads wake a shard each, whose bits are in one word.
#[test]
fn bits_of_one_word_are_all_seen() {
    model::model(|| {
        let (baton, mut members) = Baton::new(owners(&[0, 0], 1));
        let world = World::new(owners(&[0, 0], 1));
        let mut member = members.pop().unwrap();
        member.take();
        let wakers: Vec<_> = [0, 1]
            .map(|shard| {
                let (baton, world) = (baton.clone(), world.clone());
                thread::spawn(move || {
                    world.touch(ShardId(shard));
                    baton.wake(ShardId(shard));
                })
            })
            .into();
        let mut told = 0;
        while told != 3 {
            for (shard, _) in sleep(&mut member) {
                told |= 1 << shard.0;
                world.touch(shard);
            }
        }
        join_all(wakers);
    });
}

/// A worker that is awake finds every bit once its waker has returned, also when it cleared
/// the flag meanwhile.
#[test]
fn a_worker_that_is_awake_sees_all_bits() {
    model::model(|| {
        let (baton, mut members) = Baton::new(owners(&[0, 0], 1));
        let mut member = members.pop().unwrap();
        member.take();
        let wakers = [0, 1].map(|shard| {
            let baton = baton.clone();
            thread::spawn(move || baton.wake(ShardId(shard)))
        });
        let mut notes = Vec::new();
        member.receive_bits(&mut notes);
        join_all(wakers);
        member.receive_bits(&mut notes);
        let told = notes.iter().fold(0, |told, (shard, _)| told | 1 << shard.0);
        assert_eq!(told, 3);
    });
}
