//! The functions that the compiler may insert calls to. The index is opaque, because the compiler would turn
//! a plain byte loop into a call of the function that contains it.

macro_rules! opaque {
    ($value:expr) => {
        core::hint::black_box($value)
    };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    let mut i = 0;
    while opaque!(i) < n {
        // SAFETY: the caller promises `n` bytes at both.
        unsafe { *to.add(i) = *from.add(i) };
        i += 1;
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if (to as usize) <= (from as usize) {
        // SAFETY: the same promise; ascending order is right when the target is lower.
        return unsafe { memcpy(to, from, n) };
    }
    let mut i = n;
    while opaque!(i) > 0 {
        i -= 1;
        // SAFETY: the caller promises `n` bytes at both.
        unsafe { *to.add(i) = *from.add(i) };
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    let mut i = 0;
    while opaque!(i) < n {
        // SAFETY: the caller promises `n` bytes.
        unsafe { *to.add(i) = byte as u8 };
        i += 1;
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut i = 0;
    while opaque!(i) < n {
        // SAFETY: the caller promises `n` bytes at both.
        let (x, y) = unsafe { (*a.add(i), *b.add(i)) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
        i += 1;
    }
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the same promise.
    unsafe { memcmp(a, b, n) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut i = 0;
    // SAFETY: the caller promises a NUL, and no byte after it is read.
    while unsafe { *text.add(opaque!(i)) } != 0 {
        i += 1;
    }
    i
}

/// Referenced by the unwind tables of the precompiled `core`; never called, since a panic aborts.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
