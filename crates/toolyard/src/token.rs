//! The yard's token, which tells its owner from other users and programs of this machine.

use crate::config::Config;
use crate::private_file;
use crate::servers;
use crate::state_folder::{self, Found};
use crate::wiring::GlobalOptions;
use reqwest::Url;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toolyard_engine::clock::Random;
use toolyard_protocol::text::push_hex;
use toolyard_protocol::{Error, ErrorKind};

/// Digits of a token: 32 random bytes.
const LENGTH: usize = 64;

fn file(state: &Path) -> PathBuf {
    state.join("token")
}

/// The token of the yard with this state folder, which must exist.
pub fn read_or_create(state: &Path, random: &dyn Random) -> Result<String, Error> {
    let fresh = || {
        let (mut bytes, mut digits) = ([0; LENGTH / 2], Vec::new());
        random.fill(&mut bytes);
        push_hex(&mut digits, &bytes);
        digits
    };
    parse(&file(state), &private_file::read_or_create(&file(state), fresh)?)
}

fn parse(file: &Path, content: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(content).unwrap_or_default().trim_end();
    if text.len() == LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_owned());
    }
    let message = format!("{} does not contain a token of {LENGTH} hexadecimal digits", file.display());
    Err(Error::new(ErrorKind::Unavailable, message)
        .hint("remove the file; 'toolyard serve' creates a new one"))
}

/// The token for a server, and the address to which alone it may be sent, if that is known.
pub struct ServerToken {
    pub token: String,
    pub address: Option<SocketAddr>,
}

/// The token to send to a server: `TOOLYARD_TOKEN`, else that of the yard in whose folder the user is, if a
/// server of that yard listens there.
pub fn for_server(global: &GlobalOptions, url: &Url) -> Result<Option<ServerToken>, Error> {
    if let Some(token) = std::env::var_os("TOOLYARD_TOKEN").filter(|token| !token.is_empty()) {
        let token =
            token.into_string().ok().filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        let invalid =
            || Error::new(ErrorKind::InvalidInput, "TOOLYARD_TOKEN is not a token: it must be visible ASCII");
        return token.map(|token| Some(ServerToken { token, address: None })).ok_or_else(invalid);
    }
    let Ok(root) = global.root() else { return Ok(None) };
    let env: Vec<_> = std::env::vars_os().collect();
    let state = Config::load(&root, &env)?.state_dir(&root);
    // A token that came with a download is known to others.
    if state_folder::check(&root, &state) != Ok(Found::Own) {
        return Ok(None);
    }
    let Some(address) = servers::live(&state).into_iter().find(|server| is_at(url, *server)) else {
        return Ok(None);
    };
    let Some(content) = private_file::read(&file(&state))? else { return Ok(None) };
    Ok(Some(ServerToken { token: parse(&file(&state), &content)?, address: Some(address) }))
}

/// Whether the URL names the address of the server. `localhost` is any loopback address: the caller connects to
/// that of the server.
fn is_at(url: &Url, server: SocketAddr) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_host = match host {
        "localhost" => server.ip().is_loopback(),
        host => host.parse() == Ok(server.ip()),
    };
    is_host && url.port_or_known_default() == Some(server.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_that_of_a_server_by_its_very_address() {
        for (url, server, is_its) in [
            ("http://127.0.0.1:3333/x", "127.0.0.1:3333", true),
            ("http://localhost:3333", "127.0.0.1:3333", true),
            ("http://localhost:3333", "[::1]:3333", true),
            ("http://[::1]:3333", "[::1]:3333", true),
            ("http://127.0.0.1", "127.0.0.1:80", true),
            ("http://127.0.0.1:3334", "127.0.0.1:3333", false),
            ("http://localhost:3334", "127.0.0.1:3333", false),
            ("http://127.0.0.2:3333", "127.0.0.1:3333", false),
            ("http://[::1]:3333", "127.0.0.1:3333", false),
            ("http://localhost.example:3333", "127.0.0.1:3333", false),
        ] {
            assert_eq!(is_at(&Url::parse(url).unwrap(), server.parse().unwrap()), is_its, "{url} {server}");
        }
    }
}
