//! The queues that the random programs use.

use super::Fewer;
use super::program::Fifo;
use rast_queue::Queue;
use rast_queue::list::ListQueue;

impl Fifo for Queue<u64> {
    const FEWER: Fewer = Fewer::SayEmptyIfNone;

    fn push(&self, value: u64) -> bool {
        self.push(value).is_ok()
    }

    fn try_push(&self, value: u64) -> bool {
        self.try_push(value).is_ok()
    }

    fn push_batch(&self, values: &[u64]) -> usize {
        match self.push_batch(values.iter().copied()) {
            Ok(count) => count,
            Err(rest) => values.len() - rest.into_inner().count(),
        }
    }

    fn push_slice(&self, values: &[u64]) -> usize {
        match self.push_slice(values) {
            Ok(()) => values.len(),
            Err(rest) => values.len() - rest.into_inner().len(),
        }
    }

    fn pop_batch(&self, max: usize, each: &mut dyn FnMut(u64)) {
        self.pop_batch(max, each);
    }

    fn pop(&self) -> Option<u64> {
        self.pop()
    }

    fn close(&self) -> bool {
        self.close()
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}

impl Fifo for ListQueue<u64> {
    fn push(&self, value: u64) -> bool {
        self.push(value).is_ok()
    }

    fn try_push(&self, value: u64) -> bool {
        self.try_push(value).is_ok()
    }

    fn pop(&self) -> Option<u64> {
        self.pop()
    }

    fn close(&self) -> bool {
        self.close()
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}
