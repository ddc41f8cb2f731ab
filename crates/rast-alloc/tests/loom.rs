//! The protocols between threads: mailboxes and their holders, adoption, and the registry.
//!
//! Under `--cfg rast_loom` each scenario runs in every interleaving; otherwise as a stress test on
//! real threads.
#![cfg(feature = "std")]

use rast_alloc::primitive::cell::UnsafeCell;
use rast_alloc::primitive::model::model;
use rast_alloc::primitive::sync::Arc;
use rast_alloc::primitive::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use rast_alloc::primitive::thread;
use rast_alloc::{Block, Budget, Entered, Entry, Mailbox, Ranges, Registry, Stripes};

#[path = "loom/adoption.rs"]
mod adoption;
#[path = "loom/ownership.rs"]
mod ownership;

/// What a mailbox guards: how many blocks returned, and how often each did.
struct Home {
    entry: Entry<Self>,
    mailbox: Mailbox,
    count: UnsafeCell<usize>,
}

// SAFETY: only who holds the mailbox touches the count.
unsafe impl Sync for Home {}
// SAFETY: as above.
unsafe impl Send for Home {}

impl Entered for Home {
    fn entry(&self) -> &Entry<Self> {
        &self.entry
    }
}

/// A block that may be sent to another thread.
struct Free(*mut Block);

// SAFETY: a free block has one owner at a time.
unsafe impl Send for Free {}

fn block() -> Free {
    Free(Box::into_raw(Box::new(Block::last())))
}

impl Home {
    fn new() -> Self {
        Self {
            entry: Entry::new(),
            mailbox: Mailbox::new(),
            count: UnsafeCell::new(0),
        }
    }

    /// Delivers one batch as a heap does: handles it if no thread holds the mailbox.
    fn deliver(&self, batch: Vec<Free>) {
        let (first, last) = (batch[0].0, batch[batch.len() - 1].0);
        for pair in batch.windows(2) {
            // SAFETY: the blocks are this thread's.
            unsafe { Block::set_next(pair[0].0, pair[1].0) };
        }
        // SAFETY: the list is linked, and this thread's alone.
        if unsafe { self.mailbox.deliver(first, last) } {
            self.leave();
        }
    }

    /// Handles what arrived. Only the holder calls it.
    fn handle_messages(&self) {
        let mut next = self.mailbox.take();
        while !next.is_null() {
            let block = next;
            // SAFETY: messages are lists of free blocks, which the holder alone has.
            next = unsafe { Block::next(block) };
            // SAFETY: the block was made by `block`, and is in no list any more.
            drop(unsafe { Box::from_raw(block) });
            // SAFETY: this thread holds the mailbox.
            self.count.with_mut(|count| unsafe { *count += 1 });
        }
    }

    /// Releases the mailbox as a heap does. Only the holder calls it.
    fn leave(&self) {
        loop {
            self.handle_messages();
            if !self.mailbox.release() {
                return;
            }
        }
    }

    fn count(&self) -> usize {
        assert!(self.mailbox.claim(), "no thread holds it in the end");
        assert!(
            self.mailbox.is_empty(),
            "no message stays where no thread holds the mailbox"
        );
        // SAFETY: this thread holds the mailbox.
        self.count.with(|count| unsafe { *count })
    }
}

/// Two threads deliver while the owner handles messages: each block returns once, with what was
/// written to it.
#[test]
fn mailbox_batches_return() {
    model(|| {
        let home = Arc::new(Home::new());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let home = Arc::clone(&home);
                thread::spawn(move || home.deliver(vec![block(), block()]))
            })
            .collect();
        home.handle_messages();
        for other in others {
            other.join().unwrap();
        }
        home.leave();
        assert_eq!(home.count(), 4);
    });
}

/// A block of a remote-free batch: a batch header, or a block that one carries. What its user wrote
/// is read when it returns.
#[repr(C)]
struct Posted {
    block: Block,
    carried: UnsafeCell<Vec<*mut Posted>>,
    contents: UnsafeCell<usize>,
}

/// The bit of a link that leads to a batch header, as in remote-free batches.
const CARRIES: usize = 1;

impl Posted {
    /// A block that its user wrote to, with these blocks after it.
    fn new(carried: Vec<*mut Self>) -> *mut Self {
        let posted = Box::into_raw(Box::new(Self {
            block: Block::last(),
            carried: UnsafeCell::new(Vec::new()),
            contents: UnsafeCell::new(0),
        }));
        // SAFETY: the block is new.
        let new = unsafe { &*posted };
        // SAFETY: as above: nothing else has it.
        new.contents.with_mut(|at| unsafe { *at = 1 });
        // SAFETY: as above.
        new.carried.with_mut(|at| unsafe { *at = carried });
        posted
    }

    /// Takes in a block and those that it carries; returns the sum of what was in them.
    ///
    /// # Safety
    ///
    /// 1. `posted` was made by `new`, and the caller alone has it and what it carries.
    unsafe fn accept(posted: *mut Self) -> usize {
        // SAFETY: obligation 1.
        let home = unsafe { Box::from_raw(posted) };
        // SAFETY: obligation 1.
        let carried = home
            .carried
            .with_mut(|at| unsafe { std::mem::take(&mut *at) });
        // SAFETY: obligation 1, for each of them.
        let carried: usize = carried
            .into_iter()
            .map(|one| unsafe { Self::accept(one) })
            .sum();
        // SAFETY: obligation 1.
        carried + home.contents.with(|at| unsafe { *at })
    }
}

/// Two threads post remote-free batches, of batch headers and of plain blocks, while the owner
/// handles messages and releases the mailbox. The thread that handles a batch reads in the batch
/// header which blocks it contains. Each returns once, with what was written to it before.
#[test]
fn batches_bring_what_they_carry() {
    model(|| {
        let mailbox = Arc::new(Mailbox::new());
        let home = Arc::new(AtomicUsize::new(0));
        let handle_messages = |mailbox: &Mailbox, home: &AtomicUsize| {
            let mut link = mailbox.take();
            while !link.is_null() {
                let block = link.map_addr(|address| address & !CARRIES);
                // SAFETY: messages are lists of free blocks, which the holder alone has.
                let next = unsafe { Block::next(block) };
                // SAFETY: the block is the first field of a posted one, and in no list any more.
                home.fetch_add(unsafe { Posted::accept(block.cast()) }, Ordering::Relaxed);
                link = next;
            }
        };
        let leave = move |mailbox: &Mailbox, home: &AtomicUsize| {
            loop {
                handle_messages(mailbox, home);
                if !mailbox.release() {
                    return;
                }
            }
        };
        let post = move |mailbox: &Mailbox, home: &AtomicUsize| {
            let plain = Posted::new(Vec::new()).cast::<Block>();
            let carried = vec![Posted::new(Vec::new()), Posted::new(Vec::new())];
            let header = Posted::new(carried).cast::<Block>();
            let first = header.map_addr(|address| address | CARRIES);
            // SAFETY: the blocks are this thread's.
            unsafe { Block::set_next(header, plain) };
            // SAFETY: the list is linked, and this thread's alone.
            if unsafe { mailbox.deliver(first, plain) } {
                leave(mailbox, home);
            }
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let (mailbox, home) = (Arc::clone(&mailbox), Arc::clone(&home));
                thread::spawn(move || post(&mailbox, &home))
            })
            .collect();
        leave(&mailbox, &home);
        for other in others {
            other.join().unwrap();
        }
        assert!(mailbox.claim() && mailbox.is_empty(), "all is put away");
        assert_eq!(home.load(Ordering::Relaxed), 8);
    });
}

/// An owner releases its mailbox while another thread delivers: one of the two handles the message.
#[test]
fn mailbox_no_message_is_left() {
    model(|| {
        let home = Arc::new(Home::new());
        let theirs = Arc::clone(&home);
        let other = thread::spawn(move || theirs.deliver(vec![block()]));
        home.leave();
        other.join().unwrap();
        assert_eq!(home.count(), 1);
    });
}

/// A thread adopts what another one abandoned: it sees all that the other did, and only one adopts
/// at a time.
#[test]
fn mailbox_is_adopted_by_one() {
    model(|| {
        let home = Arc::new(Home::new());
        let others: Vec<_> = (0..2)
            .map(|_| {
                let home = Arc::clone(&home);
                thread::spawn(move || {
                    if home.mailbox.claim() {
                        // SAFETY: this thread holds the mailbox.
                        home.count.with_mut(|count| unsafe { *count += 1 });
                        home.leave();
                        return 1;
                    }
                    0
                })
            })
            .collect();
        // SAFETY: a new mailbox is held by who made it.
        home.count.with_mut(|count| unsafe { *count += 1 });
        home.leave();
        let adopted: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        assert_eq!(home.count(), 1 + adopted);
    });
}

/// A block of a slab with the mark that a hardened build keeps of it, the steps of which are those
/// of `src/hardened.rs`: its owner alone writes the mark, by loads and stores. The messages are
/// blocks of their own here, so what two messages in one block do to its words is not modelled.
struct Marked {
    mark: AtomicU8,
    mailbox: Mailbox,
    /// How often the block is in the owner's lists.
    listed: AtomicUsize,
}

const LIVE: u8 = 1;
const FREED: u8 = 2;

/// The double free was reported.
#[derive(Debug)]
struct Named;

impl Marked {
    fn new() -> Self {
        Self {
            mark: AtomicU8::new(LIVE),
            mailbox: Mailbox::new(),
            listed: AtomicUsize::new(0),
        }
    }

    fn expect(&self, mark: u8) -> Result<(), Named> {
        if self.mark.load(Ordering::Relaxed) == mark {
            Ok(())
        } else {
            Err(Named)
        }
    }

    /// Another thread frees the block, with or without a check of its mark; the message is the
    /// block.
    fn post(&self, looks: bool) -> Result<(), Named> {
        if looks {
            self.expect(LIVE)?;
        }
        let message = block().0;
        // SAFETY: the message is this thread's.
        let is_left = unsafe { self.mailbox.deliver(message, message) };
        assert!(!is_left, "the owner holds it");
        Ok(())
    }

    /// The owner frees the block, or handles one that another thread freed.
    fn free(&self) -> Result<(), Named> {
        self.expect(LIVE)?;
        self.mark.store(FREED, Ordering::Relaxed);
        let before = self.listed.fetch_add(1, Ordering::Relaxed);
        assert_eq!(before, 0, "it is in a list once");
        Ok(())
    }

    /// The owner handles what arrived.
    fn handle_messages(&self) -> Result<(), Named> {
        let (mut message, mut result) = (self.mailbox.take(), Ok(()));
        while !message.is_null() {
            // SAFETY: messages are lists of free blocks, which the holder alone has.
            let next = unsafe { Block::next(message) };
            // SAFETY: the message was made by `block`, and is in no list any more.
            drop(unsafe { Box::from_raw(message) });
            result = result.and_then(|()| self.free());
            message = next;
        }
        result
    }

    /// The owner allocates the block, if it is in a list.
    fn give_out(&self) -> bool {
        let is_listed = self.listed.load(Ordering::Relaxed) > 0;
        if is_listed {
            self.listed.fetch_sub(1, Ordering::Relaxed);
            self.mark.store(LIVE, Ordering::Relaxed);
        }
        is_listed
    }
}

/// Two threads free one block at the same moment; the owner is one of them, or handles messages
/// meanwhile. The double free is reported, unless the block was allocated between the two: then the
/// second free releases the new allocation, whose own free is reported.
#[test]
fn a_double_free_by_two_is_named() {
    for (by_owner, looks, gives_out) in [
        (false, false, false),
        (false, false, true),
        (false, true, true),
        (true, false, false),
        (true, false, true),
        (true, true, true),
    ] {
        model(move || {
            let marked = Arc::new(Marked::new());
            let others: Vec<_> = (usize::from(by_owner)..2)
                .map(|_| {
                    let marked = Arc::clone(&marked);
                    thread::spawn(move || marked.post(looks))
                })
                .collect();
            let mut named = by_owner && marked.free().is_err();
            named |= marked.handle_messages().is_err();
            let is_out = gives_out && !named && marked.give_out();
            for other in others {
                named |= other.join().unwrap().is_err();
            }
            // The process would have ended at the report.
            named = named || marked.handle_messages().is_err();
            assert!(named || is_out && marked.free().is_err());
            let _ = marked.handle_messages();
        });
    }
}

/// A value of a registry; the number is written before it is entered.
struct Member {
    entry: Entry<Self>,
    number: UnsafeCell<usize>,
}

// SAFETY: the number is written before the value is shared, and only read after.
unsafe impl Sync for Member {}
// SAFETY: as above.
unsafe impl Send for Member {}

impl Entered for Member {
    fn entry(&self) -> &Entry<Self> {
        &self.entry
    }
}

fn member(number: usize) -> &'static Member {
    let member = Box::leak(Box::new(Member {
        entry: Entry::new(),
        number: UnsafeCell::new(0),
    }));
    // SAFETY: nothing else knows the member.
    member.number.with_mut(|at| unsafe { *at = number });
    member
}

/// Readers, while two threads enter values, see initialised values, and in the end both.
#[test]
fn registry_shows_whole_members() {
    model(|| {
        let registry = Arc::new(Registry::<Member>::new());
        let seen = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&registry);
        let other = thread::spawn(move || {
            let member = member(1);
            // SAFETY: the member is new and leaked.
            unsafe { theirs.enter(member) };
        });
        let sum = |registry: &Registry<Member>| {
            let mut sum = 0;
            registry.find(|member| {
                // SAFETY: entered members are not written any more.
                sum += member.number.with(|number| unsafe { *number });
                None::<()>
            });
            sum
        };
        assert!([0, 1].contains(&sum(&registry)));
        // SAFETY: the member is new and leaked.
        unsafe { registry.enter(member(2)) };
        assert!([2, 3].contains(&sum(&registry)));
        other.join().unwrap();
        seen.store(sum(&registry), Ordering::Relaxed);
        assert_eq!(seen.load(Ordering::Relaxed), 3);
        // The values of this run: no thread reads them any more.
        let mut members = Vec::new();
        registry.find(|member| {
            members.push(std::ptr::from_ref(member).cast_mut());
            None::<()>
        });
        drop(registry);
        for member in members {
            // SAFETY: the member was leaked by `member`, and the registry is gone.
            drop(unsafe { Box::from_raw(member) });
        }
    });
}

/// A thread parks its heap and returns, while one purges it and one delivers. Each block returns
/// once, the mailbox has at most one holder, and the returning thread sees what was done meanwhile.
#[test]
fn mailbox_a_sleeper_comes_back() {
    model(|| {
        let home = Arc::new(Home::new());
        let theirs = Arc::clone(&home);
        let deliverer = thread::spawn(move || theirs.deliver(vec![block()]));
        let theirs = Arc::clone(&home);
        let purger = thread::spawn(move || {
            if theirs.mailbox.claim() {
                // SAFETY: this thread holds the mailbox.
                theirs.count.with_mut(|count| unsafe { *count += 10 });
                theirs.leave();
                return 10;
            }
            0
        });
        // It parks, and claims again at its next call, or abandons the heap.
        home.leave();
        let mut others = 0;
        if home.mailbox.claim() {
            // SAFETY: this thread holds the mailbox.
            home.count.with_mut(|count| unsafe { *count += 100 });
            others = 100;
            home.leave();
        }
        deliverer.join().unwrap();
        others += purger.join().unwrap();
        assert_eq!(home.count(), 1 + others);
    });
}

/// Two threads claim a stripe each, or make one. Each has its stripe exclusively and finds it
/// initialised, even if the table has no place for it. No more are made than threads were inside.
#[test]
fn stripes_are_whole_and_held_by_one() {
    model(|| {
        let stripes = Arc::new(Stripes::<Home>::new());
        let work = |stripes: &Stripes<Home>| {
            let held = stripes.find(0, |home| {
                home.mailbox.claim().then(|| std::ptr::from_ref(home))
            });
            let home = held.unwrap_or_else(|| {
                let home = Box::into_raw(Box::new(Home::new()));
                // SAFETY: the value is new, and freed only after the table was cleared.
                unsafe { stripes.enter(std::ptr::NonNull::new(home).unwrap()) };
                home
            });
            // SAFETY: entered values stand until the table is cleared.
            let home = unsafe { &*home };
            // SAFETY: this thread holds the mailbox.
            home.count.with_mut(|count| unsafe { *count += 1 });
            home.leave();
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let stripes = Arc::clone(&stripes);
                thread::spawn(move || work(&stripes))
            })
            .collect();
        for other in others {
            other.join().unwrap();
        }
        let mut stripes = Arc::try_unwrap(stripes).ok().unwrap();
        let (mut made, mut count) = (0, 0);
        stripes.clear(|home| {
            // SAFETY: the value was made above, and the table has it no more.
            let home = unsafe { Box::from_raw(home.as_ptr()) };
            made += 1;
            count += home.count();
        });
        assert!((1..=2).contains(&made));
        assert_eq!(count, 2, "each call was alone with its stripe");
    });
}

/// Threads take from a budget at once: together never more than there is, and a refusal only if the
/// request does not fit.
#[test]
fn a_budget_is_never_exceeded() {
    model(|| {
        let budget = Arc::new(Budget::new(3));
        let theirs = Arc::clone(&budget);
        let other = thread::spawn(move || {
            let taken = theirs.take(2);
            if let Some(used) = taken {
                theirs.seen(used);
                theirs.give(2);
            }
            taken.is_some()
        });
        let taken = budget.take(2);
        assert!(
            other.join().unwrap() || taken.is_some(),
            "one of the two fits"
        );
        assert_eq!(budget.take(2).is_some(), taken.is_none());
        assert!(taken.is_none_or(|used| used == 2 || used == 0));
        assert!((2..=3).contains(&budget.seen(taken.unwrap_or(0))));
    });
}

/// A page that is stored as a range.
#[repr(align(4096))]
struct Page(UnsafeCell<usize>);

/// Two threads take a range: one gets it, as it was left.
#[test]
fn a_range_is_taken_by_one() {
    model(|| {
        let page = Box::into_raw(Box::new(Page(UnsafeCell::new(1))));
        let ranges = Arc::new(Ranges::<1>::new());
        let take = |ranges: &Ranges<1>| {
            let Some((start, bytes)) = ranges.take(|_, bytes| Some(bytes)) else {
                return 0;
            };
            assert_eq!(bytes, 4096);
            let page = start.cast::<Page>();
            // SAFETY: the page lives until the end of the model.
            let page = unsafe { page.as_ref() };
            // SAFETY: the thread that took the range has the page alone.
            page.0.with_mut(|at| unsafe { *at += 1 });
            3
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let theirs = Arc::clone(&ranges);
                thread::spawn(move || take(&theirs))
            })
            .collect();
        // SAFETY: the page lives until the end of the model.
        let first = unsafe { &*page };
        // SAFETY: the page is not put away yet.
        first.0.with_mut(|at| unsafe { *at += 1 });
        let start = std::ptr::NonNull::new(page.cast()).expect("a box is never null");
        assert!(ranges.put(start, 4096));
        let taken: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        let left = take(&ranges);
        assert_eq!(taken + left, 3, "once, and as it was left");
        // SAFETY: no thread has it any more.
        drop(unsafe { Box::from_raw(page) });
    });
}
