//! Writes RESP2 and RESP3 replies into a byte buffer.
//!
//! Each function appends one whole element, so a reply is a sequence of calls. Simple strings and
//! errors are lines. As in Redis, bytes that would end the line early are replaced by spaces.
//!
//! The two versions differ in four elements, and only their functions take a
//! [`Protocol`]:
//!
//! | element | RESP2 | RESP3 |
//! | --- | --- | --- |
//! | null | `$-1` | `_` |
//! | map of n pairs | `*2n` | `%n` |
//! | set | `*n` | `~n` |
//! | text for people | `$n` | `=n` with `txt:` |

/// The version of the protocol that a connection has chosen by HELLO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP2, which every connection starts with.
    #[default]
    Two,
    /// RESP3.
    Three,
}

/// Appends `+text`.
pub(crate) fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    line(out, text.as_bytes());
}

/// Appends `-text`; the text starts with its code, such as `ERR`.
pub(crate) fn error(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    out.push(b'-');
    line(out, text.as_ref());
}

/// Appends `:value`.
pub(crate) fn int(out: &mut Vec<u8>, value: i64) {
    out.push(b':');
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a bulk string.
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    header(out, b'$', bytes.len());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the null, the reply for a missing key.
pub(crate) fn nil(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Two => b"$-1\r\n",
        Protocol::Three => b"_\r\n",
    });
}

/// Appends the header of an array of `len` elements.
pub(crate) fn array(out: &mut Vec<u8>, len: usize) {
    header(out, b'*', len);
}

/// Appends the header of a map of `pairs` keys, each followed by its value.
pub(crate) fn map(out: &mut Vec<u8>, protocol: Protocol, pairs: usize) {
    match protocol {
        Protocol::Two => header(out, b'*', pairs * 2),
        Protocol::Three => header(out, b'%', pairs),
    }
}

/// Appends the header of a set of `len` elements.
pub(crate) fn set(out: &mut Vec<u8>, protocol: Protocol, len: usize) {
    match protocol {
        Protocol::Two => header(out, b'*', len),
        Protocol::Three => header(out, b'~', len),
    }
}

/// Appends a text that is meant for people, such as INFO's.
pub(crate) fn text(out: &mut Vec<u8>, protocol: Protocol, text: &str) {
    match protocol {
        Protocol::Two => bulk(out, text.as_bytes()),
        Protocol::Three => {
            header(out, b'=', text.len() + 4);
            out.extend_from_slice(b"txt:");
            out.extend_from_slice(text.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
}

fn header(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    number(out, i64::try_from(len).unwrap_or(i64::MAX));
    out.extend_from_slice(b"\r\n");
}

/// Appends `value` as a bulk string of decimal digits.
pub(crate) fn bulk_int(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    bulk(out, decimal(value, &mut digits));
}

/// The decimal digits of `value`, written at the end of `buffer`.
pub(crate) fn decimal(value: i64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        // The remainder is below ten.
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        at -= 1;
        buffer[at] = b'-';
    }
    &buffer[at..]
}

fn number(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0_u8; 20];
    out.extend_from_slice(decimal(value, &mut digits));
}

fn line(out: &mut Vec<u8>, text: &[u8]) {
    out.extend(text.iter().map(|&byte| match byte {
        b'\r' | b'\n' => b' ',
        other => other,
    }));
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("the replies of this test are text")
    }

    #[test]
    fn each_element_has_its_wire_form() {
        assert_eq!(written(|out| simple(out, "OK")), "+OK\r\n");
        assert_eq!(
            written(|out| error(out, "ERR no\r\nyes")),
            "-ERR no  yes\r\n"
        );
        assert_eq!(written(|out| int(out, -7)), ":-7\r\n");
        assert_eq!(written(|out| bulk(out, b"a\r\nb")), "$4\r\na\r\nb\r\n");
        assert_eq!(written(|out| bulk(out, b"")), "$0\r\n\r\n");
        assert_eq!(written(|out| array(out, 3)), "*3\r\n");
        assert_eq!(written(|out| bulk_int(out, 42)), "$2\r\n42\r\n");
    }

    #[test]
    fn the_versions_differ_where_they_should() {
        let both = |write: &dyn Fn(&mut Vec<u8>, Protocol)| {
            [Protocol::Two, Protocol::Three].map(|protocol| written(|out| write(out, protocol)))
        };
        assert_eq!(both(&nil), ["$-1\r\n", "_\r\n"]);
        assert_eq!(both(&|out, p| map(out, p, 2)), ["*4\r\n", "%2\r\n"]);
        assert_eq!(both(&|out, p| set(out, p, 2)), ["*2\r\n", "~2\r\n"]);
        assert_eq!(
            both(&|out, p| text(out, p, "a:1\r\n")),
            ["$5\r\na:1\r\n\r\n", "=9\r\ntxt:a:1\r\n\r\n"]
        );
    }

    #[test]
    fn errors_keep_bytes_that_are_no_text() {
        let mut out = Vec::new();
        error(&mut out, b"ERR \xff\n");
        assert_eq!(out, b"-ERR \xff \r\n");
    }

    #[test]
    fn decimal_covers_the_ends_of_the_range() {
        for value in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN] {
            let mut digits = [0; 20];
            assert_eq!(decimal(value, &mut digits), value.to_string().as_bytes());
        }
    }
}
