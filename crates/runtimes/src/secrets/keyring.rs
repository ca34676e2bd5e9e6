//! The kernel's keyring: `keyctl add user toolyard:NAME VALUE @u` puts a secret there, and no file ever holds it.

use super::loaded::Value;
use super::{MAX_BYTES, check};
use std::ffi::CString;
use toolyard_protocol::SecretName;

/// The value, when this user's keyrings have a key of that name.
#[cfg(target_os = "linux")]
pub fn read(name: &SecretName) -> Option<Value> {
    const READ: libc::c_long = 11;
    let description = CString::new(format!("toolyard:{name}")).ok()?;
    // SAFETY: both texts end with NUL; the third argument says that nothing is to be fetched by a helper program.
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

/// Other systems have other keyrings; none of them is read yet.
#[cfg(not(target_os = "linux"))]
pub fn read(_: &SecretName) -> Option<Value> {
    None
}
