//! Messages framed by a `Content-Length` header, as the framed dialect sends them over stdio.
//!
//! A pure state machine: it accepts the bytes in pieces of any size.

use std::fmt;

/// The maximum size of a frame's header in bytes.
pub const MAX_HEADER: usize = 8 * 1024;
/// The maximum number of header lines of a frame.
pub const MAX_LINES: usize = 32;

/// One frame without its header.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    Body(Vec<u8>),
    /// The declared length exceeds the limit; the body was skipped.
    TooLong(u64),
}

/// An invalid header. The start of the next frame is unknown after it, so the session must end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FrameError {
    HeaderTooLong,
    TooManyLines,
    /// A line that is not `Name: value` in visible ASCII.
    InvalidHeaderLine(String),
    NoLength,
    TwoLengths,
    BadLength(String),
    /// A charset other than UTF-8.
    Charset(String),
}

/// Splits a byte stream into frames.
pub struct Decoder {
    max: u64,
    header: Vec<u8>,
    lines: usize,
    length: Option<u64>,
    state: State,
}

enum State {
    Header,
    Body { body: Vec<u8>, remaining: usize },
    Skip { length: u64, remaining: u64 },
}

impl Decoder {
    /// `max` is the size limit of a body.
    pub fn new(max: usize) -> Decoder {
        Decoder { max: max as u64, header: Vec::new(), lines: 0, length: None, state: State::Header }
    }

    /// Consumes bytes from `input` until a frame is complete; `None` when more are needed.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Frame>, FrameError> {
        loop {
            match &mut self.state {
                State::Header => {
                    if !self.header_line(input)? {
                        return Ok(None);
                    }
                }
                State::Body { body, remaining } => {
                    let taken = take(input, *remaining);
                    body.extend_from_slice(taken);
                    *remaining -= taken.len();
                    if *remaining > 0 {
                        return Ok(None);
                    }
                    let body = std::mem::take(body);
                    self.state = State::Header;
                    return Ok(Some(Frame::Body(body)));
                }
                State::Skip { length, remaining } => {
                    let max = usize::try_from(*remaining).unwrap_or(usize::MAX);
                    *remaining -= take(input, max).len() as u64;
                    if *remaining > 0 {
                        return Ok(None);
                    }
                    let length = *length;
                    self.state = State::Header;
                    return Ok(Some(Frame::TooLong(length)));
                }
            }
        }
    }

    /// Whether the input may end here: no frame is incomplete.
    pub fn is_at_frame_boundary(&self) -> bool {
        matches!(self.state, State::Header) && self.header.is_empty() && self.lines == 0
    }

    /// Consumes one header line; `false` when it is incomplete.
    fn header_line(&mut self, input: &mut &[u8]) -> Result<bool, FrameError> {
        let end = input.iter().position(|&byte| byte == b'\n');
        let part = take(input, end.map_or(usize::MAX, |end| end + 1));
        let start = self.line_start();
        self.header.extend_from_slice(part);
        if self.header.len() > MAX_HEADER {
            return Err(FrameError::HeaderTooLong);
        }
        if end.is_none() {
            return Ok(false);
        }
        let line = self.header[start..].strip_suffix(b"\n").unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() {
            if self.lines == MAX_LINES {
                return Err(FrameError::TooManyLines);
            }
            if let Some(length) = read_line(line)?
                && self.length.replace(length).is_some()
            {
                return Err(FrameError::TwoLengths);
            }
            self.lines += 1;
        } else if self.lines == 0 {
            // Empty lines between frames are ignored.
            self.header.clear();
        } else {
            self.begin_body(self.length.ok_or(FrameError::NoLength)?);
        }
        Ok(true)
    }

    /// The start of the current line.
    fn line_start(&self) -> usize {
        self.header.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)
    }

    fn begin_body(&mut self, length: u64) {
        self.header = Vec::new();
        self.lines = 0;
        self.length = None;
        self.state = match usize::try_from(length) {
            // Memory is allocated as bytes arrive, not by the declared length.
            Ok(remaining) if length <= self.max => State::Body { body: Vec::new(), remaining },
            _ => State::Skip { length, remaining: length },
        };
    }
}

/// What precedes a body of this length.
pub fn header(length: usize) -> String {
    format!("Content-Length: {length}\r\n\r\n")
}

/// A message with its header.
pub fn write(body: &[u8]) -> Vec<u8> {
    let mut out = header(body.len()).into_bytes();
    out.extend_from_slice(body);
    out
}

fn take<'a>(input: &mut &'a [u8], max: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(input.len().min(max));
    *input = rest;
    taken
}

/// The value of a `Content-Length` line; `None` for other headers.
fn read_line(line: &[u8]) -> Result<Option<u64>, FrameError> {
    let shown = || String::from_utf8_lossy(line).chars().take(60).collect::<String>();
    let text = std::str::from_utf8(line).ok();
    let text = text.filter(|text| text.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
    let (name, value) =
        text.and_then(|text| text.split_once(':')).ok_or_else(|| FrameError::InvalidHeaderLine(shown()))?;
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(FrameError::InvalidHeaderLine(shown()));
    }
    let value = value.trim();
    if name.eq_ignore_ascii_case("Content-Length") {
        let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let length = value.parse().ok().filter(|_| digits);
        return length.map(Some).ok_or_else(|| FrameError::BadLength(shown()));
    }
    if name.eq_ignore_ascii_case("Content-Type")
        && let Some((_, charset)) = value.to_ascii_lowercase().split_once("charset=")
        && !matches!(charset.trim_matches('"'), "utf-8" | "utf8")
    {
        return Err(FrameError::Charset(shown()));
    }
    Ok(None)
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameError::HeaderTooLong => write!(f, "the header is over {MAX_HEADER} bytes"),
            FrameError::TooManyLines => write!(f, "the header has more than {MAX_LINES} lines"),
            FrameError::InvalidHeaderLine(line) => {
                write!(f, "{line:?} is not a header; send 'Content-Length: N', an empty line, then N bytes")
            }
            FrameError::NoLength => write!(f, "the header has no 'Content-Length'"),
            FrameError::TwoLengths => write!(f, "the header has more than one 'Content-Length'"),
            FrameError::BadLength(line) => {
                write!(f, "{line:?} is not a length; it must be a number of bytes in decimal digits")
            }
            FrameError::Charset(line) => write!(f, "{line:?}: messages must be UTF-8"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All frames, the error and the final state after feeding the pieces one by one.
    fn decode(max: usize, pieces: &[&[u8]]) -> (Vec<Frame>, Option<FrameError>, bool) {
        let mut decoder = Decoder::new(max);
        let mut frames = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            loop {
                match decoder.next(&mut input) {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(error) => return (frames, Some(error), false),
                }
            }
            assert!(input.is_empty(), "bytes were not consumed");
        }
        (frames, None, decoder.is_at_frame_boundary())
    }

    #[test]
    fn frames_are_read_with_any_other_headers() {
        for text in [
            "Content-Length: 2\r\n\r\n{}",
            "content-length:2\n\n{}",
            "Content-Type: application/json; charset=utf-8\r\nContent-Length:  2 \r\nX-Other: 1\r\n\r\n{}",
            "\r\n\nContent-Length: 2\r\n\r\n{}",
        ] {
            let (frames, error, between) = decode(10, &[text.as_bytes()]);
            assert_eq!((frames, error, between), (vec![Frame::Body(b"{}".to_vec())], None, true), "{text:?}");
        }
        assert_eq!(decode(10, &[&write(b"{}")]).0, [Frame::Body(b"{}".to_vec())]);
        assert_eq!(decode(10, &[&write(b"")]).0, [Frame::Body(Vec::new())]);
    }

    #[test]
    fn an_invalid_header_is_rejected_with_the_reason() {
        let long = format!("X: {}", "a".repeat(MAX_HEADER));
        let many = "X: 1\n".repeat(MAX_LINES + 1);
        for (text, error) in [
            (long.as_str(), FrameError::HeaderTooLong),
            (many.as_str(), FrameError::TooManyLines),
            ("{\"jsonrpc\":\"2.0\"}\n", FrameError::InvalidHeaderLine("{\"jsonrpc\":\"2.0\"}".to_owned())),
            ("nothing\n", FrameError::InvalidHeaderLine("nothing".to_owned())),
            ("X: 1\r\n\r\n", FrameError::NoLength),
            ("Content-Length: 1\nContent-Length: 1\n\n", FrameError::TwoLengths),
            ("Content-Length: -1\n", FrameError::BadLength("Content-Length: -1".to_owned())),
            ("Content-Length: +1\n", FrameError::BadLength("Content-Length: +1".to_owned())),
            ("Content-Length: 0x1\n", FrameError::BadLength("Content-Length: 0x1".to_owned())),
            ("Content-Length:\n", FrameError::BadLength("Content-Length:".to_owned())),
            (
                "Content-Length: 99999999999999999999\n",
                FrameError::BadLength("Content-Length: 99999999999999999999".to_owned()),
            ),
            (
                "Content-Type: x; charset=latin1\n",
                FrameError::Charset("Content-Type: x; charset=latin1".to_owned()),
            ),
        ] {
            assert_eq!(decode(10, &[text.as_bytes()]).1, Some(error), "{text:.60}");
        }
    }

    #[test]
    fn a_body_over_the_limit_is_skipped_and_the_next_one_read() {
        let text = b"Content-Length: 4\n\n1234Content-Length: 3\n\n123";
        let (frames, error, _) = decode(3, &[text]);
        assert_eq!((frames, error), (vec![Frame::TooLong(4), Frame::Body(b"123".to_vec())], None));
        let (frames, _, between) = decode(3, &[b"Content-Length: 18446744073709551615\n\nabc"]);
        assert_eq!((frames.len(), between), (0, false));
    }

    proptest! {
        #[test]
        fn any_split_of_the_bytes_gives_the_same_frames(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..5),
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let whole: Vec<u8> = bodies.iter().flat_map(|body| write(body)).collect();
            let mut positions: Vec<usize> = cuts.iter().map(|cut| cut.index(whole.len() + 1)).collect();
            positions.extend([0, whole.len()]);
            positions.sort_unstable();
            let pieces: Vec<&[u8]> = positions.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
            let (frames, error, between) = decode(30, &pieces);
            let expected: Vec<Frame> = bodies.into_iter().map(|body| match body.len() {
                0..=30 => Frame::Body(body),
                length => Frame::TooLong(length as u64),
            }).collect();
            prop_assert_eq!((frames, error, between), (expected, None, true));
        }

        #[test]
        fn invalid_input_fails_at_the_same_position_for_any_split(
            text in r"(Content-Length: ?[0-9]{0,3}|[ -~]{0,20}|\r|\n|\r\n){0,20}", cut in any::<prop::sample::Index>(),
        ) {
            let at = cut.index(text.len() + 1);
            let (first, second) = text.as_bytes().split_at(at);
            prop_assert_eq!(decode(100, &[text.as_bytes()]), decode(100, &[first, second]));
        }
    }
}
