//! Error lines of commands: bytes, since they repeat what the client sent.
//!
//! Redis repeats names and arguments as they came, up to a NUL and up to a length.
//! Line ends are replaced where the line is written (see `encode`).

use std::borrow::Cow;

use crate::resp::Argument;

/// Most bytes of a name that an error repeats.
const SHOWN: usize = 128;

/// Why a command is refused: an error line, code first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(Cow<'static, [u8]>);

impl Refusal {
    /// A refusal with fixed words.
    pub(crate) const fn new(words: &'static str) -> Self {
        Self(Cow::Borrowed(words.as_bytes()))
    }

    /// A refusal that repeats what the client sent between fixed words.
    pub(crate) fn naming(before: &str, name: &[u8], after: &str) -> Self {
        let bytes = [before.as_bytes(), shown(name, SHOWN), after.as_bytes()].concat();
        Self(Cow::Owned(bytes))
    }

    /// The refusal of a command that is not in the table.
    #[cold]
    pub(crate) fn unknown(frame: &[Argument]) -> Self {
        let name = frame.first().map_or(&[][..], |name| &**name);
        let mut line = b"ERR unknown command '".to_vec();
        line.extend_from_slice(shown(name, SHOWN));
        line.extend_from_slice(b"', with args beginning with: ");
        let start = line.len();
        for argument in frame.iter().skip(1) {
            let given = line.len() - start;
            if given >= SHOWN {
                break;
            }
            line.push(b'\'');
            line.extend_from_slice(shown(argument, SHOWN - given));
            line.extend_from_slice(b"' ");
        }
        Self(Cow::Owned(line))
    }

    /// The refusal of a command with too few or too many arguments.
    #[cold]
    pub(crate) fn wrong_number(name: &str) -> Self {
        format!("ERR wrong number of arguments for '{name}' command").into()
    }
}

/// The beginning of `bytes`, up to a NUL and up to `most`.
fn shown(bytes: &[u8], most: usize) -> &[u8] {
    let bytes = &bytes[..bytes.len().min(most)];
    let end = bytes.iter().position(|&byte| byte == 0);
    &bytes[..end.unwrap_or(bytes.len())]
}

impl From<&'static str> for Refusal {
    fn from(words: &'static str) -> Self {
        Self::new(words)
    }
}

impl From<String> for Refusal {
    fn from(words: String) -> Self {
        Self(Cow::Owned(words.into_bytes()))
    }
}

impl AsRef<[u8]> for Refusal {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_repeated_as_they_came_up_to_a_nul() {
        let frame = [&b"fo\xff\xfe"[..], b"a\0b", b"c\xe9"].map(Argument::from);
        let expected: &[u8] =
            b"ERR unknown command 'fo\xff\xfe', with args beginning with: 'a' 'c\xe9' ";
        assert_eq!(Refusal::unknown(&frame).as_ref(), expected);
        let refusal = Refusal::naming("ERR no '", b"\x80\0x", "'");
        assert_eq!(refusal.as_ref(), b"ERR no '\x80'");
    }

    #[test]
    fn long_names_are_cut() {
        let frame = [vec![b'x'; 300], vec![b'y'; 300], b"z".to_vec()].map(Argument::from);
        let line = Refusal::unknown(&frame);
        assert!(line.as_ref().len() < 400);
    }
}
