//! Pins each worker of a run to a processor of its own, if the system can do that.
//!
//! If two threads yield while they wait for each other, the system often puts both on one
//! processor, most of all if something else keeps another processor busy. Then nothing crosses
//! between processors, and the two threads only run in turn.

/// The processors that this process may use; empty where the system cannot say.
#[cfg(target_os = "linux")]
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: a set is plain words, for which zeroes are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is writable and this long; 0 is the calling thread.
    let refused = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) };
    if refused != 0 {
        return Vec::new();
    }
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the set was written above, and each number is below its size.
        .filter(|number| unsafe { libc::CPU_ISSET(*number, &set) })
        .collect()
}

/// The processors that this process may use; empty where the system cannot say.
#[cfg(not(target_os = "linux"))]
pub(crate) fn allowed() -> Vec<usize> {
    Vec::new()
}

/// Pins the calling thread, and the threads that it starts later, to one processor. Does nothing if
/// the system refuses.
#[cfg(target_os = "linux")]
pub(crate) fn pin_to(number: usize) {
    // SAFETY: a set is plain words, for which zeroes are a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the number came from `allowed`, so it is below the size of a set.
    unsafe { libc::CPU_SET(number, &mut set) };
    // A refusal leaves the thread where the system puts it.
    // SAFETY: the set is this long; 0 is the calling thread.
    let _ = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) };
}

/// As [`pin_to`], for the allowed processors in turn.
pub(crate) fn pin_in_turn(index: usize) {
    let allowed = allowed();
    if !allowed.is_empty() {
        pin_to(allowed[index % allowed.len()]);
    }
}

/// Does nothing: threads are pinned on Linux only.
#[cfg(not(target_os = "linux"))]
pub(crate) fn pin_to(_: usize) {}
