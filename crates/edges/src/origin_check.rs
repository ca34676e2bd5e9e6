//! Keeps web pages out: a browser tricked into calling us (DNS rebinding, cross-site requests) is refused.

use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// The refusal of a request whose Host, or whose Origin if it has one, does not name this machine.
pub fn reject_non_local<B>(request: &Request<B>) -> Option<Response> {
    let what = refusal(request.headers(), request.uri().host())?;
    Some((StatusCode::FORBIDDEN, format!("{what}\n")).into_response())
}

fn refusal(headers: &HeaderMap, uri_host: Option<&str>) -> Option<&'static str> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = text(header::HOST).or(uri_host);
    if !host.is_some_and(|host| is_local(strip_port(host))) {
        return Some("the Host header does not name this machine; use localhost or 127.0.0.1");
    }
    if headers.get_all(header::HOST).iter().count() > 1 {
        return Some("there is more than one Host header");
    }
    let origin = text(header::ORIGIN)?;
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    (!host.is_some_and(|host| is_local(strip_port(host))))
        .then_some("requests from other origins are refused")
}

fn strip_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

fn is_local(host: &str) -> bool {
    matches!(host, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_pass() {
        for (host, origin, passes) in [
            (Some("localhost:3333"), None, true),
            (Some("127.0.0.1"), None, true),
            (Some("[::1]:3333"), Some("http://localhost:5173"), true),
            (None, None, false),
            (Some("evil.example"), None, false),
            (Some("localhost.evil.example"), None, false),
            (Some("127.0.0.1:3333@evil.example"), None, false),
            (Some("localhost:3333"), Some("https://evil.example"), false),
            (Some("localhost:3333"), Some("null"), false),
            (Some("localhost:3333"), Some("http://localhost.evil.example"), false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(host) = host {
                headers.insert(header::HOST, host.parse().unwrap());
            }
            if let Some(origin) = origin {
                headers.insert(header::ORIGIN, origin.parse().unwrap());
            }
            assert_eq!(refusal(&headers, None).is_none(), passes, "{host:?} {origin:?}");
        }
    }
}
