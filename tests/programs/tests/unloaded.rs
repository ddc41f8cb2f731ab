//! A library with `RastAlloc` as its global allocator is unloaded while threads that used it live
//! on.
#![cfg(all(target_os = "linux", not(any(rast_loom, rast_shuttle, miri))))]

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlclose(library: *mut c_void) -> c_int;
}

const NOW: c_int = 2;
/// Tells a process that it is the child of a test.
const CHILD: &str = "RAST_ALLOC_UNLOADED_CHILD";
/// How long a condition is waited for: many times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `scenario` in a child that runs this test alone: what goes wrong ends the process.
fn in_child(test: &str, scenario: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        return scenario();
    }
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .status()
        .unwrap();
    assert!(child.success(), "{test} failed in its child: {child}");
}

/// Where the library is; it is built if this test runs without the examples.
fn path() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples/libunloaded.so");
    if !path.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "-p", "programs", "--example", "unloaded"]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success());
    }
    path
}

struct Library(*mut c_void);

impl Library {
    fn load() -> Self {
        let path = CString::new(path().to_str().unwrap()).unwrap();
        // SAFETY: the path is a string; the library's own code runs nothing when it is loaded.
        let library = unsafe { dlopen(path.as_ptr(), NOW) };
        assert!(!library.is_null(), "{path:?}");
        Self(library)
    }

    fn work(&self) -> extern "C" fn(usize) -> usize {
        // SAFETY: the library is loaded, and the name a string.
        let work = unsafe { dlsym(self.0, c"work".as_ptr()) };
        assert!(!work.is_null());
        // SAFETY: the function has this type.
        unsafe { std::mem::transmute(work) }
    }

    fn unload(self) {
        // SAFETY: the library is loaded, and none of its code runs.
        assert_eq!(unsafe { dlclose(self.0) }, 0);
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        assert!(!maps.contains("libunloaded"), "it is still loaded");
    }
}

/// Threads of the process that give memory back in the background.
fn purge_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
        .filter(|name| name.trim() == "rast-purge")
        .count()
}

/// Threads use the library; it is unloaded once `is_ready`, and then they end.
fn unload_before_threads_end(bytes: usize, is_ready: impl Fn() -> bool) {
    let library = Library::load();
    let work = library.work();
    let (done, worked) = mpsc::channel();
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let done = done.clone();
            let (end, ended) = mpsc::channel::<()>();
            let thread = thread::spawn(move || {
                done.send(work(bytes)).unwrap();
                ended.recv().unwrap();
            });
            (thread, end)
        })
        .collect();
    for _ in &threads {
        assert!(worked.recv().unwrap() > 0);
    }
    let start = Instant::now();
    while !is_ready() {
        assert!(start.elapsed() < PATIENCE, "not ready");
        thread::yield_now();
    }
    library.unload();
    assert_eq!(purge_threads(), 0, "its thread has ended before");
    for (thread, end) in threads {
        end.send(()).unwrap();
        thread.join().unwrap();
    }
}

#[test]
fn a_library_is_unloaded_before_its_threads_end() {
    in_child("a_library_is_unloaded_before_its_threads_end", || {
        for _ in 0..3 {
            unload_before_threads_end(10_000, || true);
        }
    });
}

#[test]
fn a_library_is_unloaded_while_its_background_thread_runs() {
    in_child(
        "a_library_is_unloaded_while_its_background_thread_runs",
        || {
            for _ in 0..3 {
                unload_before_threads_end(40 << 20, || purge_threads() == 1);
            }
        },
    );
}
