//! `[server]`: listen address, limits and timeouts.

use super::view;
use std::net::SocketAddr;
use std::time::Duration;
use toolyard_formats::doc::Fields;
use toolyard_runtimes::builtin::Setting;

#[derive(Clone)]
pub struct Server {
    pub listen: SocketAddr,
    pub max_connections: usize,
    pub max_connections_per_peer: usize,
    pub max_header: usize,
    pub max_headers: usize,
    pub max_body: usize,
    pub max_sessions: usize,
    pub max_queued: usize,
    pub max_queued_bytes: usize,
    pub max_buffered_bytes: usize,
    pub session_idle: Duration,
    pub header_timeout: Duration,
    pub stalled: Duration,
    pub ping: Duration,
    pub drain: Duration,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: SocketAddr::from(([127, 0, 0, 1], 3333)),
            max_connections: 10_000,
            max_connections_per_peer: 9_000,
            max_header: 64 << 10,
            max_headers: 100,
            max_body: 4 << 20,
            max_sessions: 20_000,
            max_queued: 1000,
            max_queued_bytes: 64 << 20,
            max_buffered_bytes: 256 << 20,
            session_idle: Duration::from_secs(30 * 60),
            header_timeout: Duration::from_secs(10),
            stalled: Duration::from_secs(60),
            ping: Duration::from_secs(20),
            drain: Duration::from_secs(10),
        }
    }
}

impl Server {
    /// The part of `max_buffered_bytes` for outputs of tools until their responses are written.
    pub fn max_output_bytes(&self) -> usize {
        self.max_buffered_bytes / 8
    }

    pub fn read(&mut self, fields: &mut Fields<'_>) {
        if let Some((text, position)) = fields.text_with_position("listen") {
            match parse_listen(text) {
                Ok(listen) => self.listen = listen,
                Err(what) => fields.problem(position, what, "for example listen = \"127.0.0.1:3333\""),
            }
        }
        let mut number = |name, range, value_ref: &mut usize| {
            if let Some(value) = fields.integer(name, range) {
                *value_ref = value as usize;
            }
        };
        number("max_connections", 1..=1_000_000, &mut self.max_connections);
        number("max_connections_per_peer", 1..=1_000_000, &mut self.max_connections_per_peer);
        // The HTTP library requires at least 8,192.
        number("max_header", 8192..=1 << 20, &mut self.max_header);
        number("max_headers", 1..=1000, &mut self.max_headers);
        number("max_body", 1..=1 << 30, &mut self.max_body);
        number("max_sessions", 1..=1_000_000, &mut self.max_sessions);
        number("max_queued", 1..=1_000_000, &mut self.max_queued);
        number("max_queued_bytes", 1..=1 << 30, &mut self.max_queued_bytes);
        number("max_buffered_bytes", 1 << 20..=1 << 40, &mut self.max_buffered_bytes);
        let mut time = |name, range, value_ref: &mut Duration| {
            *value_ref = fields.duration(name, range).unwrap_or(*value_ref);
        };
        let (ms, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        time("session_idle", Duration::from_secs(1)..=hour * 24 * 7, &mut self.session_idle);
        time("header_timeout", ms..=hour, &mut self.header_timeout);
        time("stalled", ms..=hour, &mut self.stalled);
        time("ping", ms..=hour, &mut self.ping);
        time("drain", Duration::ZERO..=hour, &mut self.drain);
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![
            ("listen", view::text(self.listen)),
            ("max_connections", view::number(self.max_connections)),
            ("max_connections_per_peer", view::number(self.max_connections_per_peer)),
            ("max_header", view::number(self.max_header)),
            ("max_headers", view::number(self.max_headers)),
            ("max_body", view::number(self.max_body)),
            ("max_sessions", view::number(self.max_sessions)),
            ("max_queued", view::number(self.max_queued)),
            ("max_queued_bytes", view::number(self.max_queued_bytes)),
            ("max_buffered_bytes", view::number(self.max_buffered_bytes)),
            ("session_idle", view::duration(self.session_idle)),
            ("header_timeout", view::duration(self.header_timeout)),
            ("stalled", view::duration(self.stalled)),
            ("ping", view::duration(self.ping)),
            ("drain", view::duration(self.drain)),
        ]
    }
}

/// Accepts loopback addresses only, because there is no authentication.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let text = text.replace("localhost:", "127.0.0.1:");
    let listen: SocketAddr = text.parse().map_err(|_| format!("'{text}' is not an address with a port"))?;
    if !listen.ip().is_loopback() {
        return Err(format!(
            "{listen} can be reached from other machines, and there is no authentication yet"
        ));
    }
    Ok(listen)
}
