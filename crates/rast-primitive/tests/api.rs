//! The public face: what is `Send`, `Sync` and unwind safe, and the edges of each type.
#![cfg(not(rast_loom))]

use rast_primitive::{
    AddressTooWide, AtomicTaggedPtr, Backoff, CachePadded, Counter, Random, TaggedPtr,
};
use rast_primitive::{AtomicWideTaggedPtr, WideTaggedPtr};
use std::panic::{RefUnwindSafe, UnwindSafe};

fn shares<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}

#[test]
fn auto_traits() {
    fn crosses_threads<T: Send + Sync>() {}
    crosses_threads::<AtomicTaggedPtr<std::cell::Cell<u8>>>();
    shares::<AtomicTaggedPtr<u8>>();
    crosses_threads::<AtomicWideTaggedPtr<std::cell::Cell<u8>>>();
    shares::<AtomicWideTaggedPtr<u8>>();
    shares::<CachePadded<u8>>();
    shares::<AddressTooWide>();
    shares::<rast_primitive::WaitStrategy>();
}

#[test]
fn cache_padded_keeps_its_distance() {
    assert_eq!(align_of::<CachePadded<u8>>(), 128);
    assert_eq!(size_of::<[CachePadded<u8>; 2]>(), 256);
    let mut padded = CachePadded::new(1);
    *padded += 1;
    assert_eq!(*padded, 2);
    assert_eq!(padded.into_inner(), 2);
}

#[test]
fn backoff_ends() {
    let backoff = Backoff::default();
    for _ in 0..32 {
        backoff.spin();
        backoff.snooze();
    }
    assert!(backoff.is_completed());
    backoff.reset();
    assert!(!backoff.is_completed());
}

mod tagged {
    use super::*;
    use rast_primitive::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
    use std::ptr;

    #[test]
    fn null_has_count_zero() {
        let null = TaggedPtr::<u64>::null();
        assert!(null.is_null());
        assert_eq!(null.count(), 0);
        assert_eq!(null, TaggedPtr::default());
        assert!(TaggedPtr::<u64>::new(ptr::null_mut(), 1).is_null());
    }

    #[test]
    fn null_may_have_a_count() {
        const NULL: TaggedPtr<u64> = TaggedPtr::null_with_count(3);
        let max = TaggedPtr::<u64>::COUNT_MAX;
        assert!(NULL.is_null());
        assert_eq!(NULL.count(), 3);
        assert_eq!(NULL, TaggedPtr::new(ptr::null_mut(), 3));
        assert_eq!(TaggedPtr::null_with_count(0), TaggedPtr::<u64>::null());
        assert_eq!(TaggedPtr::<u64>::null_with_count(u64::MAX).count(), max);
        let word = AtomicTaggedPtr::<u64>::new(TaggedPtr::null_with_count(max));
        assert_eq!(word.fetch_add_count(1, AcqRel).count(), max);
        assert_eq!(word.load(Acquire), TaggedPtr::null());
    }

    #[test]
    fn counts_wrap_beside_the_pointer() {
        let mut value = 5_u64;
        let pointer = &raw mut value;
        let max = TaggedPtr::<u64>::COUNT_MAX;
        let word = AtomicTaggedPtr::new(TaggedPtr::new(pointer, max));
        let before = word.fetch_add_count(1, AcqRel);
        assert_eq!((before.ptr(), before.count()), (pointer, max));
        let after = word.load(Acquire);
        assert_eq!((after.ptr(), after.count()), (pointer, 0));
        // SAFETY: the pointer came through the word unchanged, provenance included.
        assert_eq!(unsafe { *after.ptr() }, 5);
    }

    #[test]
    fn exchanges_compare_both_parts() {
        let mut values = [0_u64; 2];
        let [a, b] = [&raw mut values[0], &raw mut values[1]];
        let old = TaggedPtr::new(a, 1);
        let word = AtomicTaggedPtr::new(old);
        assert_eq!(
            word.compare_exchange(old.with_count(2), TaggedPtr::null(), AcqRel, Relaxed),
            Err(old)
        );
        let new = TaggedPtr::new(b, 1);
        assert_eq!(word.compare_exchange(new, old, AcqRel, Relaxed), Err(old));
        assert_eq!(word.compare_exchange(old, new, AcqRel, Relaxed), Ok(old));
        while word
            .compare_exchange_weak(new, old, AcqRel, Relaxed)
            .is_err()
        {}
        word.store(new, Release);
        assert_eq!(word.swap(TaggedPtr::null(), AcqRel), new);
        assert!(format!("{word:?}").starts_with("TaggedPtr"));
    }

    /// An address that each layout refuses, if it refuses any.
    fn refused() -> Option<*mut u64> {
        match TaggedPtr::<u64>::LAYOUT {
            "high-bits" => Some(ptr::without_provenance_mut(1 << (usize::BITS - 16))),
            "low-bits" => Some(ptr::without_provenance_mut(4)),
            _ => None,
        }
    }

    #[test]
    fn refuses_by_name() {
        let Some(pointer) = refused() else {
            assert_eq!(TaggedPtr::<u64>::LAYOUT, "double-word");
            return;
        };
        let refusal = TaggedPtr::try_new(pointer, 0).unwrap_err();
        assert_eq!(refusal.address(), pointer.addr());
        let message = refusal.to_string();
        assert!(message.contains(TaggedPtr::<u64>::LAYOUT), "{message}");
        assert!(
            message.contains(&format!("{:#x}", pointer.addr())),
            "{message}"
        );
        let panic = std::panic::catch_unwind(|| TaggedPtr::new(refused().unwrap(), 0)).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>(), Some(&message));
    }

    #[test]
    fn the_wide_count_has_a_word_of_its_own_in_every_layout() {
        assert_eq!(WideTaggedPtr::<u64>::COUNT_BITS, usize::BITS);
        assert_eq!(
            size_of::<AtomicWideTaggedPtr<u64>>(),
            2 * size_of::<usize>()
        );
        let mut value = 5_u64;
        let pointer = &raw mut value;
        let max = WideTaggedPtr::<u64>::COUNT_MAX;
        let word = AtomicWideTaggedPtr::new(WideTaggedPtr::new(pointer, max));
        let before = word.fetch_add_count(1, AcqRel);
        assert_eq!((before.ptr(), before.count()), (pointer, max));
        let seen = word.load(Acquire);
        assert_eq!((seen.ptr(), seen.count()), (pointer, 0));
        assert_ne!(seen, before);
        let null = WideTaggedPtr::default();
        assert!(
            word.compare_exchange_weak(before, null, AcqRel, Relaxed)
                .is_err()
        );
        while word
            .compare_exchange_weak(seen, null, AcqRel, Relaxed)
            .is_err()
        {}
        assert_eq!(word.load(Acquire), WideTaggedPtr::null());
        assert!(format!("{word:?}").contains("WideTaggedPtr"));
        if cfg!(target_arch = "aarch64") {
            assert!(AtomicWideTaggedPtr::<u64>::is_lock_free());
        }
        assert!(
            AtomicWideTaggedPtr::<u64>::default()
                .load(Relaxed)
                .ptr()
                .is_null()
        );
    }

    #[test]
    fn the_build_chooses_the_layout() {
        let (name, bits) = if cfg!(any(rast_tagged_wide, not(target_pointer_width = "64"))) {
            ("double-word", usize::BITS)
        } else if cfg!(rast_tagged_low) {
            ("low-bits", align_of::<u64>().trailing_zeros())
        } else {
            ("high-bits", 16)
        };
        assert_eq!(TaggedPtr::<u64>::LAYOUT, name);
        assert_eq!(TaggedPtr::<u64>::COUNT_BITS, bits);
    }

    #[test]
    fn threads_claim_each_count_once() {
        // Aligned so that the counts do not wrap in the low-bits layout.
        #[repr(align(1024))]
        struct Block([u8; 1024]);

        let mut block = Block([0; 1024]);
        let word = AtomicTaggedPtr::new(TaggedPtr::new(&raw mut block, 0));
        let mut claims: Vec<u64> = std::thread::scope(|scope| {
            let claimers = [(); 4].map(|()| {
                scope.spawn(|| [(); 200].map(|()| word.fetch_add_count(1, Relaxed).count()))
            });
            claimers
                .into_iter()
                .flat_map(|claimer| claimer.join().unwrap())
                .collect()
        });
        claims.sort_unstable();
        assert!(claims.into_iter().eq(0..800));
        assert_eq!(block.0[0], 0);
    }
}

#[cfg(feature = "std")]
mod with_std {
    use super::*;
    use rast_primitive::sync::atomic::{AtomicUsize, Ordering};
    use rast_primitive::sync::{Arc, Condvar, Mutex};
    use rast_primitive::{
        EventCount, Parker, Signal, Snapshot, SnapshotGuard, Unparker, WaitStrategy, thread,
    };
    use std::time::{Duration, Instant};

    const SHORT: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(3600);

    fn sends<T: Send + UnwindSafe>() {}

    #[test]
    fn auto_traits() {
        shares::<Signal>();
        shares::<EventCount>();
        shares::<Unparker>();
        sends::<Parker>();
        shares::<Snapshot<Vec<u8>>>();
    }

    #[test]
    fn statics_need_no_setup() {
        static SIGNAL: Signal = Signal::new();
        static EVENT: EventCount = EventCount::new();
        static LOCK: Mutex<u32> = Mutex::new(3);
        static WAKE: Condvar = Condvar::new();
        SIGNAL.send();
        assert!(SIGNAL.receive());
        EVENT.notify_all();
        WAKE.notify_all();
        assert_eq!(*LOCK.lock(), 3);
    }

    #[test]
    fn mutex_does_not_poison() {
        let lock = Arc::new(Mutex::new(1));
        let theirs = Arc::clone(&lock);
        let panicked = thread::spawn(move || {
            let _held = theirs.lock();
            panic!("under the lock");
        });
        panicked.join().unwrap_err();
        assert_eq!(*lock.lock(), 1);
        let held = lock.try_lock().unwrap();
        assert!(lock.try_lock().is_none());
        assert_eq!(format!("{lock:?}"), "Mutex(<locked>)");
        drop(held);
        let mut lock = Arc::into_inner(lock).unwrap();
        *lock.get_mut() += 1;
        assert_eq!(lock.into_inner(), 2);
    }

    #[test]
    fn condvar_times_out() {
        let (lock, wake) = (Mutex::new(()), Condvar::new());
        let mut guard = lock.lock();
        assert!(wake.wait_timeout(&mut guard, SHORT));
    }

    #[test]
    fn parker_tokens_do_not_add_up() {
        let parker = Parker::default();
        parker.unparker().unpark();
        parker.unparker().clone().unpark();
        parker.park();
        assert!(!parker.park_timeout(SHORT));
        assert!(!parker.park_deadline(Instant::now()));
        parker.unparker().unpark();
        assert!(parker.park_deadline(Instant::now()));
        parker.unparker().unpark();
        assert!(parker.park_timeout(Duration::MAX));
    }

    #[test]
    fn signal_holds_one_event() {
        let signal = Signal::default();
        assert!(!signal.receive());
        assert!(!signal.receive_timeout(SHORT));
        signal.send();
        signal.send();
        signal.send();
        assert!(signal.receive_timeout(Duration::MAX));
        assert!(!signal.receive());
        signal.send();
        signal.receive_blocking();
    }

    #[test]
    fn signal_wakes_a_sleeper() {
        let signal = Arc::new((Signal::new(), Signal::new()));
        let theirs = Arc::clone(&signal);
        let echo = thread::spawn(move || {
            for _ in 0..1000 {
                theirs.0.receive_blocking();
                theirs.1.send();
            }
        });
        for _ in 0..1000 {
            signal.0.send();
            assert!(signal.1.receive_timeout(LONG));
        }
        echo.join().unwrap();
    }

    #[test]
    fn event_count_notifies_in_order() {
        let event = EventCount::default();
        event.notify_one();
        let first = event.prepare();
        let second = event.prepare();
        event.notify_one();
        assert!(event.wait_timeout(first, LONG));
        assert!(!event.wait_timeout(second, SHORT), "one was woken, not two");
        event.check_invariants();
    }

    #[test]
    fn event_count_hands_a_wakeup_on() {
        let event = EventCount::new();
        let first = event.prepare();
        let second = event.prepare();
        event.notify_one();
        event.cancel(first);
        event.wait(second);

        let first = event.prepare();
        let second = event.prepare();
        event.notify_all();
        let third = event.prepare();
        drop(first);
        assert!(
            !event.wait_timeout(third, SHORT),
            "a call to all is not handed on"
        );
        event.wait(second);
        event.check_invariants();
    }

    #[test]
    fn event_count_survives_a_panic_in_the_condition() {
        let event = EventCount::new();
        let mut looks = 0;
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            event.wait_until(WaitStrategy::Park, || {
                looks += 1;
                assert!(looks < 2, "the condition panics while registered");
                false
            });
        }))
        .unwrap_err();
        event.check_invariants();
        let key = event.prepare();
        event.notify_one();
        event.wait(key);
    }

    #[test]
    fn event_count_hands_on_the_wakeup_of_a_condition_that_panics() {
        let event = EventCount::new();
        let (mut looks, mut next) = (0, None);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            event.wait_until(WaitStrategy::Park, || {
                looks += 1;
                match looks {
                    1 => {}
                    2 => {
                        next = Some(event.prepare());
                        event.notify_one();
                    }
                    _ => panic!("the condition panics once it is woken"),
                }
                false
            });
        }))
        .unwrap_err();
        assert!(
            event.wait_timeout(next.unwrap(), SHORT),
            "some thread looks"
        );
        event.check_invariants();
    }

    #[test]
    fn event_count_wakeups_do_not_move_a_deadline() {
        let event = EventCount::new();
        let mut looks = 0;
        let held = event.wait_until_deadline(WaitStrategy::Park, Instant::now(), || {
            looks += 1;
            assert!(looks < 10, "woken each time, it waits past its deadline");
            event.notify_all();
            false
        });
        assert!(!held);
        event.check_invariants();
    }

    #[test]
    #[should_panic(expected = "another EventCount")]
    fn event_count_refuses_a_foreign_key() {
        let (mine, other) = (EventCount::new(), EventCount::new());
        mine.wait(other.prepare());
    }

    #[test]
    fn wait_until_by_every_strategy() {
        for strategy in [
            WaitStrategy::Spin,
            WaitStrategy::Adaptive,
            WaitStrategy::Park,
        ] {
            let event = EventCount::new();
            let turn = AtomicUsize::new(0);
            let past = Instant::now();
            assert!(!event.wait_until_deadline(strategy, past, || false));
            assert!(event.wait_until_deadline(strategy, past, || true));
            thread::scope(|scope| {
                for me in 0..2 {
                    let (event, turn) = (&event, &turn);
                    scope.spawn(move || {
                        for round in 0..200 {
                            let mine = 2 * round + me;
                            event.wait_until(strategy, || turn.load(Ordering::Acquire) == mine);
                            turn.store(mine + 1, Ordering::Release);
                            event.notify_all();
                        }
                    });
                }
            });
            assert_eq!(turn.load(Ordering::Relaxed), 400);
            event.check_invariants();
        }
    }

    #[test]
    fn snapshot_drops_each_value_once() {
        struct Counted(Arc<AtomicUsize>);
        impl Drop for Counted {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let drops = Arc::new(AtomicUsize::new(0));
        let snapshot = Snapshot::new(Counted(Arc::clone(&drops)));
        let guard: SnapshotGuard<'_, _> = snapshot.load();
        snapshot.store(Counted(Arc::clone(&drops)));
        assert_eq!(
            drops.load(Ordering::Relaxed),
            0,
            "a guard keeps its value alive"
        );
        drop(guard);
        drop(snapshot);
        assert!((1..=2).contains(&drops.load(Ordering::Relaxed)));
    }

    #[test]
    fn snapshot_readers_and_writer_run_free() {
        let snapshot = Snapshot::new(vec![0_u64; 16]);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut latest = 0;
                    while latest < 500 {
                        let seen = snapshot.load();
                        assert!(seen.iter().all(|value| *value == seen[0]));
                        assert!(seen[0] >= latest);
                        latest = seen[0];
                    }
                });
            }
            for value in 1..=500 {
                snapshot.store(vec![value; 16]);
            }
        });
        assert_eq!(snapshot.load()[0], 500);
        assert!(format!("{snapshot:?}").starts_with("Snapshot([500"));
    }

    rast_primitive::thread_local! {
        static TURNS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }

    #[test]
    fn threads_have_names_and_locals() {
        TURNS.with(|turns| turns.set(5));
        let named = thread::spawn_named("worker-7".into(), || {
            let name = std::thread::current().name().map(str::to_owned);
            (name, TURNS.with(std::cell::Cell::get), thread::current_id())
        });
        let (name, turns, id) = named.unwrap().join().unwrap();
        assert_eq!(name.as_deref(), Some("worker-7"));
        assert_eq!(turns, 0);
        assert_ne!(id, thread::current_id());
        let unnamed = std::panic::catch_unwind(|| thread::spawn_named("worker\0".into(), || ()));
        assert!(unnamed.is_err());
    }
}

#[test]
fn a_counter_wraps() {
    let counter = Counter::default();
    counter.subtract(2);
    assert_eq!(counter.get(), u64::MAX - 1);
    counter.add_after(3);
    assert_eq!(counter.get_after(), 1);
    counter.set(7);
    assert_eq!(counter.get(), 7);
}

#[test]
fn random_numbers_are_those_of_the_seed_and_below_the_bound() {
    let row = |seed| {
        let mut random = Random::new(seed);
        [(); 100].map(|()| random.below(7))
    };
    assert_eq!(row(0), row(0));
    assert_ne!(row(0), row(1));
    assert!((0..7).all(|number| row(0).contains(&number)));
    assert!(row(0).iter().all(|&number| number < 7));
    let mut random = Random::new(0);
    // The first numbers of the published generator.
    assert_eq!(random.draw(), 0xe220_a839_7b1d_cdaf);
    assert_eq!(random.draw(), 0x6e78_9e6a_a1b9_65f4);
    let fractions = [(); 100].map(|()| random.fraction());
    assert!(
        fractions
            .iter()
            .all(|fraction| (0.0..1.0).contains(fraction))
    );
}

#[cfg(feature = "std")]
mod user_code {
    use core::cell::Cell;
    use rast_primitive::panics;

    thread_local! {
        /// How many destructors of `Loud` are left that panic.
        static LOUD: Cell<u32> = const { Cell::new(0) };
    }

    /// Its destructor panics with another one. Without a size: one that is leaked takes no memory,
    /// which a leak sanitizer would report.
    struct Loud;

    impl Drop for Loud {
        fn drop(&mut self) {
            if let Some(left) = LOUD.get().checked_sub(1) {
                LOUD.set(left);
                std::panic::panic_any(Self);
            }
        }
    }

    #[test]
    fn a_chain_of_panicking_destructors_ends() {
        for times in 0..4 {
            LOUD.set(times);
            panics::discard(Loud);
            assert!(panics::quietly(|| ()));
            LOUD.set(times);
            assert!(!panics::quietly(|| std::panic::panic_any(Loud)));
        }
    }

    #[test]
    fn a_payload_has_a_text_if_it_is_one() {
        let text = |call: fn()| {
            let payload = panics::contain(call).expect_err("it panics");
            panics::text(&*payload).map(str::to_owned)
        };
        assert_eq!(text(|| panic!("literal")).as_deref(), Some("literal"));
        assert_eq!(
            text(|| panic!("number {}", 1 + 2)).as_deref(),
            Some("number 3")
        );
        assert_eq!(text(|| std::panic::panic_any(3)), None);
    }
}

/// A node is freed and another one is pushed at its address, while a push has read that address
/// and not compared it yet. The push succeeds, and its link leads to the new node. Under miri the
/// pointer that the push has read may not be used for it.
#[test]
fn a_link_leads_to_the_node_that_is_at_its_address() {
    use rast_primitive::{Link, LinkStack, Linked};
    use std::cell::Cell;
    use std::ptr::NonNull;

    struct Node {
        next: Link<Node>,
        number: u32,
    }

    thread_local! {
        /// What happens between the two steps of the next push.
        static MEANWHILE: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
    }

    // SAFETY: 1. It writes the link alone; the test's step in between uses other nodes.
    unsafe impl Linked for Node {
        unsafe fn set_next(mut node: NonNull<Self>, next: Link<Self>) {
            // SAFETY: 1 of `set_next`.
            unsafe { node.as_mut() }.next = next;
            if let Some(meanwhile) = MEANWHILE.take() {
                meanwhile();
            }
        }
    }

    let node = |number| Node {
        next: Link::NULL,
        number,
    };
    let push = |stack: &LinkStack<Node>, node: *mut Node| {
        let node = NonNull::new(node).unwrap();
        // SAFETY: 1, 2. A chain of one node, which lives to the end of the test.
        unsafe { stack.push(node, node) };
    };
    let owned: *mut LinkStack<Node> = Box::into_raw(Box::default());
    // SAFETY: it is freed at the end, after its last use.
    let stack: &LinkStack<Node> = unsafe { &*owned };
    let place = Box::into_raw(Box::new(node(1)));
    push(stack, place);
    MEANWHILE.set(Some(Box::new(move || {
        let taken = stack.take();
        assert_eq!(taken, place);
        // SAFETY: the node was taken; a new reference to its place ends the use of older pointers.
        let new = unsafe { &mut *place };
        *new = node(2);
        push(stack, new);
    })));
    let top = Box::into_raw(Box::new(node(3)));
    push(stack, top);
    let mut numbers = Vec::new();
    let mut at = stack.take();
    while !at.is_null() {
        // SAFETY: the nodes were taken, and live to the end.
        let node = unsafe { &*at };
        numbers.push(node.number);
        at = node.next.node();
    }
    assert_eq!(numbers, [3, 2]);
    for node in [top, place] {
        // SAFETY: both are boxes, and not used any more.
        drop(unsafe { Box::from_raw(node) });
    }
    // SAFETY: it is a box, and not used any more.
    drop(unsafe { Box::from_raw(owned) });
}
