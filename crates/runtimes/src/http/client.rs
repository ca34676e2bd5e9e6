//! The HTTP clients: one for public addresses only, one for tools that may reach private hosts.

use super::UrlTemplate;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect};
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_sandbox::is_public;

/// Created on first use, because loading the system's certificates is slow and most yards need no client.
#[derive(Default)]
pub struct Clients {
    public: OnceLock<Result<Client, String>>,
    private: OnceLock<Result<Client, String>>,
}

impl Clients {
    pub fn get(&self, allow_private: bool) -> Result<&Client, String> {
        let slot = if allow_private { &self.private } else { &self.public };
        slot.get_or_init(|| build(allow_private)).as_ref().map_err(Clone::clone)
    }
}

fn build(allow_private: bool) -> Result<Client, String> {
    // Fails if a provider is already installed, which is fine.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = Client::builder()
        .user_agent(concat!("toolyard/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(redirect::Policy::custom(same_host))
        .connect_timeout(Duration::from_secs(10))
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(16);
    let builder = if allow_private { builder } else { builder.dns_resolver(Arc::new(PublicResolver)) };
    builder.build().map_err(|error| error.to_string())
}

/// Rejects redirects to another host, which would receive headers and body.
fn same_host(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let target = attempt.url();
    let origin = |url: &reqwest::Url| {
        (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
    };
    let same = attempt.previous().last().is_some_and(|from| origin(from) == origin(target));
    if !same {
        let message =
            format!("a redirect to another host ({}) is not followed", target.host_str().unwrap_or("?"));
        return attempt.error(message);
    }
    if attempt.previous().len() > 5 {
        return attempt.error("more than 5 redirects");
    }
    attempt.follow()
}

/// Resolves names to public addresses only; the address that is checked is the one that is used.
struct PublicResolver;

impl Resolve for PublicResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let public: Vec<SocketAddr> =
                found.iter().copied().filter(|address| is_public(address.ip())).collect();
            if public.is_empty() {
                let what = if found.is_empty() { "has no address" } else { "is on a private network" };
                return Err(format!("'{host}' {what}").into());
            }
            let addresses: Addrs = Box::new(public.into_iter());
            Ok(addresses)
        })
    }
}

/// Converts a failed request to an error of the error table.
pub fn explain(error: &reqwest::Error, url: &UrlTemplate) -> Error {
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        reason = inner.to_string();
        source = inner.source();
    }
    let host = url.host();
    if reason.contains("private network") {
        return Error::new(ErrorKind::Forbidden, format!("access to {host} is denied: {reason}"))
            .hint("set allowPrivate: true in the tool's file to allow it");
    }
    if error.is_redirect() {
        return Error::new(ErrorKind::ToolFailed, format!("{host} answered with a redirect: {reason}"));
    }
    Error::new(ErrorKind::Unavailable, format!("the request to {host} failed: {reason}"))
}
