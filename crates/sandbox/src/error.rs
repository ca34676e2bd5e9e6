//! Errors of starting and running a child process.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::TreeLevel;

/// Why a run has no result. The process tree is dead in every case.
#[derive(Debug, Error)]
pub enum ChildError {
    #[error("cannot start {}: file not found", program.display())]
    ProgramMissing { program: PathBuf },
    #[error("cannot start {}: the interpreter or loader it names is missing", program.display())]
    InterpreterMissing { program: PathBuf },
    #[error("cannot start {}: {source}", program.display())]
    NotExecutable { program: PathBuf, source: io::Error },
    #[error("cannot use {} as working directory: {source}", cwd.display())]
    WorkingDirectory { cwd: PathBuf, source: io::Error },
    #[error("argument {index} contains a NUL byte")]
    NulInArgument { index: usize },
    #[error("invalid environment variable {name:?}: it contains NUL, or its name is empty or contains '='")]
    BadEnvironment { name: String },
    #[error("the path {path:?} contains a NUL byte")]
    NulInPath { path: PathBuf },
    #[error("the arguments and the environment exceed the system's size limit")]
    ArgumentsTooLong,
    #[error("timed out; the program and its child processes were killed")]
    Timeout { stderr_tail: String },
    #[error("its output found no memory in time; the program and its child processes were killed")]
    NoOutputMemory { stderr_tail: String },
    #[error("more than {cap} bytes of output; the program and its child processes were killed")]
    OutputOverCap { cap: usize, stderr_tail: String },
    #[error("more than {limit} bytes of memory; the program and its child processes were killed")]
    MemoryOverCap { limit: u64, stderr_tail: String },
    #[error("more than {} ms of CPU time; the program and its child processes were killed", limit.as_millis())]
    CpuOverCap { limit: Duration, stderr_tail: String },
    #[error("more than {limit} processes; the program and its child processes were killed")]
    ProcessesOverCap { limit: u64, stderr_tail: String },
    #[error("cannot confine the program, so it was not started: {step}: {source}")]
    Confinement { step: String, source: io::Error },
    #[error("cannot start the program: {0}")]
    Spawn(#[source] io::Error),
    #[error("cannot set up containment of the process tree: {0}")]
    ProcessTree(#[source] io::Error),
    #[error("the launcher was killed before it reported how the program ended")]
    LauncherDied,
}

/// Why the launcher cannot be used on this system.
#[derive(Debug, Error)]
pub enum LauncherError {
    #[error(
        "cannot execute the launcher, neither from memory ({memory}) nor as a file in {}: {file}",
        directory.display()
    )]
    NotExecutable { directory: PathBuf, memory: io::Error, file: io::Error },
    #[error("cannot contain process trees with a {level} on this system: {source}")]
    LevelRefused { level: TreeLevel, source: io::Error },
    #[error(
        "cannot contain process trees on this system: pid namespaces are denied and /proc does not list children"
    )]
    NoLevel,
    #[error("cannot start a thread for child processes: {0}")]
    Thread(#[source] io::Error),
}
