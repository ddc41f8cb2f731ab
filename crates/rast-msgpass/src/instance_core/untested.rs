//! Where tests reach into an instance, without the feature `testing`: nothing to do.
//!
//! With it `tested.rs` has these functions.

use super::Core;
use crate::timers::Nanos;

impl Core {
    /// The handler of a message is to be called.
    #[inline(always)]
    pub(crate) fn delivering<M>(&self, _: Option<usize>, _: &M) {}

    /// A message is sent.
    #[inline(always)]
    pub(crate) fn sending<M>(&mut self, _: usize, _: usize, _: usize, _: &M) {}

    /// As `sending`, where there is room for it.
    #[inline(always)]
    pub(crate) fn trying<M>(&self, _: usize, _: usize, _: &M) {}

    /// A timer is armed.
    #[inline(always)]
    pub(crate) fn arming<M>(&mut self, _: Nanos, _: bool) {}

    /// Returns whether a test says that an outlet is full.
    #[inline(always)]
    pub(crate) fn is_filled(&self, _: usize) -> bool {
        false
    }

    /// As `is_filled`, for any outlet.
    #[inline(always)]
    pub(crate) fn is_any_filled(&self) -> bool {
        false
    }

    /// Returns how many messages `try_send` accepts now, if a test determines that.
    #[inline(always)]
    #[expect(clippy::extra_unused_type_parameters, reason = "as with the feature")]
    pub(crate) fn trial_room<M>(&mut self, _: usize, _: usize, _: bool) -> Option<usize> {
        None
    }
}
