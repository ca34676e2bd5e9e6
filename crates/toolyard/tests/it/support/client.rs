//! HTTP/1.1 by hand: enough to say exactly what a well- or ill-behaved client would.

use super::{PATIENCE, planted};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One keep-alive connection.
pub struct Client {
    address: String,
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("not JSON ({error}): {}", String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Client {
    pub fn connect(address: &str) -> Client {
        Client::try_connect(address).unwrap()
    }

    /// For a server that may be dead by now.
    pub fn try_connect(address: &str) -> std::io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Ok(Client { address: address.to_owned(), reader: BufReader::new(stream) })
    }

    /// Sends without waiting. `headers` may replace the Host.
    pub fn write(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> std::io::Result<()> {
        let mut head = format!("{method} {path} HTTP/1.1\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "host") {
            head += &format!("host: {}\r\n", self.address);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        self.reader.get_mut().write_all(&bytes)
    }

    /// Reads one answer; an error when the server is gone.
    pub fn read(&mut self) -> std::io::Result<Answer> {
        let gone = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let status = self.line()?;
        let status = status.split_whitespace().nth(1).and_then(|code| code.parse().ok()).ok_or_else(gone)?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
                None => break,
            }
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.and_then(|(_, value)| value.parse().ok()).ok_or_else(gone)?;
        let mut body = vec![0; length];
        self.reader.read_exact(&mut body)?;
        planted::keep(&body);
        Ok(Answer { status, headers, body })
    }

    #[track_caller]
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        self.write(method, path, headers, body).unwrap();
        self.read().unwrap()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => {
                planted::keep(line.as_bytes());
                Ok(line.trim_end().to_owned())
            }
        }
    }
}
