//! Calls of user code whose panics end here.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code; a panic of it was reported by the hook.
pub(crate) fn contain(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        // Its destructor may panic in turn.
        core::mem::forget(payload);
    }
}
