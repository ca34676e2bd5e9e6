//! WebSocket frames of a client, in pieces of any size, and the server's frames read back.

use super::{Target, kind_of, target};
use toolyard_wire::websocket::{self, ClientFrame, Close, FrameLimits, FrameReader};

const LIMITS: FrameLimits = FrameLimits { message: 10_000, parts: 20 };
const MASK: [u8; 4] = [0x11, 0x22, 0x33, 0x44];

pub fn targets() -> Vec<Target> {
    vec![target("websocket", websocket)]
}

/// The client's messages and control frames, and the error that ends the connection, if there is one.
type Received = (Vec<ClientFrame>, Option<Close>);

fn websocket(input: &[u8]) -> u64 {
    let whole = receive(input.chunks(input.len().max(1)));
    assert_eq!(whole, receive(input.chunks(1)), "single bytes give other frames");
    let size = input.first().map_or(1, |first| usize::from(*first) + 2);
    assert_eq!(whole, receive(input.chunks(size)), "pieces of {size} bytes give other frames");
    for frame in &whole.0 {
        read_back(frame);
    }
    // The input as the text of a message, and as the reason of a close frame.
    read_back(&ClientFrame::Text(input.to_vec().into()));
    let reason = String::from_utf8_lossy(input).into_owned();
    let closing = masked(&websocket::close(&Close::new(websocket::code::POLICY, reason)));
    assert_eq!(
        receive([closing.as_slice()]),
        (vec![ClientFrame::Close(Some(websocket::code::POLICY))], None)
    );
    let close = whole.1.map_or(0, |close| kind_of(&close.reason).wrapping_add(close.code.into()));
    close.wrapping_mul(31).wrapping_add(whole.0.len().min(5) as u64)
}

fn receive<'i>(pieces: impl IntoIterator<Item = &'i [u8]>) -> Received {
    let mut reader = FrameReader::new(LIMITS);
    let mut frames = Vec::new();
    for piece in pieces {
        reader.input().extend_from_slice(piece);
        loop {
            match reader.take() {
                Ok(Some(frame)) => {
                    if let ClientFrame::Text(text) = &frame {
                        assert!(text.len() <= LIMITS.message, "a message of {} bytes", text.len());
                        assert!(std::str::from_utf8(text).is_ok(), "a message that is not UTF-8");
                    }
                    frames.push(frame);
                }
                Ok(None) => break,
                Err(close) => return (frames, Some(close)),
            }
        }
    }
    (frames, None)
}

/// Writes a frame as the server does, masks it as a client does, and reads it again.
fn read_back(frame: &ClientFrame) {
    let (written, expected) = match frame {
        ClientFrame::Text(text) if text.len() > LIMITS.message || std::str::from_utf8(text).is_err() => {
            return;
        }
        ClientFrame::Text(text) => {
            ([websocket::text_header(text.len()), text.to_vec()].concat(), frame.clone())
        }
        ClientFrame::Ping(payload) => (websocket::pong(payload), ClientFrame::Pong),
        ClientFrame::Pong | ClientFrame::Close(_) => return,
    };
    assert_eq!(receive([masked(&written).as_slice()]), (vec![expected], None));
}

/// The server's frame as a client would send it.
fn masked(frame: &[u8]) -> Vec<u8> {
    let header = match frame.get(1) {
        Some(126) => 4,
        Some(127) => 10,
        _ => 2,
    };
    let mut out = frame[..header].to_vec();
    out[1] |= 0x80;
    out.extend_from_slice(&MASK);
    out.extend(frame[header..].iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}
