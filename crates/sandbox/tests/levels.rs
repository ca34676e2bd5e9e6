//! What each sandbox level stops on kernels with an older Landlock, with and without namespaces. Older versions are
//! simulated by using no more rights than they had; the table in `docs/sandbox.md` is written from what was observed
//! (`UPDATE_GOLDEN=1`).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test states what it expects, in its helpers too"
)]

#[path = "../../../tests/require.rs"]
mod require;

use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, process};

use require::require;
use toolyard_sandbox::{
    Command, Confinement, Exchange, Grant, Landlock, Launcher, Network, Options, SandboxLevel, TreeLevel,
};

const PYTHON: &str = "/usr/bin/python3";
/// The versions with rights that Toolyard uses, and none.
const ABIS: [u32; 5] = [0, 1, 2, 3, 6];

/// `(name, words of the guide)`
const ATTEMPTS: [(&str, &str); 11] = [
    ("read", "read a file outside"),
    ("truncate", "truncate a file outside"),
    ("truncate_by_reading", "truncate a file that it may only read, by opening it"),
    ("chmod", "change the mode of a file outside"),
    ("chown", "change the group of a file outside"),
    ("utime", "change the times of a file outside"),
    ("setxattr", "set an attribute of a file outside"),
    ("fchmod", "change the mode of a file that it may only read"),
    ("signal", "signal another process of its user"),
    ("prlimit", "change the limits of another process of its user"),
    ("abstract", "connect to an abstract UNIX socket, with `network: allow`"),
];

const SCRIPT: &str = r#"
import errno, os, resource, signal, socket, sys
outside, readable, name, pid = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
attempts = {
    "read": lambda: open(outside).read(),
    "truncate": lambda: os.truncate(outside, 0),
    "truncate_by_reading": lambda: os.open(readable, os.O_RDONLY | os.O_TRUNC),
    "chmod": lambda: os.chmod(outside, 0o600),
    "chown": lambda: os.chown(outside, -1, os.getgid()),
    "utime": lambda: os.utime(outside, (1, 1)),
    "setxattr": lambda: os.setxattr(outside, "user.escape", b"x"),
    "fchmod": lambda: os.fchmod(os.open(readable, os.O_RDONLY), 0o600),
    "signal": lambda: os.kill(pid, 0),
    "prlimit": lambda: resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0)),
    "abstract": lambda: socket.socket(socket.AF_UNIX).connect("\0" + name),
}
for what, attempt in attempts.items():
    try:
        attempt()
        print(what, "possible")
    except OSError as error:
        print(what, errno.errorcode[error.errno])
own = os.path.dirname(readable) + "/data/own"
with open(own, "w") as file:
    file.write("text")
    file.truncate(0)
print("own", "possible")
"#;

/// Files, a socket and a process outside of the sandbox.
struct Outside {
    folder: PathBuf,
    _socket: UnixListener,
    process: Child,
}

impl Outside {
    fn new() -> Outside {
        // Extended attributes need a file system that has them, which a tmpfs on `/tmp` may not be.
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("levels-{}", process::id()));
        fs::create_dir_all(folder.join("yard/data")).unwrap();
        let name = SocketAddr::from_abstract_name(folder.as_os_str().as_encoded_bytes()).unwrap();
        let process = process::Command::new("/bin/sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
        Outside { folder, _socket: UnixListener::bind_addr(&name).unwrap(), process }
    }

    fn arguments(&self) -> [String; 4] {
        for file in ["outside.txt", "yard/readable.txt"] {
            let file = self.folder.join(file);
            fs::write(&file, "text").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let path = |path: &Path| path.to_str().unwrap().to_owned();
        [
            path(&self.folder.join("outside.txt")),
            path(&self.folder.join("yard/readable.txt")),
            path(&self.folder),
            self.process.id().to_string(),
        ]
    }

    async fn outcomes(&self, launcher: &Launcher, level: SandboxLevel) -> BTreeMap<String, String> {
        let yard = self.folder.join("yard");
        let confinement = Confinement {
            read: vec![yard.clone()],
            grants: vec![Grant::open(&yard.join("data"), true).unwrap()],
            network: Network::Allow,
            ..Confinement::at(level)
        };
        let arguments = self.arguments();
        let argv = [PYTHON, "-c", SCRIPT].into_iter().chain(arguments.iter().map(String::as_str));
        let command = Command {
            program: PYTHON.into(),
            argv: argv.map(Into::into).collect(),
            env: Vec::new(),
            cwd: yard,
            confinement,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        let exchange = Exchange { stdin: "".into(), output_cap: 1 << 20, deadline, on_listener: None };
        let finished = launcher.run(&command, exchange).await.unwrap();
        assert!(finished.exit.is_success(), "{finished:?}");
        let text = String::from_utf8(finished.stdout.into()).unwrap();
        let outcomes = text.lines().map(|line| line.split_once(' ').unwrap());
        outcomes.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn launcher(abi: u32, level: Option<TreeLevel>) -> Launcher {
    let options = Options { level, landlock: Some(Landlock::of_abi(abi)), ..Options::default() };
    Launcher::with_options(&env::temp_dir(), options).unwrap()
}

/// How an attempt must end. `full` is in namespaces, else there is none.
fn expected(name: &str, full: bool, abi: u32) -> &'static str {
    match (name, full) {
        ("read" | "truncate" | "chmod" | "chown" | "utime" | "setxattr", true) => "ENOENT",
        ("truncate_by_reading" | "fchmod", true) => "EROFS",
        ("signal", true) => "ESRCH",
        ("abstract", true) if abi >= 6 => "EPERM",
        ("abstract", _) => "EAFNOSUPPORT",
        ("prlimit", _) => "EPERM",
        ("read", false) => "EACCES",
        ("truncate" | "truncate_by_reading", false) => {
            if abi >= 3 {
                "EACCES"
            } else {
                "EPERM"
            }
        }
        ("chmod" | "chown" | "utime" | "setxattr" | "fchmod", false) => "EPERM",
        ("signal", false) => {
            if abi >= 6 {
                "EPERM"
            } else {
                "possible"
            }
        }
        ("own", _) => "possible",
        _ => panic!("no outcome is expected for {name}"),
    }
}

#[tokio::test]
async fn every_landlock_version_stops_what_the_guide_says() {
    let outside = Outside::new();
    let here = launcher(u32::MAX, None).landlock();
    let mut control = outside.outcomes(&launcher(0, Some(TreeLevel::Subreaper)), SandboxLevel::None).await;
    let has_attributes = control["setxattr"] != "ENOTSUP";
    if !require(has_attributes, "the file system has no extended attributes, so that they are not tested") {
        control.remove("setxattr");
    }
    assert!(control.values().all(|outcome| outcome == "possible"), "without a sandbox: {control:?}");
    let mut columns: Vec<(String, BTreeMap<String, String>)> = Vec::new();
    for abi in ABIS {
        let rights = Landlock::of_abi(abi);
        if !require(here.and(rights) == rights, "this kernel's Landlock is older than some that are tested") {
            continue;
        }
        let namespaces = launcher(abi, None);
        if require(namespaces.sandbox_level() == SandboxLevel::Full, "namespaces are refused") {
            columns.push((
                format!("full, {}", shown(abi)),
                outside.outcomes(&namespaces, SandboxLevel::Full).await,
            ));
            check(columns.last().unwrap(), true, abi);
        }
        let alone = launcher(abi, Some(TreeLevel::Subreaper));
        let offered = if abi == 0 { SandboxLevel::None } else { SandboxLevel::Landlock };
        assert_eq!(alone.sandbox_level(), offered, "ABI {abi}: a level that cannot be kept is not offered");
        if abi > 0 {
            let outcomes = outside.outcomes(&alone, SandboxLevel::Landlock).await;
            columns.push((format!("landlock, {}", shown(abi)), outcomes));
            check(columns.last().unwrap(), false, abi);
        }
    }
    if require(columns.len() == ABIS.len() * 2 - 1, "the table of the guide needs every version") {
        compare_with_the_guide(&columns);
    }
}

fn shown(abi: u32) -> String {
    match abi {
        0 => "no Landlock".to_owned(),
        3 => "ABI 3 to 5".to_owned(),
        6 => "ABI 6".to_owned(),
        abi => format!("ABI {abi}"),
    }
}

fn check((column, outcomes): &(String, BTreeMap<String, String>), full: bool, abi: u32) {
    for (name, outcome) in outcomes {
        assert_eq!(outcome, expected(name, full, abi), "{name} at {column}");
    }
    assert_eq!(outcomes.len(), ATTEMPTS.len() + 1);
}

fn compare_with_the_guide(columns: &[(String, BTreeMap<String, String>)]) {
    let mut table = "| level, kernel |".to_owned();
    ATTEMPTS.iter().for_each(|(_, words)| table += &format!(" {words} |"));
    table += &format!("\n|{}\n", "---|".repeat(ATTEMPTS.len() + 1));
    for (column, outcomes) in columns {
        table += &format!("| {column} |");
        ATTEMPTS.iter().for_each(|(name, _)| table += &format!(" {} |", outcomes[*name]));
        table += "\n";
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sandbox.md");
    let text = fs::read_to_string(&page).unwrap();
    let (head, rest) = text.split_once("<!-- versions -->\n").expect("the mark before the table");
    let rest = rest.trim_start_matches('\n').lines().skip_while(|line| line.starts_with('|'));
    let tail = rest.collect::<Vec<_>>().join("\n");
    let wanted = format!("{head}<!-- versions -->\n\n{table}\n{}\n", tail.trim_start());
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&page, &wanted).unwrap();
    }
    assert_eq!(fs::read_to_string(&page).unwrap(), wanted, "run the tests with UPDATE_GOLDEN=1");
}
