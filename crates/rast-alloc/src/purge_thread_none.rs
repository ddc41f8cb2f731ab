//! No background thread: where the system is not Linux, memory goes back by the calls of the
//! program alone.

#[inline(always)]
pub(crate) fn start_if_wanted() {}

pub(crate) fn resume() {}

pub(crate) fn stop() {}

#[cfg(all(unix, not(rast_system_segments)))]
pub(crate) fn close() {}
