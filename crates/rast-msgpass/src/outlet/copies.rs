//! How an outlet sends one message to all targets.

use super::{Out, Way};

impl<M: Send + 'static> Out<M> {
    /// Checks the burst for one message to all targets; returns the number of targets. Each is then
    /// to be [`put`](Self::put), and after the first one the message is to be
    /// [counted](Self::count_all).
    pub(crate) fn begin_all(&mut self, invocation: u64) -> usize {
        if self.is_bounded && !self.has_burst(invocation) {
            self.burst_fault();
        }
        self.targets()
    }

    /// Stages copies of a message for the targets from `first` to `end`, until one has no room for
    /// a burst after its copy. Returns the index of the first target without a copy. Before the
    /// call, the message was [`put`](Self::put) for another target, and the news of that was noted.
    pub(crate) fn put_copies(&mut self, first: usize, end: usize, message: &M) -> usize
    where
        M: Clone,
    {
        let mut index = first;
        if let Way::Rings(rings) = &mut self.way
            && self.is_plain
            && self.is_noted
        {
            while index < end && rings.takes_fast(index) {
                // Code of the user: what was staged before it is counted.
                let copy = message.clone();
                if rings.put_fast(index, copy).is_err() {
                    unreachable!("only this thread takes room");
                }
                self.uncounted += 1;
                index += 1;
            }
        }
        index
    }

    /// Counts one message to all targets. Called after the first clone and weight of the message,
    /// because these run user code.
    pub(crate) fn count_all(&mut self) {
        if self.is_bounded {
            self.used += 1;
        }
    }
}
