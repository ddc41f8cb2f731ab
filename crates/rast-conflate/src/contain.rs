//! Calls of user code whose panics end here.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code; returns `false` if it panicked.
pub(crate) fn contain(call: impl FnOnce()) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    outcome.map_err(drop_contained).is_ok()
}

/// Drops what user code left, which may panic once more.
#[cold]
pub(crate) fn drop_contained<T>(value: T) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // A payload whose drop panics is left alone.
        core::mem::forget(second);
    }
}
