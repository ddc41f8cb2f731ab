//! Catching panics of user code.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a handler; hands back the payload if it panicked.
///
/// The processor may be left half changed: whether it goes on then is the
/// policy that its owner chose ([`OnPanic`](crate::OnPanic)).
pub(crate) fn contain<R>(run: impl FnOnce() -> R) -> Result<R, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(run))
}

/// Returns the text of a panic.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    match payload.downcast_ref::<&'static str>() {
        Some(text) => (*text).to_owned(),
        None => match payload.downcast_ref::<String>() {
            Some(text) => text.clone(),
            None => "(the panic carries no text)".to_owned(),
        },
    }
}

/// Returns the text of a panic, and drops its payload.
pub(crate) fn text(payload: Box<dyn Any + Send>) -> String {
    let text = text_of(&*payload);
    discard(payload);
    text
}

/// Drops the payload of a panic. One whose drop panics is forgotten: it must not take the worker
/// along.
pub(crate) fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = contain(|| drop(payload)) {
        core::mem::forget(second);
    }
}
