//! The tool's process: from clone to execve.

use core::cell::UnsafeCell;
use core::ptr;

use crate::confine::{LaunchScript, StepError};
use crate::{CONTROL, Failure, ToolResult, record, sys};

/// What to execute, and the result. The tool's process shares our memory until execve, while we are suspended
/// (as with vfork), so a plain cell carries both.
struct ExecRequest {
    program: *const u8,
    argv: *const *const u8,
    envp: *const *const u8,
    probe: bool,
    /// The launcher's pid if the tool must be killed when the launcher dies, else 0.
    parent: isize,
    script: Option<LaunchScript>,
    own_userns: bool,
    exec_errno: i32,
    step_error: Option<StepError>,
}

struct Shared<T>(UnsafeCell<T>);
// SAFETY: the launcher has one thread; a clone that shares the memory runs only while it is suspended.
unsafe impl<T> Sync for Shared<T> {}

static EXEC_REQUEST: Shared<ExecRequest> = Shared(UnsafeCell::new(ExecRequest {
    program: ptr::null(),
    argv: ptr::null(),
    envp: ptr::null(),
    probe: false,
    parent: 0,
    script: None,
    own_userns: false,
    exec_errno: 0,
    step_error: None,
}));

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; 8192]>);
// SAFETY: used only by the process that becomes the tool.
unsafe impl Sync for Stack {}
static STACK: Stack = Stack(UnsafeCell::new([0; 8192]));

/// # Safety
/// The pointers are those that `_start` got from the kernel.
pub unsafe fn prepare(program: *const u8, argv: *const *const u8, envp: *const *const u8, probe: bool) {
    let request = EXEC_REQUEST.0.get();
    // SAFETY: nothing else runs yet.
    unsafe {
        ((*request).program, (*request).argv, (*request).envp, (*request).probe) =
            (program, argv, envp, probe)
    };
}

/// Sets the script that sets up the tool's sandbox.
pub fn confine(script: LaunchScript) {
    // SAFETY: nothing else runs yet.
    unsafe { (*EXEC_REQUEST.0.get()).script = Some(script) };
}

/// Starts the tool and closes our copies of its stdio. `parent` is set if there is no pid namespace.
pub fn start(parent: Option<isize>, own_userns: bool) -> Result<isize, Failure> {
    let request = EXEC_REQUEST.0.get();
    // SAFETY: the process that shares the request does not exist yet.
    let script = unsafe {
        ((*request).parent, (*request).own_userns) = (parent.unwrap_or(0), own_userns);
        (*request).script
    };
    let (namespaces, cgroup) = script.map_or((0, 0), |script| (script.namespaces, script.cgroup));
    let flags = sys::CLONE_VM | sys::CLONE_VFORK | namespaces;
    // SAFETY: an aligned stack that only this one process uses.
    let pid = unsafe { sys::clone_with_stack(flags, sys::SIGCHLD, STACK.0.get(), cgroup, become_tool) };
    // So that the daemon sees end of file when the tool closes its output, not when the launcher exits.
    (0..CONTROL).for_each(sys::close);
    if pid < 0 { Err(Failure::setup(pid)) } else { Ok(pid) }
}

/// The result to report for a tool that was started and exited with `status`.
pub fn exit_result(status: i32) -> ToolResult {
    let request = EXEC_REQUEST.0.get();
    // SAFETY: the tool's process has written the results and no longer shares the memory. Volatile, because
    // the compiler does not know of its writes.
    let (step_error, exec_errno) = unsafe {
        let (step_error, exec_errno) = (&raw const (*request).step_error, &raw const (*request).exec_errno);
        (ptr::read_volatile(step_error), ptr::read_volatile(exec_errno))
    };
    if let Some(StepError { step, errno }) = step_error {
        return Err(Failure { stage: record::STAGE_CONFINE, errno, step });
    }
    match exec_errno {
        0 => Ok(status),
        errno => Err(Failure { stage: record::STAGE_EXEC, errno, step: 0 }),
    }
}

extern "C" fn become_tool() -> ! {
    let request = EXEC_REQUEST.0.get();
    // SAFETY: the launcher is suspended until this process executes the tool or exits, so nothing else uses
    // the request; its pointers are those that `_start` got from the kernel.
    unsafe {
        if (*request).parent != 0 {
            sys::die_with_parent();
            // The launcher may have died before that call.
            if sys::parent_pid() != (*request).parent {
                sys::exit(0);
            }
        }
        sys::setsid();
        if let Some(script) = (*request).script
            && let Err(step_error) = script.apply((*request).own_userns)
        {
            ptr::write_volatile(&raw mut (*request).step_error, Some(step_error));
            sys::exit(126);
        }
        if (*request).probe {
            sys::exit(0);
        }
        sys::reset_glibc_signals();
        sys::block_signals(0);
        sys::close(CONTROL);
        let result = sys::execve((*request).program, (*request).argv, (*request).envp);
        ptr::write_volatile(&raw mut (*request).exec_errno, -result as i32);
    }
    sys::exit(127)
}
