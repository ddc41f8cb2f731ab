//! No background thread: where the system is not Linux, memory goes back by the calls of the
//! program alone.

pub(crate) fn report(_: i64) {}

#[inline(always)]
pub(crate) const fn is_wanted() -> bool {
    false
}

pub(crate) fn start() {}

pub(crate) fn resume() {}

pub(crate) fn stop() {}

#[cfg(all(unix, not(rast_system_segments)))]
pub(crate) fn close() {}
