//! WebSocket frames: reassembles a client's messages and writes the server's. Errors carry a close code.
//!
//! Memory grows with the bytes that have arrived, never with the length that a frame declares.

use bytes::{Buf, Bytes, BytesMut};

/// Close codes (RFC 6455, section 7.4.1).
pub mod code {
    pub const NORMAL: u16 = 1000;
    pub const GOING_AWAY: u16 = 1001;
    pub const PROTOCOL: u16 = 1002;
    pub const UNSUPPORTED: u16 = 1003;
    pub const NOT_TEXT: u16 = 1007;
    pub const POLICY: u16 = 1008;
    pub const TOO_BIG: u16 = 1009;
}

/// Reads the client's byte stream in pieces of any size.
pub struct FrameReader {
    limits: FrameLimits,
    input: BytesMut,
    /// The unmasked payload of the incomplete message.
    message: Vec<u8>,
    /// Frames of that message so far; 0 when there is none.
    parts: usize,
}

#[derive(Clone, Copy, Debug)]
pub struct FrameLimits {
    /// The maximum size of a message in bytes.
    pub message: usize,
    /// The maximum number of frames of a message.
    pub parts: usize,
}

/// A complete message or control frame from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientFrame {
    /// A complete message in valid UTF-8.
    Text(Bytes),
    Ping(Bytes),
    Pong,
    /// The client closes the connection, with its code if there is one.
    Close(Option<u16>),
}

/// The close frame to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Close {
    pub code: u16,
    pub reason: String,
}

#[derive(Clone, Copy)]
struct FrameHeader {
    last: bool,
    opcode: u8,
    mask: [u8; 4],
    /// Bytes of the header itself.
    size: usize,
    length: u64,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// The largest payload of a control frame (RFC 6455, section 5.5).
const MAX_CONTROL: usize = 125;

impl FrameReader {
    pub fn new(limits: FrameLimits) -> FrameReader {
        FrameReader { limits, input: BytesMut::new(), message: Vec::new(), parts: 0 }
    }

    /// The input buffer. If every frame is removed with [`FrameReader::take`] before more is read, it holds
    /// at most one incomplete frame.
    pub fn input(&mut self) -> &mut BytesMut {
        &mut self.input
    }

    /// Whether a message is incomplete.
    pub fn is_mid_message(&self) -> bool {
        self.parts > 0 || !self.input.is_empty()
    }

    /// The next message or control frame; `None` when more bytes are needed. Errors are final.
    pub fn take(&mut self) -> Result<Option<ClientFrame>, Close> {
        loop {
            let Some(head) = head(&self.input)? else { return Ok(None) };
            let length = self.check(head)?;
            if self.input.len() < head.size + length {
                return Ok(None);
            }
            self.input.advance(head.size);
            let mut payload = self.input.split_to(length);
            unmask(&mut payload, head.mask);
            let got = match head.opcode {
                CLOSE => Some(parse_close(&payload)?),
                PING => Some(ClientFrame::Ping(payload.freeze())),
                PONG => Some(ClientFrame::Pong),
                _ => self.append_fragment(head, &payload)?,
            };
            if self.input.is_empty() {
                // Frees the buffer of a large message.
                self.input = BytesMut::new();
            }
            if got.is_some() {
                return Ok(got);
            }
        }
    }

    /// Rejects an invalid frame by its header alone, before its payload arrives.
    fn check(&self, head: FrameHeader) -> Result<usize, Close> {
        let length = usize::try_from(head.length).unwrap_or(usize::MAX);
        match head.opcode {
            CLOSE | PING | PONG => {
                if !head.last || length > MAX_CONTROL {
                    return Err(protocol("a control frame must be unfragmented and have at most 125 bytes"));
                }
                return Ok(length);
            }
            TEXT if self.parts > 0 => return Err(protocol("a new message starts inside a fragmented one")),
            CONTINUATION if self.parts == 0 => {
                return Err(protocol("a continuation frame without a message"));
            }
            TEXT | CONTINUATION => {}
            BINARY => return Err(Close::new(code::UNSUPPORTED, "send messages as text")),
            _ => return Err(protocol("unknown opcode")),
        }
        if length > self.limits.message.saturating_sub(self.message.len()) {
            let reason = format!("a message may have at most {} bytes", self.limits.message);
            return Err(Close::new(code::TOO_BIG, reason));
        }
        if self.parts >= self.limits.parts {
            let reason = format!("a message may have at most {} frames", self.limits.parts);
            return Err(Close::new(code::POLICY, reason));
        }
        Ok(length)
    }

    fn append_fragment(&mut self, head: FrameHeader, payload: &[u8]) -> Result<Option<ClientFrame>, Close> {
        self.message.extend_from_slice(payload);
        self.parts += 1;
        if !head.last {
            return Ok(None);
        }
        self.parts = 0;
        let message = std::mem::take(&mut self.message);
        if std::str::from_utf8(&message).is_err() {
            return Err(Close::new(code::NOT_TEXT, "the message is not UTF-8"));
        }
        Ok(Some(ClientFrame::Text(message.into())))
    }
}

impl Close {
    pub fn new(code: u16, reason: impl Into<String>) -> Close {
        Close { code, reason: reason.into() }
    }
}

/// What precedes a text message of this length in its frame.
pub fn text_header(length: usize) -> Vec<u8> {
    header(TEXT, length)
}

pub fn ping() -> Vec<u8> {
    frame(PING, b"")
}

/// The response to a ping, with its payload.
pub fn pong(payload: &[u8]) -> Vec<u8> {
    frame(PONG, &payload[..payload.len().min(MAX_CONTROL)])
}

/// A close frame; the reason is truncated to the allowed size.
pub fn close(close: &Close) -> Vec<u8> {
    let length = close.reason.floor_char_boundary(MAX_CONTROL - 2);
    let mut payload = close.code.to_be_bytes().to_vec();
    payload.extend_from_slice(&close.reason.as_bytes()[..length]);
    frame(CLOSE, &payload)
}

fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = header(opcode, payload.len());
    out.extend_from_slice(payload);
    out
}

fn header(opcode: u8, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(10);
    out.push(0x80 | opcode);
    match length {
        length @ 0..=125 => out.push(length as u8),
        length @ 126..=0xFFFF => {
            out.push(126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        length => {
            out.push(127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out
}

/// `None` when the header is incomplete.
fn head(input: &[u8]) -> Result<Option<FrameHeader>, Close> {
    let [first, second, rest @ ..] = input else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(protocol("no extension was negotiated, so the reserved bits must be 0"));
    }
    if second & 0x80 == 0 {
        return Err(protocol("a client must mask its frames"));
    }
    let extra = match second & 0x7F {
        126 => 2,
        127 => 8,
        _ => 0,
    };
    let Some((written, rest)) = rest.split_at_checked(extra) else { return Ok(None) };
    let length = match extra {
        0 => u64::from(second & 0x7F),
        _ => written.iter().fold(0, |length, &byte| length << 8 | u64::from(byte)),
    };
    if (extra == 2 && length < 126) || (extra == 8 && !(0x1_0000..1 << 63).contains(&length)) {
        return Err(protocol("a length must use the shortest encoding"));
    }
    let Some(mask) = rest.first_chunk::<4>() else { return Ok(None) };
    let size = 6 + extra;
    Ok(Some(FrameHeader { last: first & 0x80 != 0, opcode: first & 0x0F, mask: *mask, size, length }))
}

fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    for chunk in payload.chunks_mut(4) {
        for (byte, key) in chunk.iter_mut().zip(mask) {
            *byte ^= key;
        }
    }
}

fn parse_close(payload: &[u8]) -> Result<ClientFrame, Close> {
    match payload {
        [] => Ok(ClientFrame::Close(None)),
        [high, low, reason @ ..] => {
            let number = u16::from_be_bytes([*high, *low]);
            let allowed = matches!(number, 1000..=1003 | 1007..=1014 | 3000..=4999);
            if !allowed {
                return Err(protocol("a close code that must not be sent"));
            }
            if std::str::from_utf8(reason).is_err() {
                return Err(Close::new(code::NOT_TEXT, "the reason is not UTF-8"));
            }
            Ok(ClientFrame::Close(Some(number)))
        }
        [_] => Err(protocol("a close code must have two bytes")),
    }
}

fn protocol(reason: &str) -> Close {
    Close::new(code::PROTOCOL, reason)
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
