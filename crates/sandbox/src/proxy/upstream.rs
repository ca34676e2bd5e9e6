//! Resolves an allowed name and connects to it. The address that was checked is the one that is used.

use super::Refusal;
use super::rules::{HostRules, Reachable, RequestedHost, Verdict, is_allowed};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::TcpStream;

pub type Addresses<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'a>>;

/// Resolves names to addresses.
pub trait Resolve: Send + Sync {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a>;
}

/// The system's resolver.
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str, port: u16) -> Addresses<'a> {
        Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
    }
}

/// Maximum number of addresses to try.
const MAX_TRIED: usize = 8;

pub async fn connect(
    reachable: &Reachable,
    host: &str,
    port: u16,
    resolve: &dyn Resolve,
    limit: Duration,
) -> Result<TcpStream, Refusal> {
    let connected = async {
        let addresses = addresses(reachable, host, port, resolve).await?;
        if addresses.iter().any(|address| reachable.is_own(*address)) {
            let reason = format!("{host}:{port} is Toolyard itself, which no tool may call");
            return Err(forbidden(reachable, (host, port), reason, None));
        }
        let mut last = String::new();
        for address in addresses.into_iter().take(MAX_TRIED) {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.to_string(),
            }
        }
        Err(Refusal::Unreachable(format!("cannot connect to {host}:{port}: {last}")))
    };
    let late = || Refusal::Unreachable(format!("connecting to {host}:{port} timed out"));
    let result = tokio::time::timeout(limit, connected).await.unwrap_or_else(|_| Err(late()));
    if !matches!(result, Err(Refusal::Forbidden(_))) {
        let rule = HostRules::rule_for(host, port, false);
        reachable.requested.add(RequestedHost { host: format!("{host}:{port}"), refusal: None, rule });
    }
    result
}

/// A refusal by the rules, which is recorded. `rule` would allow it.
fn forbidden(
    reachable: &Reachable,
    (host, port): (&str, u16),
    reason: String,
    rule: Option<String>,
) -> Refusal {
    let host = format!("{host}:{port}");
    reachable.requested.add(RequestedHost { host, refusal: Some(reason.clone()), rule });
    Refusal::Forbidden(reason)
}

async fn addresses(
    reachable: &Reachable,
    host: &str,
    port: u16,
    resolve: &dyn Resolve,
) -> Result<Vec<SocketAddr>, Refusal> {
    let (name, private) = match reachable.hosts.verdict(host, port) {
        Verdict::Refused(reason) => {
            return Err(forbidden(reachable, (host, port), reason, HostRules::rule_for(host, port, false)));
        }
        Verdict::Addresses(addresses) => {
            return Ok(addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect());
        }
        Verdict::Name { name, private } => (name, private),
    };
    let found = resolve.resolve(&name, port).await;
    let found = found.map_err(|error| Refusal::Unreachable(format!("'{name}' has no address: {error}")))?;
    if found.is_empty() {
        return Err(Refusal::Unreachable(format!("'{name}' has no address")));
    }
    // The owner of a name can point it to any address, including this machine and its network.
    let allowed: Vec<SocketAddr> =
        found.into_iter().filter(|address| is_allowed(address.ip(), private)).collect();
    if allowed.is_empty() {
        let reason =
            format!("'{name}' has a private address; to allow it, list private:{name} in the tool's file");
        return Err(forbidden(reachable, (host, port), reason, HostRules::rule_for(&name, port, true)));
    }
    Ok(allowed)
}
