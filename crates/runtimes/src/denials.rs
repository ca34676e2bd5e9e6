//! Explains a failed run: what the sandbox refused, and the line to add to the tool's file.
//!
//! The proxy knows what it refused. The kernel tells nobody else which file or system call it refused to a tool, so the
//! rest is read from what the tool printed: an error text of the C library and a path or host beside it. Only what is
//! known of the sandbox is stated. Whether a path exists outside is not: a tool must not learn that from an error.

use crate::declaration::Declaration;
use crate::grants::Places;
use crate::sandbox_builder::{NetworkPolicy, SandboxRequest};
use std::path::{Component, Path, PathBuf};
use toolyard_sandbox::proxy::RequestedHost;
use toolyard_sandbox::{Confinement, Launcher, SandboxLevel};

/// Explanations of one failure.
const MAX: usize = 5;
/// Lines of the tool's output that are looked at, from the end.
const MAX_LINES: usize = 60;
/// Lines before an error text that may name its path.
const NEAR: usize = 4;

/// What a tool printed that means a refusal. In lower case.
const CAUSES: [(Cause, &[&str]); 6] = [
    (Cause::ReadOnly, &["read-only file system", "erofs", "readonlyfilesystemexception"]),
    (Cause::Missing, &["no such file", "enoent", "nosuchfileexception"]),
    (Cause::Denied, &["permission denied", "eacces", "accessdeniedexception"]),
    (Cause::NoSpace, &["no space left on device", "enospc"]),
    (
        Cause::NoNetwork,
        &[
            "network is unreachable",
            "enetunreach",
            "address family not supported",
            "eafnosupport",
            "name resolution",
            "name or service not known",
            "could not resolve",
            "couldn't resolve",
            "unable to resolve",
            "eai_again",
            "enotfound",
            "unknownhostexception",
            "getaddrinfo",
            "no address associated",
            "dial tcp: lookup",
        ],
    ),
    (Cause::NotPermitted, &["operation not permitted", "eperm"]),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    ReadOnly,
    Missing,
    Denied,
    NoSpace,
    NoNetwork,
    NotPermitted,
}

/// One run that failed.
pub struct FailedRun<'a> {
    pub confinement: &'a Confinement,
    pub request: &'a SandboxRequest,
    pub places: &'a Places,
    pub launcher: &'a Launcher,
    /// The tool's file, relative to the yard.
    pub source: &'a str,
    pub requested_hosts: Vec<RequestedHost>,
}

/// Something that the sandbox refused.
#[derive(PartialEq)]
struct Denial {
    /// What was refused, as a sentence.
    what: String,
    remedy: Remedy,
}

#[derive(PartialEq)]
enum Remedy {
    Read(PathBuf),
    Write(PathBuf),
    Host(String),
    Tmp(u64),
    /// There is no line that would help.
    Advice(String),
}

impl FailedRun<'_> {
    /// The explanation, if the sandbox has to do with it. `texts` are what the tool printed.
    pub fn explain(&self, texts: &[&str]) -> Option<String> {
        if self.confinement.level == SandboxLevel::None {
            return None;
        }
        let mut found: Vec<Denial> = self.requested_hosts.iter().filter_map(refused_by_proxy).collect();
        let is_refused = !found.is_empty();
        let lines: Vec<&str> = texts.iter().flat_map(|text| text.lines().rev().take(MAX_LINES)).collect();
        let before = |index: usize| &lines[(index + 1).min(lines.len())..(index + 1 + NEAR).min(lines.len())];
        let denials = lines.iter().enumerate().filter_map(|(index, line)| self.denial(line, before(index)));
        for denial in denials {
            // Of the network, the proxy knows more than the tool.
            let is_host = matches!(denial.remedy, Remedy::Host(_)) && is_refused;
            let known = found.iter_mut().find(|known| known.what == denial.what);
            match known {
                _ if is_host => {}
                // A line helps more than advice.
                Some(known) if matches!(known.remedy, Remedy::Advice(_)) => known.remedy = denial.remedy,
                Some(known) if known.remedy == denial.remedy => {}
                Some(_) if matches!(denial.remedy, Remedy::Advice(_)) => {}
                _ => found.push(denial),
            }
        }
        found.truncate(MAX);
        let mut declaration = Declaration::of(self.request);
        for denial in &found {
            match &denial.remedy {
                Remedy::Read(path) => declaration.read(path),
                Remedy::Write(path) => declaration.write(path),
                Remedy::Host(host) => declaration.host(host),
                Remedy::Tmp(bytes) => declaration.tmp = Some(*bytes),
                Remedy::Advice(_) => {}
            }
        }
        let mut words: Vec<String> = Vec::new();
        for denial in found {
            words.push(match denial.remedy {
                Remedy::Advice(advice) => format!("{}; {advice}", denial.what),
                _ => denial.what,
            });
        }
        words.dedup();
        let lines = declaration.lines(self.source);
        if !lines.is_empty() {
            let place = match self.request.is_declared {
                true => format!("if it needs that, write under 'sandbox' in {}", self.source),
                false => format!("if it needs that, add to {}", self.source),
            };
            words.push(format!("{place}: {lines}"));
        }
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// `before` are the lines before it, which may name the path; the last one first.
    fn denial(&self, line: &str, before: &[&str]) -> Option<Denial> {
        let lower = line.to_ascii_lowercase();
        let has = |texts: &&[&str]| texts.iter().any(|text| lower.contains(text));
        let (cause, _) = CAUSES.iter().find(|(_, texts)| has(texts))?;
        match cause {
            Cause::NoNetwork => self.no_network(line),
            Cause::NotPermitted => Some(Denial {
                what: "the sandbox refuses privileged system calls (mount, ptrace, namespaces, other owners)"
                    .to_owned(),
                remedy: Remedy::Advice("only a tool with 'sandbox: none' can make them".to_owned()),
            }),
            Cause::NoSpace => self.no_space(line),
            Cause::Missing | Cause::Denied | Cause::ReadOnly => {
                let found = |line: &str| paths(line).into_iter().find_map(|path| self.of_path(*cause, &path));
                // Rust programs put the cause on a line of its own.
                let is_alone = || paths(line).is_empty();
                found(line).or_else(|| before.iter().filter(|_| is_alone()).find_map(|line| found(line)))
            }
        }
    }

    fn of_path(&self, cause: Cause, path: &str) -> Option<Denial> {
        let full: PathBuf = self.places.root.join(path).components().collect();
        if full.components().any(|part| part == Component::ParentDir) || self.is_writable(&full) {
            return None;
        }
        let is_shown = self.is_shown(&full);
        if self.is_private(&full) {
            // Its own file may be missing, or one of the machine's `/tmp` was meant.
            return (cause == Cause::Missing && !full.starts_with("/tmp/home") && full != Path::new("/tmp"))
                .then(|| self.hidden(&full));
        }
        match cause {
            Cause::Missing if !is_shown => Some(self.hidden(&full)),
            // With namespaces, a path that is not granted does not exist, and this is about its permissions.
            Cause::Denied if self.confinement.level == SandboxLevel::Full => None,
            Cause::Denied if !is_shown => Some(self.hidden(&full)),
            Cause::Denied | Cause::ReadOnly if self.places.is_inside_yard(&full) || !is_shown => {
                Some(self.not_writable(&full))
            }
            Cause::ReadOnly => Some(self.not_writable(&full)),
            _ => None,
        }
    }

    fn hidden(&self, path: &Path) -> Denial {
        let what = match self.is_private(path) {
            true => format!(
                "the sandbox does not show {} of this machine: the tool has a /tmp of its own",
                path.display()
            ),
            false => format!("the sandbox does not show {} to this tool", path.display()),
        };
        let remedy = match self.places.refusal(path, false, None) {
            Some(why) => Remedy::Advice(format!("it cannot be granted: it {why}")),
            None => Remedy::Read(path.to_owned()),
        };
        Denial { what, remedy }
    }

    /// The folder is granted, because the file may not exist yet.
    fn not_writable(&self, path: &Path) -> Denial {
        let is_folder = self.places.is_inside_yard(path) && path.is_dir();
        let folder = if is_folder { path } else { path.parent().unwrap_or(path) };
        let what = format!("the sandbox does not let this tool write {}", self.shown(path).display());
        let remedy = match self.places.refusal(folder, true, None) {
            Some(why) => Remedy::Advice(format!(
                "{} cannot be granted: it {why}. Write to $TMPDIR, or to a folder such as data with 'fs: {{write: [data]}}'",
                self.shown(folder).display()
            )),
            None => Remedy::Write(self.shown(folder)),
        };
        Denial { what, remedy }
    }

    /// As a tool file writes it: relative to the yard if it is inside.
    fn shown(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.places.root) {
            Ok(below) if below.as_os_str().is_empty() => PathBuf::from("."),
            Ok(below) => below.to_owned(),
            Err(_) => path.to_owned(),
        }
    }

    fn is_writable(&self, path: &Path) -> bool {
        let mut granted = self.confinement.grants.iter().filter(|grant| grant.writable);
        granted.any(|grant| path.starts_with(&grant.path))
    }

    /// In the private `/tmp`.
    fn is_private(&self, path: &Path) -> bool {
        let is_tmp = path.starts_with("/tmp") && !self.places.is_inside_yard(path);
        self.confinement.level == SandboxLevel::Full && is_tmp && !self.is_shown(path)
    }

    fn is_shown(&self, path: &Path) -> bool {
        let granted = self.confinement.grants.iter().map(|grant| &grant.path);
        let mut shown = self.confinement.read.iter().chain(granted);
        let is_hidden = self.confinement.hidden.iter().any(|hidden| path.starts_with(hidden));
        !is_hidden && (shown.any(|shown| path.starts_with(shown)) || self.launcher.shows(path))
    }

    fn no_network(&self, line: &str) -> Option<Denial> {
        let what = match self.request.network {
            NetworkPolicy::Allow => return None,
            NetworkPolicy::Deny => "the sandbox gives this tool no network",
            NetworkPolicy::Hosts(_) => {
                "the sandbox gives this tool no network but the proxy that HTTPS_PROXY names"
            }
        };
        let remedy = match (host(line), &self.request.network) {
            (Some(host), NetworkPolicy::Deny) => Remedy::Host(host),
            (None, NetworkPolicy::Deny) => Remedy::Advice(
                "list the hosts that it needs, such as 'network: [api.example.com]'".to_owned(),
            ),
            _ => Remedy::Advice(
                "let it use the proxy, or write 'network: allow' if it cannot use one".to_owned(),
            ),
        };
        Some(Denial { what: what.to_owned(), remedy })
    }

    fn no_space(&self, line: &str) -> Option<Denial> {
        let bytes = self.confinement.tmp_bytes;
        let is_elsewhere = paths(line).iter().any(|path| {
            path.starts_with('/') && !["/tmp", "/var/tmp", "/dev/shm"].iter().any(|tmp| path.starts_with(tmp))
        });
        (self.confinement.level == SandboxLevel::Full && !is_elsewhere).then(|| Denial {
            what: format!("the private /tmp and HOME of this tool hold {bytes} bytes"),
            remedy: Remedy::Tmp(bytes.saturating_mul(4).min(1 << 36)),
        })
    }
}

fn refused_by_proxy(requested: &RequestedHost) -> Option<Denial> {
    let what = format!("the sandbox refused a connection: {}", requested.refusal.as_ref()?);
    let remedy = match &requested.rule {
        Some(rule) => Remedy::Host(rule.clone()),
        None => Remedy::Advice("no tool may connect there".to_owned()),
    };
    Some(Denial { what, remedy })
}

/// What may be a path on the line: quoted texts, and words with a slash; those next to the error text first.
fn paths(line: &str) -> Vec<String> {
    let mut found: Vec<&str> = Vec::new();
    for (open, close) in [('\'', '\''), ('"', '"'), ('‘', '’'), ('`', '\''), ('`', '`')] {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once(open) {
            let Some((text, left)) = after.split_once(close) else { break };
            found.push(text);
            rest = left;
        }
    }
    let separators = |c: char| c.is_whitespace() || "'\"‘’`()[]{}<>,;=".contains(c);
    let words = line.split(separators).map(|word| word.trim_end_matches([':', '.']));
    found.extend(words.filter(|word| word.contains('/')));
    // A text with spaces is a path only if it is absolute.
    found.retain(|text| {
        let is_word = text.starts_with('/') || !text.contains(char::is_whitespace);
        !text.is_empty() && text.len() < 4096 && !text.contains("://") && text.trim() == *text && is_word
    });
    let lower = line.to_ascii_lowercase();
    let error = CAUSES.iter().flat_map(|(_, texts)| *texts).filter_map(|text| lower.find(text)).min();
    let distance = |text: &str| line.find(text).unwrap_or(0).abs_diff(error.unwrap_or(0));
    found.sort_by_key(|text| (!text.contains('/'), distance(text)));
    // A pattern that matched nothing: its folder is meant.
    let folder = |text: &str| {
        text.split_once('*')
            .and_then(|(before, _)| before.rsplit_once('/'))
            .map(|(folder, _)| folder.to_owned())
    };
    found.into_iter().map(|text| folder(text).unwrap_or_else(|| text.to_owned())).collect()
}

/// A host name on the line, with its port unless it is that of the web.
fn host(line: &str) -> Option<String> {
    let separators = |c: char| c.is_whitespace() || "'\"‘’`()[]{}<>,;=@/".contains(c);
    let words = line.split(separators).map(|word| word.trim_end_matches([':', '.', '!']));
    words.filter_map(host_of_word).next()
}

fn host_of_word(word: &str) -> Option<String> {
    let (name, port) = match word.split_once(':') {
        Some((name, port)) => (name, Some(port.parse::<u16>().ok()?)),
        None => (word, None),
    };
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let last = name.rsplit('.').next()?;
    // Not a file name, an exception's name or a version.
    let is_known =
        !["py", "js", "mjs", "cjs", "ts", "rb", "php", "pl", "go", "rs", "java", "c", "sh", "so", "c:", "h"]
            .contains(&last);
    let is_top = last.len() >= 2 && last.bytes().all(|byte| byte.is_ascii_lowercase()) && is_known;
    if !name.contains('.') || !is_top || !name.split('.').all(is_label) || name != name.to_ascii_lowercase() {
        return None;
    }
    let first = name.split('.').next()?;
    if ["java", "javax", "socket", "urllib", "requests", "http", "net", "sun"].contains(&first) {
        return None;
    }
    Some(match port {
        None | Some(80 | 443) => name.to_owned(),
        Some(port) => format!("{name}:{port}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_the_messages_of_every_language() {
        for line in [
            "PermissionError: [Errno 13] Permission denied: '/x/y z'",
            "touch: cannot touch '/x/y z': Read-only file system",
            "mkdir: cannot create directory ‘/x/y z’: Read-only file system",
            "Error: ENOENT: no such file or directory, open '/x/y z'",
        ] {
            assert_eq!(paths(line).first().map(String::as_str), Some("/x/y z"), "{line}");
        }
        for line in [
            "cat: /x/y: No such file or directory",
            "sh: 1: cannot create /x/y: Read-only file system",
            "a.rb:1:in `initialize': No such file or directory @ rb_sysopen - /x/y (Errno::ENOENT)",
            "PHP Warning:  file_get_contents(/x/y): Failed to open stream: No such file or directory in Command line code on line 1",
            "java.nio.file.NoSuchFileException: /x/y",
            "open /x/y: no such file or directory",
            "Exception in thread \"main\" java.io.FileNotFoundException: /x/y (No such file or directory)",
        ] {
            assert_eq!(paths(line).first().map(String::as_str), Some("/x/y"), "{line}");
        }
        assert_eq!(paths("touch: cannot touch 'data/x': Read-only file system")[0], "data/x");
    }

    #[test]
    fn hosts_are_found_in_the_messages_of_every_program() {
        for (line, expected) in [
            ("curl: (6) Could not resolve host: api.example.com", Some("api.example.com")),
            (
                "fatal: unable to access 'https://git.example.com/x.git/': Could not resolve host: git.example.com",
                Some("git.example.com"),
            ),
            ("Error: getaddrinfo EAI_AGAIN api.example.com", Some("api.example.com")),
            (
                "dial tcp: lookup api.example.com on 127.0.0.1:53: read: connection refused",
                Some("api.example.com"),
            ),
            ("java.net.UnknownHostException: api.example.com", Some("api.example.com")),
            ("connect to db.example.com:5432: Network is unreachable", Some("db.example.com:5432")),
            ("wget: unable to resolve host address ‘api.example.com’", Some("api.example.com")),
            ("socket.gaierror: [Errno -3] Temporary failure in name resolution", None),
            ("OSError: [Errno 101] Network is unreachable", None),
            ("  File \"/usr/lib/python3.11/urllib/request.py\", getaddrinfo", None),
        ] {
            assert_eq!(host(line).as_deref(), expected, "{line}");
        }
    }
}
