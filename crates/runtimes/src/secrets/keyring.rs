//! Secrets in the kernel's keyring, which are never in a file: `keyctl add user toolyard:YARD:NAME VALUE @u`.
//!
//! A key belongs to one yard, whose folder is in its name: a yard from elsewhere can declare any secret.

use super::loaded::Value;
use super::{MAX_BYTES, check};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use toolyard_protocol::SecretName;

/// The value of the yard's key in this user's keyrings, if it exists.
#[cfg(target_os = "linux")]
pub fn read(yard: &Path, name: &SecretName) -> Option<Value> {
    const READ: libc::c_long = 11;
    let parts = [b"toolyard:", yard.as_os_str().as_bytes(), b":", name.as_str().as_bytes()];
    let description = CString::new(parts.concat()).ok()?;
    // SAFETY: both texts end with NUL; the null argument means that no helper program is started.
    let key = unsafe {
        libc::syscall(
            libc::SYS_request_key,
            c"user".as_ptr(),
            description.as_ptr(),
            std::ptr::null::<libc::c_char>(),
            0,
        )
    };
    if key < 0 {
        return None;
    }
    let mut value = vec![0u8; MAX_BYTES + 1];
    // SAFETY: the kernel writes at most the given number of bytes into the buffer.
    let length = unsafe { libc::syscall(libc::SYS_keyctl, READ, key, value.as_mut_ptr(), value.len()) };
    let length = usize::try_from(length).ok()?;
    value.truncate(length);
    let text = String::from_utf8(value).map_err(|_| "it is not UTF-8".to_owned());
    Some(text.and_then(|text| check(&text).map(|()| text)))
}

/// Keyrings of other systems are not supported.
#[cfg(not(target_os = "linux"))]
pub fn read(_: &Path, _: &SecretName) -> Option<Value> {
    None
}
