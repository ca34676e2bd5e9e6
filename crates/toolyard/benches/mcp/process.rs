//! The servers that are compared, each a process whose CPU time is measured.

use crate::BoxError;
use crate::load::{CONNECTIONS, Load, REQUESTS};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Killed when dropped.
pub struct Server {
    child: Child,
    pub address: String,
    yard: Option<PathBuf>,
}

impl Server {
    /// Toolyard, on a yard with the built-in echo; its log goes to a file.
    pub fn ours(options: &[&str]) -> Result<Server, BoxError> {
        let name = format!("toolyard-bench-mcp-{}{}", std::process::id(), options.concat());
        let yard = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&yard)?;
        std::fs::write(yard.join("toolyard.toml"), "[builtin]\necho = true\n")?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(options).arg(&yard);
        command.stderr(std::fs::File::create(yard.join("log"))?);
        let mut server = Server::start(command)?;
        server.yard = Some(yard);
        Ok(server)
    }

    pub fn bare() -> Result<Server, BoxError> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--bare");
        Server::start(command)
    }

    /// The same tool on the official Rust SDK, if `scripts/bench-mcp` has built it.
    pub fn rmcp() -> Result<Option<Server>, BoxError> {
        let Some(program) = std::env::var_os("YARD_RMCP_PEER") else { return Ok(None) };
        Server::start(Command::new(program)).map(Some)
    }

    fn start(mut command: Command) -> Result<Server, BoxError> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let address = line.split_once("http://").map_or(line.as_str(), |(_, rest)| rest);
        let address = address.split_whitespace().next().ok_or("no address")?.to_owned();
        Ok(Server { child, address, yard: None })
    }

    /// CPU time of the server per request and latency of a client, in microseconds.
    pub fn cost_of(&self, load: &Load) -> Result<(f64, f64), BoxError> {
        let before = self.cpu_us()?;
        let program = std::env::current_exe()?;
        let mut client = Command::new(program);
        client.args(["--load", &self.address, &load.headers, load.body]);
        let ended = client.stderr(Stdio::inherit()).output()?;
        if !ended.status.success() {
            return Err("the load failed".into());
        }
        // Waits until the last records are synced, to count them.
        std::thread::sleep(Duration::from_millis(150));
        let cost = (self.cpu_us()? - before) / (CONNECTIONS * REQUESTS) as f64;
        Ok((cost, String::from_utf8(ended.stdout)?.trim().parse()?))
    }

    pub fn resident_kb(&self) -> Result<f64, BoxError> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }

    /// User and system time; the kernel counts it in hundredths of a second.
    fn cpu_us(&self) -> Result<f64, BoxError> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let rest = stat.rsplit_once(')').ok_or("no name in stat")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) * 10_000.0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(yard) = &self.yard {
            let _ = std::fs::remove_dir_all(yard);
        }
    }
}
