//! The allocator as the program's own where a process is at its ends: out of memory, at exit, in
//! the child of a fork.
//!
//! Each such process is a child: this program again, with one test, or a fork of it.
#![cfg(all(feature = "std", unix, not(any(rast_loom, miri))))]

use rast_alloc::{Allocator, Heap, Layout, RastAlloc, SharedHeap};
use std::alloc::GlobalAlloc;
use std::ffi::c_void;
use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[cfg(not(rast_global_alloc))]
#[global_allocator]
static ALLOC: RastAlloc = RastAlloc;

/// How long a child may take; one that hangs is ended, and its test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// The variable that marks this program as a child.
const CHILD: &str = "RAST_ALLOC_CHILD";

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Runs one test of this program in a process of its own; returns how it ended and what it printed.
fn child(test: &str) -> (ExitStatus, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > PATIENCE {
            child.kill().unwrap();
        }
        thread::yield_now();
    };
    let mut text = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    (status, text)
}

/// A block with a pattern that tells whether another thread wrote to it.
struct Marked(Vec<u8>);

impl Marked {
    fn new(seed: usize) -> Self {
        let length = match seed % 9 {
            0..=4 => 1 + seed * 37 % 500,
            5 | 6 => 1 + seed * 131 % 9000,
            7 => 1 + seed * 977 % 100_000,
            _ => 1 + seed * 7919 % 1_500_000,
        };
        Self(vec![(length % 251) as u8; length])
    }

    fn check(&self) {
        check_bytes(&self.0, self.0.len());
    }
}

/// Asserts that all bytes are the mark of a block that was so long.
fn check_bytes(bytes: &[u8], length: usize) {
    let marks = [(length % 251) as u8; 4096];
    let mut chunks = bytes.chunks(marks.len());
    assert!(chunks.all(|chunk| chunk == &marks[..chunk.len()]));
}

/// Takes, grows, checks and frees blocks of every level.
fn exercise(seed: usize) {
    let mut blocks: Vec<_> = (0..60).map(|n| Marked::new(n + seed)).collect();
    for block in blocks.iter_mut().step_by(4) {
        block.0.reserve_exact(700);
    }
    blocks.iter().for_each(Marked::check);
    let zeroes = vec![0_u8; 10_000 + seed];
    assert!(zeroes.iter().all(|byte| *byte == 0));
}

// Out of memory.

/// Blocks of one size that were taken until there was no more, in a list through their first words:
/// to keep them takes no memory besides.
struct Hoard {
    layout: Layout,
    first: *mut *mut u8,
    count: usize,
}

impl Hoard {
    /// Takes up to `most` blocks.
    fn new(size: usize, most: usize) -> Self {
        let mut hoard = Self {
            layout: Layout::from_size_align(size, 8).unwrap(),
            first: ptr::null_mut(),
            count: 0,
        };
        while hoard.count < most {
            // SAFETY: the layout has a size.
            let block = unsafe { RastAlloc.alloc(hoard.layout) }.cast::<*mut u8>();
            if block.is_null() {
                break;
            }
            // The whole block is there: its last byte too.
            // SAFETY: the block is new and `size` bytes long.
            let last = unsafe { block.cast::<u8>().add(size - 1) };
            // SAFETY: as above.
            unsafe { last.write(1) };
            // SAFETY: the block is new and holds a word.
            unsafe { block.write(hoard.first.cast()) };
            hoard.first = block;
            hoard.count += 1;
        }
        hoard
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        while !self.first.is_null() {
            // SAFETY: the word was written when the block was put into the list.
            let next = unsafe { self.first.read() };
            // SAFETY: the block is the allocator's, of this layout, and in the list no more.
            unsafe { RastAlloc.dealloc(self.first.cast(), self.layout) };
            self.first = next.cast();
        }
    }
}

/// Where the thread below and the test meet; nothing there allocates.
static STAGE: AtomicUsize = AtomicUsize::new(0);

fn await_stage(stage: usize) {
    while STAGE.load(Ordering::Acquire) != stage {
        thread::yield_now();
    }
}

/// A thread that takes its first block when there is none, so that it finds no heap either, and
/// another one later.
extern "C" fn latecomer(_: *mut c_void) -> *mut c_void {
    await_stage(1);
    let layout = Layout::new::<[u64; 10]>();
    // SAFETY: the layout has a size.
    let early = unsafe { RastAlloc.alloc(layout) };
    STAGE.store(2, Ordering::Release);
    await_stage(3);
    // SAFETY: as above.
    let late = unsafe { RastAlloc.alloc(layout) };
    let served = !late.is_null();
    if served {
        // SAFETY: the block is the allocator's, of this layout.
        unsafe { RastAlloc.dealloc(late, layout) };
    }
    if early.is_null() && served {
        ptr::null_mut()
    } else {
        ptr::dangling_mut()
    }
}

/// Starts a thread by the C library: std's would allocate before it runs what it is given.
fn start(body: extern "C" fn(*mut c_void) -> *mut c_void) -> libc::pthread_t {
    let mut id = std::mem::MaybeUninit::uninit();
    // SAFETY: the place is writable, the attributes are the default, and the body has the right
    // signature.
    let result =
        unsafe { libc::pthread_create(id.as_mut_ptr(), ptr::null(), body, ptr::null_mut()) };
    assert_eq!(result, 0);
    // SAFETY: the call succeeded, so it wrote the place.
    unsafe { id.assume_init() }
}

/// Waits for such a thread; returns whether it gave null.
fn joined(id: libc::pthread_t) -> bool {
    let mut result = ptr::null_mut();
    // SAFETY: the thread was started by `start` and is joined once; the place is writable.
    assert_eq!(unsafe { libc::pthread_join(id, &raw mut result) }, 0);
    result.is_null()
}

/// Lets the process have so many bytes of address space beyond what it has.
#[cfg(target_os = "linux")]
fn limit_address_space(more: u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let bytes = kib.unwrap() * 1024 + more;
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: the limit is readable; it is this process's own.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_AS, &raw const limit) };
    assert_eq!(result, 0);
}

/// Elsewhere the limit is not kept, or counted otherwise.
#[cfg(target_os = "linux")]
#[test]
fn the_system_has_no_memory_left() {
    const SIZES: [usize; 7] = [32, 704, 6144, 30_000, 300_000, 2_000_000, 12_000_000];
    if !is_child() {
        let (status, text) = child("the_system_has_no_memory_left");
        assert!(status.success(), "{status}: {text}");
        assert!(text.contains("took all"), "{text}");
        return;
    }
    // Room for the messages below.
    println!("starts");
    let late = start(latecomer);
    let heap = Heap::new();
    let kept = Marked::new(5);
    let mut grown = vec![7_u8; 100];
    limit_address_space(200 << 20);
    let before = RastAlloc::stats();
    let mut taken = [0; 2];
    for (round, bytes) in taken.iter_mut().enumerate() {
        // Some of each size, then of each, small ones first, until there is no more.
        let some = SIZES.map(|size| Hoard::new(size, (20 << 20) / size));
        let rest = SIZES.map(|size| Hoard::new(size, usize::MAX));
        *bytes = some
            .iter()
            .chain(&rest)
            .map(|hoard| hoard.count * hoard.layout.size())
            .sum();
        let full = RastAlloc::stats();
        for size in SIZES {
            let layout = Layout::from_size_align(size, 8).unwrap();
            // SAFETY: the layout has a size.
            assert!(unsafe { RastAlloc.alloc_zeroed(layout) }.is_null());
        }
        assert!(grown.try_reserve_exact(1_000_000).is_err());
        assert!(
            grown.iter().all(|byte| *byte == 7),
            "a refusal keeps the block"
        );
        let one = Layout::new::<u64>();
        assert!((&heap).allocate(one).is_err());
        assert_eq!(RastAlloc::stats(), full, "refusals change no figure");
        if round == 0 {
            STAGE.store(1, Ordering::Release);
            await_stage(2);
        }
        drop((some, rest));
        let left = RastAlloc::stats()
            .bytes_current
            .abs_diff(before.bytes_current);
        // The harness runs beside.
        assert!(left < 64 * 1024, "{left} bytes more or less");
        RastAlloc::purge_all();
    }
    // The blocks themselves are most of the address space, the second time too.
    println!("took all: {taken:?}");
    // The system's allocator, where segments come from it, wastes some on alignment.
    let least = if cfg!(rast_system_segments) { 20 } else { 180 };
    assert!(taken.iter().all(|bytes| *bytes > least << 20), "{taken:?}");
    STAGE.store(3, Ordering::Release);
    assert!(joined(late), "refused without a heap, served later");
    assert!((&heap).allocate(Layout::new::<u64>()).is_ok());
    kept.check();
    grown.resize(1_000_000, 7);
    assert!(grown.iter().all(|byte| *byte == 7));
    thread::spawn(|| exercise(1)).join().unwrap();
    exercise(2);
}

// At exit.

/// What the handlers below free: blocks of threads that ended, of the test's, and of one that runs.
static LEFT: Mutex<Vec<Marked>> = Mutex::new(Vec::new());

extern "C" fn at_exit() {
    exercise(3);
    let left = std::mem::take(&mut *LEFT.lock().unwrap());
    assert_eq!(left.len(), 300);
    left.iter().for_each(Marked::check);
    drop(left);
    RastAlloc::on_idle();
    RastAlloc::purge_all();
    exercise(4);
    assert!(RastAlloc::stats().live() > 0);
    // A thread that begins and ends while the process does.
    assert!(joined(start(body)));
    let text = b"served at exit\n";
    // SAFETY: the text is this long.
    unsafe { libc::write(1, text.as_ptr().cast(), text.len()) };
}

extern "C" fn body(_: *mut c_void) -> *mut c_void {
    exercise(5);
    ptr::null_mut()
}

#[test]
fn handlers_of_the_exit_are_served() {
    if !is_child() {
        let (status, text) = child("handlers_of_the_exit_are_served");
        assert!(status.success(), "{status}: {text}");
        assert_eq!(text.matches("served at exit").count(), 2, "{text}");
        return;
    }
    for _ in 0..2 {
        // SAFETY: the handler may be called at any time after `main`.
        assert_eq!(unsafe { libc::atexit(at_exit_with_rest) }, 0);
    }
    // Goes on while the process ends.
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        sender.send((0..100).map(Marked::new).collect()).unwrap();
        loop {
            exercise(6);
        }
    });
    leave_blocks();
    RUNNING.lock().unwrap().replace(receiver.recv().unwrap());
}

/// Blocks of the thread that runs on.
static RUNNING: Mutex<Option<Vec<Marked>>> = Mutex::new(None);

fn leave_blocks() {
    let ended = thread::spawn(|| (0..200).map(Marked::new).collect::<Vec<_>>());
    let mut left = LEFT.lock().unwrap();
    left.extend(ended.join().unwrap());
    left.extend((0..100).map(Marked::new));
}

/// Both calls of the handler find blocks to free.
extern "C" fn at_exit_with_rest() {
    at_exit();
    if let Some(running) = RUNNING.lock().unwrap().take() {
        running.iter().for_each(Marked::check);
        drop(running);
        leave_blocks();
    }
}

// In the child of a fork.

/// Runs `body` in a forked child; fails unless it ends well in time.
fn forked(body: impl FnOnce()) {
    // SAFETY: the child does nothing but allocate, check and end; nothing of that waits for a
    // thread that is not there.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        // SAFETY: ends the child at once, without what the parent's exit would do.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let (mut status, start) = (0, Instant::now());
    loop {
        // SAFETY: the child was made above, and the place is writable.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        assert!(ended >= 0);
        if ended == child {
            break;
        }
        if start.elapsed() > PATIENCE {
            // SAFETY: the child was made above and was not waited for yet.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        thread::yield_now();
    }
    assert!(
        libc::WIFEXITED(status),
        "the child hung or crashed: {status}"
    );
    assert_eq!(libc::WEXITSTATUS(status), 0);
}

#[test]
fn children_allocate_whatever_other_threads_did_at_the_fork() {
    const OTHERS: usize = 3;
    static STOP: AtomicBool = AtomicBool::new(false);
    let (sender, receiver) = mpsc::sync_channel::<Vec<Marked>>(2);
    let others = [(); OTHERS].map(|()| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut seed = 0;
            while !STOP.load(Ordering::Relaxed) {
                exercise(seed);
                // What the forking thread has, and its child frees: blocks of threads that are not
                // there.
                let _ = sender.try_send((0..50).map(|n| Marked::new(n + seed)).collect());
                // Threads that start and end, so that forks find heaps that are adopted and
                // abandoned.
                thread::spawn(move || exercise(seed)).join().unwrap();
                if seed % 5 == 0 {
                    RastAlloc::purge_all();
                }
                seed += 1;
            }
        })
    });
    let dead: Vec<_> = thread::spawn(|| (0..50).map(Marked::new).collect())
        .join()
        .unwrap();
    let (mut own, mut theirs): (Vec<_>, Vec<_>) = ((0..50).map(Marked::new).collect(), dead);
    for round in 0..60 {
        theirs.extend(receiver.recv().unwrap());
        theirs.truncate(150);
        let (mut mine, mut foreign) = (std::mem::take(&mut own), std::mem::take(&mut theirs));
        forked(|| {
            mine.iter().chain(&foreign).for_each(Marked::check);
            exercise(round);
            for block in mine.iter_mut().chain(&mut foreign).step_by(3) {
                block.0.reserve_exact(2000);
            }
            mine.iter().chain(&foreign).for_each(Marked::check);
            drop(std::mem::take(&mut foreign));
            RastAlloc::on_idle();
            RastAlloc::purge_all();
            let _ = RastAlloc::stats();
            // A thread of the child: it takes a heap that no thread held at the fork, or a new one.
            assert!(joined(start(body)));
            // And a child of its own.
            if round % 10 == 0 {
                forked(|| exercise(round));
            }
            drop(std::mem::take(&mut mine));
            exercise(round + 1);
        });
        // The parent's blocks are as they were.
        mine.iter().chain(&foreign).for_each(Marked::check);
        (own, theirs) = (mine, foreign);
    }
    STOP.store(true, Ordering::Relaxed);
    drop(receiver);
    for other in others {
        other.join().unwrap();
    }
}

/// A block of the parent's large ones, and of a heap of one's own, is the child's to free and to
/// grow.
#[test]
fn children_have_the_heaps_and_mappings_of_the_parent() {
    let heap = Heap::new();
    let mut numbers = rast_alloc::vec::Vec::new_in(&heap);
    numbers.extend(0..100_000_u64);
    let mut large = vec![3_u8; 8 << 20];
    forked(|| {
        numbers.extend(0..1_000_000);
        assert_eq!(numbers.iter().take(100_000).sum::<u64>(), 4_999_950_000);
        large.resize(20 << 20, 3);
        assert!(large.iter().step_by(1000).all(|byte| *byte == 3));
        drop(std::mem::take(&mut large));
        numbers.clear();
        numbers.shrink_to_fit();
        heap.purge();
        let again: NonNull<u8> = (&heap)
            .allocate(Layout::new::<[u8; 9000]>())
            .unwrap()
            .cast();
        // SAFETY: the block is the heap's, of this layout, and not used again.
        unsafe { (&heap).deallocate(again, Layout::new::<[u8; 9000]>()) };
    });
    assert_eq!(numbers.len(), 100_000);
    assert_eq!(large.len(), 8 << 20);
}

static SHARED: SharedHeap = SharedHeap::bounded(1 << 30);

type Shared = rast_alloc::vec::Vec<u8, &'static SharedHeap>;

/// Blocks of every level, in the heap for many threads.
fn shared(seed: usize) -> Vec<Shared> {
    let lengths = (seed..seed + 40).map(|n| Marked::new(n).0.len());
    let fill = |length| {
        let mut block = Shared::new_in(&SHARED);
        block.resize(length, (length % 251) as u8);
        block
    };
    lengths.map(fill).collect()
}

fn check_shared(blocks: &[Shared], less: usize) {
    for block in blocks {
        check_bytes(block, block.len() - less);
    }
}

extern "C" fn shared_body(_: *mut c_void) -> *mut c_void {
    check_shared(&shared(7), 0);
    ptr::null_mut()
}

#[test]
fn children_share_a_heap_whatever_other_threads_did_at_the_fork() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let (sender, receiver) = mpsc::sync_channel::<Vec<Shared>>(2);
    let others = [1, 2, 3].map(|seed| {
        let sender = sender.clone();
        thread::spawn(move || {
            while !STOP.load(Ordering::Relaxed) {
                let _ = sender.try_send(shared(seed));
                SHARED.purge();
            }
        })
    });
    for round in 0..25 {
        // What other threads took, freed and resized by the child; and by this thread after that.
        let mut theirs = receiver.recv().unwrap();
        forked(|| {
            check_shared(&theirs, 0);
            for block in &mut theirs {
                let mark = block[0];
                block.resize(block.len() + 3000, mark);
                block.shrink_to_fit();
            }
            check_shared(&theirs, 3000);
            drop(std::mem::take(&mut theirs));
            for _ in 0..3 {
                check_shared(&shared(round), 0);
                assert!(joined(start(shared_body)));
            }
            SHARED.purge();
            assert!(SHARED.stats().bytes_peak <= SHARED.bytes_max());
        });
        check_shared(&theirs, 0);
    }
    STOP.store(true, Ordering::Relaxed);
    drop(receiver);
    for other in others {
        other.join().unwrap();
    }
    assert_eq!(
        (SHARED.stats().live(), SHARED.stats().bytes_current),
        (0, 0)
    );
}
