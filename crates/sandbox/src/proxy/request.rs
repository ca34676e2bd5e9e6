//! Reads and strictly parses the head of a proxy request, within bounds.

use super::rules::split_port;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

const MAX_HEAD: usize = 16 << 10;

#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    pub host: String,
    pub port: u16,
    pub kind: RequestKind,
    /// Bytes received after the head.
    pub rest: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// `CONNECT`: bytes both ways.
    Tunnel,
    /// One request in origin form, and the length of its body.
    Forward { head: Vec<u8>, body: u64 },
}

/// The caller sets the timeout. `Err` is the reason as text.
pub async fn read(client: &mut TcpStream) -> Result<Request, String> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 2048];
    loop {
        // The terminator may span two reads.
        let seen = bytes.len().saturating_sub(3);
        let count = client.read(&mut chunk).await.map_err(|error| error.to_string())?;
        if count == 0 {
            return Err("the request ends before its header is complete".to_owned());
        }
        bytes.extend_from_slice(&chunk[..count]);
        if let Some(end) = bytes[seen..].windows(4).position(|window| window == b"\r\n\r\n") {
            let rest = bytes.split_off(seen + end + 4);
            return if bytes.len() > MAX_HEAD { Err(too_long()) } else { parse(&bytes, rest) };
        }
        if bytes.len() > MAX_HEAD {
            return Err(too_long());
        }
    }
}

fn too_long() -> String {
    format!("the request header is longer than {MAX_HEAD} bytes")
}

fn parse(head: &[u8], rest: Vec<u8>) -> Result<Request, String> {
    let malformed = || "not an HTTP/1.1 proxy request".to_owned();
    let head = std::str::from_utf8(head).map_err(|_| malformed())?;
    let mut lines = head.strip_suffix("\r\n\r\n").ok_or_else(malformed)?.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(malformed());
    };
    let headers = lines.map(header).collect::<Option<Vec<_>>>().ok_or_else(malformed)?;
    // A control character could end the line for the server, and a space the path.
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the target of the request has a character that must be percent-encoded".to_owned());
    }
    if method == "CONNECT" {
        let (host, port) = authority(target)?;
        let port = port.ok_or("CONNECT needs host:port")?;
        return Ok(Request { host, port, kind: RequestKind::Tunnel, rest });
    }
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-') {
        return Err(malformed());
    }
    let Some(url) = target.strip_prefix("http://").or_else(|| target.strip_prefix("HTTP://")) else {
        return Err("only CONNECT and absolute http:// URLs are supported".to_owned());
    };
    let end = url.find(['/', '?', '#']).unwrap_or(url.len());
    let (host_port, path) = url.split_at(end);
    let (host, port) = authority(host_port)?;
    let body = body_length(&headers)?;
    let head = origin_form(method, host_port, path, &headers);
    Ok(Request { host, port: port.unwrap_or(80), kind: RequestKind::Forward { head, body }, rest })
}

/// Rejects folded lines and names with spaces, which two parsers may read differently (request smuggling).
fn header(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let clean = |byte: u8| byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
    let ok = !name.is_empty() && name.bytes().all(token) && value.bytes().all(clean);
    ok.then(|| (name, value.trim_matches([' ', '\t'])))
}

fn authority(text: &str) -> Result<(String, Option<u16>), String> {
    let visible = |byte: u8| byte.is_ascii_graphic();
    if text.is_empty() || text.contains('@') || !text.bytes().all(visible) {
        return Err("the request has no valid host".to_owned());
    }
    let (host, port) = split_port(text).map_err(|what| format!("the host of the request {what}"))?;
    Ok((host.to_owned(), port))
}

fn body_length(headers: &[(&str, &str)]) -> Result<u64, String> {
    if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("transfer-encoding")) {
        return Err("Transfer-Encoding is not supported: send Content-Length or use CONNECT".to_owned());
    }
    let mut lengths = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let Some((_, first)) = lengths.next() else { return Ok(0) };
    let digits = !first.is_empty() && first.bytes().all(|byte| byte.is_ascii_digit());
    match first.parse() {
        Ok(length) if digits && lengths.next().is_none() => Ok(length),
        _ => Err("the Content-Length of the request is invalid".to_owned()),
    }
}

/// Headers that are not forwarded. `Host` is derived from the checked URL, not from the client's header.
const HOP_BY_HOP_HEADERS: &[&str] = &[
    "host",
    "connection",
    "proxy-connection",
    "proxy-authorization",
    "proxy-authenticate",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
];

fn origin_form(method: &str, host_port: &str, path: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let path = path.split('#').next().unwrap_or_default();
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut head = format!("{method} {slash}{path} HTTP/1.1\r\nHost: {host_port}\r\nConnection: close\r\n");
    let listed: Vec<String> = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("connection"))
        .flat_map(|(_, value)| value.split(',').map(|word| word.trim().to_ascii_lowercase()))
        .collect();
    for (name, value) in headers {
        let plain = name.to_ascii_lowercase();
        let framing = plain == "content-length";
        if !HOP_BY_HOP_HEADERS.contains(&plain.as_str()) && (framing || !listed.contains(&plain)) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    head.push_str("\r\n");
    head.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_and_rewritten() {
        let tunnel = parse(b"CONNECT a.example:443 HTTP/1.1\r\nHost: b\r\n\r\n", b"x".to_vec()).unwrap();
        assert_eq!((tunnel.host.as_str(), tunnel.port, tunnel.kind), ("a.example", 443, RequestKind::Tunnel));
        let head = b"POST http://a.example:81?q=1#f HTTP/1.1\r\nHost: evil\r\nProxy-Authorization: x\r\n\
            Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nContent-Length: 5\r\nX: y\r\n\r\n";
        let request = parse(head, Vec::new()).unwrap();
        let RequestKind::Forward { head, body } = request.kind else { panic!("a tunnel") };
        assert_eq!((request.host.as_str(), request.port, body), ("a.example", 81, 5));
        let expected = "POST /?q=1 HTTP/1.1\r\nHost: a.example:81\r\nConnection: close\r\nContent-Length: 5\r\nX: y\r\n\r\n";
        assert_eq!(String::from_utf8(head).unwrap(), expected);
        let v6 = parse(b"GET http://[::1]/ HTTP/1.0\r\n\r\n", Vec::new()).unwrap();
        assert_eq!((v6.host.as_str(), v6.port), ("::1", 80));
    }

    #[test]
    fn ambiguous_requests_are_rejected() {
        for bad in [
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET https://a.example/ HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/2\r\n\r\n",
            "GET http://a.example/  HTTP/1.1\r\n\r\n",
            "GET http://a.example/\tx HTTP/1.1 y\r\n\r\n",
            "GET http://u:p@a.example/ HTTP/1.1\r\n\r\n",
            "GET http:/// HTTP/1.1\r\n\r\n",
            "get http://a.example/ HTTP/1.1\r\n\r\n",
            "CONNECT a.example HTTP/1.1\r\n\r\n",
            "CONNECT a.example:0 HTTP/1.1\r\n\r\n",
            "CONNECT http://a.example:80 HTTP/1.1\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA : b\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
            "GET http://a.example/ HTTP/1.1\r\nA: b\nHost: c\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n",
        ] {
            assert!(parse(bad.as_bytes(), Vec::new()).is_err(), "{bad:?} was accepted");
        }
        assert!(parse(b"GET http://a.example/\xff HTTP/1.1\r\n\r\n", Vec::new()).is_err());
        let target = "the target of the request has a character that must be percent-encoded";
        for bad in ["/\rX:y", "/\nX:y", "/a\tb", "/\0", "/\x7f", "/\u{e9}", "?a\r"] {
            let request = format!("GET http://a.example{bad} HTTP/1.1\r\n\r\n");
            assert_eq!(parse(request.as_bytes(), Vec::new()).unwrap_err(), target, "{bad:?}");
        }
    }
}
