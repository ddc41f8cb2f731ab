//! The queues that programs drive.

use super::program::Fifo;
use rast_queue::Queue;
use rast_queue::list::ListQueue;

impl Fifo for Queue<u64> {
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
