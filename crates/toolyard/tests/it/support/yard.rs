//! Yards in temporary folders, and commands of the program on them.

use super::process::{CommandOutput, Server, run_for, toolyard_path};
use super::{TIMEOUT, is_root, planted, require};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with tools, removed when dropped unless it is searched later.
pub struct Yard {
    base: PathBuf,
    run_as: RunAs,
    /// Variables of its commands besides PATH and HOME.
    variables: Vec<(String, String)>,
}

/// The user who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunAs {
    /// The user who runs the tests.
    CurrentUser,
    /// An ordinary user; only root can become one.
    Nobody,
}

const NOBODY: u32 = 65534;

impl RunAs {
    /// Every user that this machine can test with.
    pub fn all() -> Vec<RunAs> {
        match require(is_root(), "the tests do not run as root, so that only one user is tested") {
            true => vec![RunAs::CurrentUser, RunAs::Nobody],
            false => vec![RunAs::CurrentUser],
        }
    }
}

/// The kinds of tools that run a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Cli,
    Process,
    Binary,
}

impl Kind {
    pub const ALL: [Kind; 3] = [Kind::Cli, Kind::Process, Kind::Binary];
}

impl Yard {
    pub fn new() -> Yard {
        Yard::of(RunAs::CurrentUser)
    }

    /// A yard without the planted secret.
    pub fn without_secret() -> Yard {
        Yard::of_without_secret(RunAs::CurrentUser)
    }

    pub fn of_without_secret(run_as: RunAs) -> Yard {
        let mut yard = Yard::of(run_as);
        yard.variables.clear();
        yard
    }

    /// Adds a variable to the environment of its commands.
    pub fn variable(mut self, name: &str, value: &str) -> Yard {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn of(run_as: RunAs) -> Yard {
        let base = std::env::temp_dir().join(format!("toolyard-it-{}", super::unique()));
        fs::create_dir(&base).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        // A tool with a secret needs the token; tests of other things call it without.
        let variables = [(planted::VARIABLE, planted::secret()), ("TOOLYARD_AUTH_TOKEN", "off".to_owned())];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let yard = Yard { base, run_as, variables };
        for folder in ["yard", "yard/tools", "home"] {
            fs::create_dir(yard.base.join(folder)).unwrap();
            yard.give(&yard.base.join(folder));
        }
        // Makes the folder a yard before it has a tool.
        yard.file("toolyard.toml", "");
        yard
    }

    pub fn root(&self) -> PathBuf {
        self.base.join("yard")
    }

    /// The owner's home, beside the yard.
    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> &Yard {
        let full = self.path(path);
        fs::create_dir_all(full.parent().unwrap()).unwrap();
        fs::write(&full, content).unwrap();
        self.give(&full);
        self
    }

    pub fn executable(&self, path: &str, content: impl AsRef<[u8]>) -> &Yard {
        self.file(path, content);
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(0o755)).unwrap();
        self
    }

    /// A tool of the kind that runs the shell script.
    pub fn shell(&self, kind: Kind, name: &str, script: &str) -> &Yard {
        self.tool(kind, name, &["/bin/sh", "-c", script], json!({}))
    }

    /// A tool of the kind with `extra` fields of its file format.
    pub fn tool(&self, kind: Kind, name: &str, argv: &[&str], extra: Value) -> &Yard {
        let (path, mut fields) = match kind {
            // JSON is YAML.
            Kind::Cli => {
                (format!("tools/{name}.tool.yaml"), json!({"id": name, "kind": "cli", "entry": argv}))
            }
            Kind::Process | Kind::Binary => {
                let runtime = if kind == Kind::Process { "process" } else { "binary" };
                let entry = json!({"command": argv[0], "args": argv[1..]});
                (format!("tools/{name}/tool.json"), json!({"id": name, "runtime": runtime, "entry": entry}))
            }
        };
        let fields = fields.as_object_mut().unwrap();
        if !self.variables.is_empty() {
            fields.insert("secrets".to_owned(), json!({"PLANTED": format!("secret:{}", planted::NAME)}));
        }
        fields.extend(extra.as_object().unwrap().clone());
        self.file(&path, serde_json::to_vec_pretty(&fields).unwrap())
    }

    /// The program with a clean environment, in the yard's folder.
    pub fn command(&self) -> Command {
        self.command_of(self.program())
    }

    /// Another program, as the same user and with the same environment.
    pub fn command_of(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = match self.run_as {
            RunAs::CurrentUser => Command::new(program),
            RunAs::Nobody => {
                let mut command = Command::new("setpriv");
                command.args([format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")]);
                command.arg("--clear-groups").arg(program);
                command
            }
        };
        command.current_dir(self.root()).env_clear();
        command
            .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
            .env("HOME", self.base.join("home"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs a command of the program to completion.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.command();
        command.args(arguments);
        run_for(command, TIMEOUT)
    }

    /// Runs `call` with `--json`.
    #[track_caller]
    pub fn call(&self, name: &str, arguments: &Value) -> (CommandOutput, Value) {
        let ran = self.run(&["call", name, &arguments.to_string(), "--json"]);
        let envelope = ran.json();
        (ran, envelope)
    }

    pub fn serve(&self) -> Server {
        self.serve_with(&[])
    }

    pub fn serve_with(&self, arguments: &[&str]) -> Server {
        let mut command = self.command();
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        Server::start(command)
    }

    /// Every audit record, in the order of the export.
    pub fn records(&self) -> Vec<Value> {
        let ran = self.run(&["audit", "export"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        ran.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The program under test, or a copy for a user who cannot access the build folder.
    pub fn program(&self) -> PathBuf {
        let built = toolyard_path();
        let open = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o001 != 0);
        if self.run_as == RunAs::CurrentUser || built.ancestors().all(open) {
            return built;
        }
        let copy = self.base.join("toolyard");
        if !copy.exists() {
            fs::copy(&built, &copy).unwrap();
        }
        copy
    }

    fn give(&self, path: &Path) {
        if self.run_as == RunAs::Nobody {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            // Created parent folders belong to the user too.
            let root = self.root();
            for folder in path.ancestors().skip(1).take_while(|folder| folder.starts_with(&root)) {
                chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        if planted::is_searched_for() {
            // Large, and created before the secret.
            let _ = fs::remove_file(self.base.join("toolyard"));
        } else {
            let _ = fs::remove_dir_all(&self.base);
        }
    }
}
