//! No background thread: except on Linux, memory returns by the calls of the program's threads.

#[inline(always)]
pub(crate) fn start_if_wanted() {}

pub(crate) fn resume() {}

pub(crate) fn stop() {}

#[cfg(all(unix, not(rast_system_segments)))]
pub(crate) fn close() {}
