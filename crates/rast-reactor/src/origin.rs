//! The name of a task, and the line that spawned it.

use core::panic::Location;
use std_alloc::string::String;

use crate::primitive::sync::Arc;

/// What a task is called: its name, and the line that spawned it.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) name: Option<Arc<String>>,
    pub(crate) line: &'static Location<'static>,
}
