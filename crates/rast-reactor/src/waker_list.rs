//! Wakers of futures that wait for the same event, by number.
//!
//! Each future has its own numbered entry, by which it removes its waker. If a future found its
//! waker by comparing wakers, it could remove a wrong one: the wakers of two futures of a task may
//! be equal, and a waker may differ from its clone.
//!
//! The list is under a lock or a borrow, and wakers are user code. So it clones, wakes and drops no
//! waker: the caller does that before or after the borrow.

use core::task::Waker;
use std_alloc::vec::Vec;

use crate::primitive::panics::quietly;

/// Wakes all, even if a waker, which is user code, panics.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        quietly(|| waker.wake());
    }
}

/// A list of wakers. The entry of a future is a number, `None` before it first waits.
#[derive(Default)]
pub(crate) struct WakerList {
    /// In the order of their numbers.
    entries: Vec<(u64, Waker)>,
    /// The number of the newest entry.
    last: u64,
}

impl WakerList {
    fn find(&self, entry: Option<u64>) -> Option<usize> {
        let number = entry?;
        let found = self.entries.binary_search_by_key(&number, |&(n, _)| n);
        found.ok()
    }

    /// Makes the entry wait by `waker`. An entry that is not in the list becomes a new one.
    ///
    /// If the entry does not have this waker yet, `clone` must have a clone of it. Otherwise this
    /// returns `false` and does nothing: the caller ends the borrow, clones the waker, and calls
    /// again. A waker that is replaced is left in `clone`.
    pub(crate) fn wait(
        &mut self,
        entry: &mut Option<u64>,
        waker: &Waker,
        clone: &mut Option<Waker>,
    ) -> bool {
        let at = self.find(*entry);
        if at.is_some_and(|at| self.entries[at].1.will_wake(waker)) {
            return true;
        }
        let Some(new) = clone.take() else {
            return false;
        };
        if let Some(at) = at {
            *clone = Some(core::mem::replace(&mut self.entries[at].1, new));
        } else {
            self.last += 1;
            self.entries.push((self.last, new));
            *entry = Some(self.last);
        }
        true
    }

    /// Removes the entry, if it is in the list.
    pub(crate) fn remove(&mut self, entry: &mut Option<u64>) -> Option<Waker> {
        let at = self.find(entry.take())?;
        Some(self.entries.remove(at).1)
    }

    /// Takes all wakers. The list keeps its memory.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Waker> {
        self.entries.drain(..).map(|(_, waker)| waker)
    }

    #[cfg(all(test, feature = "io", target_os = "linux"))]
    pub(crate) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}

#[cfg(all(test, not(any(rast_loom, rast_shuttle))))]
mod tests {
    use super::*;

    use std_alloc::sync::Arc;
    use std_alloc::task::Wake;

    struct Idle;

    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }

    #[test]
    fn each_entry_is_removed_alone_although_all_wakers_are_equal() {
        let mut list = WakerList::default();
        let mut entries = [None; 3];
        let waker = &Waker::from(Arc::new(Idle));
        let clone = || Some(waker.clone());
        for entry in &mut entries {
            assert!(!list.wait(entry, waker, &mut None), "without a clone");
            assert!(list.wait(entry, waker, &mut clone()));
            assert!(list.wait(entry, waker, &mut None), "it has the waker");
        }
        assert!(list.remove(&mut entries[1]).is_some());
        assert_eq!(entries, [Some(1), None, Some(3)]);
        assert!(list.wait(&mut entries[0], waker, &mut None));
        assert_eq!(list.drain().count(), 2);
        assert!(list.remove(&mut entries[0]).is_none(), "it has left");
        assert!(list.wait(&mut entries[2], waker, &mut clone()));
        assert_eq!(entries, [None, None, Some(4)]);
    }
}
