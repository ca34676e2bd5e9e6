//! The escape suite: every known way out of the sandbox, attempted by a tool at each level that claims to stop
//! it, as root and as an ordinary user. The table in `docs/sandbox.md` lists the attempts.

use crate::support::{RunAs, Server, Yard, assert_no_survivor, marker};
use serde_json::{Value, json};
use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::time::Duration;

const CODE: &str = include_str!("attempts.py");

/// Attempt, description, and whether Landlock and seccomp alone claim to stop it.
const ATTEMPTS: &[(&str, &str, bool)] = &[
    ("read_outside", "read a file outside the yard", true),
    ("write_outside", "write a file outside the yard", true),
    ("write_the_yard", "write into the yard without asking for it", true),
    ("list_the_state_folder", "see the names in the state folder", false),
    ("read_the_state_folder", "read what the state folder holds", true),
    ("read_the_home_folder", "read the owner's home", true),
    ("read_shadow", "read `/etc/shadow`", true),
    ("other_environments", "read another process's environment", true),
    ("peek_through_proc", "reach files through `/proc/PID/root`", true),
    ("change_kernel_settings", "write below `/proc/sys` or `/sys`", true),
    ("trace_another_process", "ptrace another process", true),
    ("signal_another_process", "signal a process outside", true),
    ("tcp", "connect by TCP", true),
    ("udp", "send by UDP", true),
    ("dns", "ask a name server", true),
    ("raw_sockets", "open a raw or packet socket", true),
    ("unix_socket_by_path", "connect to a UNIX socket outside", true),
    ("unix_socket_by_abstract_name", "connect to an abstract UNIX socket", true),
    ("new_namespaces", "make namespaces", true),
    ("mount", "mount or unmount", true),
    ("bpf", "call bpf", true),
    ("keyrings", "use the kernel's keyrings", true),
    ("fork_bomb", "fork without end", true),
    ("memory_bomb", "take memory without end", true),
    ("fill_the_disk", "fill the disk", true),
    ("through_a_symlink", "reach outside through a symbolic link of its own", true),
    ("through_a_hard_link", "reach outside through a hard link of its own", true),
    ("leaked_descriptors", "find a descriptor it was not given", true),
    ("setuid_programs", "gain rights from a setuid program", true),
];

/// A yard with an attacking tool, and files, sockets and processes that it must not reach.
struct Fixture {
    yard: Yard,
    server: Server,
    outside: PathBuf,
    marker: String,
    tcp: TcpListener,
    udp: UdpSocket,
    _sockets: [UnixListener; 2],
}

impl Fixture {
    fn new(run_as: RunAs, level: &str) -> Fixture {
        let yard = Yard::of(run_as);
        let marker = marker();
        let outside = std::env::temp_dir().join(format!("outside-{marker}"));
        fs::create_dir(&outside).unwrap();
        fs::set_permissions(&outside, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(outside.join("note"), "not for tools").unwrap();
        yard.file("data/.keep", "").file("tools/attack.py", CODE);
        yard.file(
            "tools/attack.tool.yaml",
            "id: attack\nkind: python\nentry: tools.attack:run\ntimeoutMs: 20000\n\
             sandbox: {fs: {write: [data]}, memory: 100000000, processes: 40, tmp: 1048576}\n",
        );
        yard.file("toolyard.toml", format!("[sandbox]\nlevel = \"{level}\"\n"));
        fs::write(yard.home().join("private"), "not for tools").unwrap();
        // A setuid copy of `id`, which would print root's uid.
        fs::copy("/usr/bin/id", yard.path("id-with-setuid")).unwrap();
        fs::set_permissions(yard.path("id-with-setuid"), fs::Permissions::from_mode(0o4755)).unwrap();
        let by_path = UnixListener::bind(outside.join("socket")).unwrap();
        fs::set_permissions(outside.join("socket"), fs::Permissions::from_mode(0o777)).unwrap();
        let by_name = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&marker).unwrap()).unwrap();
        let mut command = yard.command();
        command.env("PLANTED", &marker).args(["serve", "--listen", "127.0.0.1:0"]);
        let server = Server::start(command);
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        udp.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        Fixture { yard, server, outside, marker, tcp, udp, _sockets: [by_path, by_name] }
    }

    /// Whether the attempt escaped, and its response.
    fn escapes(&self, how: &str) -> (bool, Value) {
        let port = match how {
            "udp" => self.udp.local_addr().unwrap().port(),
            _ => self.tcp.local_addr().unwrap().port(),
        };
        let fixture = json!({
            "how": how,
            "outside": self.outside,
            "home": self.yard.home(),
            "marker": self.marker,
            "port": port,
            "pid": self.server.pid(),
        });
        let answer = self.server.post("attack", fixture.to_string()).json();
        let arrived = how == "udp" && self.udp.recv(&mut [0; 16]).is_ok();
        // A bomb may be killed; every other attempt must finish and report that it failed.
        let bomb = matches!(how, "fork_bomb" | "memory_bomb" | "fill_the_disk");
        assert!(bomb || answer["error"].is_null(), "{how} broke: {answer}");
        let escaped = answer["error"].is_null() && answer["body"]["escaped"] != json!(false);
        (escaped || arrived, answer)
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.outside);
    }
}

/// The page lists the attempts and what each level claims; the tests below check the claims.
#[test]
fn the_table_in_the_guide_lists_the_attempts() {
    let mut table = "| attempt | full | landlock |\n|---|---|---|\n".to_owned();
    for (_, what, landlock) in ATTEMPTS {
        let word = |stopped: bool| if stopped { "stopped" } else { "possible" };
        table += &format!("| {what} | {} | {} |\n", word(true), word(*landlock));
    }
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sandbox.md");
    let text = fs::read_to_string(&page).unwrap();
    let (head, rest) = text.split_once("<!-- table -->\n").expect("the mark before the table");
    let tail = rest
        .trim_start_matches('\n')
        .lines()
        .skip_while(|line| line.starts_with('|'))
        .collect::<Vec<_>>()
        .join("\n");
    let wanted = format!("{head}<!-- table -->\n\n{table}\n{}\n", tail.trim_start());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&page, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&page).unwrap(), wanted, "run the tests with UPDATE_GOLDEN=1");
}

#[test]
fn tools_that_cannot_be_sandboxed_are_refused_unless_the_yard_allows_them() {
    let yard = Yard::new();
    yard.file(
        "tools/t.tool.yaml",
        "id: t\nkind: cli\nentry: [echo, '1']\nsandbox: {network: [example.com]}\n",
    );
    yard.file("toolyard.toml", "[sandbox]\nlevel = \"landlock\"\n");
    let checked = yard.run(&["check"]).expect(3).stdout;
    assert!(
        checked.contains("cannot be sandboxed on this machine: a list of hosts needs a network namespace"),
        "{checked}"
    );
    yard.file("toolyard.toml", "[sandbox]\nlevel = \"landlock\"\nwhen_unavailable = \"run unconfined\"\n");
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("note: ") && checked.contains("as toolyard.toml allows"), "{checked}");
    assert_eq!(yard.serve().post("t", "{}").json()["meta"]["sandbox"], "none");
    for (wrong, what) in [
        ("sandbox: {network: egress-proxy}", "names no hosts"),
        ("sandbox: {network: ['https://x']}", "is not a host"),
        ("sandbox: {fs: {write: ['/']}}", "would expose too much"),
        ("sandbox: {fs: {read: ['../x']}}", "contains '..'"),
        ("sandbox: {fs: {read: [/proc/1]}}", "belongs to the kernel"),
        ("sandbox: {memmory: 5}", "did you mean"),
        ("sandbox: off", "must be 'none' or a map"),
    ] {
        yard.file("tools/t.tool.yaml", format!("id: t\nkind: cli\nentry: [echo, '1']\n{wrong}\n"));
        let checked = yard.run(&["check"]).expect(3).stdout;
        assert!(checked.contains(what), "{wrong}: {checked}");
    }
}

fn attempts_at(level: &str, claims: impl Fn(bool) -> bool) {
    for run_as in RunAs::all() {
        let fixture = Fixture::new(run_as, level);
        let (_, first) = fixture.escapes("read_outside");
        assert_eq!(first["meta"]["sandbox"], *level, "{run_as:?}: {first}");
        let mut out = Vec::new();
        for (how, what, claimed) in ATTEMPTS {
            if claims(*claimed) {
                let (escaped, answer) = fixture.escapes(how);
                if escaped {
                    out.push(format!("{what} ({how}): {answer}"));
                }
            }
        }
        assert!(out.is_empty(), "{level}, {run_as:?}: {} got out:\n{}", out.len(), out.join("\n"));
        assert!(!fixture.outside.join("written").exists() && !fixture.yard.path("written").exists());
        let marker = fixture.marker.clone();
        drop(fixture);
        assert_no_survivor(&marker, Duration::from_secs(5));
    }
}

#[test]
fn nothing_escapes_the_full_sandbox() {
    attempts_at("full", |_| true);
}

#[test]
fn nothing_gets_past_landlock_and_seccomp_that_they_claim_to_stop() {
    attempts_at("landlock", |claimed| claimed);
}

/// Positive control: without a sandbox most attempts succeed.
#[test]
fn without_a_sandbox_the_attempts_succeed() {
    let fixture = Fixture::new(RunAs::CurrentUser, "full");
    let file = fixture.yard.path("tools/attack.tool.yaml");
    let text = fs::read_to_string(&file).unwrap();
    let open = text.lines().filter(|line| !line.starts_with("sandbox")).collect::<Vec<_>>().join("\n");
    fs::write(&file, open + "\nsandbox: none\n").unwrap();
    let again = fixture.yard.serve();
    for how in [
        "read_outside",
        "write_outside",
        "read_the_state_folder",
        "read_the_home_folder",
        "tcp",
        "signal_another_process",
    ] {
        let attempt_json = json!({"how": how, "outside": fixture.outside, "home": fixture.yard.home(), "marker": fixture.marker,
            "port": fixture.tcp.local_addr().unwrap().port(), "pid": again.pid()});
        let answer = again.post("attack", attempt_json.to_string()).json();
        // The pid namespace of the process tree hides other processes even then.
        let expected = how != "signal_another_process";
        assert_eq!(answer["body"]["escaped"], json!(expected), "{how}: {answer}");
    }
}

#[test]
fn a_list_of_hosts_opens_those_hosts_and_no_other() {
    let allowed = crate::support::Upstream::json("{\"reached\": true}");
    let other = crate::support::Upstream::json("{}");
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let code = "import socket, urllib.request\n\
            def run(url, direct):\n    \
            if direct:\n        \
            socket.create_connection(('127.0.0.1', direct), 2)\n        return 'connected'\n    \
            return urllib.request.urlopen(url, timeout=5).read().decode()\n";
        yard.file("tools/fetch.py", code);
        yard.file(
            "tools/fetch.tool.yaml",
            format!(
                "id: fetch\nkind: python\nentry: tools.fetch:run\nsandbox: {{network: ['127.0.0.1:{}']}}\n",
                allowed.port
            ),
        );
        let call = |url: String, direct: u16| yard.call("fetch", &json!({"url": url, "direct": direct}));
        let (ran, envelope) = call(format!("http://127.0.0.1:{}/", allowed.port), 0);
        assert_eq!(ran.code, 0, "{run_as:?}: {envelope}");
        assert_eq!(envelope["data"]["result"], "{\"reached\": true}");
        for url in [
            format!("http://127.0.0.1:{}/", other.port),
            format!("http://localhost:{}/", other.port),
            "http://example.com/".to_owned(),
        ] {
            let (ran, envelope) = call(url.clone(), 0);
            assert_ne!(ran.code, 0, "{run_as:?} reached {url}: {envelope}");
        }
        for port in [other.port, allowed.port] {
            assert_ne!(call(String::new(), port).0.code, 0, "{run_as:?} went around the proxy");
        }
    }
    assert!(other.seen().is_empty(), "{:?}", other.seen());
}

#[test]
fn a_tool_without_a_sandbox_is_marked_everywhere() {
    let yard = Yard::new();
    yard.file("tools/free.tool.yaml", "id: free\nkind: cli\nentry: [echo, '1']\nsandbox: none\n");
    let checked = yard.run(&["check"]).expect(0).stdout;
    assert!(checked.contains("note: tools/free.tool.yaml: it runs without a sandbox"), "{checked}");
    assert!(yard.run(&["list"]).expect(0).stdout.contains("(no sandbox)"));
    assert_eq!(yard.run(&["list", "--json"]).expect(0).json()[0]["sandbox"], "none");
    assert!(yard.run(&["doctor"]).expect(0).stdout.contains("without a sandbox"));
    assert_eq!(yard.serve().post("free", "{}").json()["meta"]["sandbox"], "none");
}

#[test]
fn an_interpreter_in_the_home_folder_works_in_the_sandbox() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let versions = yard.home().join(".manager/versions/3");
        let made = std::process::Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--without-pip"])
            .arg(&versions)
            .status();
        assert!(made.unwrap().success());
        fs::create_dir_all(yard.home().join(".manager/shims")).unwrap();
        let shim = yard.home().join(".manager/shims/python3");
        fs::write(&shim, format!("#!/bin/sh\nexec {}/bin/python3 \"$@\"\n", versions.display())).unwrap();
        fs::set_permissions(&shim, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(yard.home().join("private"), "not for tools").unwrap();
        let code = "import os, sys\ndef run(home):\n    return {'prefix': sys.prefix, 'home': os.path.exists(home + '/private')}\n";
        yard.file("tools/where.py", code)
            .file("tools/where.tool.yaml", "id: where\nkind: python\nentry: tools.where:run\n");
        let mut command = yard.command();
        let path = format!("{}:/usr/bin:/bin", shim.parent().unwrap().display());
        command.env("PATH", path).args([
            "call",
            "where",
            &json!({"home": yard.home()}).to_string(),
            "--json",
        ]);
        let envelope = crate::support::run_for(command, crate::support::TIMEOUT).json();
        assert_eq!(envelope["data"], json!({"prefix": versions, "home": false}), "{run_as:?}: {envelope}");
    }
}
