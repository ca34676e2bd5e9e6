//! Makes languages and programs use the proxy of a list of hosts: variables, and small files that Node.js and PHP load.

use std::ffi::{OsStr, OsString};
use toolyard_sandbox::proxy::{self, HostRules};
use toolyard_sandbox::{PROXY_PORT, ProvidedFile};

/// Node.js before 22.21 and 24.5 ignores the variables.
const NODE: ProvidedFile =
    ProvidedFile { path: "/run/toolyard/proxy.cjs", content: include_bytes!("node.cjs") };
/// PHP has no variable for its streams.
const PHP: ProvidedFile =
    ProvidedFile { path: "/run/toolyard/proxy.php", content: include_bytes!("default_context.php") };
const PHP_INI: ProvidedFile = ProvidedFile {
    path: "/run/toolyard/php/proxy.ini",
    content: b"auto_prepend_file = /run/toolyard/proxy.php\n",
};

/// Programs that have no setting for a proxy.
const WITHOUT_PROXY: [&str; 18] = [
    "psql",
    "pg_dump",
    "pg_restore",
    "mysql",
    "mysqldump",
    "mariadb",
    "redis-cli",
    "mongosh",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "nc",
    "telnet",
    "ping",
    "dig",
    "nslookup",
    "ftp",
];

pub fn files() -> Vec<ProvidedFile> {
    vec![NODE, PHP, PHP_INI]
}

/// The variables for a tool with this list. `passed` finds those that its file passes on, which are kept where a
/// variable holds several settings.
pub fn environment<'a>(
    rules: &HostRules,
    passed: impl Fn(&str) -> Option<&'a OsStr>,
) -> Vec<(OsString, OsString)> {
    let mut env = proxy::environment(PROXY_PORT, rules);
    let direct = if rules.names_loopback() { "" } else { "localhost|127.0.0.1|[::1]" };
    let java = format!(
        "-Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort={PROXY_PORT} -Dhttps.proxyHost=127.0.0.1 \
         -Dhttps.proxyPort={PROXY_PORT} -Dhttp.nonProxyHosts={direct}"
    );
    for (name, separator, value) in [
        ("NODE_OPTIONS", " ", format!("--require={}", NODE.path)),
        ("JAVA_TOOL_OPTIONS", " ", java),
        // The empty element stands for PHP's own folder.
        ("PHP_INI_SCAN_DIR", ":", "/run/toolyard/php".to_owned()),
    ] {
        let mut all = passed(name).unwrap_or_default().to_owned();
        if !all.is_empty() || separator == ":" {
            all.push(separator);
        }
        all.push(value);
        env.push((name.into(), all));
    }
    env.extend(
        [("NODE_USE_ENV_PROXY", "1"), ("PERL_LWP_ENV_PROXY", "1")]
            .map(|(name, value)| (name.into(), value.into())),
    );
    env
}

/// What the owner of a tool with a list of hosts should know of its program.
pub enum Remark {
    /// It ignores the proxy altogether.
    Ignores(String),
    /// Part of it does.
    Partly(String),
}

pub fn remark(program: &str) -> Option<Remark> {
    let name = program.rsplit('/').next().unwrap_or(program);
    if WITHOUT_PROXY.contains(&name) {
        return Some(Remark::Ignores(format!(
            "'{name}' cannot use a proxy, so that it does not reach the hosts listed under 'network'; it needs 'network: allow'"
        )));
    }
    let is_php = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') == "php";
    is_php.then(|| {
        Remark::Partly(
            "it reaches the hosts listed under 'network' with curl and with streams of the default context; a context of its own needs ['http' => ['proxy' => 'tcp://127.0.0.1:3128', 'request_fulluri' => true]]"
                .to_owned(),
        )
    })
}
