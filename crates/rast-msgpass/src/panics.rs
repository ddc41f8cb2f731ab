//! The text of a panic of user code.

use std::any::Any;

use crate::primitive::panics::{self, Payload, discard};

/// Returns the text of a panic.
pub(crate) fn text_of(payload: &(dyn Any + Send)) -> String {
    panics::text(payload)
        .unwrap_or("(the panic carries no text)")
        .to_owned()
}

/// Returns the text of a panic, and drops its payload.
pub(crate) fn text(payload: Payload) -> String {
    let text = text_of(&*payload);
    discard(payload);
    text
}
