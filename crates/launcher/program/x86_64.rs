//! x86_64: entry, system call, clone.

use core::arch::{asm, global_asm};

// The kernel puts argc, argv and envp on the stack; pass its address to Rust.
global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "mov rdi, rsp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym crate::start
);

/// # Safety
/// The arguments must be what the call expects; pointers must stay valid for it.
pub unsafe fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the registers that the kernel changes are declared.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
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
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "call r9",
            "ud2",
            "2:",
            inlateout("rax") number as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") 0usize,
            in("r10") 0usize, in("r8") 0usize, in("r9") body,
            lateout("rcx") _, lateout("r11") _,
        );
    }
    result
}
