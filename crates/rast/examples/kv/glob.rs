//! Glob patterns as KEYS and CONFIG GET read them.
//!
//! `*` matches any run of bytes, `?` one byte, `[abc]`, `[a-z]`, `[^a]` one byte of a set, `\x` the
//! byte `x`. Only the last `*` is ever retried, so the number of steps is at most the product of
//! the lengths. A recursive matcher takes exponential time on patterns such as `a*a*a*a*b`. Pattern
//! and text may be megabytes long, so the number of steps has a limit, at which a match ends.

/// Whether the whole of `text` matches `pattern`; `None` when that takes more than
/// `steps`, from which the steps taken are subtracted.
pub(crate) fn matches(pattern: &[u8], text: &[u8], steps: &mut usize) -> Option<bool> {
    let (mut p, mut t) = (0, 0);
    // Where to go on when the text after the last star does not match: the pattern
    // behind that star, and the text one byte further than last time.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        *steps = steps.checked_sub(1)?;
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            retry = Some((p, t));
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return Some(true);
        }
        if let Some(&byte) = text.get(t) {
            let (matches, next) = one(pattern, p, byte);
            *steps = steps.saturating_sub(next - p);
            if matches {
                p = next;
                t += 1;
                continue;
            }
        }
        match retry {
            Some((star, from)) if from < text.len() => {
                retry = Some((star, from + 1));
                p = star;
                t = from + 1;
            }
            _ => return Some(false),
        }
    }
}

/// Whether the pattern element at `p` matches `byte`, and the position behind it.
fn one(pattern: &[u8], p: usize, byte: u8) -> (bool, usize) {
    match pattern.get(p) {
        None => (false, p),
        Some(b'?') => (true, p + 1),
        Some(b'[') => set(pattern, p + 1, byte),
        Some(b'\\') if p + 1 < pattern.len() => (pattern[p + 1] == byte, p + 2),
        Some(&other) => (other == byte, p + 1),
    }
}

/// Whether `byte` is in the set whose first element is at `p`, and the position
/// behind it. A set that is not closed ends with the pattern.
fn set(pattern: &[u8], mut p: usize, byte: u8) -> (bool, usize) {
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
    (found != negated, p)
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
            let found = matches(pattern.as_bytes(), text.as_bytes(), &mut 100);
            assert_eq!(found, Some(expected), "{pattern} against {text}");
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let matches = |pattern: &[u8], text: &[u8]| matches(pattern, text, &mut 20_000);
        let pattern = b"a*".repeat(40);
        let mut text = vec![b'a'; 4000];
        assert_eq!(matches(&pattern, &text), Some(true));
        text[0] = b'b';
        assert_eq!(matches(&pattern, &text), Some(false));
        let pattern = [b"*a".repeat(40), b"b".to_vec()].concat();
        assert_eq!(matches(&pattern, &vec![b'a'; 4000]), Some(false));
    }

    #[test]
    fn a_match_ends_when_its_steps_are_used_up() {
        let text = vec![b'a'; 1 << 20];
        let long = [b"*".to_vec(), vec![b'a'; 1 << 19], b"b".to_vec()].concat();
        let wide = [b"*[".to_vec(), vec![b'b'; 1 << 20], b"]".to_vec()].concat();
        for pattern in [long, wide] {
            let mut steps = 10_000_000;
            assert_eq!(matches(&pattern, &text, &mut steps), None);
            assert_eq!(steps, 0);
        }
    }
}
