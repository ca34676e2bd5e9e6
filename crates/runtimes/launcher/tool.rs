//! The tool's process: from clone to execve.

use core::cell::UnsafeCell;
use core::ptr;

use crate::confine::{Plan, Refused};
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
    plan: Option<Plan>,
    own_users: bool,
    exec_errno: i32,
    refused: Option<Refused>,
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
    plan: None,
    own_users: false,
    exec_errno: 0,
    refused: None,
}));

#[repr(C, align(16))]
struct Stack([u8; 8192]);
static STACK: Shared<Stack> = Shared(UnsafeCell::new(Stack([0; 8192])));

/// # Safety
/// The pointers are those the kernel handed to `_start`.
pub unsafe fn prepare(program: *const u8, argv: *const *const u8, envp: *const *const u8, probe: bool) {
    let order = ORDER.0.get();
    unsafe { ((*order).program, (*order).argv, (*order).envp, (*order).probe) = (program, argv, envp, probe) };
}

/// The tool is to be confined by `plan`.
pub fn confine(plan: Plan) {
    unsafe { (*ORDER.0.get()).plan = Some(plan) };
}

/// Starts the tool and lets go of its stdio. `parent` is set when the tool is not in a namespace of ours.
pub fn start(parent: Option<isize>, own_users: bool) -> Result<isize, Failure> {
    let order = ORDER.0.get();
    unsafe { ((*order).parent, (*order).own_users) = (parent.unwrap_or(0), own_users) };
    let namespaces = unsafe { (*order).plan }.map_or(0, |plan| plan.namespaces);
    let flags = sys::CLONE_VM | sys::CLONE_VFORK | sys::SIGCHLD | namespaces;
    let pid = unsafe { sys::clone_running(flags, STACK.0.get().add(1).cast(), become_tool) };
    // The daemon sees the end of the tool's output when the tool closes it, not when we end.
    (0..CONTROL).for_each(sys::close);
    if pid < 0 { Err(Failure::setup(pid)) } else { Ok(pid) }
}

/// The end to report for a tool that was started and then ended with `status`.
pub fn ended(status: i32) -> Ended {
    let order = ORDER.0.get();
    if let Some(Refused { step, errno }) = unsafe { ptr::read_volatile(&raw const (*order).refused) } {
        return Err(Failure { stage: record::STAGE_CONFINE, errno, step });
    }
    match unsafe { ptr::read_volatile(&raw const (*order).exec_errno) } {
        0 => Ok(status),
        errno => Err(Failure { stage: record::STAGE_EXEC, errno, step: 0 }),
    }
}

extern "C" fn become_tool() -> ! {
    let order = ORDER.0.get();
    unsafe {
        if (*order).parent != 0 {
            sys::die_with_parent();
            // Too late when the launcher died before that call.
            if sys::parent_pid() != (*order).parent {
                sys::exit(0);
            }
        }
        sys::setsid();
        if let Some(plan) = (*order).plan
            && let Err(refused) = plan.apply((*order).own_users)
        {
            ptr::write_volatile(&raw mut (*order).refused, Some(refused));
            sys::exit(126);
        }
        if (*order).probe {
            sys::exit(0);
        }
        sys::default_the_signals_glibc_ignores();
        sys::block_signals(0);
        sys::close(CONTROL);
        let result = sys::execve((*order).program, (*order).argv, (*order).envp);
        ptr::write_volatile(&raw mut (*order).exec_errno, -result as i32);
    }
    sys::exit(127)
}
