//! Models of remote arm, cancel and fire, in every interleaving.
#![cfg(any(rast_loom, rast_shuttle))]

use rast_timers::primitive::cell::UnsafeCell;
use rast_timers::primitive::model::model;
use rast_timers::primitive::sync::Arc;
use rast_timers::primitive::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use rast_timers::primitive::{Parker, Unparker, thread};
use rast_timers::{
    Clock, Counter, Instant, Leaves, ManualClock, Nanos, Track, TscClock, TscConfig, remote,
};

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// A cell that only the order of events keeps from racing; loom watches it.
struct Watched(UnsafeCell<u32>);

// SAFETY: the models order every access to the cell; loom fails one that does
// not.
unsafe impl Sync for Watched {}
// SAFETY: a number may be sent.
unsafe impl Send for Watched {}

impl Watched {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn write(&self, value: u32) {
        self.0.with_mut(|cell| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *cell = value }
        });
    }

    fn read(&self) -> u32 {
        self.0.with(|cell| {
            // SAFETY: ordered by the model, checked by loom.
            unsafe { *cell }
        })
    }
}

/// Reads the cell when it is dropped.
struct ReadsOnDrop(Arc<Watched>, Arc<AtomicUsize>);

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        self.1.store(self.0.read() as usize, Ordering::Relaxed);
    }
}

/// Exactly one of firing and cancelling happens, and the canceller's answer
/// is the truth.
#[test]
fn cancel_or_fire_never_both() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let timer = timers.arm(at(1), 7).unwrap();
        let canceller = thread::spawn(move || timer.cancel().is_ok());
        owner.poll(1);
        let fired = owner.pop_due(at(1)).is_some();
        let cancelled = canceller.join().unwrap();
        assert_ne!(fired, cancelled);
        assert_eq!(owner.pop_due(at(1)), None);
        owner.poll(usize::MAX);
        assert!(owner.is_empty());
    });
}

/// A cancel against an owner that leaves: the value is dropped once, and the
/// answer is that it was cancelled or that it is gone, never that it fired.
#[test]
fn cancel_against_a_leaving_owner() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let value = Arc::new(());
        let timer = timers.arm(at(1), Arc::clone(&value)).unwrap();
        let canceller = thread::spawn(move || timer.cancel());
        owner.poll(1);
        drop(owner);
        let cancelled = canceller.join().unwrap();
        assert_ne!(cancelled, Err(remote::TooLate::Fired));
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

/// A cancel that comes too late sees what the owner did before it fired.
#[test]
fn late_cancel_sees_what_the_owner_did() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let timer = timers.arm(at(1), ()).unwrap();
        let cell = Watched::new();
        let seen = Arc::clone(&cell);
        let canceller = thread::spawn(move || {
            if timer.cancel().is_err() {
                assert_eq!(seen.read(), 1);
            }
        });
        owner.poll(1);
        // Told apart from a cancelled one only by the canceller, who reads the
        // cell only if the owner got past this write.
        cell.write(1);
        owner.pop_due(at(1));
        canceller.join().unwrap();
    });
}

/// The drop of a cancelled value sees what the canceller did before.
#[test]
fn drop_of_a_cancelled_value_sees_the_canceller() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let cell = Watched::new();
        let dropped = Arc::new(AtomicUsize::new(0));
        let value = ReadsOnDrop(Arc::clone(&cell), Arc::clone(&dropped));
        let timer = timers.arm(at(1), value).unwrap();
        let canceller = thread::spawn(move || {
            cell.write(1);
            timer.cancel().is_ok()
        });
        owner.poll(1);
        match owner.pop_due(at(1)) {
            // Fired: the value is the owner's, and the canceller's write says
            // nothing to it; keep the value from looking.
            Some((_, value)) => {
                assert!(!canceller.join().unwrap());
                drop(value);
            }
            None => {
                assert_eq!(dropped.load(Ordering::Relaxed), 1);
                assert!(canceller.join().unwrap());
            }
        }
    });
}

/// An owner that polls and then parks misses no timer armed meanwhile.
#[test]
fn arm_wakes_a_parked_owner() {
    model(|| {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let (timers, mut owner) = remote::channel(move || unparker.unpark());
        let armer = thread::spawn(move || drop(timers.arm(at(1), 7).unwrap()));
        while owner.poll(usize::MAX) == 0 {
            parker.park();
        }
        assert_eq!(owner.pop_due(at(1)), Some((at(1), 7)));
        armer.join().unwrap();
    });
}

/// A wake-up whose type has a name.
type Wake = Box<dyn Fn() + Send + Sync>;

type RemoteTimers = remote::RemoteTimers<u64, Wake>;

fn wake(unparker: Unparker) -> Wake {
    Box::new(move || unparker.unpark())
}

/// An owner that has fired its timer at 5, for which it rested, and that sleeps
/// by `sleep` when it finds no command, gets the one that is armed at 7.
fn a_rest_is_over(
    sleep: impl Fn(&mut remote::TimerOwner<u64, Wake>, &Parker) + Sync + Send + 'static,
) {
    model(move || {
        let parker = Parker::new();
        let (timers, mut owner) = remote::channel(wake(parker.unparker()));
        drop(timers.arm(at(5), 5).unwrap());
        owner.poll(1);
        let armer = thread::spawn(move || drop(timers.arm(at(7), 7).unwrap()));
        owner.rest(|until| assert_eq!(until, Some(at(5))));
        assert_eq!(owner.pop_due(at(5)), Some((at(5), 5)));
        while owner.poll(usize::MAX) == 0 {
            sleep(&mut owner, &parker);
        }
        assert_eq!(owner.pop_due(at(7)), Some((at(7), 7)));
        armer.join().unwrap();
    });
}

/// The next rest has no end of its own: the armer wakes it, or it does not begin.
#[test]
fn a_longer_rest_misses_no_timer() {
    a_rest_is_over(|owner, parker| {
        owner.rest(|until| {
            assert_eq!(until, None);
            parker.park();
        });
    });
}

/// The thread that sleeps in another way after a rest is woken as if there had been
/// none.
#[test]
fn a_sleep_after_a_rest_misses_no_timer() {
    a_rest_is_over(|_, parker| parker.park());
}

/// Nothing that a resting owner need not wake for lets it sleep on once as many
/// commands wait as it puts up with: here each of `add` adds one.
fn a_backlog_ends_a_rest(
    add: [fn(&RemoteTimers, &remote::RemoteTimer<u64, Wake>); remote::BACKLOG],
) {
    model(move || {
        let parker = Parker::new();
        let (timers, mut owner) = remote::channel(wake(parker.unparker()));
        drop(timers.arm(at(5), 5).unwrap());
        let far = timers.arm(at(9), 9).unwrap();
        owner.poll(2);
        // Takes the token that the two have left.
        parker.park();
        let mut adder = None;
        owner.rest(|until| {
            assert_eq!(until, Some(at(5)));
            // From within the rest, so that a cancel sees it.
            adder = Some(thread::spawn(move || {
                add.iter().for_each(|add| add(&timers, &far))
            }));
            parker.park();
        });
        assert_eq!(owner.poll(usize::MAX), remote::BACKLOG);
        adder.map(|adder| adder.join().unwrap());
    });
}

/// Arms that are due later than the rest ends.
#[test]
fn later_timers_wake_when_enough_wait() {
    a_backlog_ends_a_rest([|timers, _| drop(timers.arm(at(7), 7).unwrap()); 2]);
}

/// A cancel that comes last.
#[test]
fn a_cancel_wakes_when_enough_wait() {
    a_backlog_ends_a_rest([
        |timers, _| drop(timers.arm(at(7), 7).unwrap()),
        |_, far| far.cancel().unwrap(),
    ]);
}

/// The owner cancels, and so does another: one of them does it, and the other
/// knows; also where the Arm has not been met.
#[test]
fn the_owner_and_another_cancel_once() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let both = [1, 2].map(|value| timers.arm(at(value), value).unwrap());
        owner.poll(1);
        let theirs = both[0].clone();
        let other = both[1].clone();
        let canceller = thread::spawn(move || [theirs.cancel(), other.cancel()]);
        let mut ours = [false; 2];
        let count = owner.cancel_all(&both, |value| ours[value as usize - 1] = true);
        assert_eq!(count, ours.iter().filter(|&&ours| ours).count());
        let cancelled = canceller.join().unwrap();
        for (ours, theirs) in ours.into_iter().zip(cancelled) {
            let late = Err(remote::TooLate::AlreadyGone);
            assert_eq!(theirs, if ours { late } else { Ok(()) });
        }
        owner.poll(usize::MAX);
        assert!(owner.is_empty());
    });
}

/// A timer that is armed and one that is cancelled while others fire in no
/// order: each has one fate, and none is lost.
#[test]
fn arm_and_cancel_against_a_sweep() {
    model(|| {
        let (timers, mut owner) = remote::channel(|| ());
        let timer = timers.arm(at(1), 1).unwrap();
        owner.poll(1);
        let other = thread::spawn(move || {
            let cancelled = timer.cancel();
            drop(timers.arm(at(1), 2).unwrap());
            cancelled
        });
        let mut fired = Vec::new();
        let mut sweep = |owner: &mut remote::TimerOwner<u64, _>| {
            owner.poll(usize::MAX);
            owner.expire_unordered(at(1), 9, |_, value| fired.push(value));
        };
        sweep(&mut owner);
        let cancelled = other.join().unwrap();
        sweep(&mut owner);
        match cancelled {
            Ok(()) => assert_eq!(fired, [2]),
            Err(remote::TooLate::Fired) => assert_eq!(fired, [1, 2]),
            Err(remote::TooLate::AlreadyGone) => panic!("nobody else cancels"),
        }
        assert!(owner.is_empty());
    });
}

/// What is armed against an owner that goes away is given back or dropped
/// with it, never kept.
#[test]
fn arm_against_a_leaving_owner_loses_nothing() {
    model(|| {
        let (timers, owner) = remote::channel(|| ());
        let value = Arc::new(());
        let armed = Arc::clone(&value);
        let armer = thread::spawn(move || {
            let refused = timers.arm(at(1), armed).is_err();
            (timers, refused)
        });
        drop(owner);
        let (timers, _) = armer.join().unwrap();
        assert!(timers.is_closed());
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

/// Two threads move one manual clock: nothing is lost and it never runs back.
#[test]
fn manual_clock_adds_up() {
    model(|| {
        let clock = ManualClock::new();
        let other = clock.clone();
        let mover = thread::spawn(move || other.advance(Nanos::from_nanos(2)));
        clock.advance(Nanos::from_nanos(3));
        let before = clock.now();
        clock.set(at(4));
        assert!(clock.now() >= before);
        mover.join().unwrap();
        assert!(clock.now() >= at(5));
    });
}

/// A reader that sees the word sees the record.
#[test]
fn a_record_is_seen_with_its_word() {
    model(|| {
        let track = Arc::new(Track::<2>::new());
        let theirs = Arc::clone(&track);
        let reader = thread::spawn(move || {
            let word = theirs.word();
            let current: [u64; 2] = theirs.fields(word, 0);
            assert_eq!(current, [word.sequence(); 2]);
        });
        assert!(track.publish(track.word(), [1; 2]));
        reader.join().unwrap();
    });
}

/// What a reader of the track keeps is one record, whole, and the one it was
/// told, though the slots are written again under it.
#[test]
fn a_record_is_read_whole() {
    model(|| {
        let track = Arc::new(Track::<2>::new());
        let publish = |track: &Track<2>, value| assert!(track.publish(track.word(), [value; 2]));
        publish(&track, 1);
        publish(&track, 2);
        let theirs = Arc::clone(&track);
        let writer = thread::spawn(move || {
            // The last of these goes where record 1 was.
            for value in 3..=5 {
                publish(&theirs, value);
            }
        });
        let word = track.word();
        let before: [u64; 2] = track.fields(word, 1);
        let current: [u64; 2] = track.fields(word, 0);
        if track.is_still(word) {
            assert_eq!(before, [word.sequence() - 1; 2]);
            assert_eq!(current, [word.sequence(); 2]);
        }
        writer.join().unwrap();
    });
}

/// A record that is ready is turned to once, and read whole, also where the
/// writer buries it at the same moment.
#[test]
fn a_ready_record_is_turned_to_or_buried() {
    model(|| {
        let track = Arc::new(Track::<2>::new());
        assert!(track.prepare(track.word(), [1; 2]));
        let theirs = Arc::clone(&track);
        let writer =
            thread::spawn(move || theirs.bury(Leaves::ForGood, |current| [current[0] + 10; 2]));
        let seen = track.word();
        if seen.is_ready() {
            track.turn(seen);
        }
        // Either turn or burial came; another turn changes nothing.
        let word = track.word();
        assert!(!word.is_ready());
        if seen.is_ready() {
            track.turn(seen);
        }
        let current: [u64; 2] = track.fields(word, 0);
        if track.is_still(word) {
            match word.sequence() {
                1 => assert_eq!(current, [1; 2]),
                2 => assert!(word.is_left() && [[10; 2], [11; 2]].contains(&current)),
                other => panic!("there is no record {other}"),
            }
        }
        if word.sequence() == 1 {
            // It was read, so the dead record is one of it.
            writer.join().unwrap();
            assert_eq!(track.fields::<2>(track.word(), 0), [11; 2]);
        } else {
            writer.join().unwrap();
        }
        assert_eq!(track.word().sequence(), 2);
    });
}

/// Of two threads that meet a record that is not settled, one decides for both,
/// and a record that is taken up after it is left alone.
#[test]
fn one_thread_settles_a_record() {
    model(|| {
        let track = Arc::new(Track::<2>::new());
        track.bury(Leaves::ForGood, |_| [0, 1]);
        let word = track.word();
        let settle = move |track: &Track<2>, value| {
            let until = track.settle(word, 1, 1, value);
            track.is_still(word).then_some(until)
        };
        let theirs = Arc::clone(&track);
        let other = thread::spawn(move || settle(&theirs, 20));
        let mine = settle(&track, 10);
        assert!(mine == Some(10) || mine == Some(20));
        track.bury(Leaves::ToLearn, |left| [left[1], 3]);
        let taken: [u64; 2] = track.fields(track.word(), 0);
        assert_eq!(Some(taken[0]), mine);
        assert!(
            other
                .join()
                .unwrap()
                .is_none_or(|until| Some(until) == mine)
        );
        let after: [u64; 2] = track.fields(track.word(), 0);
        assert_eq!(after, taken);
    });
}

/// A true time that goes on by one whenever it is read, so that readings of all
/// threads have one order.
struct Time(AtomicU64);

impl Time {
    fn read(&self, cost: u64) -> u64 {
        self.0.fetch_add(cost, Ordering::Relaxed)
    }
}

struct Counts(Arc<Time>);

impl Counter for Counts {
    fn count(&self) -> u64 {
        self.0.read(1)
    }

    fn pace(&self) -> u64 {
        1_000_000_000
    }
}

/// Spends so much time after the reading, so that the middle of a bracket lags.
struct Lagging(Arc<Time>, Arc<AtomicU64>);

impl Clock for Lagging {
    fn now(&self) -> Instant {
        at(self.0.read(self.1.load(Ordering::Relaxed)))
    }
}

/// The clock does not run back from what it took of the reference, when its
/// next segment, made in time, is published too late.
#[test]
fn a_late_segment_starts_above_the_reference() {
    model(|| {
        let time = Arc::new(Time(AtomicU64::new(1_000)));
        let config = TscConfig::new().anchor_every(TscConfig::SHORTEST);
        let cost = Arc::new(AtomicU64::new(200));
        let reference = Lagging(Arc::clone(&time), Arc::clone(&cost));
        let clock = TscClock::with_parts(Counts(Arc::clone(&time)), reference, config);
        // Learns, counts, and leans onto the middle of its brackets.
        time.read(20_000);
        clock.now();
        time.read(14_900);
        clock.now();
        cost.store(1, Ordering::Relaxed);
        time.read(15_900);
        // Nearly over: this thread makes the next segment, in time, while the
        // other one finds the current one at its end.
        let other = clock.clone();
        let reader = thread::spawn(move || {
            time.read(1_000);
            let first = other.now();
            let second = other.now();
            assert!(second >= first, "back from {first:?} to {second:?}");
        });
        let first = clock.now();
        assert!(clock.now() >= first);
        reader.join().unwrap();
    });
}
