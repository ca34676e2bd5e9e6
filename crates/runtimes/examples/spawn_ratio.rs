//! What the launcher costs: CPU and wall time of one `Launcher::run` against a bare `posix_spawn` with pipes of
//! the same program in the same process. `cargo run --release -p toolyard-runtimes --example spawn_ratio [n]`
#![allow(clippy::print_stdout, reason = "a measurement prints its result")]

use std::error::Error;
use std::io::{Read, Write};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolyard_runtimes::child::{Command, Confinement, Exchange, Launcher, Options, TreeLevel};

const PROGRAM: &str = "/bin/cat";
const INPUT: &[u8] = &[b'x'; 100];
/// The two are measured in turns, so that a busy neighbour burdens both.
const ROUNDS: u32 = 10;

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() -> Outcome {
    let runs: u32 = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())? / ROUNDS;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    println!("{:<24} {:>10} {:>10} {:>8} {:>8}", "", "CPU µs", "wall µs", "CPU ×", "wall ×");
    for level in TreeLevel::ALL {
        let options = Options { level: Some(level), ..Options::default() };
        let Ok(launcher) = Launcher::with_options(&std::env::temp_dir(), options) else {
            println!("{level:<24} not available");
            continue;
        };
        let launcher = Arc::new(launcher);
        let (mut bare, mut held) = (Cost::default(), Cost::default());
        for _ in 0..ROUNDS {
            bare.add(|| (0..runs).try_for_each(|_| bare_spawn()))?;
            // On a worker, as in the daemon: outside one, each wake-up would cross threads.
            let launcher = Arc::clone(&launcher);
            let batch = async move {
                for _ in 0..runs {
                    through_launcher(&launcher).await?;
                }
                Ok(())
            };
            held.add(|| runtime.block_on(runtime.spawn(batch))?)?;
        }
        let (bare, held) = (bare.per(runs * ROUNDS), held.per(runs * ROUNDS));
        println!("{:<24} {:>10.0} {:>10.0}", "bare posix_spawn", bare.0, bare.1);
        let (cpu, wall) = (held.0 / bare.0, held.1 / bare.1);
        println!("{:<24} {:>10.0} {:>10.0} {cpu:>8.2} {wall:>8.2}", level.to_string(), held.0, held.1);
    }
    Ok(())
}

/// The standard library uses `posix_spawn` as long as nothing is asked that it can't do.
fn bare_spawn() -> Outcome {
    let mut child = std::process::Command::new(PROGRAM)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let (mut stdin, mut stdout) = (child.stdin.take().ok_or("stdin")?, child.stdout.take().ok_or("stdout")?);
    stdin.write_all(INPUT)?;
    drop(stdin);
    let mut output = Vec::new();
    stdout.read_to_end(&mut output)?;
    child.wait()?;
    if output == INPUT { Ok(()) } else { Err("wrong echo".into()) }
}

async fn through_launcher(launcher: &Launcher) -> Outcome {
    let command = Command {
        program: PROGRAM.into(),
        argv: vec![PROGRAM.into()],
        env: Vec::new(),
        cwd: "/".into(),
        confinement: Confinement::none(),
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

    /// CPU and wall time of one run in microseconds.
    fn per(&self, runs: u32) -> (f64, f64) {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(runs);
        (each(self.cpu), each(self.wall))
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
