//! A Rust file split into code and comments, by a lexer that knows just enough.
//!
//! `code` has the same length as the file; comments and the contents of strings are blanked. So a
//! search in it finds only words of the program, and an offset in it is an offset in the file.

/// One Rust file.
pub(crate) struct Source<'a> {
    pub(crate) text: &'a str,
    /// The file with comments and literals blanked; ASCII only.
    pub(crate) code: String,
    /// The comment text that starts on each line; `None` for a line without one.
    comments: Vec<Option<Comment>>,
    line_starts: Vec<usize>,
    /// The byte ranges of test-only items.
    tests: Vec<(usize, usize)>,
}

/// A line comment, or one line of a block comment.
#[derive(Clone, Debug)]
pub(crate) struct Comment {
    pub(crate) text: String,
    /// Whether it is a doc comment.
    pub(crate) doc: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn new(text: &'a str) -> Source<'a> {
        let mut line_starts = vec![0];
        line_starts.extend(
            text.bytes()
                .enumerate()
                .filter(|(_, b)| *b == b'\n')
                .map(|(at, _)| at + 1),
        );
        let comments = vec![None; line_starts.len()];
        let mut source = Source {
            text,
            code: String::new(),
            comments,
            line_starts,
            tests: Vec::new(),
        };
        source.split();
        source.find_tests();
        source
    }

    /// The number of lines, counting a last one without an end.
    pub(crate) fn lines(&self) -> usize {
        self.line_starts.len()
    }

    /// The line, from zero, that holds the byte at `at`.
    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at) - 1
    }

    /// The code of a line, comments blanked.
    pub(crate) fn code_line(&self, line: usize) -> &str {
        let start = self.line_starts[line];
        let end = self
            .line_starts
            .get(line + 1)
            .map_or(self.code.len(), |next| next - 1);
        &self.code[start..end]
    }

    /// The comment on a line.
    pub(crate) fn comment(&self, line: usize) -> Option<&Comment> {
        self.comments[line].as_ref()
    }

    /// Whether the line holds a plain comment and no code.
    pub(crate) fn is_comment_line(&self, line: usize) -> bool {
        self.comments[line].as_ref().is_some_and(|c| !c.doc)
            && self.code_line(line).trim().is_empty()
    }

    /// Whether the byte at `at` belongs to a test-only item.
    pub(crate) fn in_test(&self, at: usize) -> bool {
        self.tests
            .iter()
            .any(|(start, end)| (*start..*end).contains(&at))
    }

    /// The plain comment block that ends on the line above `line`, or above the attributes there:
    /// its first line, and its text with each paragraph on one line.
    pub(crate) fn block_above(&self, line: usize) -> Option<(usize, String)> {
        let mut last = line.checked_sub(1)?;
        while self.code_line(last).trim_start().starts_with("#[") {
            last = last.checked_sub(1)?;
        }
        if !self.is_comment_line(last) {
            return None;
        }
        let mut first = last;
        while first > 0 && self.is_comment_line(first - 1) {
            first -= 1;
        }
        let texts: Vec<&str> = (first..=last)
            .filter_map(|l| self.comments[l].as_ref())
            .map(|c| c.text.trim())
            .collect();
        let paragraphs: Vec<String> = texts
            .split(|text| text.is_empty())
            .map(|p| p.join(" "))
            .collect();
        Some((first, paragraphs.join("\n")))
    }

    /// Every identifier and keyword of the code, with its place.
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, &str)> {
        let bytes = self.code.as_bytes();
        let mut at = 0;
        std::iter::from_fn(move || {
            while at < bytes.len() && !is_word(bytes[at]) {
                at += 1;
            }
            let start = at;
            while at < bytes.len() && is_word(bytes[at]) {
                at += 1;
            }
            (start < at).then(|| (start, &self.code[start..at]))
        })
    }

    /// The items at the top of the file without their attributes: place and text on one line.
    pub(crate) fn items(&self) -> Vec<(usize, String)> {
        let bytes = self.code.as_bytes();
        let mut items = Vec::new();
        let mut at = 0;
        loop {
            at = skip_space(bytes, at);
            if at >= bytes.len() {
                return items;
            }
            if bytes[at] == b'#' {
                let open = self.code[at..].find('[').map_or(bytes.len(), |o| at + o);
                at = close(bytes, open);
                continue;
            }
            let end = item_end(bytes, at);
            let text: Vec<&str> = self.code[at..end].split_whitespace().collect();
            items.push((at, text.join(" ")));
            at = end;
        }
    }

    /// Where the statement that holds the byte at `at` starts.
    pub(crate) fn statement_start(&self, at: usize) -> usize {
        let bytes = self.code.as_bytes();
        let mut depth = 0usize;
        let mut i = at;
        while i > 0 {
            match bytes[i - 1] {
                b')' | b']' => depth += 1,
                b'(' | b'[' => depth = depth.saturating_sub(1),
                b'}' if depth > 0 => depth += 1,
                b'{' if depth > 0 => depth -= 1,
                b';' | b'{' | b'}' if depth == 0 => break,
                _ => {}
            }
            i -= 1;
        }
        skip_space(bytes, i)
    }

    fn find_tests(&mut self) {
        let bytes = self.code.as_bytes();
        let mut tests = Vec::new();
        let mut from = 0;
        while let Some(found) = self.code[from..].find("#[") {
            let at = from + found;
            let mut end = close(bytes, at + 1);
            let attribute: String = self.code[at..end].split_whitespace().collect();
            from = end;
            let test_only = attribute == "#[test]"
                || attribute == "#[cfg(test)]"
                || attribute.starts_with("#[cfg(all(test,");
            if !test_only {
                continue;
            }
            loop {
                end = skip_space(bytes, end);
                if bytes.get(end) != Some(&b'#') {
                    break;
                }
                end = close(bytes, end + 1);
            }
            end = item_end(bytes, end);
            tests.push((at, end));
            from = end;
        }
        self.tests = tests;
    }

    fn split(&mut self) {
        let bytes = self.text.as_bytes();
        let mut code: Vec<u8> = bytes
            .iter()
            .map(|b| if b.is_ascii() { *b } else { b'?' })
            .collect();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let end = if rest.starts_with(b"//") {
                let end = at + rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
                self.keep_comment(at, end);
                end
            } else if rest.starts_with(b"/*") {
                let end = block_comment_end(bytes, at);
                self.keep_comment(at, end);
                end
            } else if let Some(end) = literal_end(bytes, at) {
                end
            } else {
                at += 1;
                continue;
            };
            for byte in &mut code[at..end] {
                if *byte != b'\n' {
                    *byte = b' ';
                }
            }
            at = end;
        }
        self.code = String::from_utf8(code).unwrap_or_default();
    }

    fn keep_comment(&mut self, start: usize, end: usize) {
        let text = &self.text[start..end];
        let doc = (text.starts_with("///") && !text.starts_with("////"))
            || text.starts_with("//!")
            || (text.starts_with("/**") && !text.starts_with("/***") && text.len() > 4)
            || text.starts_with("/*!");
        let first = self.line_of(start);
        for (offset, line) in text.lines().enumerate() {
            let text = line
                .trim()
                .trim_start_matches(['/', '*', '!'])
                .trim_end_matches("*/")
                .trim()
                .to_string();
            self.comments[first + offset] = Some(Comment { text, doc });
        }
    }
}

/// Whether `byte` may be in an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() && bytes[at].is_ascii_whitespace() {
        at += 1;
    }
    at
}

/// The place after the bracket that closes the one at `open`.
pub(crate) fn close(bytes: &[u8], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, byte) in bytes.iter().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

/// The place after the item or statement that starts at `at`: its `;`, or the brace that closes it.
pub(crate) fn item_end(bytes: &[u8], at: usize) -> usize {
    let is_use = {
        let head = &bytes[at..bytes.len().min(at + 8)];
        head.starts_with(b"use ") || head.starts_with(b"pub use ")
    };
    let mut i = at;
    while i < bytes.len() {
        match bytes[i] {
            b'(' | b'[' => i = close(bytes, i),
            b'{' => {
                i = close(bytes, i);
                if !is_use {
                    return i;
                }
            }
            b';' => return i + 1,
            _ => i += 1,
        }
    }
    i
}

fn block_comment_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// The end of the string or character literal that starts at `at`, if one does.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let after_word = at > 0 && is_word(bytes[at - 1]);
    match bytes[at] {
        b'"' => Some(string_end(bytes, at)),
        b'\'' => char_end(bytes, at),
        b'r' | b'b' | b'c' if !after_word => {
            let mut i = at;
            while i < bytes.len() && matches!(bytes[i], b'r' | b'b' | b'c') && i < at + 2 {
                i += 1;
            }
            let raw = bytes[at..i].contains(&b'r');
            let hashes = bytes[i..].iter().take_while(|b| **b == b'#').count();
            if raw && bytes.get(i + hashes) == Some(&b'"') {
                let mut close = vec![b'"'];
                close.resize(hashes + 1, b'#');
                let body = i + hashes + 1;
                let end = bytes[body..].windows(close.len()).position(|w| w == close);
                return Some(end.map_or(bytes.len(), |end| body + end + close.len()));
            }
            match bytes.get(i) {
                Some(b'"') if hashes == 0 => Some(string_end(bytes, i)),
                Some(b'\'') if &bytes[at..i] == b"b" => char_end(bytes, i),
                _ => None,
            }
        }
        _ => None,
    }
}

fn string_end(bytes: &[u8], quote: usize) -> usize {
    let mut at = quote + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The end of a character literal; `None` for a lifetime.
fn char_end(bytes: &[u8], quote: usize) -> Option<usize> {
    let next = *bytes.get(quote + 1)?;
    if next == b'\\' {
        let end = bytes[quote + 3..].iter().position(|b| *b == b'\'')?;
        return Some(quote + 3 + end + 1);
    }
    // One character of up to four bytes, then the quote.
    let width = match next {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    (bytes.get(quote + 1 + width) == Some(&b'\'')).then_some(quote + 2 + width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked() {
        let text = "let a = \"x // y\"; // one\nlet b = 'c'; /* two\n three */ let c: &'a str = r#\"q\"z\"#; let d = b'\\''; fn e<'x>() {}\n";
        let source = Source::new(text);
        assert_eq!(source.code.len(), text.len());
        assert!(!source.code.contains('x') || source.code.contains("'x>"));
        for gone in ["one", "two", "three", "y", "\"q", "z"] {
            assert!(
                !source.words().any(|(_, word)| word == gone),
                "{gone}: {}",
                source.code
            );
        }
        assert!(source.words().any(|(_, word)| word == "d"));
        assert!(source.words().any(|(_, word)| word == "e"));
        assert_eq!(source.comment(0).unwrap().text, "one");
        assert_eq!(
            source.comment(2).unwrap().text,
            "three */ let c".split(" */").next().unwrap()
        );
    }

    #[test]
    fn test_items_are_known() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { if c {} } }\nfn d() {}\n#[cfg(all(test, not(e)))]\nuse f::{g, h};\nfn i() {}\n#[cfg(not(test))]\nfn j() {}\n";
        let source = Source::new(text);
        let place = |word: &str| source.words().find(|(_, w)| *w == word).unwrap().0;
        for word in ["b", "c", "g", "h"] {
            assert!(source.in_test(place(word)), "{word}");
        }
        for word in ["a", "d", "i", "j"] {
            assert!(!source.in_test(place(word)), "{word}");
        }
    }

    #[test]
    fn statements_start_after_the_one_before() {
        let text = "fn f() {\n    one();\n    let x = two(|| { a; b }, &[1, 2])\n        .three(four);\n}\n";
        let source = Source::new(text);
        let four = text.find("four").unwrap();
        assert!(text[source.statement_start(four)..].starts_with("let x"));
    }

    #[test]
    fn blocks_stand_above_attributes() {
        let source = Source::new("// One\n// two. [AB1]\n#[inline]\nx();\n/// doc\ny();\n");
        assert_eq!(source.block_above(3), Some((0, "One two. [AB1]".into())));
        assert_eq!(source.block_above(5), None);
        let source = Source::new("// One\n// two.\n//\n// Three.\nx();\n");
        assert_eq!(source.block_above(4), Some((0, "One two.\nThree.".into())));
    }
}
