//! A stack of numbers with a fixed capacity.
//!
//! A `Vec` may grow at each push, so a function that pushes must save registers for that call. Here
//! a push is a comparison and a store. A short stack is stored in place: a turn uses several, and
//! each would take another cache line.

use core::ops::{Deref, DerefMut};

use crate::own::{OwnBox, own_vec};

/// Numbers that are stored in place.
const FEW: usize = 4;

#[derive(Debug)]
enum Room {
    Few([u32; FEW]),
    Many(OwnBox<u32>),
}

impl Deref for Room {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        match self {
            Self::Few(room) => room,
            Self::Many(room) => room,
        }
    }
}

impl DerefMut for Room {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        match self {
            Self::Few(room) => room,
            Self::Many(room) => room,
        }
    }
}

/// A stack of numbers that does not grow.
#[derive(Debug)]
pub(crate) struct Stack {
    room: Room,
    len: usize,
}

impl Stack {
    /// Makes an empty stack with room for `capacity` numbers, or a few more.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            room: match capacity {
                ..=FEW => Room::Few([0; FEW]),
                _ => Room::Many(own_vec((0..capacity).map(|_| 0)).into_boxed_slice()),
            },
            len: 0,
        }
    }

    /// # Panics
    ///
    /// If it is full.
    #[inline]
    pub(crate) fn push(&mut self, number: u32) {
        self.room[self.len] = number;
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let last = self.len.checked_sub(1)?;
        let number = *self.room.get(last)?;
        self.len = last;
        Some(number)
    }

    /// Returns the number at `index`.
    ///
    /// # Panics
    ///
    /// If there is no room for this many.
    #[inline]
    pub(crate) fn at(&self, index: usize) -> u32 {
        self.room[index]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Pushes what is in `other`, in order, and empties it.
    #[inline]
    pub(crate) fn append(&mut self, other: &mut Self) {
        if !other.is_empty() {
            other.iter().for_each(|&number| self.push(number));
            other.truncate(0);
        }
    }
}

impl Deref for Stack {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        &self.room[..self.len]
    }
}

impl DerefMut for Stack {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.room[..self.len]
    }
}
