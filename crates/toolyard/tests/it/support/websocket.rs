//! A minimal WebSocket client that can violate the protocol.

use super::client::{Client, HttpResponse};
use super::planted;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

pub struct WebSocket {
    reader: BufReader<TcpStream>,
}

/// What the server sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    Text(String),
    Ping,
    Pong(Vec<u8>),
    Close(u16, String),
    /// The connection is closed.
    End,
}

impl WebSocket {
    pub const HEADERS: [(&'static str, &'static str); 5] = [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-protocol", "mcp"),
    ];

    #[track_caller]
    pub fn connect(address: &str) -> WebSocket {
        let (answer, socket) = WebSocket::try_connect(address, &WebSocket::HEADERS);
        assert_eq!(answer.status, 101, "{answer:?}");
        assert_eq!(answer.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert_eq!(answer.header("sec-websocket-protocol"), Some("mcp"));
        socket
    }

    /// With exactly these headers.
    pub fn try_connect(address: &str, headers: &[(&str, &str)]) -> (HttpResponse, WebSocket) {
        let mut client = Client::connect(address);
        client.write("GET", "/ws", headers, b"").unwrap();
        let answer = client.head().unwrap();
        (answer, WebSocket { reader: client.into_reader() })
    }

    /// A masked client frame; `first` is the byte with FIN, RSV and opcode.
    pub fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![first];
        match payload.len() {
            length @ 0..126 => out.push(0x80 | length as u8),
            length @ 126..0x1_0000 => {
                out.push(0x80 | 126);
                out.extend_from_slice(&(length as u16).to_be_bytes());
            }
            length => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(length as u64).to_be_bytes());
            }
        }
        let mask = [7, 77, 177, 27];
        out.extend_from_slice(&mask);
        out.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at % 4]));
        out
    }

    pub fn text(text: impl AsRef<[u8]>) -> Vec<u8> {
        WebSocket::frame(0x81, text.as_ref())
    }

    /// Fails when the server is gone or does not read.
    pub fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    pub fn read(&mut self) -> Frame {
        self.try_read().unwrap_or(Frame::End)
    }

    pub fn set_timeouts(&self, timeout: Duration) {
        self.reader.get_ref().set_read_timeout(Some(timeout)).unwrap();
        self.reader.get_ref().set_write_timeout(Some(timeout)).unwrap();
    }

    /// The same connection, to write while another thread reads.
    pub fn writer(&self) -> TcpStream {
        self.reader.get_ref().try_clone().unwrap()
    }

    /// Closes the connection without a close frame.
    pub fn hang_up(self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Both);
    }

    fn try_read(&mut self) -> std::io::Result<Frame> {
        let mut head = [0; 2];
        self.reader.read_exact(&mut head)?;
        assert_eq!(head[1] & 0x80, 0, "a server never masks");
        assert_eq!(head[0] & 0x80, 0x80, "ours are whole");
        let mut long = vec![0; [0, 2, 8][usize::from(head[1].saturating_sub(125))]];
        self.reader.read_exact(&mut long)?;
        let length = match head[1] {
            126 | 127 => long.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
            short => usize::from(short),
        };
        let mut payload = vec![0; length];
        self.reader.read_exact(&mut payload)?;
        planted::record_output(&payload);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(match head[0] & 0x0F {
            1 => Frame::Text(text(&payload)),
            8 => Frame::Close(u16::from_be_bytes([payload[0], payload[1]]), text(&payload[2..])),
            9 => Frame::Ping,
            10 => Frame::Pong(payload),
            other => panic!("opcode {other}"),
        })
    }
}
