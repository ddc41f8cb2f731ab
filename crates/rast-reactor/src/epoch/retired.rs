//! What an owner destroys once no reactor can read it.

use core::ptr::NonNull;
use std_alloc::boxed::Box;
use std_alloc::collections::VecDeque;

/// A box whose type is erased; its drop drops the value. It is stored as a pointer, because moving
/// a `Box` would assert that no reader has its value.
pub(crate) struct Erased(NonNull<dyn Send>);

// SAFETY: the value may be dropped on any thread, and nothing else is done with it.
unsafe impl Send for Erased {}

impl Erased {
    /// # Safety
    ///
    /// `value` comes from `Box::into_raw`, and from now on this alone frees it.
    pub(crate) unsafe fn of<T: Send + 'static>(value: NonNull<T>) -> Self {
        Self(value)
    }
}

impl Drop for Erased {
    fn drop(&mut self) {
        // SAFETY: `of` was given a pointer of a box, and this is its one drop.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// What is done when a commit has passed all reactors.
pub(crate) enum Garbage {
    /// Dropped.
    Value(Erased),
    /// Called.
    Action(Box<dyn FnOnce() + Send>),
}

impl Garbage {
    /// Destroys it: user code.
    pub(crate) fn end(self) {
        match self {
            Self::Value(value) => drop(value),
            Self::Action(action) => action(),
        }
    }
}

/// Number of items for which a list always keeps room.
pub(crate) const SMALL: usize = 256;

/// Frees most of the memory of a list that has become short. Its capacity is then twice its length,
/// so the cost per removed item is constant.
pub(crate) fn shorten<T>(list: &mut VecDeque<T>) {
    if list.capacity() > 8 * list.len() + SMALL {
        list.shrink_to(2 * list.len());
    }
}

/// What is not destroyed yet, in the order of the commits.
#[derive(Default)]
pub(crate) struct Retired {
    items: VecDeque<(u64, usize, Garbage)>,
    bytes: usize,
}

impl Retired {
    pub(crate) fn push(&mut self, number: u64, bytes: usize, garbage: Garbage) {
        // The size of the entry counts too, so that the number of values of size zero is also
        // limited.
        let bytes = bytes.saturating_add(size_of::<(u64, usize, Garbage)>());
        self.bytes = self.bytes.saturating_add(bytes);
        self.items.push_back((number, bytes, garbage));
    }

    /// Takes the oldest, if its commit is at most `passed`.
    pub(crate) fn pop(&mut self, passed: u64) -> Option<Garbage> {
        if self.first()? > passed {
            return None;
        }
        let (_, bytes, garbage) = self.items.pop_front()?;
        self.bytes = self.bytes.saturating_sub(bytes);
        shorten(&mut self.items);
        Some(garbage)
    }

    /// The commit of the oldest.
    pub(crate) fn first(&self) -> Option<u64> {
        self.items.front().map(|&(number, _, _)| number)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes all.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Garbage> + use<> {
        let items = core::mem::take(&mut self.items);
        items.into_iter().map(|(_, _, garbage)| garbage)
    }
}
