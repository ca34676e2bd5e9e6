//! Transports with one open connection: legacy HTTP+SSE and WebSocket.

use super::transport::Transport;
use crate::support::{Client, Frame, TIMEOUT, WebSocket};
use serde_json::Value;
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// `GET /sse`, and a POST for each message.
pub struct Events {
    address: String,
    /// The path to POST to, as announced on the stream.
    endpoint: String,
    stream: TcpStream,
    output: Receiver<Value>,
}

impl Events {
    pub fn connect(address: &str) -> Events {
        let mut client = Client::connect(address);
        client.write("GET", "/sse", &[("accept", "text/event-stream")], b"").unwrap();
        let head = client.head().unwrap();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        let (name, endpoint) = client.named_event().unwrap().expect("an event");
        assert_eq!(name, "endpoint");
        assert!(endpoint.starts_with("/messages?sessionId="), "{endpoint}");
        let stream = client.connection();
        let (into, output) = channel();
        std::thread::spawn(move || {
            while let Ok(Some((_, data))) = client.named_event() {
                let message = serde_json::from_str(&data).unwrap_or(Value::String(data));
                if into.send(message).is_err() {
                    return;
                }
            }
        });
        Events { address: address.to_owned(), endpoint, stream, output }
    }

    fn post(&self, message: &str) -> u16 {
        let headers = [("content-type", "application/json")];
        Client::connect(&self.address).send("POST", &self.endpoint, &headers, message.as_bytes()).status
    }
}

impl Transport for Events {
    fn send(&mut self, message: &Value) {
        assert_eq!(self.post(&message.to_string()), 202, "{message}");
    }

    fn receive(&mut self, until: Instant) -> Option<Value> {
        self.output.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
    }

    fn close(self: Box<Self>) -> (Vec<Value>, Result<(), String>) {
        let _ = self.stream.shutdown(Shutdown::Both);
        let until = Instant::now() + TIMEOUT;
        let ended = loop {
            match self.post("") {
                404 => break Ok(()),
                202 if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                other => break Err(format!("after the end of the stream a POST gives {other}")),
            }
        };
        (self.output.iter().collect(), ended)
    }
}

/// `/ws`
pub struct Socket {
    writer: TcpStream,
    output: Receiver<Received>,
    /// How the server closed the connection.
    last: Option<Frame>,
}

enum Received {
    Message(Value),
    Last(Frame),
}

impl Socket {
    pub fn connect(address: &str) -> Socket {
        let mut socket = WebSocket::connect(address);
        let writer = socket.writer();
        let (into, output) = channel();
        std::thread::spawn(move || {
            loop {
                let received = match socket.read() {
                    Frame::Text(text) => {
                        Received::Message(serde_json::from_str(&text).unwrap_or(Value::String(text)))
                    }
                    Frame::Ping => {
                        let _ = socket.write(&WebSocket::frame(0x8A, b""));
                        continue;
                    }
                    Frame::Pong(_) => continue,
                    last => Received::Last(last),
                };
                let over = matches!(received, Received::Last(_));
                if into.send(received).is_err() || over {
                    return;
                }
            }
        });
        Socket { writer, output, last: None }
    }
}

impl Transport for Socket {
    fn send(&mut self, message: &Value) {
        // A dead server shows as a missing response.
        let _ = self.writer.write_all(&WebSocket::text(message.to_string()));
    }

    fn receive(&mut self, until: Instant) -> Option<Value> {
        match self.output.recv_timeout(until.saturating_duration_since(Instant::now())).ok()? {
            Received::Message(message) => Some(message),
            Received::Last(frame) => {
                self.last = Some(frame);
                None
            }
        }
    }

    fn close(mut self: Box<Self>) -> (Vec<Value>, Result<(), String>) {
        let _ = self.writer.write_all(&WebSocket::frame(0x88, &1000u16.to_be_bytes()));
        let mut rest = Vec::new();
        for received in self.output.iter() {
            match received {
                Received::Message(message) => rest.push(message),
                Received::Last(frame) => self.last = Some(frame),
            }
        }
        let ended = match self.last {
            Some(Frame::Close(1000, _)) => Ok(()),
            other => Err(format!("the server closed with {other:?}")),
        };
        (rest, ended)
    }
}
