//! What the launcher and its sandbox cost: CPU and wall time of one `Launcher::run` against a bare `posix_spawn`
//! with pipes of the same program in the same process, and against bubblewrap.
//! `cargo run --release -p toolyard-runtimes --example spawn_ratio [n]`
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use std::error::Error;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use toolyard_runtimes::child::{Command, Confinement, Exchange, Launcher, Level, Options, TreeLevel};

const PROGRAM: &str = "/bin/cat";
const INPUT: &[u8] = &[b'x'; 100];
/// The two are measured in turns, so that a busy neighbour burdens both.
const ROUNDS: u32 = 10;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let runs: u32 = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())? / ROUNDS;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:<32} {:>10} {:>10} {:>8} {:>8}", "", "CPU µs", "wall µs", "CPU ×", "wall ×");
    for level in TreeLevel::ALL {
        let options = Options { level: Some(level), ..Options::default() };
        match Launcher::with_options(&std::env::temp_dir(), options) {
            Ok(launcher) => compare(&runtime, &Arc::new(launcher), runs)?,
            Err(_) => println!("{level:<32} not available"),
        }
    }
    Ok(())
}

/// One launcher at every level of confinement it gives, and bubblewrap doing the same as the strongest.
fn compare(runtime: &Runtime, launcher: &Arc<Launcher>, runs: u32) -> Outcome {
    let sandboxes = Level::ALL.into_iter().rev().filter(|level| *level <= launcher.sandbox_level());
    let mut sandboxes: Vec<(Level, Cost)> = sandboxes.map(|level| (level, Cost::default())).collect();
    let (mut bare, mut bubblewrap) = (Cost::default(), Cost::default());
    let with_bubblewrap = launcher.sandbox_level() == Level::Full && wrapped_spawn().is_ok();
    for _ in 0..ROUNDS {
        bare.add(|| (0..runs).try_for_each(|_| bare_spawn()))?;
        for (level, cost) in &mut sandboxes {
            // On a worker, as in the daemon: outside one, each wake-up would cross threads.
            let (launcher, level) = (Arc::clone(launcher), *level);
            let batch = async move {
                for _ in 0..runs {
                    through_launcher(&launcher, level).await?;
                }
                Ok(())
            };
            cost.add(|| runtime.block_on(runtime.spawn(batch))?)?;
        }
        if with_bubblewrap {
            bubblewrap.add(|| (0..runs).try_for_each(|_| wrapped_spawn()))?;
        }
    }
    let each = runs * ROUNDS;
    bare.print("bare posix_spawn", &bare, each);
    for (level, cost) in &sandboxes {
        cost.print(&format!("{}, sandbox {level}", launcher.level()), &bare, each);
    }
    if with_bubblewrap {
        bubblewrap.print("bubblewrap", &bare, each);
    }
    Ok(())
}

/// The standard library uses `posix_spawn` as long as nothing is asked that it can't do.
fn bare_spawn() -> Outcome {
    echo(&mut std::process::Command::new(PROGRAM))
}

/// What `Level::Full` does, as far as bubblewrap can; it has no filter and no Landlock of its own.
fn wrapped_spawn() -> Outcome {
    let mut command = std::process::Command::new("/usr/bin/bwrap");
    command.args(["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]);
    for path in ["/usr", "/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/nsswitch.conf"] {
        command.args(["--ro-bind-try", path, path]);
    }
    for (target, path) in
        [("usr/bin", "/bin"), ("usr/sbin", "/sbin"), ("usr/lib", "/lib"), ("usr/lib64", "/lib64")]
    {
        command.args(["--symlink", target, path]);
    }
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm"]);
    command.args(["--cap-drop", "ALL", "--new-session", "--die-with-parent", "--chdir", "/", PROGRAM]);
    echo(&mut command)
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
    if output == INPUT { Ok(()) } else { Err("wrong echo".into()) }
}

async fn through_launcher(launcher: &Launcher, level: Level) -> Outcome {
    let command = Command {
        program: PROGRAM.into(),
        argv: vec![PROGRAM.into()],
        env: Vec::new(),
        cwd: "/".into(),
        confinement: Confinement::at(level),
    };
    let deadline = Instant::now() + Duration::from_secs(10);
    let exchange = Exchange { stdin: INPUT.into(), output_cap: 1 << 20, deadline, on_listener: None };
    let output = launcher.run(&command, exchange).await?.stdout;
    if output == INPUT { Ok(()) } else { Err("wrong echo".into()) }
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
        // The last launchers are counted once they are reaped.
        std::thread::sleep(Duration::from_millis(100));
        self.cpu += cpu_time() - cpu;
        Ok(())
    }

    /// Of one run in microseconds, and as a multiple of `bare`.
    fn print(&self, name: &str, bare: &Cost, runs: u32) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(runs);
        let ratio = |time: Duration, bare: Duration| time.as_secs_f64() / bare.as_secs_f64();
        let (cpu, wall) = (ratio(self.cpu, bare.cpu), ratio(self.wall, bare.wall));
        println!("{name:<32} {:>10.0} {:>10.0} {cpu:>8.2} {wall:>8.2}", each(self.cpu), each(self.wall));
    }
}

/// User and system time of this process and of every descendant that was waited for.
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
