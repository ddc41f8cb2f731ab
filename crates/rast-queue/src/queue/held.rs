//! The first panic of a waker, kept until all waiters are woken and the operation is complete.

#[cfg(feature = "std")]
use {
    crate::primitive::panics::{Payload, discard},
    crate::primitive::thread::panicking,
    std::panic::resume_unwind,
};

/// The first panic of a waker, kept until all waiters are woken and the operation is complete.
#[cfg(feature = "std")]
#[derive(Default)]
#[must_use = "a panic goes up in the end"]
pub(super) struct Held(Option<Payload>);

#[cfg(feature = "std")]
impl Held {
    /// Keeps the payload of a waker's panic, if there is one.
    pub(super) fn new(panic: Option<Payload>) -> Self {
        Self(panic)
    }

    /// Keeps the first of two panics. The panic hook has run for both.
    pub(super) fn or(mut self, mut later: Self) -> Self {
        // If both hold a panic, the drop of `later` discards its own.
        let first = self.0.take();
        Self(first.or_else(|| later.0.take()))
    }

    /// Resumes the panic, unless the thread is already unwinding: a second panic would abort.
    pub(super) fn go_up(mut self) {
        if !panicking()
            && let Some(panic) = self.0.take()
        {
            resume_unwind(panic);
        }
    }
}

#[cfg(feature = "std")]
impl Drop for Held {
    /// Discards the panic, because another one already unwinds, for instance an allocator's in a
    /// batch.
    fn drop(&mut self) {
        if let Some(panic) = self.0.take() {
            discard(panic);
        }
    }
}

/// Without `std` no thread waits, so no waker panics.
#[cfg(not(feature = "std"))]
#[derive(Default)]
pub(super) struct Held(());

#[cfg(not(feature = "std"))]
impl Held {
    pub(super) fn or(self, _later: Self) -> Self {
        self
    }

    pub(super) fn go_up(self) {}
}
