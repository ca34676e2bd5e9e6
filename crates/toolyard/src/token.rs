//! The yard's token, which tells its owner from other users and programs of this machine.

use crate::config::Config;
use crate::wiring::{GlobalOptions, private_file};
use reqwest::Url;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
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
    parse(&file(state), &private_file(&file(state), fresh)?)
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

/// The token to send to a server: `TOOLYARD_TOKEN`, else that of the yard in whose folder the user is, if the
/// server is one of the same user.
pub fn for_server(global: &GlobalOptions, url: &Url) -> Result<Option<String>, Error> {
    if let Some(token) = std::env::var_os("TOOLYARD_TOKEN").filter(|token| !token.is_empty()) {
        let token =
            token.into_string().ok().filter(|token| token.bytes().all(|byte| byte.is_ascii_graphic()));
        let invalid =
            || Error::new(ErrorKind::InvalidInput, "TOOLYARD_TOKEN is not a token: it must be visible ASCII");
        return token.map(Some).ok_or_else(invalid);
    }
    if !is_our_server(url) {
        return Ok(None);
    }
    let Ok(root) = global.root() else { return Ok(None) };
    let env: Vec<_> = std::env::vars_os().collect();
    let file = file(&Config::load(&root, &env)?.state_dir(&root));
    match std::fs::read(&file) {
        Ok(content) => parse(&file, &content).map(Some),
        Err(_) => Ok(None),
    }
}

/// Whether a process of this user, or of root, listens at a loopback address: another user could wait there
/// for the token.
fn is_our_server(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let Some(port) = url.port_or_known_default().filter(|_| is_loopback) else { return false };
    let Ok(us) = std::fs::metadata("/proc/self").map(|own| own.uid()) else { return false };
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(std::fs::read_to_string);
    let mut owners = tables.iter().flatten().flat_map(|table| listeners(table, port)).peekable();
    owners.peek().is_some() && owners.all(|owner| owner == us || owner == 0)
}

/// The users that listen on a port, from a table of `/proc/net`.
fn listeners(table: &str, port: u16) -> impl Iterator<Item = u32> {
    const LISTEN: &str = "0A";
    table.lines().skip(1).filter_map(move |line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
        let is_match = u16::from_str_radix(local_port, 16).ok()? == port && fields.get(3) == Some(&LISTEN);
        if is_match { fields.get(7)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_that_listen_on_a_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:0D05 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 123 1\n\
            1: 0100007F:0D05 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 124 1\n\
            2: 0100007F:0D06 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 125 1\n";
        assert_eq!(listeners(table, 3333).collect::<Vec<_>>(), [1000], "an open connection is no listener");
        assert_eq!(listeners(table, 3334).collect::<Vec<_>>(), [0]);
        assert_eq!(listeners(table, 3335).count(), 0);
    }

    #[test]
    fn only_a_server_of_this_user_on_this_machine_gets_the_token() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for (url, gets_it) in [
            (format!("http://127.0.0.1:{port}"), true),
            (format!("http://localhost:{port}/x"), true),
            (format!("http://192.0.2.1:{port}"), false),
            (format!("http://localhost.example:{port}"), false),
        ] {
            assert_eq!(is_our_server(&Url::parse(&url).unwrap()), gets_it, "{url}");
        }
        drop(listener);
        assert!(!is_our_server(&Url::parse(&format!("http://127.0.0.1:{port}")).unwrap()), "nobody listens");
    }
}
