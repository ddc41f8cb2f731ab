//! Writes RESP2 replies into a byte buffer.
//!
//! Every function appends one whole element, so a reply is a sequence of calls
//! and nothing is ever half written. Simple strings and errors are lines: bytes
//! that would end the line early are replaced by spaces, as Redis does.

/// Appends `+text`.
pub(crate) fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    line(out, text.as_bytes());
}

/// Appends `-text`; the text starts with its code, such as `ERR`.
pub(crate) fn error(out: &mut Vec<u8>, text: &str) {
    out.push(b'-');
    line(out, text.as_bytes());
}

/// Appends `:value`.
pub(crate) fn int(out: &mut Vec<u8>, value: i64) {
    out.push(b':');
    number(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a bulk string.
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    out.push(b'$');
    number(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Appends the null bulk string, the reply for a missing key.
pub(crate) fn nil(out: &mut Vec<u8>) {
    out.extend_from_slice(b"$-1\r\n");
}

/// Appends the header of an array of `len` elements.
pub(crate) fn array(out: &mut Vec<u8>, len: usize) {
    out.push(b'*');
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
        assert_eq!(written(nil), "$-1\r\n");
        assert_eq!(written(|out| array(out, 3)), "*3\r\n");
        assert_eq!(written(|out| bulk_int(out, 42)), "$2\r\n42\r\n");
    }

    #[test]
    fn decimal_covers_the_ends_of_the_range() {
        for value in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN] {
            let mut digits = [0; 20];
            assert_eq!(decimal(value, &mut digits), value.to_string().as_bytes());
        }
    }
}
