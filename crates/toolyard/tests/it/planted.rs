//! A planted secret appears only where it was stored: in no response, record, file or core dump.
//!
//! These tests search their own yards; `scripts/test` searches all files after all tests.

use crate::support::{CommandOutput, Server, Upstream, Yard, planted, require, response, signal};
use serde_json::json;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Leaks the variable in the way that its argument names.
const LEAK: &str = include_str!("planted.py");

const LEAK_METHODS: &[&str] =
    &["raw", "base64", "unpadded", "url", "hex", "json", "given", "stderr", "long", "error", "host"];

/// Two tools with the same code: `leak` gets the secret `my_key`, `other` does not.
pub fn leaking_yard(yard: Yard) -> Yard {
    // The token is tested elsewhere.
    let yard = yard.variable("TOOLYARD_AUTH_TOKEN", "off");
    let tool = |name: &str, extra: &str| {
        yard.file(
            &format!("tools/{name}.tool.yaml"),
            format!("id: {name}\nkind: python\nentry: tools.leak:run\n{extra}"),
        );
    };
    yard.file("tools/leak.py", LEAK);
    // With a list of hosts, so that the secret reaches the proxy too.
    let more = "deterministic: true\nsandbox: {network: [allowed.invalid]}\n";
    tool("leak", &format!("{more}secrets: {{API_KEY: \"secret:my_key\"}}\n"));
    tool("other", "");
    yard
}

/// Runs `toolyard secret set`, which reads the value from stdin only.
#[track_caller]
pub fn set(yard: &Yard, name: &str, value: &str) -> CommandOutput {
    let mut command = yard.command();
    command.args(["secret", "set", name]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{value}").unwrap();
    let output = child.wait_with_output().unwrap();
    planted::record_output(&output.stdout);
    planted::record_output(&output.stderr);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    CommandOutput {
        code: output.status.code().unwrap(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

#[track_caller]
pub fn assert_hidden(what: &str, text: &[u8]) {
    for form in forms() {
        let found = text.windows(form.len()).any(|window| window == form.as_bytes());
        assert!(!found, "{what} contains {form}: {}", String::from_utf8_lossy(text));
    }
}

/// The value in the encodings that other programs use.
fn forms() -> &'static [String] {
    static FORMS: OnceLock<Vec<String>> = OnceLock::new();
    FORMS.get_or_init(encode)
}

fn encode() -> Vec<String> {
    let script = "import base64, json, sys, urllib.parse\n\
        v = sys.argv[1]; b = v.encode()\n\
        out = [v, json.dumps(v)[1:-1], json.dumps(v, ensure_ascii=False)[1:-1], b.hex(), b.hex().upper()]\n\
        out += [urllib.parse.quote(v), urllib.parse.quote(v, safe=''), urllib.parse.quote_plus(v), sys.argv[2]]\n\
        for before in (b'', b'u', b'u:'):\n    \
            for encode in (base64.b64encode, base64.urlsafe_b64encode):\n        \
                e = encode(before + b).decode(); out += [e[4:-4]]\n\
        print(json.dumps(sorted(set(out))))\n";
    let values = [planted::secret(), planted::plain_part()];
    let output = Command::new("python3").args(["-c", script]).args(values).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_hidden_below(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().unwrap() != "secrets" {
            assert_hidden_below(&path);
        } else if path.is_file() {
            assert_hidden(&path.display().to_string(), &std::fs::read(&path).unwrap());
        }
    }
}

#[test]
fn from_the_store_it_is_in_no_answer_no_record_and_no_file() {
    let yard = leaking_yard(Yard::without_secret());
    set(&yard, "my_key", &planted::secret()).expect(0);
    assert_never_leaked(&yard);
}

#[test]
fn from_the_environment_it_is_in_no_answer_no_record_and_no_file() {
    let yard = Yard::without_secret().variable("TOOLYARD_SECRET_MY_KEY", &planted::secret());
    assert_never_leaked(&leaking_yard(yard));
}

#[test]
fn from_the_kernels_keyring_it_is_in_no_answer_no_record_and_no_file() {
    let yard = leaking_yard(Yard::without_secret());
    if !require(put_in_keyring(&key_of(&yard), &planted::secret()), "this kernel has no keyrings") {
        return;
    }
    assert_never_leaked(&yard);
}

/// The name of the key `my_key` of this yard.
fn key_of(yard: &Yard) -> String {
    format!("toolyard:{}:my_key", std::fs::canonicalize(yard.root()).unwrap().display())
}

/// A yard from elsewhere can declare any name.
#[test]
fn a_key_of_one_yard_is_not_given_to_another() {
    let (own, other) = (leaking_yard(Yard::without_secret()), leaking_yard(Yard::without_secret()));
    let value = planted::secret();
    if !require(put_in_keyring(&key_of(&own), &value), "this kernel has no keyrings") {
        return;
    }
    // Without a yard in its name, as it was before.
    assert!(add_to_keyring("toolyard:my_key", &value));
    let length = |yard: &Yard| yard.call("leak", &json!({"how": "length"})).1;
    assert_eq!(length(&own)["data"]["result"], value.chars().count());
    let refused = length(&other).to_string();
    assert!(refused.contains("the secret 'my_key' is not set"), "{refused}");
}

/// Calls a tool that leaks in every way, through every interface, in success and failure.
fn assert_never_leaked(yard: &Yard) {
    let value = planted::secret();
    let server = yard.serve();
    for how in LEAK_METHODS {
        for tool in ["leak", "other"] {
            // Arguments may contain a secret too.
            let arguments = json!({"how": how, "given": format!("x{value}x")}).to_string();
            let answer = server.post(tool, &arguments);
            assert_hidden(&format!("the answer of {tool} {how}"), &answer.body);
            let ran = yard.run(&["call", tool, &arguments]);
            assert_hidden(&format!("the output of {tool} {how}"), (ran.stdout + &ran.stderr).as_bytes());
            let ran = yard.run(&["call", tool, &arguments, "--json"]);
            assert_hidden(&format!("the envelope of {tool} {how}"), (ran.stdout + &ran.stderr).as_bytes());
        }
    }
    let raw = server.post("leak", r#"{"how":"raw"}"#).json();
    assert_eq!(raw["body"], json!({"value": "[secret my_key]", "[secret my_key]": ["[secret my_key]"]}));
    let failed = server.post("leak", r#"{"how":"stderr"}"#).json();
    assert!(failed.to_string().contains("connecting with [secret my_key]"), "{failed}");
    refused_calls(yard, &server, &value);
    assert_hidden("the discovery", &server.get("/mcp/discover").body);
    assert_hidden("the server's stderr", server.stderr().as_bytes());
    assert_eq!(server.stop(), 0);
    assert_hidden("the export", yard.run(&["audit", "export"]).expect(0).stdout.as_bytes());
    assert_hidden("the list", yard.run(&["audit", "list", "--json"]).expect(0).stdout.as_bytes());
    for command in ["check", "list", "doctor"] {
        let ran = yard.run(&[command, "--json"]);
        assert_hidden(command, (ran.stdout + &ran.stderr).as_bytes());
    }
    assert!(yard.path(".toolyard/cache.sqlite").exists());
    assert_hidden_below(&yard.path(".toolyard"));
    yard.run(&["audit", "verify"]).expect(0);
}

/// Calls that are refused before a tool runs are answered and recorded as well.
fn refused_calls(yard: &Yard, server: &Server, value: &str) {
    for (tool, arguments) in [("nothere", json!({"x": value})), (value, json!({})), ("leak", json!(value))] {
        let ran = yard.run(&["call", tool, &arguments.to_string()]);
        assert_hidden("a refused call", (ran.stdout + &ran.stderr).as_bytes());
    }
    for body in [format!("{{\"how\": \"{}", planted::plain_part()), json!([value]).to_string()] {
        assert_hidden("a refused body", &server.post("leak", body).body);
    }
}

/// An upstream server may repeat a header that it received.
#[test]
fn a_secret_that_an_upstream_repeats_is_redacted() {
    let value = planted::plain_part();
    for (status, body) in [
        ("200 OK", format!("{{\"token\": \"{value}\"}}")),
        ("200 OK", format!("not JSON: {value}")),
        ("401 Unauthorized", format!("bad token {value}")),
        (&*format!("500 {value}"), String::new()),
        (&*format!("302 Found\r\nlocation: http://127.0.0.1:1/{value}"), String::new()),
    ] {
        let upstream = Upstream::answering(response(status, "application/json", &body));
        let yard = Yard::without_secret().variable("TOOLYARD_SECRET_WEB", &value);
        yard.file(
            "tools/web.tool.yaml",
            format!(
                "id: web\nkind: http\nentry: http://127.0.0.1:{}/x\nallowPrivate: true\nsecrets: {{KEY: \"secret:web\"}}\n\
                 headers: {{Authorization: \"Bearer {{{{ secrets.KEY }}}}\"}}\n",
                upstream.port
            ),
        );
        let (ran, _) = yard.call("web", &json!({}));
        assert!(upstream.seen()[0].contains(&value), "{:?}", upstream.seen());
        assert_hidden(status, (ran.stdout + &ran.stderr).as_bytes());
        assert_hidden_below(&yard.path(".toolyard"));
    }
}

/// A core dump would contain every secret of the process.
#[test]
fn neither_the_server_nor_a_tool_without_a_sandbox_leaves_a_core_dump() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    // Children inherit the limit.
    let limit = getrlimit(Resource::Core);
    setrlimit(Resource::Core, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let yard = Yard::new();
    let abort = "import os\ndef run():\n    os.chdir('data')\n    os.abort()\n";
    yard.file("tools/crash.py", abort).file("data/.keep", "");
    for (name, sandbox) in [("open", "none"), ("sandboxed", "{fs: {write: [data]}}")] {
        let head = format!("id: {name}\nkind: python\nentry: tools.crash:run\nsandbox: {sandbox}\n");
        yard.file(&format!("tools/{name}.tool.yaml"), head + "secrets: {KEY: \"secret:planted\"}\n");
    }
    let mut server = yard.serve();
    for tool in ["open", "sandboxed"] {
        let answer = server.post(tool, "{}").json();
        assert!(answer.to_string().contains("SIGABRT"), "{answer}");
    }
    signal(server.pid(), libc::SIGABRT);
    let status = server.child.wait().unwrap();
    assert_eq!((status.signal(), status.core_dumped()), (Some(libc::SIGABRT), false));
    let folders = [yard.root(), yard.path("data")].map(|folder| std::fs::read_dir(folder).unwrap());
    let names = folders.into_iter().flatten().map(|entry| entry.unwrap().file_name());
    let cores: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("core")).collect();
    assert!(cores.is_empty(), "{cores:?}");
}

/// Adds the value to a new session keyring, which children inherit. `false` where keyrings are missing.
fn put_in_keyring(key: &str, value: &str) -> bool {
    const JOIN_SESSION_KEYRING: libc::c_long = 1;
    let unnamed = std::ptr::null::<libc::c_char>();
    // SAFETY: the null argument means a keyring without a name.
    let joined = unsafe { libc::syscall(libc::SYS_keyctl, JOIN_SESSION_KEYRING, unnamed) };
    joined >= 0 && add_to_keyring(key, value)
}

fn add_to_keyring(key: &str, value: &str) -> bool {
    const SESSION_KEYRING: libc::c_long = -3;
    let description = std::ffi::CString::new(key).unwrap();
    // SAFETY: texts end with NUL, and the length is that of the value.
    unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            description.as_ptr(),
            value.as_ptr(),
            value.len(),
            SESSION_KEYRING,
        ) >= 0
    }
}
