//! The launcher: a small program between the daemon and one tool, which contains and kills the tool's whole
//! process tree, so that the daemon need not fork.
//!
//! `argv` is `[name, flags, program, tool argv0, …]`, `envp` and the working directory are the tool's,
//! descriptors 0–2 are its stdio and 3 is the control socket. The daemon starts it with all signals blocked,
//! so that only SIGKILL ends it before its tool. When the daemon closes or shuts down its end of the socket,
//! or dies, the tree is killed. When the tool exits, its remaining descendants are killed and a `Record` is
//! sent. With `FLAG_SCRIPT`, a launch script that sets up the sandbox is read from the socket first.
//!
//! One process, no threads, no allocation, no C library: exec, page faults and dynamic linking of an ordinary
//! program would cost more than everything done here.

#![no_std]
#![no_main]
// The levels of the workspace, which cargo does not apply to a program that a build script compiles.
#![deny(unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::todo, clippy::unimplemented)]

mod confine;
mod mem;
mod namespace;
#[path = "../src/record.rs"]
mod record;
#[path = "../src/script.rs"]
mod script;
mod subreaper;
mod sys;
mod tool;

use core::ffi::CStr;

use record::Record;

/// The control socket.
pub const CONTROL: usize = 3;

/// How a tool ended, or why it did not start.
pub type ToolResult = Result<i32, Failure>;

pub struct Failure {
    pub stage: u8,
    pub errno: i32,
    /// The step of the script that failed, if any.
    pub step: i32,
}

impl Failure {
    /// `result` is the negative result of a system call.
    pub fn setup(result: isize) -> Failure {
        Failure { stage: record::STAGE_SETUP, errno: -result as i32, step: 0 }
    }
}

/// # Safety
/// `stack` is the initial stack from the kernel: argc, argv, NULL, envp, NULL.
pub unsafe extern "C" fn start(stack: *const usize) -> ! {
    // SAFETY: the stack begins with argc and argv.
    let (argc, argv) = unsafe { (*stack, stack.add(1).cast::<*const u8>()) };
    if argc < 4 {
        sys::exit(64);
    }
    // SAFETY: there are at least four arguments, each a NUL-terminated string that is never freed.
    let flags = unsafe { CStr::from_ptr((*argv.add(1)).cast()) }.to_bytes();
    let probe = flags.contains(&record::FLAG_PROBE);
    // SAFETY: the program is the third argument, the tool's list follows, and envp follows its NULL.
    unsafe { tool::prepare(*argv.add(2), argv.add(3), argv.add(argc + 1), probe) };

    let mut record = Record { level: 0, stage: record::STAGE_SETUP, errno: 0, status: 0 };
    match prepare(flags) {
        Err(result) => record.errno = -result as i32,
        Ok(()) => run_contained(flags, &mut record),
    }
    sys::write(CONTROL, &record.to_bytes());
    sys::exit(0)
}

/// Closes inherited descriptors and receives the script, if there is one.
fn prepare(flags: &[u8]) -> Result<(), isize> {
    // With a script, the descriptors of shared namespaces and cgroups stay open; running it closes them.
    let first = if flags.contains(&record::FLAG_SCRIPT) { script::FD_END } else { CONTROL + 1 };
    let closed = sys::close_from(first);
    if closed < 0 {
        return Err(closed);
    }
    if flags.contains(&record::FLAG_SCRIPT) {
        tool::confine(confine::LaunchScript::receive()?);
    }
    Ok(())
}

/// Tries the containment levels in the order of `flags`; runs the tool at the first that can be set up.
fn run_contained(flags: &[u8], record: &mut Record) {
    let join = flags.contains(&record::FLAG_JOIN);
    for &level in flags {
        let ready = match level {
            record::LEVEL_PID_NAMESPACE => namespace::enter(),
            record::LEVEL_USER_PID_NAMESPACE if join => namespace::join_as_user(),
            record::LEVEL_USER_PID_NAMESPACE => namespace::enter_as_user(),
            record::LEVEL_SUBREAPER => subreaper::enter(),
            _ => continue,
        };
        record.level = level;
        let ended = match ready {
            Err(failure) if !failure.irreversible => {
                record.errno = failure.errno;
                continue;
            }
            // After entering a namespace, no other level can be tried.
            Err(failure) => Err(Failure::setup(-(failure.errno as isize))),
            Ok(()) if level == record::LEVEL_SUBREAPER => subreaper::run(),
            Ok(()) => namespace::run(level == record::LEVEL_USER_PID_NAMESPACE && !join),
        };
        (record.stage, record.errno, record.status) = match ended {
            Ok(status) => (record::STAGE_RAN, 0, status),
            Err(failure) => (failure.stage, failure.errno, failure.step),
        };
        return;
    }
}

/// A level that could not be set up, and whether an irreversible step had already been taken.
pub struct LevelError {
    pub irreversible: bool,
    pub errno: i32,
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    sys::exit(70)
}
