//! Measures the cost of the launcher and its sandbox: CPU and wall time of one `Launcher::run` compared with
//! a bare `posix_spawn` with pipes, and with bubblewrap building the same sandbox. If run by root, it also
//! measures as an ordinary user.
//! `cargo run --release -p toolyard-sandbox --example spawn_ratio [n]`
//!
//! CPU time is that of this process and all its descendants. Work on kernel threads, such as the removal of
//! namespaces, is not included.
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

mod bubblewrap;

use std::error::Error;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{WaitOptions, geteuid, getpid, set_child_subreaper, wait};
use tokio::runtime::Runtime;
use toolyard_sandbox::{Command, Confinement, Exchange, Launcher, Options, SandboxLevel, TreeLevel};

use bubblewrap::Bubblewrap;

const PROGRAM: &str = "/bin/cat";
const INPUT: &[u8] = &[b'x'; 100];
/// The variants are measured in turn, so that other load affects all of them.
const ROUNDS: u32 = 10;

type Failed = Box<dyn Error + Send + Sync>;
type Outcome = Result<(), Failed>;

fn main() -> Outcome {
    let runs: u32 = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())? / ROUNDS;
    // As a subreaper, this process also counts the time of orphans.
    set_child_subreaper(Some(getpid()))?;
    let uid = geteuid().as_raw();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!(
        "{:<52} {:>8} {:>8} {:>6} {:>6}",
        format!("as user {uid}"),
        "CPU µs",
        "wall µs",
        "CPU ×",
        "wall ×"
    );
    for level in TreeLevel::ALL {
        let options = Options { level: Some(level), ..Options::default() };
        match Launcher::with_options(&std::env::temp_dir(), options) {
            Ok(launcher) => compare(&runtime, &Arc::new(launcher), runs)?,
            Err(_) => println!("{level:<52} not available"),
        }
    }
    if uid == 0 { as_an_ordinary_user() } else { Ok(()) }
}

fn as_an_ordinary_user() -> Outcome {
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]);
    command.arg(std::env::current_exe()?).args(std::env::args().skip(1)).env("TMPDIR", "/tmp");
    if command.status()?.success() {
        Ok(())
    } else {
        Err("the measurement as an ordinary user failed".into())
    }
}

/// Compares one launcher at every sandbox level with bubblewrap at the strongest.
fn compare(runtime: &Runtime, launcher: &Arc<Launcher>, runs: u32) -> Outcome {
    let sandboxes = SandboxLevel::ALL.into_iter().rev().filter(|level| *level <= launcher.sandbox_level());
    let none = sandboxes.map(|level| (format!("sandbox {level}"), Confinement::at(level)));
    let mut sandboxes: Vec<(String, Confinement, Cost)> =
        none.map(|(name, confinement)| (name, confinement, Cost::default())).collect();
    // The limits of a tool that declares none.
    let limits = Confinement {
        memory: Some(1 << 30),
        processes: Some(256),
        files: Some(1024),
        ..Confinement::at(launcher.sandbox_level())
    };
    let how = if launcher.cgroups().is_ok() { "cgroup" } else { "watched" };
    let name = format!("sandbox {}, limits ({how})", limits.level);
    sandboxes.push((name, limits, Cost::default()));
    let (mut bare, mut wrapped) = (Cost::default(), Cost::default());
    let bubblewrap = match launcher.sandbox_level() {
        SandboxLevel::Full => runtime.block_on(Bubblewrap::like(launcher)),
        _ => Err("it is compared with the full sandbox only".into()),
    };
    for _ in 0..ROUNDS {
        bare.add(|| (0..runs).try_for_each(|_| bare_spawn()))?;
        for (_, confinement, cost) in &mut sandboxes {
            // On a worker thread, as in the daemon: otherwise each wake-up would cross threads.
            let (launcher, confinement) = (Arc::clone(launcher), confinement.clone());
            let batch = async move {
                for _ in 0..runs {
                    let output = through_launcher(&launcher, &confinement, &[PROGRAM]).await?;
                    is_echo(&output)?;
                }
                Ok(())
            };
            cost.add(|| runtime.block_on(runtime.spawn(batch))?)?;
        }
        if let Ok(bubblewrap) = &bubblewrap {
            wrapped.add(|| (0..runs).try_for_each(|_| echo(&mut bubblewrap.command(&[PROGRAM])?)))?;
        }
    }
    let each = runs * ROUNDS;
    bare.print("bare posix_spawn", &bare, each);
    for (name, _, cost) in &sandboxes {
        cost.print(&format!("{}, {name}", launcher.level()), &bare, each);
    }
    match bubblewrap {
        Ok(_) => wrapped.print("bubblewrap, the same sandbox as far as it can", &bare, each),
        Err(reason) => println!("bubblewrap not measured: {reason}"),
    }
    Ok(())
}

/// The standard library uses `posix_spawn` for this command.
fn bare_spawn() -> Outcome {
    echo(&mut std::process::Command::new(PROGRAM))
}

fn echo(command: &mut std::process::Command) -> Outcome {
    let mut child =
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (mut stdin, mut stdout) = (child.stdin.take().ok_or("stdin")?, child.stdout.take().ok_or("stdout")?);
    stdin.write_all(INPUT)?;
    drop(stdin);
    let mut output = Vec::new();
    stdout.read_to_end(&mut output)?;
    child.wait()?;
    is_echo(&output)
}

fn is_echo(output: &[u8]) -> Outcome {
    if output == INPUT { Ok(()) } else { Err("wrong echo".into()) }
}

async fn through_launcher(
    launcher: &Launcher,
    confinement: &Confinement,
    argv: &[&str],
) -> Result<Vec<u8>, Failed> {
    let command = Command {
        program: argv[0].into(),
        argv: argv.iter().map(Into::into).collect(),
        env: Vec::new(),
        cwd: "/".into(),
        confinement: confinement.clone(),
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let exchange = Exchange { stdin: INPUT.into(), output_cap: 1 << 20, deadline, on_listener: None };
    Ok(launcher.run(&command, exchange).await?.stdout.into())
}

#[derive(Default)]
struct Cost {
    cpu: Duration,
    wall: Duration,
}

impl Cost {
    fn add(&mut self, batch: impl FnOnce() -> Outcome) -> Outcome {
        let (cpu, wall) = (cpu_time(), Instant::now());
        batch()?;
        self.wall += wall.elapsed();
        // Launchers are counted once they are reaped, and bubblewrap leaves its inner process as an orphan.
        std::thread::sleep(Duration::from_millis(100));
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        self.cpu += cpu_time() - cpu;
        Ok(())
    }

    /// Prints the time per run in microseconds, and as a multiple of `bare`.
    fn print(&self, name: &str, bare: &Cost, runs: u32) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(runs);
        let ratio = |time: Duration, bare: Duration| time.as_secs_f64() / bare.as_secs_f64();
        let (cpu, wall) = (ratio(self.cpu, bare.cpu), ratio(self.wall, bare.wall));
        println!("{name:<52} {:>8.0} {:>8.0} {cpu:>6.2} {wall:>6.2}", each(self.cpu), each(self.wall));
    }
}

/// User and system time of this process and of its reaped descendants.
fn cpu_time() -> Duration {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(rusage).sum()
}

fn rusage(who: libc::c_int) -> Duration {
    // SAFETY: an all-zero rusage is valid, and the call only writes into it.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(who, &mut usage);
        usage
    };
    let part = |t: libc::timeval| Duration::new(t.tv_sec as u64, t.tv_usec as u32 * 1000);
    part(usage.ru_utime) + part(usage.ru_stime)
}
