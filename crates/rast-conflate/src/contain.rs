//! Calls of user code whose panics are caught here.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs user code; returns `false` if it panicked.
pub(crate) fn contain(call: impl FnOnce()) -> bool {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    outcome.map_err(drop_contained).is_ok()
}

/// Drops a panic payload, and the payload of a panic of its destructor.
#[cold]
pub(crate) fn drop_contained<T>(value: T) {
    let dropped = catch_unwind(AssertUnwindSafe(move || drop(value)));
    if let Err(second) = dropped
        && let Err(third) = catch_unwind(AssertUnwindSafe(move || drop(second)))
    {
        // Leak it: a payload whose destructor panics with such a payload would never end.
        core::mem::forget(third);
    }
}
