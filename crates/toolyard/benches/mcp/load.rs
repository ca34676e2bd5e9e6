//! The load: keep-alive connections that send one request after the other, from a separate process.

use crate::BoxError;
use std::io::{BufRead, BufReader, Error, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

pub const CONNECTIONS: usize = 32;
pub const REQUESTS: usize = 1000;

#[derive(Clone)]
pub struct Load {
    pub headers: String,
    pub body: &'static str,
}

pub struct Answer {
    pub session: Option<String>,
    pub body: Vec<u8>,
}

impl Load {
    /// Checks that the response is the echo, so that no refusal is measured.
    pub fn check(&self, address: &str) -> Result<(), BoxError> {
        let answer = Connection::open(address)?.send(&self.headers, self.body)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        if text.contains(r#""structuredContent":{"message":"hello, world"}"#) {
            return Ok(());
        }
        Err(format!("{address} answered {text}").into())
    }
}

/// Returns the median latency of a request in microseconds.
pub fn run(arguments: &[String]) -> Result<f64, BoxError> {
    let [address, headers, body] = arguments else { return Err("address, headers, body".into()) };
    let mut waits = std::thread::scope(|scope| {
        let each = || -> Result<Vec<f64>, Error> {
            let mut connection = Connection::open(address)?;
            let mut waits = Vec::with_capacity(REQUESTS);
            for _ in 0..REQUESTS {
                let sent = Instant::now();
                connection.send(headers, body)?;
                waits.push(sent.elapsed().as_secs_f64() * 1e6);
            }
            Ok(waits)
        };
        let threads: Vec<_> = (0..CONNECTIONS).map(|_| scope.spawn(each)).collect();
        let mut waits = Vec::new();
        for thread in threads {
            waits.extend(thread.join().map_err(|_| "a connection panicked")??);
        }
        Ok::<_, BoxError>(waits)
    })?;
    Ok(crate::median(&mut waits))
}

pub struct Connection(BufReader<TcpStream>);

impl Connection {
    pub fn open(address: &str) -> Result<Connection, Error> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Connection(BufReader::new(stream)))
    }

    pub fn send(&mut self, headers: &str, body: &str) -> Result<Answer, Error> {
        let length = body.len();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        );
        self.0.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut length, mut session) = (String::new(), None, None);
        self.0.read_line(&mut line)?;
        if !line.starts_with("HTTP/1.1 200") {
            return Err(Error::other(line));
        }
        loop {
            line.clear();
            self.0.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().ok(),
                "mcp-session-id" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let length = length.ok_or_else(|| Error::other("an answer without a length: a stream?"))?;
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        Ok(Answer { session, body })
    }
}
