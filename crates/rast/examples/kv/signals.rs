//! SIGINT and SIGTERM: the first asks for a drain, a second one ends the process
//! at once with the status that shells use for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// Whether a signal came.
#[derive(Debug)]
pub(crate) struct Signals {
    received: Arc<AtomicBool>,
}

impl Signals {
    /// Watches from now on.
    pub(crate) fn watch() -> io::Result<Self> {
        let received = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down and raises it.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&received))?;
            flag::register(signal, Arc::clone(&received))?;
        }
        Ok(Self { received })
    }

    /// Whether one came.
    pub(crate) fn received(&self) -> bool {
        // Relaxed: a flag; nothing is published by it.
        self.received.load(Ordering::Relaxed)
    }
}
