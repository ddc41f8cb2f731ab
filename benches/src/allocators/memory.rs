//! The memory of this process as the system reports it; nothing on systems other than Linux.

const MIB: f64 = 1024.0 * 1024.0;

/// MiB that are resident now.
pub(super) fn resident() -> Option<f64> {
    status("VmRSS:")
}

/// The maximum number of MiB that this process had resident. It does not begin with the maximum of
/// the parent process, as `ru_maxrss` does.
pub(super) fn peak() -> Option<f64> {
    status("VmHWM:")
}

fn status(field: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / MIB)
}

/// Page faults so far that needed no disk, and milliseconds of processor time in the kernel for
/// this process.
#[cfg(unix)]
pub(super) fn usage() -> Option<(f64, f64)> {
    // SAFETY: a structure of numbers, for which zeroes are values.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is writable.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } != 0 {
        return None;
    }
    let system = usage.ru_stime.tv_sec as f64 * 1e3 + usage.ru_stime.tv_usec as f64 / 1e3;
    Some((usage.ru_minflt as f64, system))
}

/// As in the other build.
#[cfg(not(unix))]
pub(super) fn usage() -> Option<(f64, f64)> {
    None
}
