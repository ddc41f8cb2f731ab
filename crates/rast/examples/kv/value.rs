//! A value: a number if its bytes are the canonical form of one, and bytes otherwise.
//!
//! So INCR and DECR neither parse nor print, and a counter needs no allocated block. A value of a
//! few bytes needs no block either. Other bytes are shared between the store and the replies that
//! carry them, so a reply copies no value before it is written to its socket's buffer.

use std::sync::Arc;

use crate::encode;
use crate::key::Key;
use crate::memory::block;
use crate::resp;

/// What is under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Bytes that are the canonical form of a number.
    Int(i64),
    /// At most [`SHORT`] other bytes: so many at the front, zeros behind.
    Short(u8, [u8; SHORT]),
    /// Any other bytes.
    Bytes(Arc<Vec<u8>>),
}

/// The most bytes that need no block: a value is as large then as its length is cheap to copy.
const SHORT: usize = 22;

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::short(&bytes).unwrap_or_else(|| Self::Bytes(Arc::new(bytes)))
    }
}

/// From an argument of a command.
impl From<Key> for Value {
    fn from(bytes: Key) -> Self {
        Self::short(&bytes).unwrap_or_else(|| Self::Bytes(Arc::new(bytes.into())))
    }
}

impl Value {
    /// A value without a block, if the bytes fit. No number has more bytes.
    fn short(bytes: &[u8]) -> Option<Self> {
        let mut short = [0; SHORT];
        short.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(match resp::integer(bytes) {
            Some(number) => Self::Int(number),
            // It is at most `SHORT`.
            None => Self::Short(bytes.len() as u8, short),
        })
    }

    /// The number of bytes that it shows.
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Int(number) => encode::decimal(*number, &mut [0; 20]).len(),
            Self::Short(len, _) => usize::from(*len),
            Self::Bytes(bytes) => bytes.len(),
        }
    }

    /// The bytes that it occupies outside the table.
    pub(crate) fn cost(&self) -> usize {
        match self {
            Self::Int(_) | Self::Short(..) => 0,
            Self::Bytes(bytes) => {
                // Two blocks: the counts with the vector's words, and its bytes.
                let words = 2 * size_of::<usize>() + size_of::<Vec<u8>>();
                block(words) + block(bytes.capacity())
            }
        }
    }

    /// Adds bytes at the end. A value that a reply still shares is copied first.
    pub(crate) fn append(&mut self, more: &[u8]) {
        let few = match std::mem::replace(self, Self::Int(0)) {
            Self::Bytes(mut bytes) => {
                Arc::make_mut(&mut bytes).extend_from_slice(more);
                // No more bytes make a number of what is too long for one.
                *self = Self::Bytes(bytes);
                return;
            }
            Self::Short(len, bytes) => bytes[..usize::from(len)].to_vec(),
            Self::Int(number) => number.to_string().into_bytes(),
        };
        // The sum may read as a number now; it must then be kept as one.
        *self = [&few, more].concat().into();
    }

    /// Writes it as a bulk string.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Int(number) => encode::bulk_int(out, *number),
            Self::Short(len, bytes) => encode::bulk(out, &bytes[..usize::from(*len)]),
            Self::Bytes(bytes) => encode::bulk(out, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        text.as_bytes().to_vec().into()
    }

    #[test]
    fn bytes_come_back_as_they_were() {
        for text in [
            "",
            "0",
            "-1",
            "007",
            "+1",
            "1.0",
            "9223372036854775808",
            "a",
            "0123456789abcdefghijkl",
            "0123456789abcdefghijklm",
        ] {
            let mut out = Vec::new();
            value(text).write(&mut out);
            assert_eq!(out, format!("${}\r\n{text}\r\n", text.len()).as_bytes());
            assert_eq!(value(text).length(), text.len());
        }
    }

    #[test]
    fn appending_may_make_or_unmake_a_number() {
        let mut one = value("1");
        one.append(b"2");
        assert_eq!(one, Value::Int(12));
        one.append(b"x");
        assert_eq!(one, value("12x"));
        let mut minus = value("-");
        minus.append(b"5");
        assert_eq!(minus, Value::Int(-5));
        let mut long = value("0123456789abcdefghijkl");
        long.append(b"m");
        assert_eq!(long, value("0123456789abcdefghijklm"));
        long.append(b"n");
        assert_eq!(long, value("0123456789abcdefghijklmn"));
    }
}
