//! `[server]`: where to listen and how patient to be.

use super::shown;
use std::net::SocketAddr;
use std::time::Duration;
use toolyard_runtimes::builtin::Setting;
use toolyard_wire::doc::Fields;

pub struct Server {
    pub listen: SocketAddr,
    pub max_connections: usize,
    pub max_body: usize,
    pub drain: Duration,
}

impl Default for Server {
    fn default() -> Server {
        Server {
            listen: SocketAddr::from(([127, 0, 0, 1], 3333)),
            max_connections: 10_000,
            max_body: 4 << 20,
            drain: Duration::from_secs(10),
        }
    }
}

impl Server {
    pub fn read(&mut self, fields: &mut Fields<'_>) {
        if let Some((text, place)) = fields.placed_text("listen") {
            match parse_listen(text) {
                Ok(listen) => self.listen = listen,
                Err(what) => fields.problem(place, what, "for example listen = \"127.0.0.1:3333\""),
            }
        }
        if let Some(value) = fields.integer("max_connections", 1..=1_000_000) {
            self.max_connections = value as usize;
        }
        if let Some(value) = fields.integer("max_body", 1..=1 << 30) {
            self.max_body = value as usize;
        }
        if let Some(value) = fields.integer("drain_ms", 0..=3_600_000) {
            self.drain = Duration::from_millis(value);
        }
    }

    pub fn settings(&self) -> Vec<(&'static str, Setting)> {
        vec![
            ("listen", shown::text(self.listen)),
            ("max_connections", shown::number(self.max_connections)),
            ("max_body", shown::number(self.max_body)),
            ("drain_ms", shown::milliseconds(self.drain)),
        ]
    }
}

/// Without authentication only this machine may reach us.
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
