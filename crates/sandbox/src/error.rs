//! What can go wrong with a child, each with the fact a user needs.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use super::TreeLevel;

/// Why a run gave no result. The tree is dead in every case.
#[derive(Debug, Error)]
pub enum ChildError {
    #[error("cannot start {}: there is no such file", program.display())]
    ProgramMissing { program: PathBuf },
    #[error("cannot start {}: the interpreter or loader it names is missing", program.display())]
    InterpreterMissing { program: PathBuf },
    #[error("cannot start {}: {source}", program.display())]
    NotExecutable { program: PathBuf, source: io::Error },
    #[error("cannot use {} as working directory: {source}", cwd.display())]
    WorkingDirectory { cwd: PathBuf, source: io::Error },
    #[error("argument {index} contains a NUL byte, which no program can receive")]
    NulInArgument { index: usize },
    #[error(
        "the environment variable {name:?} can't be passed: NUL in it, or its name is empty or has a '='"
    )]
    BadEnvironment { name: String },
    #[error("the path {path:?} contains a NUL byte")]
    NulInPath { path: PathBuf },
    #[error("the arguments and the environment together are longer than the system passes to a program")]
    ArgumentsTooLong,
    #[error("not finished at the deadline; the program and all it started were killed")]
    Timeout { stderr_tail: String },
    #[error("more than {cap} bytes of output; the program and all it started were killed")]
    OutputOverCap { cap: usize, stderr_tail: String },
    #[error("more than {limit} bytes of memory; the program and all it started were killed")]
    MemoryOverCap { limit: u64, stderr_tail: String },
    #[error("more than {} ms of CPU time; the program and all it started were killed", limit.as_millis())]
    CpuOverCap { limit: Duration, stderr_tail: String },
    #[error("more than {limit} processes; the program and all it started were killed")]
    ProcessesOverCap { limit: u64, stderr_tail: String },
    #[error("cannot confine the program, so it was not started: {step}: {source}")]
    Confinement { step: String, source: io::Error },
    #[error("cannot start the program: {0}")]
    Spawn(#[source] io::Error),
    #[error("cannot set up a way to hold the process tree: {0}")]
    ProcessTree(#[source] io::Error),
    #[error("the launcher was killed from outside before it could tell how the program ended")]
    LauncherDied,
}

/// Why no launcher could be made ready.
#[derive(Debug, Error)]
pub enum LauncherError {
    #[error(
        "cannot execute the launcher, neither from memory ({memory}) nor as a file in {}: {file}",
        directory.display()
    )]
    NotExecutable { directory: PathBuf, memory: io::Error, file: io::Error },
    #[error("process trees can't be held by {level} here: {source}")]
    LevelRefused { level: TreeLevel, source: io::Error },
    #[error(
        "no way to hold a process tree works here: pid namespaces are refused and /proc gives no children"
    )]
    NoLevel,
    #[error("cannot start the thread that collects ended children: {0}")]
    Reaper(#[source] io::Error),
}
