//! The server is killed repeatedly under load: no acknowledged job is lost, no finished job runs again, no
//! non-repeatable job runs twice. Meanwhile the disk fills up and the clock jumps.

use crate::support::{Client, Server, TIMEOUT, Yard, eventually, is_root, require};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the server is killed; `scripts/kill-test` asks for more.
fn kills() -> u64 {
    std::env::var("YARD_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100)
}

const TOOLS: [&str; 5] = ["once_long", "once_short", "again_long", "again_short", "cas_store"];
const CLIENTS: u64 = 4;

#[test]
fn kill_9_at_any_moment_loses_no_job_and_repeats_none() {
    let yard = Yard::new();
    make_tools(&yard);
    let kills = kills();
    let disk = SmallDisk::mount(&yard, kills);
    let load = Load::default();
    for round in 0..kills {
        let server = start(&yard, disk.as_ref(), round);
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for client in 0..CLIENTS {
                let (load, server, stop, yard) = (&load, &server, &stop, &yard);
                threads.spawn(move || load.run_load(&server.address, yard, round * CLIENTS + client, stop));
            }
            let mut random = Random::seeded(round);
            let full = disk.as_ref().filter(|_| round % 10 == 7);
            full.inspect(|disk| disk.fill());
            std::thread::sleep(Duration::from_millis(30 + random.below(170)));
            full.inspect(|disk| disk.make_room());
            if full.is_some() {
                std::thread::sleep(Duration::from_millis(random.below(60)));
            }
            crate::support::signal(server.pid(), libc::SIGKILL);
            stop.store(true, Ordering::Relaxed);
        });
        drop(server);
    }
    let server = start(&yard, disk.as_ref(), 0);
    settle(&server);
    verify_results(&server, &yard, load, kills);
    assert_eq!(server.stop(), 0);
}

/// Each tool appends to the ledger file when it starts and when it ends.
fn make_tools(yard: &Yard) {
    fs::create_dir(yard.path("out")).unwrap();
    fs::write(yard.path("out/ledger"), "").unwrap();
    yard.file("toolyard.toml", "[builtin]\ncas = true\n[jobs]\nmax_attempts = 100\n");
    let script = r#"read -r line; n=${line#*:}; n=${n%\}}
        echo "start $n" >>out/ledger; sleep 0.0$((n % 7)); echo "end $n" >>out/ledger
        echo "{\"data\":{\"n\":$n}}""#;
    for name in &TOOLS[..4] {
        let timing = if name.ends_with("long") { "async_long" } else { "async_short" };
        let extra = json!({
            "timing": timing,
            "annotations": {"idempotentHint": name.starts_with("again")},
            "sandbox": {"fs": {"write": ["out"]}},
        });
        yard.tool(crate::support::Kind::Cli, name, &["/bin/sh", "-c", script], extra);
    }
}

/// Responses that the clients received.
#[derive(Default)]
struct Load {
    next: AtomicU64,
    /// Calls without a response, which are sent again with the same key.
    unanswered: Mutex<Vec<u64>>,
    acknowledged: Mutex<HashMap<u64, Acknowledged>>,
    /// The hashes that were returned for stored content.
    stored: Mutex<HashMap<u64, String>>,
}

/// Base64 of content that is unique to `n`; some is larger than one verified block.
fn blob(n: u64) -> String {
    let size = if n.is_multiple_of(2) { 300 } else { 8_000 };
    // Twelve digits are valid base64 without padding.
    format!("{n:012}").repeat(size)
}

struct Acknowledged {
    job: String,
    /// The result came with the response.
    ended: bool,
}

fn tool_of(n: u64) -> &'static str {
    TOOLS[(n % 5) as usize]
}

impl Load {
    fn run_load(&self, address: &str, yard: &Yard, seed: u64, stop: &AtomicBool) {
        let mut random = Random::seeded(seed + 1000);
        let Ok(mut client) = Client::try_connect(address) else { return };
        while !stop.load(Ordering::Relaxed) {
            let again = self.unanswered.lock().unwrap().pop().filter(|_| random.below(3) > 0);
            let n = again.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
            let path = format!("/v1/tools/{}", tool_of(n));
            let key = format!("key-{n}");
            let stores = tool_of(n) == "cas_store";
            // Storing is idempotent, so it needs no key and creates no job.
            let headers: &[(&str, &str)] = if stores { &[] } else { &[("idempotency-key", &key)] };
            let body =
                if stores { json!({"data": blob(n), "mime_type": "text/plain"}) } else { json!({"n": n}) };
            let sent = client.write("POST", &path, headers, body.to_string().as_bytes());
            let answer = sent.and_then(|()| client.read());
            match answer {
                Ok(answer) if matches!(answer.status, 200 | 202) => self.acknowledge(n, &answer.json(), yard),
                // Refused: the disk is full, or too many jobs are open. Nothing was acknowledged.
                Ok(_) => {
                    self.unanswered.lock().unwrap().push(n);
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(_) => {
                    self.unanswered.lock().unwrap().push(n);
                    return;
                }
            }
        }
    }

    fn acknowledge(&self, n: u64, outcome: &Value, yard: &Yard) {
        if tool_of(n) == "cas_store" {
            let hash = outcome["data"]["hash"].as_str().unwrap().to_owned();
            self.stored.lock().unwrap().insert(n, hash);
            return;
        }
        let ended = outcome["meta"]["job_state"] == "complete";
        if ended {
            assert_eq!(outcome["data"]["n"], n, "the answer of another call: {outcome}");
            let mut ledger = fs::OpenOptions::new().append(true).open(yard.path("out/ledger")).unwrap();
            ledger.write_all(format!("acknowledged {n}\n").as_bytes()).unwrap();
        }
        let job =
            outcome["meta"]["job_id"].as_str().unwrap_or_else(|| panic!("no job: {outcome}")).to_owned();
        let before = self.acknowledged.lock().unwrap().insert(n, Acknowledged { job: job.clone(), ended });
        if let Some(before) = before {
            assert_eq!(before.job, job, "key {n} gave two jobs");
        }
    }
}

fn start(yard: &Yard, disk: Option<&SmallDisk>, round: u64) -> Server {
    let mut command = match disk {
        Some(disk) => disk.command(yard),
        None => yard.command(),
    };
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    // A day ahead, a day behind, unchanged: the clock jumps at each start.
    if let (Some(library), Some(jump)) = (faketime(), [None, Some("+1d"), Some("-1d")][(round % 3) as usize])
    {
        command.env("LD_PRELOAD", library).env("FAKETIME", jump).env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    Server::start(command)
}

/// Waits until every job has finished.
fn settle(server: &Server) {
    eventually("every job is over", TIMEOUT * 4, || {
        let answer = server.get("/v1/jobs?state=pending,running,input_required&limit=1");
        assert_eq!(answer.status, 200, "{}", answer.json());
        answer.json()["jobs"].as_array().unwrap().is_empty()
    });
}

fn verify_results(server: &Server, yard: &Yard, load: Load, kills: u64) {
    let ledger = fs::read_to_string(yard.path("out/ledger")).unwrap();
    let (mut starts, mut acknowledged): (HashMap<u64, u64>, HashMap<u64, bool>) = Default::default();
    for line in ledger.lines() {
        let (word, n) = line.split_once(' ').unwrap();
        let n: u64 = n.parse().unwrap();
        match word {
            "start" => {
                *starts.entry(n).or_default() += 1;
                assert!(!acknowledged.contains_key(&n), "job {n} ran again after its end was acknowledged");
            }
            "acknowledged" => {
                acknowledged.insert(n, true);
            }
            _ => {}
        }
    }
    for (n, count) in &starts {
        assert!(tool_of(*n).starts_with("again") || *count == 1, "{} {n} ran {count} times", tool_of(*n));
    }
    let stored = load.stored.into_inner().unwrap();
    for (n, hash) in &stored {
        let body = json!({"hash": hash}).to_string();
        let answer = server.client().send("POST", "/v1/tools/cas_get", &[], body.as_bytes());
        assert_eq!(answer.status, 200, "blob {n} is lost: {}", answer.json());
        assert_eq!(answer.json()["data"]["data"], blob(*n), "blob {n} is another");
    }
    let promised = load.acknowledged.into_inner().unwrap();
    let (mut unknown, mut complete) = (0, 0);
    for (n, promise) in &promised {
        let answer = server.get(&format!("/v1/jobs/{}", promise.job));
        assert_eq!(answer.status, 200, "the acknowledged job {n} is lost");
        let job = answer.json();
        match job["state"].as_str().unwrap() {
            "complete" => {
                complete += 1;
                assert_eq!(job["outcome"]["data"]["n"], *n);
                assert!(starts.contains_key(n), "job {n} is complete and never ran");
            }
            "unknown" => {
                unknown += 1;
                assert!(tool_of(*n).starts_with("once") && !promise.ended, "job {n} is {job}");
            }
            other => panic!("job {n} ended as {other}: {job}"),
        }
    }
    let (jobs, blobs) = (promised.len(), stored.len());
    eprintln!(
        "{kills} kills: {jobs} jobs acknowledged, {complete} complete, {unknown} unknown, {blobs} blobs intact"
    );
    assert!(jobs as u64 > kills && complete > 0 && blobs > 0, "the load was too light to tell anything");
}

/// A small file system that outlives the server, in a mount namespace of its own.
struct SmallDisk {
    holder: Child,
    state: PathBuf,
}

impl SmallDisk {
    /// What so many rounds store takes less than a megabyte each.
    fn mount(yard: &Yard, rounds: u64) -> Option<SmallDisk> {
        let state = yard.path(".toolyard");
        fs::create_dir(&state).unwrap();
        if !require(is_root(), "the tests do not run as root, so that no disk is filled") {
            return None;
        }
        let mount = format!(
            "mount -t tmpfs -o size={}m,mode=700 tmpfs '{}' && echo ready && exec sleep 100000",
            rounds.max(96),
            state.display()
        );
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &mount]).stdout(Stdio::piped());
        let mut holder = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(holder.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        if !require(line.trim() == "ready", "mounts are refused, so there is no disk to fill") {
            let _ = holder.wait();
            return None;
        }
        Some(SmallDisk { holder, state })
    }

    fn command(&self, yard: &Yard) -> Command {
        let program = yard.command();
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.holder.id().to_string(), "-m", "--"]).arg(program.get_program());
        command.env_clear().envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
        // Entering a mount namespace resets the working folder.
        command.args([Path::new("--yard"), &yard.root()]);
        command
    }

    fn ballast(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{}/ballast", self.holder.id(), self.state.display()))
    }

    fn fill(&self) {
        let Ok(mut ballast) = fs::File::create(self.ballast()) else { return };
        let much = vec![1; 1 << 20];
        while ballast.write_all(&much).is_ok() {}
        while ballast.write_all(&much[..4096]).is_ok() {}
    }

    fn make_room(&self) {
        let _ = fs::remove_file(self.ballast());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// Debian's libfaketime, which `scripts/test` installs.
fn faketime() -> Option<PathBuf> {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    let library = PathBuf::from(library);
    require(library.exists(), "libfaketime is not installed, so that the clock does not jump")
        .then_some(library)
}

/// Xorshift, so that a failing round can be repeated.
struct Random(u64);

impl Random {
    fn seeded(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}
