//! Tables that the worker of an instance writes, apart from those of other instances.
//!
//! The parts of all instances are allocated one after the other, when the graph starts. In plain
//! boxes the parts of two instances share cache lines, and each write of one worker takes the line
//! from the other. So a table is on cache lines of its own. A short one is stored in place, because
//! with many instances each further line costs a cache miss.

use core::ops::{Deref, DerefMut};

use crate::alloc::{Padded, boxed, vec};
use crate::primitive::CachePadded;

/// The types with `repr(align(128))` are aligned as the tables are.
const _: () = assert!(align_of::<CachePadded<u8>>() == 128);

/// A vector on cache lines of its own.
pub(crate) type OwnVec<T> = vec::Vec<T, Padded>;

/// A slice on cache lines of its own.
pub(crate) type OwnBox<T> = boxed::Box<[T], Padded>;

/// A slice of one or two elements in place, or on cache lines of its own.
#[derive(Debug)]
pub(crate) enum OwnSlice<T> {
    One([T; 1]),
    Two([T; 2]),
    Any(OwnBox<T>),
}

impl<T> Deref for OwnSlice<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        match self {
            Self::One(items) => items,
            Self::Two(items) => items,
            Self::Any(items) => items,
        }
    }
}

impl<T> DerefMut for OwnSlice<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(items) => items,
            Self::Two(items) => items,
            Self::Any(items) => items,
        }
    }
}

/// Makes a slice of the items.
pub(crate) fn own_slice<T>(items: impl IntoIterator<Item = T>) -> OwnSlice<T> {
    let items: Vec<T> = items.into_iter().collect();
    let items = match items.try_into() {
        Ok(one) => return OwnSlice::One(one),
        Err(items) => items,
    };
    match items.try_into() {
        Ok(two) => OwnSlice::Two(two),
        Err(items) => OwnSlice::Any(own_vec::<T>(items).into_boxed_slice()),
    }
}

/// Makes a vector of the items.
pub(crate) fn own_vec<T>(items: impl IntoIterator<Item = T>) -> OwnVec<T> {
    let mut all = OwnVec::new_in(Padded);
    all.extend(items);
    all
}

#[cfg(all(test, not(rast_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_its_items() {
        for len in 0..5 {
            let mut slice = own_slice((0..len).map(Box::new));
            slice.iter_mut().for_each(|item| **item += 1);
            assert!(slice.iter().map(|item| **item).eq(1..=len));
        }
    }
}
