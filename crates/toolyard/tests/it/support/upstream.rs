//! A small HTTP server that returns a given response and records the requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Returns the same response to every request.
pub struct Upstream {
    pub port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Upstream {
    /// `answer` is a whole HTTP response; the connection is closed after it.
    pub fn answering(answer: impl Into<String>) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (answer, requests) = (answer.into(), seen.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (answer, requests) = (answer.clone(), requests.clone());
                std::thread::spawn(move || serve(stream, &answer, &requests));
            }
        });
        Upstream { port, seen }
    }

    pub fn json(body: &str) -> Upstream {
        Upstream::answering(response("200 OK", "application/json", body))
    }

    /// The requests so far, head and body unchanged.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

pub fn response(status: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn serve(mut stream: TcpStream, answer: &str, seen: &Mutex<Vec<String>>) {
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut request = Vec::new();
    let mut buffer = [0u8; 4096];
    while !is_whole(&request) {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(n) => request.extend_from_slice(&buffer[..n]),
        }
    }
    seen.lock().unwrap().push(String::from_utf8_lossy(&request).into_owned());
    // The client may have closed the connection.
    let _ = stream.write_all(answer.as_bytes());
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).into_owned();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase().strip_prefix("content-length:").map(|n| n.trim().parse::<usize>().unwrap())
    });
    body.len() >= length.unwrap_or(0)
}
