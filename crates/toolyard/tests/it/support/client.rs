//! A minimal HTTP/1.1 client that sends exactly the given bytes, valid or not.

use super::{TIMEOUT, planted};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

/// One keep-alive connection.
pub struct Client {
    address: String,
    reader: BufReader<TcpStream>,
}

#[derive(Debug)]
pub struct HttpResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl HttpResponse {
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

    /// For a server that may no longer run.
    pub fn try_connect(address: &str) -> std::io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
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

    /// Reads one response; an error when the server is gone.
    pub fn read(&mut self) -> std::io::Result<HttpResponse> {
        let mut answer = self.head()?;
        let length = answer.header("content-length").and_then(|value| value.parse().ok());
        answer.body = vec![0; length.ok_or(std::io::ErrorKind::UnexpectedEof)?];
        self.reader.read_exact(&mut answer.body)?;
        planted::record_output(&answer.body);
        Ok(answer)
    }

    /// The response without its body, which is a stream.
    pub fn head(&mut self) -> std::io::Result<HttpResponse> {
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
        Ok(HttpResponse { status, headers, body: Vec::new() })
    }

    /// The next message of an event stream; `None` at its end.
    pub fn event(&mut self) -> Option<Value> {
        let (_, data) = self.named_event().unwrap()?;
        Some(serde_json::from_str(&data).unwrap())
    }

    /// The next event with its name and data; `None` at the end, an error when the connection was reset.
    pub fn named_event(&mut self) -> std::io::Result<Option<(String, String)>> {
        let mut text = String::new();
        loop {
            let size = self.line()?;
            let size = usize::from_str_radix(&size, 16).unwrap();
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk)?;
            planted::record_output(&chunk);
            text += std::str::from_utf8(&chunk[..size]).unwrap();
            // A long event has several chunks.
            if size > 0 && !text.ends_with("\n\n") {
                continue;
            }
            let text = std::mem::take(&mut text);
            let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            match field("data: ").filter(|data| !data.is_empty()) {
                Some(data) => return Ok(Some((field("event: ").unwrap_or_default().into(), data.into()))),
                None if size == 0 => return Ok(None),
                None => {}
            }
        }
    }

    /// The connection itself, for another protocol.
    pub fn into_reader(self) -> BufReader<TcpStream> {
        self.reader
    }

    /// The same connection, to end it while another thread reads.
    pub fn connection(&self) -> TcpStream {
        self.reader.get_ref().try_clone().unwrap()
    }

    #[track_caller]
    pub fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> HttpResponse {
        self.write(method, path, headers, body).unwrap();
        self.read().unwrap()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        match self.reader.read_line(&mut line)? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => {
                planted::record_output(line.as_bytes());
                Ok(line.trim_end().to_owned())
            }
        }
    }
}
