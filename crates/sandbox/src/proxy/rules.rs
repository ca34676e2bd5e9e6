//! The hosts a tool may reach: `host`, `host:port`, `*.domain`, `ip:port`, `[v6]:port`, `private:host`.

use crate::is_public;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

/// Ports of a rule without a port.
const DEFAULT_PORTS: &[u16] = &[80, 443];
const MAX_RULES: usize = 256;
const MAX_REQUESTED: usize = 64;

/// The first hosts that a run asked the proxy for.
#[derive(Clone, Default)]
pub struct RequestedHosts(Arc<Mutex<Vec<RequestedHost>>>);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedHost {
    /// With its port.
    pub host: String,
    /// Why the rules refused it.
    pub refusal: Option<String>,
    /// The rule that allows it, or would; `None` if there is none.
    pub rule: Option<String>,
}

impl RequestedHosts {
    pub fn list(&self) -> Vec<RequestedHost> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    pub(super) fn add(&self, requested: RequestedHost) {
        let mut list = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if list.len() < MAX_REQUESTED && !list.contains(&requested) {
            list.push(requested);
        }
    }
}

/// What a tool may reach through the proxy.
#[derive(Clone)]
pub struct Reachable {
    pub hosts: Arc<HostRules>,
    pub requested: RequestedHosts,
    /// Whether Toolyard itself listens on a port: no rule opens it on this machine. Asked for each connection,
    /// because a server may start while the tool runs.
    pub is_own_port: Arc<dyn Fn(u16) -> bool + Send + Sync>,
}

impl Reachable {
    pub(super) fn is_own(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        (ip.is_loopback() || ip.is_unspecified()) && (self.is_own_port)(address.port())
    }
}

/// Validated rules. An empty list allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    host: HostPattern,
    /// `None` for the default ports.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Address(IpAddr),
    /// In lower case, without trailing dot. `private` names may resolve to private addresses.
    Name {
        name: String,
        private: bool,
    },
    /// Every name that ends in `.suffix`, not the suffix itself.
    Subdomains {
        suffix: String,
        private: bool,
    },
}

/// The index of an invalid entry, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleError {
    pub index: usize,
    pub message: String,
}

/// The decision of the rules on a host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Exactly these addresses; no name is resolved.
    Addresses(Vec<IpAddr>),
    /// A name to resolve. Unless `private`, only public addresses may be used.
    Name {
        name: String,
        private: bool,
    },
    Refused(String),
}

impl fmt::Display for HostRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.entries().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HostPattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            HostPattern::Address(address) => write!(f, "{address}")?,
            HostPattern::Name { name, private } => write!(f, "{}{name}", private_prefix(*private))?,
            HostPattern::Subdomains { suffix, private } => {
                write!(f, "{}*.{suffix}", private_prefix(*private))?;
            }
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

fn private_prefix(private: bool) -> &'static str {
    if private { "private:" } else { "" }
}

impl HostRules {
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<HostRules, RuleError> {
        let mut rules = Vec::new();
        for (index, entry) in entries.into_iter().enumerate() {
            let problem = |message: String| RuleError { index, message };
            if index == MAX_RULES {
                return Err(problem(format!("there are more than {MAX_RULES} hosts")));
            }
            rules.push(Rule::parse(entry).map_err(|what| problem(format!("'{entry}' {what}")))?);
        }
        Ok(HostRules(rules))
    }

    /// The rules as a tool file writes them.
    pub fn entries(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(Rule::to_string)
    }

    /// The rule that would allow a host and a port, or a name although it has a private address. `None` if there is
    /// no such rule.
    pub fn rule_for(host: &str, port: u16, private: bool) -> Option<String> {
        let port = if DEFAULT_PORTS.contains(&port) { String::new() } else { format!(":{port}") };
        let host = match address(host) {
            Some(IpAddr::V6(address)) => format!("[{address}]{port}"),
            Some(address) => format!("{address}{port}"),
            None => format!("{}{}{port}", private_prefix(private), name(host)?),
        };
        Rule::parse(&host).ok().map(|_| host)
    }

    /// Whether a rule means services on this machine's loopback interface.
    pub fn names_loopback(&self) -> bool {
        self.0.iter().any(|rule| match &rule.host {
            HostPattern::Address(address) => address.is_loopback(),
            HostPattern::Name { name, .. } => name == "localhost",
            HostPattern::Subdomains { .. } => false,
        })
    }

    pub(super) fn verdict(&self, host: &str, port: u16) -> Verdict {
        let refused = |what: &str| Verdict::Refused(format!("{host}:{port} {what}"));
        let matching = || self.0.iter().filter(|rule| rule.has_port(port));
        if let Some(address) = address(host) {
            let named = matching().any(|rule| rule.host == HostPattern::Address(address));
            return match named {
                true => Verdict::Addresses(vec![address]),
                false => refused("is not among the hosts this tool may reach"),
            };
        }
        let Some(name) = name(host) else { return refused("is not a host name") };
        if name == "localhost" {
            // Never resolved: it always means this machine.
            let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            let named = |address: &IpAddr| {
                matching().any(|rule| match &rule.host {
                    HostPattern::Address(known) => known == address,
                    HostPattern::Name { name, .. } => name == "localhost",
                    HostPattern::Subdomains { .. } => false,
                })
            };
            let addresses: Vec<IpAddr> = loopback.into_iter().filter(named).collect();
            return match addresses.is_empty() {
                true => refused("is not among the hosts this tool may reach"),
                false => Verdict::Addresses(addresses),
            };
        }
        let private = matching().filter_map(|rule| rule.host.matches(&name)).reduce(|a, b| a | b);
        match private {
            Some(private) => Verdict::Name { name, private },
            None => refused("is not among the hosts this tool may reach"),
        }
    }
}

impl Rule {
    fn parse(entry: &str) -> Result<Rule, String> {
        // `private:8080` is a host named `private`.
        let private = entry.strip_prefix("private:").filter(|rest| rest.parse::<u16>().is_err());
        let (text, private) = (private.unwrap_or(entry), private.is_some());
        if text.contains("//") || text.contains('/') {
            return Err("is not a host: remove scheme and path".to_owned());
        }
        let (host, port) = split_port(text)?;
        if let Some(address) = address(host) {
            return match private {
                true => Err("is an address, which may be private; 'private:' is for names only".to_owned()),
                false => Ok(Rule { host: HostPattern::Address(address), port }),
            };
        }
        let invalid = || {
            "is not a host name; write names in ASCII (punycode), addresses as 192.0.2.1:443 or [2001:db8::1]:443"
                .to_owned()
        };
        let host = match host.strip_prefix("*.") {
            Some(suffix) => {
                let suffix = name(suffix).ok_or_else(invalid)?;
                if !suffix.contains('.') && !private {
                    return Err("would allow a whole top-level domain".to_owned());
                }
                HostPattern::Subdomains { suffix, private }
            }
            None => HostPattern::Name { name: name(host).ok_or_else(invalid)?, private },
        };
        Ok(Rule { host, port })
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.map_or(DEFAULT_PORTS.contains(&port), |own| own == port)
    }
}

impl HostPattern {
    /// Whether the name may resolve to private addresses; `None` if it does not match.
    fn matches(&self, asked: &str) -> Option<bool> {
        match self {
            HostPattern::Address(_) => None,
            HostPattern::Name { name, private } => (name == asked).then_some(*private),
            HostPattern::Subdomains { suffix, private } => {
                let label = asked.strip_suffix(suffix.as_str())?.strip_suffix('.')?;
                (!label.is_empty()).then_some(*private)
            }
        }
    }
}

/// Splits `host:port`, `[v6]:port` and a bare IPv6 address.
pub(super) fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    if text.parse::<Ipv6Addr>().is_ok() {
        return Ok((text, None));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or("has no closing bracket")?;
            if host.parse::<Ipv6Addr>().is_err() {
                return Err("has no IPv6 address in brackets".to_owned());
            }
            match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if rest.is_empty() => (host, None),
                None => return Err("has text after ']' that is not a port".to_owned()),
            }
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let Some(port) = port else { return Ok((host, None)) };
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(number) if digits && number != 0 => Ok((host, Some(number))),
        _ => Err("has a port that is not a number from 1 to 65535".to_owned()),
    }
}

/// Parses an address; IPv4-mapped IPv6 addresses become IPv4, so that each address has one form.
fn address(host: &str) -> Option<IpAddr> {
    let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    host.parse::<IpAddr>().ok().map(|address| address.to_canonical())
}

/// Normalizes a name. Rejects a numeric last label, which some resolvers take for an address (`127.1`).
fn name(host: &str) -> Option<String> {
    let plain = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let last = plain.rsplit('.').next()?;
    let numeric = last.starts_with(|c: char| c.is_ascii_digit())
        && (last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x"));
    (plain.len() <= 253 && plain.split('.').all(label) && !numeric).then_some(plain)
}

/// Whether an address that a name resolved to may be used.
pub(super) fn is_allowed(address: IpAddr, private: bool) -> bool {
    private || is_public(address)
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RuleError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(entries: &[&str]) -> HostRules {
        HostRules::parse(entries.iter().copied()).unwrap()
    }

    #[test]
    fn each_rule_allows_only_its_own_hosts_and_ports() {
        for (rule, yes, no) in [
            (
                "api.example",
                &["api.example:443", "API.example.:80"][..],
                &["api.example:8080", "x.api.example:443", "example:443", "notapi.example:80"][..],
            ),
            ("api.example:8443", &["api.example:8443"], &["api.example:443"]),
            (
                "*.example.org",
                &["a.example.org:443", "a.b.example.org:80"],
                &["example.org:443", "aexample.org:443", "a.example.org:22", ".example.org:80"],
            ),
            ("192.0.2.7:99", &["192.0.2.7:99", "::ffff:192.0.2.7:99"], &["192.0.2.7:80", "192.0.2.8:99"]),
            ("[2001:db8::1]:99", &["2001:db8:0::1:99"], &["2001:db8::1:80", "2001:db8::2:99"]),
            ("127.0.0.1:5000", &["127.0.0.1:5000", "localhost:5000"], &["127.0.0.2:5000", "127.1:5000"]),
            ("localhost:5000", &["localhost:5000", "LOCALHOST:5000"], &["127.0.0.1:5000", "localhost:80"]),
            ("private:8080", &["private:8080"], &["private:80"]),
        ] {
            let allowed = |target: &str| {
                let (host, port) = target.rsplit_once(':').unwrap();
                !matches!(rules(&[rule]).verdict(host, port.parse().unwrap()), Verdict::Refused(_))
            };
            for target in yes {
                assert!(allowed(target), "{rule} refuses {target}");
            }
            for target in no {
                assert!(!allowed(target), "{rule} allows {target}");
            }
        }
        assert!(matches!(HostRules::default().verdict("a.example", 443), Verdict::Refused(_)));
    }

    #[test]
    fn only_private_rules_allow_private_addresses() {
        let both = rules(&["a.example", "private:b.example:80", "private:*.lan"]);
        let private = |host: &str| match both.verdict(host, 80) {
            Verdict::Name { private, .. } => private,
            other => panic!("{other:?}"),
        };
        assert_eq!((private("a.example"), private("b.example"), private("x.lan")), (false, true, true));
        assert!(!is_allowed("169.254.169.254".parse().unwrap(), false));
    }

    #[test]
    fn invalid_rules_are_reported() {
        for (bad, what) in [
            ("", "not a host name"),
            ("https://a.example", "scheme"),
            ("a.example/path", "path"),
            ("a.example:0", "port"),
            ("a.example:x", "port"),
            ("a.example:+80", "port"),
            ("a.example:70000", "port"),
            ("a b", "not a host name"),
            ("ä.example", "punycode"),
            ("*", "not a host name"),
            ("*.com", "top-level"),
            ("a.*.example", "not a host name"),
            ("[::1", "bracket"),
            ("[a.example]:80", "IPv6"),
            ("[::1]80", "not a port"),
            ("127.1:80", "not a host name"),
            ("0x7f000001", "not a host name"),
            ("private:10.0.0.1:80", "an address"),
            ("user@a.example", "not a host name"),
        ] {
            let problem = HostRules::parse(["ok.example", bad]).unwrap_err();
            assert!(problem.index == 1 && problem.message.contains(what), "{bad:?}: {problem}");
        }
    }
}
