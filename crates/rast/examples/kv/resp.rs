//! Incremental parser of requests, which have one form in RESP2 and RESP3.
//!
//! Bytes are pushed as they arrive, in pieces of any size. A frame (the list of arguments of one
//! command) comes out when its last byte is pushed.
//!
//! ```text
//!          '*N'              '$L'               L bytes + CRLF
//!  Start ───────▶ BulkHeader ─────▶ BulkBody ───────────────┐
//!    ▲  other line: inline ▲                                │
//!    └─────────────────────┴─── more arguments? ◀───────────┘
//! ```
//!
//! Two rules limit the memory that a hostile sender costs:
//!
//! 1. An announced length alone allocates nothing. The first byte of an argument of at most
//!    [`AT_ONCE`] bytes allocates room for the whole argument. The memory of a longer argument at
//!    most doubles each time it is full. The list of arguments grows as arguments arrive.
//! 2. An announced length or count is checked against the limits at once. Each argument also counts
//!    as [`ARGUMENT_COST`] bytes of the frame, because even an empty one takes memory.
//!
//! After an error no more bytes may be pushed, because the next frame boundary is unknown. The
//! connection is closed once the error was sent.

use std::borrow::Cow;

use crate::inline;
use crate::key::Key;

/// What an argument costs towards the frame's limit besides its bytes: its own words and the
/// allocator's overhead.
pub(crate) const ARGUMENT_COST: usize = 48;

/// The longest argument that gets room for all its bytes when the first one arrives: as much as is
/// read at once.
const AT_ONCE: usize = 64 * 1024;

/// One argument of a command.
pub(crate) type Argument = Key;

/// The arguments of one command, its name first.
pub(crate) type Frame = Vec<Argument>;

/// What ends an argument.
const CRLF: &[u8] = b"\r\n";

/// The list of arguments is used again for the next command, up to so many.
const ARGUMENTS_KEPT: usize = 16;

/// The limits of one frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameLimits {
    /// Most bytes of one bulk string.
    pub(crate) bulk: usize,
    /// Most arguments of one command.
    pub(crate) arguments: usize,
    /// Most bytes of an inline command and of a header line.
    pub(crate) line: usize,
    /// Most bytes of a whole frame, [`ARGUMENT_COST`] per argument included.
    pub(crate) frame: usize,
}

/// Why the stream cannot be read any further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProtocolError {
    /// A `*` line is longer than the limit of a line.
    MultibulkLineTooBig,
    /// A `*` line holds no number, or one past the limit.
    MultibulkLength,
    /// A `$` line is longer than the limit of a line.
    BulkLineTooBig,
    /// An argument does not start with `$`.
    ExpectedDollar(u8),
    /// A `$` line has no number or a number above the limit, or the bulk string does not end where
    /// the line said.
    BulkLength,
    /// An inline command is longer than the limit of a line.
    InlineTooBig,
    /// The quotes of an inline command do not balance.
    UnbalancedQuotes,
    /// The arguments together are past the frame's limit.
    FrameTooBig,
}

impl ProtocolError {
    /// The error line, with the byte that was met as it came.
    pub(crate) fn line(self) -> Vec<u8> {
        let words = match self {
            Self::MultibulkLineTooBig => "too big mbulk count string",
            Self::MultibulkLength => "invalid multibulk length",
            Self::BulkLineTooBig => "too big bulk count string",
            Self::ExpectedDollar(byte) => {
                return [
                    b"ERR Protocol error: expected '$', got '",
                    &[byte][..],
                    b"'",
                ]
                .concat();
            }
            Self::BulkLength => "invalid bulk length",
            Self::InlineTooBig => "too big inline request",
            Self::UnbalancedQuotes => "unbalanced quotes in request",
            Self::FrameTooBig => "request is larger than the frame limit",
        };
        format!("ERR Protocol error: {words}").into_bytes()
    }
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Between frames.
    Start,
    /// Waiting for the `$` line of the next of `left` arguments.
    BulkHeader { left: usize },
    /// Waiting for `need` more bytes, CRLF included, of the first of `left`
    /// arguments.
    BulkBody { left: usize, need: usize },
}

/// The parser of one connection.
#[derive(Debug)]
pub(crate) struct Parser {
    limits: FrameLimits,
    state: State,
    /// The piece of a line that has arrived so far.
    line: Vec<u8>,
    /// The argument that is arriving, without its CRLF.
    argument: Vec<u8>,
    frame: Frame,
    /// What the frame costs so far by its announced lengths.
    cost: usize,
    /// What its whole arguments occupy.
    gathered: usize,
}

impl Parser {
    /// A parser between frames.
    pub(crate) fn new(limits: FrameLimits) -> Self {
        Self {
            limits,
            state: State::Start,
            line: Vec::new(),
            argument: Vec::new(),
            frame: Frame::new(),
            cost: 0,
            gathered: 0,
        }
    }

    /// Bytes of the frame that is arriving.
    pub(crate) fn held(&self) -> usize {
        self.line.capacity() + self.argument.capacity() + self.gathered
    }

    /// Bytes of the list that is kept between frames.
    pub(crate) fn kept(&self) -> usize {
        self.frame.capacity().min(ARGUMENTS_KEPT) * size_of::<Argument>()
    }

    /// Takes back the list of a command that was carried out.
    pub(crate) fn give_back(&mut self, mut frame: Frame) {
        if frame.capacity() <= ARGUMENTS_KEPT {
            frame.clear();
            self.frame = frame;
        }
    }

    /// Whether no frame has begun.
    #[cfg(test)]
    pub(crate) fn is_between_frames(&self) -> bool {
        matches!(self.state, State::Start) && self.line.is_empty()
    }

    /// Consumes bytes from the front of `input` until a frame is whole or the input
    /// is used up; `None` means that more bytes are needed.
    pub(crate) fn parse(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, ProtocolError> {
        loop {
            let done = match self.state {
                State::Start => self.start(input)?,
                State::BulkHeader { left } => self.bulk_header(left, input)?,
                State::BulkBody { left, need } => self.bulk_body(left, need, input)?,
            };
            match done {
                Step::More => return Ok(None),
                Step::Next => {}
                Step::Whole => {
                    self.state = State::Start;
                    self.cost = 0;
                    self.gathered = 0;
                    return Ok(Some(std::mem::take(&mut self.frame)));
                }
            }
        }
    }

    fn start(&mut self, input: &mut &[u8]) -> Result<Step, ProtocolError> {
        let Some(&first) = self.line.first().or(input.first()) else {
            return Ok(Step::More);
        };
        if first != b'*' {
            return self.inline(input);
        }
        if self.line.is_empty()
            && let Some((count, rest)) = short_header(input)
        {
            *input = rest;
            return self.begin(count);
        }
        let Some(line) = self.take_line(input, ProtocolError::MultibulkLineTooBig)? else {
            return Ok(Step::More);
        };
        let count = header(&line).ok_or(ProtocolError::MultibulkLength)?;
        match usize::try_from(count) {
            // A count of zero or less is an empty command, which is skipped.
            Err(_) => Ok(Step::Next),
            Ok(left) => self.begin(left),
        }
    }

    /// Begins a frame of so many arguments.
    fn begin(&mut self, left: usize) -> Result<Step, ProtocolError> {
        if left > self.limits.arguments {
            return Err(ProtocolError::MultibulkLength);
        }
        if left > 0 {
            self.frame.reserve(left.min(ARGUMENTS_KEPT));
            self.state = State::BulkHeader { left };
        }
        Ok(Step::Next)
    }

    fn inline(&mut self, input: &mut &[u8]) -> Result<Step, ProtocolError> {
        let Some(line) = self.take_line(input, ProtocolError::InlineTooBig)? else {
            return Ok(Step::More);
        };
        let text = line.strip_suffix(b"\r").unwrap_or(&line);
        let words = inline::split(text).map_err(|_| ProtocolError::UnbalancedQuotes)?;
        if words.is_empty() {
            return Ok(Step::Next);
        }
        self.frame.extend(words.into_iter().map(Argument::from));
        Ok(Step::Whole)
    }

    fn bulk_header(&mut self, left: usize, input: &mut &[u8]) -> Result<Step, ProtocolError> {
        match self.line.first().or(input.first()) {
            None => return Ok(Step::More),
            Some(b'$') => {}
            Some(&other) => return Err(ProtocolError::ExpectedDollar(other)),
        }
        if self.line.is_empty()
            && let Some((len, rest)) = short_header(input)
        {
            *input = rest;
            return self.announce(left, len);
        }
        let Some(line) = self.take_line(input, ProtocolError::BulkLineTooBig)? else {
            return Ok(Step::More);
        };
        let len = header(&line)
            .and_then(|len| usize::try_from(len).ok())
            .ok_or(ProtocolError::BulkLength)?;
        self.announce(left, len)
    }

    /// Takes note of the length of the next of `left` arguments.
    fn announce(&mut self, left: usize, len: usize) -> Result<Step, ProtocolError> {
        if len > self.limits.bulk {
            return Err(ProtocolError::BulkLength);
        }
        self.cost += len + ARGUMENT_COST;
        if self.cost > self.limits.frame {
            return Err(ProtocolError::FrameTooBig);
        }
        self.state = State::BulkBody {
            left,
            need: len + CRLF.len(),
        };
        Ok(Step::Next)
    }

    fn bulk_body(
        &mut self,
        left: usize,
        need: usize,
        input: &mut &[u8],
    ) -> Result<Step, ProtocolError> {
        if input.is_empty() {
            return Ok(Step::More);
        }
        let take = need.min(input.len());
        let (here, rest) = input.split_at(take);
        *input = rest;
        let argument = if take == need && need >= CRLF.len() && self.argument.is_empty() {
            // The whole argument lies in the input: one exact copy.
            let body = here.strip_suffix(CRLF).ok_or(ProtocolError::BulkLength)?;
            Argument::from(body)
        } else {
            self.gather(here, need)?;
            if take < need {
                self.state = State::BulkBody {
                    left,
                    need: need - take,
                };
                return Ok(Step::More);
            }
            Argument::from(std::mem::take(&mut self.argument))
        };
        self.gathered += argument.len() + ARGUMENT_COST;
        self.frame.push(argument);
        if left == 1 {
            return Ok(Step::Whole);
        }
        self.state = State::BulkHeader { left: left - 1 };
        Ok(Step::Next)
    }

    /// Adds a piece of an argument of which `need` bytes, CRLF included, have not arrived.
    ///
    /// The last allocation has the exact length. A vector that doubles and is then shortened leaves
    /// gaps between the values, into which later values do not fit.
    fn gather(&mut self, piece: &[u8], need: usize) -> Result<(), ProtocolError> {
        let missing = need.saturating_sub(CRLF.len());
        let (body, end) = piece.split_at(missing.min(piece.len()));
        let argument = &mut self.argument;
        if argument.capacity() - argument.len() < body.len() {
            let is_short = argument.len() + missing <= AT_ONCE;
            let most = if is_short { missing } else { argument.len() };
            argument.reserve_exact(most.max(body.len()).min(missing));
        }
        argument.extend_from_slice(body);
        // Of the CRLF so many bytes arrived before.
        let seen = CRLF.len().saturating_sub(need);
        if CRLF[seen..].starts_with(end) {
            Ok(())
        } else {
            Err(ProtocolError::BulkLength)
        }
    }

    /// The next line without its `\n`, once it has arrived whole.
    fn take_line<'a>(
        &mut self,
        input: &mut &'a [u8],
        too_big: ProtocolError,
    ) -> Result<Option<Cow<'a, [u8]>>, ProtocolError> {
        let end = input.iter().position(|&byte| byte == b'\n');
        let here = end.unwrap_or(input.len());
        if self.line.len() + here > self.limits.line {
            return Err(too_big);
        }
        let (piece, rest) = input.split_at(here);
        if end.is_none() {
            self.line.extend_from_slice(piece);
            *input = rest;
            return Ok(None);
        }
        *input = &rest[1..];
        if self.line.is_empty() {
            return Ok(Some(Cow::Borrowed(piece)));
        }
        let mut line = std::mem::take(&mut self.line);
        line.extend_from_slice(piece);
        Ok(Some(Cow::Owned(line)))
    }
}

enum Step {
    More,
    Next,
    Whole,
}

/// The number of the `*` or `$` line at the front, if it has one digit, or two, and what
/// follows it: most lines are like that.
fn short_header(input: &[u8]) -> Option<(usize, &[u8])> {
    let digit = |byte: &u8| usize::from(byte - b'0');
    match input {
        [_, one @ b'0'..=b'9', b'\r', b'\n', rest @ ..] => Some((digit(one), rest)),
        [
            _,
            ten @ b'1'..=b'9',
            one @ b'0'..=b'9',
            b'\r',
            b'\n',
            rest @ ..,
        ] => Some((digit(ten) * 10 + digit(one), rest)),
        _ => None,
    }
}

/// The number of a `*` or `$` line; `line` has lost its `\n` alone.
fn header(line: &[u8]) -> Option<i64> {
    integer(line.get(1..)?.strip_suffix(b"\r")?)
}

/// A decimal integer in its one canonical form: no plus sign, no leading zero, no
/// space. This is what Redis accepts as a number everywhere.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    match digits {
        [] => return None,
        [b'0'] => return (!negative).then_some(0),
        [b'0', ..] => return None,
        _ => {}
    }
    let mut value: i64 = 0;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        let digit = i64::from(digit - b'0');
        // Counting downwards reaches i64::MIN, which has no positive twin.
        value = value.checked_mul(10)?.checked_sub(digit)?;
    }
    if negative {
        Some(value)
    } else {
        value.checked_neg()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rast::primitive::Random;

    const LIMITS: FrameLimits = FrameLimits {
        bulk: 64,
        arguments: 8,
        line: 32,
        frame: 600,
    };

    fn all(bytes: &[u8]) -> Result<Vec<Frame>, ProtocolError> {
        let mut parser = Parser::new(LIMITS);
        let mut input = bytes;
        let mut frames = Vec::new();
        while let Some(frame) = parser.parse(&mut input)? {
            frames.push(frame);
        }
        assert!(input.is_empty(), "the parser stopped early");
        Ok(frames)
    }

    fn text(frames: &[Frame]) -> Vec<Vec<String>> {
        let word = |bytes: &Argument| String::from_utf8_lossy(bytes).into_owned();
        frames
            .iter()
            .map(|frame| frame.iter().map(word).collect())
            .collect()
    }

    #[test]
    fn frames_and_inline_commands_may_alternate() {
        let frames = all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n\r\n*0\r\n*-1\r\nECHO \"a b\"\n");
        let frames = frames.expect("a well-formed stream");
        assert_eq!(
            text(&frames),
            [vec!["GET", "k"], vec!["PING"], vec!["ECHO", "a b"]]
        );
    }

    #[test]
    fn any_split_of_the_stream_gives_the_same_frames() {
        let bytes: &[u8] = b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\nbc\r\nPING hi\r\n*1\r\n$0\r\n\r\n";
        let whole = all(bytes).expect("a well-formed stream");
        assert_eq!(whole.len(), 3);
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let mut parser = Parser::new(LIMITS);
                let mut frames = Vec::new();
                for mut piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    while let Some(frame) = parser.parse(&mut piece).expect("well-formed") {
                        frames.push(frame);
                    }
                }
                assert_eq!(frames, whole, "split at {first} and {second}");
                assert!(parser.is_between_frames());
            }
        }
    }

    #[test]
    fn random_streams_read_the_same_in_pieces_and_whole() {
        let words: [&[u8]; 12] = [
            b"*1\r\n",
            b"*2\r\n",
            b"$1\r\n",
            b"$3\r\n",
            b"a\r\n",
            b"abc\r\n",
            b"PING\r\n",
            b"\r\n",
            b"*0\r\n",
            b"\n",
            b"'x y'\n",
            b"*",
        ];
        let mut random = Random::new(0);
        let mut draw = |below: usize| random.below(below);
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..draw(12) {
                match draw(10) {
                    0 => bytes.push(draw(256) as u8),
                    _ => bytes.extend_from_slice(words[draw(words.len())]),
                }
            }
            let read = |pieces: Vec<&[u8]>| {
                let mut parser = Parser::new(LIMITS);
                let mut frames = Vec::new();
                for mut piece in pieces {
                    loop {
                        match parser.parse(&mut piece) {
                            Ok(Some(frame)) => frames.push(frame),
                            Ok(None) => break,
                            Err(error) => return (frames, Some(error)),
                        }
                    }
                }
                (frames, None)
            };
            let cut = draw(bytes.len() + 1);
            let whole = read(vec![&bytes]);
            assert_eq!(read(vec![&bytes[..cut], &bytes[cut..]]), whole, "{bytes:?}");
            assert_eq!(read(bytes.chunks(1).collect()), whole, "{bytes:?}");
        }
    }

    #[test]
    fn each_fault_has_the_words_of_redis() {
        let long = vec![b'x'; 40];
        let starred = [b"*".as_slice(), &long].concat();
        let dollared = [b"*1\r\n$".as_slice(), &long].concat();
        let cases: [(&[u8], &str); 16] = [
            (b"*x\r\n", "invalid multibulk length"),
            (b"*9\r\n", "invalid multibulk length"),
            (b"*01\r\n", "invalid multibulk length"),
            (b"*1\n", "invalid multibulk length"),
            (b"*99999999999999999999\r\n", "invalid multibulk length"),
            (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
            (b"*1\r\n\x00", "expected '$', got '\x00'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$65\r\n", "invalid bulk length"),
            (b"*1\r\n$x\r\n", "invalid bulk length"),
            (b"*1\r\n$4\r\nPINGPING\r\n", "invalid bulk length"),
            (&starred, "too big mbulk count string"),
            (&dollared, "too big bulk count string"),
            (&long, "too big inline request"),
            (b"ECHO \"a\r\n", "unbalanced quotes in request"),
            (
                b"*8\r\n$64\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n\
                  $64\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n\
                  $64\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n\
                  $64\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n\
                  $64\r\n0123456789012345678901234567890123456789012345678901234567890123\r\n\
                  $64\r\n",
                "request is larger than the frame limit",
            ),
        ];
        for (bytes, words) in cases {
            let error = all(bytes).expect_err("a malformed stream");
            let line = format!("ERR Protocol error: {words}");
            assert_eq!(error.line(), line.as_bytes());
        }
    }

    #[test]
    fn an_announced_length_allocates_nothing() {
        let limits = FrameLimits {
            bulk: 1 << 30,
            arguments: 1 << 20,
            line: 1 << 16,
            frame: 1 << 31,
        };
        let mut parser = Parser::new(limits);
        let mut input: &[u8] = b"*1048576\r\n$1073741824\r\nabc";
        assert_eq!(parser.parse(&mut input), Ok(None));
        assert!(parser.frame.capacity() <= 16);
        assert!(parser.argument.capacity() < 1024);
    }

    /// A vector that doubles and is shortened at the end leaves holes between the values.
    #[test]
    fn the_memory_of_an_argument_is_its_exact_length_when_it_is_whole() {
        let limits = FrameLimits {
            bulk: 1 << 20,
            frame: 1 << 21,
            ..LIMITS
        };
        for (length, first) in [(AT_ONCE, 10), (1000, 999), (3, 1), (AT_ONCE + 1, 40_000)] {
            let mut parser = Parser::new(limits);
            let bytes = [
                format!("*1\r\n${length}\r\n").as_bytes(),
                &vec![b'x'; length],
            ]
            .concat();
            let (mut here, mut rest) = bytes.split_at(bytes.len() - length + first);
            assert_eq!(parser.parse(&mut here), Ok(None));
            let most = if length <= AT_ONCE { length } else { first };
            assert_eq!(parser.argument.capacity(), most, "{first} of {length}");
            assert_eq!(parser.parse(&mut rest), Ok(None));
            assert_eq!(parser.argument.capacity(), length);
            let place = parser.argument.as_ptr();
            let mut end: &[u8] = b"\r\n";
            let frame = parser.parse(&mut end).expect("well-formed").expect("whole");
            assert_eq!(frame[0].len(), length);
            assert!(length < 100 || frame[0].as_ptr() == place, "it was moved");
        }
        // In pieces of any size it holds at most twice what arrived, or one of the first size.
        let mut parser = Parser::new(limits);
        let mut head: &[u8] = b"*1\r\n$1000000\r\n";
        assert_eq!(parser.parse(&mut head), Ok(None));
        assert_eq!(parser.argument.capacity(), 0);
        for arrived in 1..=1_000_000 {
            let mut piece: &[u8] = b"x";
            assert_eq!(parser.parse(&mut piece), Ok(None));
            assert!(parser.argument.capacity() <= 2 * arrived);
        }
        assert_eq!(parser.argument.capacity(), 1_000_000);
    }

    #[test]
    fn integers_have_one_canonical_form() {
        assert_eq!(integer(b"0"), Some(0));
        assert_eq!(integer(b"-12"), Some(-12));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(integer(b"-9223372036854775808"), Some(i64::MIN));
        for text in [
            "",
            "-",
            "-0",
            "00",
            "01",
            "+1",
            " 1",
            "1 ",
            "1a",
            "9223372036854775808",
        ] {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
    }
}
