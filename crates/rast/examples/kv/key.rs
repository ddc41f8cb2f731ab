//! A key as it is stored: short keys are in the table itself, so that finding one reads no other
//! memory. An argument of a command has the same form, so a short one needs no block.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use crate::memory::block;

/// The most bytes of a key that needs no block: as large as the words of one that does.
const SHORT: usize = 22;

/// The bytes of a key.
#[derive(Clone)]
pub(crate) struct Key(Bytes);

#[derive(Clone)]
enum Bytes {
    /// So many at the front.
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

impl Key {
    /// The bytes that a key of this length occupies outside the table.
    pub(crate) fn cost(len: usize) -> usize {
        if len <= SHORT { 0 } else { block(len) }
    }

    fn short(bytes: &[u8]) -> Option<Self> {
        let mut short = [0; SHORT];
        short.get_mut(..bytes.len())?.copy_from_slice(bytes);
        // It is at most `SHORT`.
        Some(Self(Bytes::Short(bytes.len() as u8, short)))
    }
}

impl Default for Key {
    fn default() -> Self {
        Self(Bytes::Short(0, [0; SHORT]))
    }
}

impl From<&[u8]> for Key {
    fn from(bytes: &[u8]) -> Self {
        Self::short(bytes).unwrap_or_else(|| Self(Bytes::Long(bytes.into())))
    }
}

impl From<Vec<u8>> for Key {
    fn from(bytes: Vec<u8>) -> Self {
        Self::short(&bytes).unwrap_or_else(|| Self(Bytes::Long(bytes.into())))
    }
}

impl From<Key> for Vec<u8> {
    fn from(key: Key) -> Self {
        match key.0 {
            Bytes::Short(..) => key.to_vec(),
            Bytes::Long(bytes) => bytes.into_vec(),
        }
    }
}

impl Deref for Key {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl Borrow<[u8]> for Key {
    fn borrow(&self) -> &[u8] {
        self
    }
}

/// As the slice, by which it is looked up.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Key {}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_keys_are_their_bytes() {
        for len in [0, 1, SHORT - 1, SHORT, SHORT + 1, 1000] {
            let bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let key = Key::from(bytes.clone());
            assert_eq!(&*key, bytes);
            assert_eq!(key, Key::from(bytes.as_slice()));
            assert_eq!(Key::cost(len) == 0, len <= SHORT);
        }
        assert_eq!(size_of::<Key>(), 24);
    }
}
