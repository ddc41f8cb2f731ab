//! The driver by io_uring.
//!
//! ```text
//!   task ──start──► entry ─┐                              ┌─► result ──► task
//!                          ├─ a turn ─► kernel ─► completion
//!   task ──start──► entry ─┘   (one call)                 └─► abandoned: cleaned up
//! ```
//!
//! An executor that sleeps after each turn makes one system call per turn, which submits the turn's
//! entries and waits. A busy executor submits at every second turn.

mod connect;
mod file;
mod held;
mod op;
mod poll;
mod provided;
mod ring;
mod slots;
mod stream;

use core::task::Waker;
use core::time::Duration;
use std::io::{self, Write};
use std_alloc::boxed::Box;
use std_alloc::rc::Rc;
use std_alloc::sync::Arc;

use rast_executor::{Bell, Driver};

use crate::primitive::Parker;

pub(crate) use connect::connect;
pub(crate) use file::File;
pub(crate) use poll::readable;
pub(crate) use provided::Provided;
pub(crate) use ring::Ring;
pub(crate) use stream::{Listener, Stream};

type Interrupt = Box<dyn Fn() + Send + Sync>;

/// What the thread of a reactor sleeps in.
pub(crate) struct RingDriver {
    ring: Rc<Ring>,
    parker: Parker,
    bell: Arc<Bell<Interrupt>>,
    /// The thread has slept since the last `submit`. Then the next sleep will probably submit the
    /// entries of this turn, so `submit` does nothing.
    has_slept: bool,
}

impl RingDriver {
    pub(crate) fn new(ring: &Rc<Ring>) -> io::Result<Self> {
        let event = ring.event()?;
        let interrupt: Interrupt = Box::new(move || {
            // The system refuses only if the count is full, and then the event is set.
            let _ = (&event).write(&1_u64.to_ne_bytes());
        });
        let parker = Parker::new();
        Ok(Self {
            ring: Rc::clone(ring),
            bell: Bell::new(parker.unparker(), interrupt),
            parker,
            has_slept: false,
        })
    }
}

impl Driver for RingDriver {
    fn submit(&mut self) {
        // If the executor sleeps after each turn, the sleep submits.
        if !core::mem::take(&mut self.has_slept) {
            self.ring.submit();
        }
    }

    fn park(&mut self, timeout: Option<Duration>) {
        let ring = &self.ring;
        if !ring.is_busy() {
            self.bell.park(|| {
                self.parker.park_for(timeout);
            });
        } else if !self.bell.poll(|| ring.wait(timeout)) {
            ring.submit();
        }
        self.has_slept = true;
    }

    fn unparker(&self) -> Waker {
        self.bell.waker()
    }
}
