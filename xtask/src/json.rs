//! A small strict JSON reader, enough for `cargo metadata`.
//!
//! It reads one value and nothing after it, and refuses what RFC 8259 refuses.
//! Numbers are kept as `f64`, which `cargo metadata` never puts to the test.

use crate::Result;

/// One JSON value; objects keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// Reads one value; anything but white space after it is an error.
    pub(crate) fn parse(text: &str) -> Result<Json> {
        let mut reader = Reader {
            bytes: text.as_bytes(),
            at: 0,
            depth: 0,
        };
        let value = reader.value()?;
        reader.space();
        if reader.at == reader.bytes.len() {
            Ok(value)
        } else {
            Err(reader.error("end of text"))
        }
    }

    /// The member `key` of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The member `key`, which must be a string.
    pub(crate) fn text(&self, key: &str) -> Result<&str> {
        match self.get(key) {
            Some(Json::Text(text)) => Ok(text),
            _ => Err(format!("JSON: no string `{key}`")),
        }
    }

    /// The member `key` when it is a string; `None` when it is null or absent.
    pub(crate) fn text_or_null(&self, key: &str) -> Option<&str> {
        self.text(key).ok()
    }

    /// The member `key`, which must be a list.
    pub(crate) fn list(&self, key: &str) -> Result<&[Json]> {
        match self.get(key) {
            Some(Json::List(list)) => Ok(list),
            _ => Err(format!("JSON: no list `{key}`")),
        }
    }

    /// The member `key`, which must be a bool.
    pub(crate) fn bool(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            Some(Json::Bool(bool)) => Ok(*bool),
            _ => Err(format!("JSON: no bool `{key}`")),
        }
    }

    /// The strings of a list; other values are left out.
    pub(crate) fn strings(list: &[Json]) -> Vec<String> {
        list.iter()
            .filter_map(|value| match value {
                Json::Text(text) => Some(text.clone()),
                _ => None,
            })
            .collect()
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    /// Nesting past this is refused, so that the reader's own stack is bounded.
    const DEPTH: usize = 200;

    fn error(&self, wanted: &str) -> String {
        format!("JSON: {wanted} expected at byte {}", self.at)
    }

    fn space(&mut self) {
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let found = self.bytes.get(self.at) == Some(&byte);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, word: &str, value: Json) -> Result<Json> {
        if self.bytes[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.error(word))
        }
    }

    fn value(&mut self) -> Result<Json> {
        self.depth += 1;
        if self.depth > Self::DEPTH {
            return Err(self.error("less nesting"));
        }
        self.space();
        let value = match self.bytes.get(self.at) {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'"') => self.string().map(Json::Text),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(b'n') => self.word("null", Json::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(self.error("a value")),
        };
        self.depth -= 1;
        value
    }

    fn object(&mut self) -> Result<Json> {
        self.at += 1;
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.space();
            let key = self.string()?;
            if !self.take(b':') {
                return Err(self.error("`:`"));
            }
            members.push((key, self.value()?));
            if self.take(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.take(b',') {
                return Err(self.error("`,` or `}`"));
            }
        }
    }

    fn list(&mut self) -> Result<Json> {
        self.at += 1;
        let mut values = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(values));
        }
        loop {
            values.push(self.value()?);
            if self.take(b']') {
                return Ok(Json::List(values));
            }
            if !self.take(b',') {
                return Err(self.error("`,` or `]`"));
            }
        }
    }

    fn number(&mut self) -> Result<Json> {
        let start = self.at;
        let digits = |at: &mut usize| {
            let from = *at;
            while self.bytes.get(*at).is_some_and(u8::is_ascii_digit) {
                *at += 1;
            }
            *at - from
        };
        let mut at = self.at;
        at += usize::from(self.bytes[at] == b'-');
        let leading_zero = self.bytes.get(at) == Some(&b'0');
        let whole = digits(&mut at);
        let mut good = whole > 0 && !(leading_zero && whole > 1);
        if self.bytes.get(at) == Some(&b'.') {
            at += 1;
            good &= digits(&mut at) > 0;
        }
        if matches!(self.bytes.get(at), Some(b'e' | b'E')) {
            at += 1;
            at += usize::from(matches!(self.bytes.get(at), Some(b'+' | b'-')));
            good &= digits(&mut at) > 0;
        }
        let text = std::str::from_utf8(&self.bytes[start..at]).unwrap_or("");
        match text.parse() {
            Ok(number) if good => {
                self.at = at;
                Ok(Json::Number(number))
            }
            _ => Err(self.error("a number")),
        }
    }

    fn string(&mut self) -> Result<String> {
        if self.bytes.get(self.at) != Some(&b'"') {
            return Err(self.error("a string"));
        }
        self.at += 1;
        let mut out = Vec::new();
        loop {
            match self.bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return String::from_utf8(out).map_err(|_| self.error("UTF-8"));
                }
                Some(b'\\') => {
                    let c = self.escape()?;
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Some(&byte) if byte >= 0x20 => {
                    out.push(byte);
                    self.at += 1;
                }
                _ => return Err(self.error("`\"`")),
            }
        }
    }

    fn escape(&mut self) -> Result<char> {
        self.at += 2;
        Ok(match self.bytes.get(self.at - 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let high = self.hex()?;
                let code = if (0xd800..0xdc00).contains(&high) {
                    if !self.bytes[self.at..].starts_with(b"\\u") {
                        return Err(self.error("a low surrogate"));
                    }
                    self.at += 2;
                    let low = self.hex()?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(self.error("a low surrogate"));
                    }
                    0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)
                } else {
                    high
                };
                char::from_u32(code).ok_or_else(|| self.error("a character"))?
            }
            _ => return Err(self.error("an escape")),
        })
    }

    fn hex(&mut self) -> Result<u32> {
        let digits = self
            .bytes
            .get(self.at..self.at + 4)
            .ok_or_else(|| self.error("four digits"))?;
        if !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(self.error("four digits"));
        }
        let text = std::str::from_utf8(digits).map_err(|_| self.error("four digits"))?;
        self.at += 4;
        u32::from_str_radix(text, 16).map_err(|_| "JSON: four digits expected".to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_metadata_writes() {
        let json =
            Json::parse(r#" {"a":[1,-2.5e3,true,null,"x\n\u00e9\ud83d\ude00"],"b":{},"c":"d"} "#)
                .unwrap();
        assert_eq!(json.text("c"), Ok("d"));
        assert_eq!(json.get("b"), Some(&Json::Object(vec![])));
        let list = json.list("a").unwrap();
        assert_eq!(list[1], Json::Number(-2500.0));
        assert_eq!(list[4], Json::Text("x\né😀".into()));
        assert_eq!(Json::strings(list), ["x\né😀"]);
    }

    #[test]
    fn refuses_what_is_not_json() {
        for bad in [
            "",
            "{",
            "[1,]",
            "{\"a\" 1}",
            "01",
            "1 2",
            "\"a",
            "nul",
            "\"\\x\"",
            "\"\\ud800\"",
            "'a'",
            "-",
            "\"\\u+123\"",
        ] {
            assert!(Json::parse(bad).is_err(), "{bad}");
        }
        assert!(Json::parse(&"[".repeat(5000)).is_err());
    }
}
