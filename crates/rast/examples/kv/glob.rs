//! Glob patterns as KEYS and CONFIG GET read them.
//!
//! `*` any run of bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` one byte of a set,
//! `\x` the byte itself. Only the last `*` is ever retried, so a match costs at
//! most pattern times text steps; the recursive form of the same rules takes
//! exponential time on patterns such as `a*a*a*a*b`.

/// Whether the whole of `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where to go on when the text after the last star does not match: the pattern
    // behind that star, and the text one byte further than last time.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        if let Some(next) = text.get(t).and_then(|&byte| one(pattern, p, byte)) {
            p = next;
            t += 1;
            continue;
        }
        match retry {
            Some((star, from)) if from < text.len() => {
                retry = Some((star, from + 1));
                p = star;
                t = from + 1;
            }
            _ => return false,
        }
    }
}

/// The position behind the pattern element at `p` if it matches `byte`.
fn one(pattern: &[u8], p: usize, byte: u8) -> Option<usize> {
    match *pattern.get(p)? {
        b'?' => Some(p + 1),
        b'[' => set(pattern, p + 1, byte),
        b'\\' if p + 1 < pattern.len() => (pattern[p + 1] == byte).then_some(p + 2),
        other => (other == byte).then_some(p + 1),
    }
}

/// The position behind a set whose first element is at `p`, if `byte` is in it. A
/// set that is not closed ends with the pattern.
fn set(pattern: &[u8], mut p: usize, byte: u8) -> Option<usize> {
    let negated = pattern.get(p) == Some(&b'^');
    if negated {
        p += 1;
    }
    let mut found = false;
    while let Some(&element) = pattern.get(p) {
        match element {
            b']' => {
                p += 1;
                break;
            }
            b'\\' if p + 1 < pattern.len() => {
                found |= pattern[p + 1] == byte;
                p += 2;
            }
            low if pattern.get(p + 1) == Some(&b'-') && p + 2 < pattern.len() => {
                let high = pattern[p + 2];
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                p += 3;
            }
            other => {
                found |= other == byte;
                p += 1;
            }
        }
    }
    (found != negated).then_some(p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_redis() {
        let cases = [
            ("*", "", true),
            ("*", "abc", true),
            ("", "", true),
            ("", "a", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            (r"[\]]", "]", true),
            ("[abc", "b", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("*a", "aaaab", false),
            ("user:*:name", "user:17:name", true),
        ];
        for (pattern, text, expected) in cases {
            let found = matches(pattern.as_bytes(), text.as_bytes());
            assert_eq!(found, expected, "{pattern} against {text}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = b"a*".repeat(40);
        let mut text = vec![b'a'; 4000];
        assert!(matches(&pattern, &text));
        text[0] = b'b';
        assert!(!matches(&pattern, &text));
        let pattern = [b"*a".repeat(40), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &vec![b'a'; 4000]));
    }
}
