//! Splits an inline command into arguments, with quotes as Redis reads them.
//!
//! A line that does not start with `*` is an inline command: words between spaces. In double quotes
//! `\n \r \t \b \a \xHH` are escapes, and any other escaped byte is itself; in single quotes only
//! `\'` is an escape. A closing quote must end its word. A NUL ends the command, and the rest of
//! the line is ignored. Quotes that are open at a NUL are an error, as at the end of a line.

/// The quotes of the line do not balance, or a closing quote does not end a word.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unbalanced;

/// The arguments of `line`; an empty list for a blank line.
pub(crate) fn split(line: &[u8]) -> Result<Vec<Vec<u8>>, Unbalanced> {
    let mut words = Vec::new();
    let end = line.iter().position(|&byte| byte == 0);
    let mut rest = &line[..end.unwrap_or(line.len())];
    while let Some(start) = rest.iter().position(|&byte| !is_space(byte)) {
        let (word, after) = word(&rest[start..])?;
        words.push(word);
        rest = after;
    }
    Ok(words)
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0b
}

fn word(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), Unbalanced> {
    let mut word = Vec::new();
    loop {
        match rest {
            [] => return Ok((word, rest)),
            [quote @ (b'"' | b'\''), after @ ..] => return quoted(word, after, *quote),
            [byte, _after @ ..] if is_space(*byte) => return Ok((word, rest)),
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// Reads up to the closing `quote`; a word may start plain and go on quoted.
fn quoted(mut word: Vec<u8>, mut rest: &[u8], quote: u8) -> Result<(Vec<u8>, &[u8]), Unbalanced> {
    loop {
        rest = match rest {
            [] => return Err(Unbalanced),
            [byte, after @ ..] if *byte == quote => {
                return match after.first() {
                    Some(next) if !is_space(*next) => Err(Unbalanced),
                    _ => Ok((word, after)),
                };
            }
            [b'\\', b'\'', after @ ..] if quote == b'\'' => {
                word.push(b'\'');
                after
            }
            [b'\\', b'x', high, low, after @ ..]
                if quote == b'"' && high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                after
            }
            [b'\\', escaped, after @ ..] if quote == b'"' => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                after
            }
            [byte, after @ ..] => {
                word.push(*byte);
                after
            }
        };
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    char::from(digit).to_digit(16).unwrap_or(0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<Vec<u8>> {
        split(line.as_bytes()).expect("the quotes of this line balance")
    }

    #[test]
    fn words_are_split_at_any_run_of_spaces() {
        assert_eq!(words(""), Vec::<Vec<u8>>::new());
        assert_eq!(words("   "), Vec::<Vec<u8>>::new());
        assert_eq!(
            words(" set  a\tb "),
            [b"set".to_vec(), b"a".to_vec(), b"b".to_vec()]
        );
    }

    #[test]
    fn quotes_hold_spaces_and_escapes() {
        assert_eq!(
            words(r#"set "a b" 'c "d'"#)[1..],
            [b"a b".to_vec(), b"c \"d".to_vec()]
        );
        assert_eq!(words(r#""\x41\n\t\q\"""#), [b"A\n\tq\"".to_vec()]);
        assert_eq!(words(r"'it\'s \n'"), [br"it's \n".to_vec()]);
        assert_eq!(words(r#""""#), [Vec::new()]);
        assert_eq!(words(r#""\xZZ""#), [b"xZZ".to_vec()]);
    }

    #[test]
    fn a_nul_ends_the_command() {
        assert_eq!(words("a b\0c d"), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(words("\0PING"), Vec::<Vec<u8>>::new());
        assert_eq!(words("PING\0\"open"), [b"PING".to_vec()]);
        assert_eq!(split(b"ECHO \"a\0b\""), Err(Unbalanced));
    }

    #[test]
    fn a_quote_that_does_not_end_its_word_is_refused() {
        for line in [r#""abc"#, "'abc", r#""abc"d"#, "'a'b", r#""\"#, r#"a"b"#] {
            assert_eq!(split(line.as_bytes()), Err(Unbalanced), "{line}");
        }
    }
}
