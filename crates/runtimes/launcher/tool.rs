//! The tool's process: from clone to execve.

use core::cell::UnsafeCell;
use core::ptr;

use crate::{CONTROL, Ended, Failure, record, sys};

/// What to execute, and what came of it. The tool's process shares our memory until it executes, while we are
/// suspended (as with vfork), so a plain cell is both the order and the answer.
struct Order {
    program: *const u8,
    argv: *const *const u8,
    envp: *const *const u8,
    probe: bool,
    /// The launcher's pid when the tool must notice its death by itself.
    parent: isize,
    exec_errno: i32,
}

struct Shared<T>(UnsafeCell<T>);
// SAFETY: the launcher is one thread; a clone that shares the memory runs only while we are suspended.
unsafe impl<T> Sync for Shared<T> {}

static ORDER: Shared<Order> = Shared(UnsafeCell::new(Order {
    program: ptr::null(),
    argv: ptr::null(),
    envp: ptr::null(),
    probe: false,
    parent: 0,
    exec_errno: 0,
}));

#[repr(C, align(16))]
struct Stack([u8; 4096]);
static STACK: Shared<Stack> = Shared(UnsafeCell::new(Stack([0; 4096])));

/// # Safety
/// The pointers are those the kernel handed to `_start`.
pub unsafe fn prepare(program: *const u8, argv: *const *const u8, envp: *const *const u8, probe: bool) {
    unsafe { *ORDER.0.get() = Order { program, argv, envp, probe, parent: 0, exec_errno: 0 } };
}

/// Starts the tool and lets go of its stdio. `parent` is set when the tool is not in a namespace of ours.
pub fn start(parent: Option<isize>) -> Result<isize, Failure> {
    let order = ORDER.0.get();
    unsafe { (*order).parent = parent.unwrap_or(0) };
    let flags = sys::CLONE_VM | sys::CLONE_VFORK | sys::SIGCHLD;
    let pid = unsafe { sys::clone_running(flags, STACK.0.get().add(1).cast(), become_tool) };
    // The daemon sees the end of the tool's output when the tool closes it, not when we end.
    (0..CONTROL).for_each(sys::close);
    if pid < 0 { Err(Failure::setup(pid)) } else { Ok(pid) }
}

/// The end to report for a tool that was started and then ended with `status`.
pub fn ended(status: i32) -> Ended {
    match unsafe { ptr::read_volatile(&raw const (*ORDER.0.get()).exec_errno) } {
        0 => Ok(status),
        errno => Err(Failure { stage: record::STAGE_EXEC, errno }),
    }
}

extern "C" fn become_tool() -> ! {
    let order = ORDER.0.get();
    unsafe {
        if (*order).probe {
            sys::exit(0);
        }
        if (*order).parent != 0 {
            sys::die_with_parent();
            // Too late when the launcher died before that call.
            if sys::parent_pid() != (*order).parent {
                sys::exit(0);
            }
        }
        sys::setsid();
        sys::default_the_signals_glibc_ignores();
        sys::block_signals(0);
        sys::close(CONTROL);
        let result = sys::execve((*order).program, (*order).argv, (*order).envp);
        ptr::write_volatile(&raw mut (*order).exec_errno, -result as i32);
    }
    sys::exit(127)
}
