//! aarch64: entry, system call, clone.

use core::arch::{asm, global_asm};

// The kernel puts argc, argv and envp on the stack; pass its address to Rust.
global_asm!(
    ".globl _start",
    "_start:",
    "mov x29, xzr",
    "mov x30, xzr",
    "mov x0, sp",
    "bl {start}",
    "brk #1",
    start = sym crate::start
);

/// # Safety
/// The arguments must be what the call expects; pointers must stay valid for it.
pub unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the registers that the kernel changes are declared.
    unsafe {
        asm!(
            "svc #0",
            in("x8") number,
            inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") a[2], in("x3") a[3], in("x4") a[4], in("x5") a[5],
            options(nostack),
        );
    }
    result
}

/// Makes the system call `number`, `clone` or `clone3`; the child runs `body` on its own stack and never returns.
///
/// # Safety
/// The arguments must name a 16-byte-aligned stack that nothing else uses while the child lives.
pub unsafe fn clone_call(number: usize, a: [usize; 2], body: extern "C" fn() -> !) -> isize {
    let result: isize;
    // SAFETY: as above; the child gets a stack of its own and never comes back here.
    unsafe {
        asm!(
            "svc #0",
            "cbnz x0, 2f",
            "mov x29, xzr",
            "blr x9",
            "brk #1",
            "2:",
            in("x8") number,
            inlateout("x0") a[0] => result,
            in("x1") a[1], in("x2") 0usize, in("x3") 0usize, in("x4") 0usize,
            in("x9") body,
        );
    }
    result
}
