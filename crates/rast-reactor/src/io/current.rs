//! The I/O of the calling thread's reactor.

use std_alloc::rc::Rc;

use super::backend::Io;
use crate::here::{OUTSIDE, here};

impl Io {
    /// The I/O of the reactor that runs the caller.
    ///
    /// # Panics
    ///
    /// Outside of a reactor.
    #[track_caller]
    pub(crate) fn current() -> Rc<Self> {
        Rc::clone(&here().expect(OUTSIDE).io)
    }
}
