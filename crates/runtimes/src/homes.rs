//! The home folders of this machine, by its user database.

use std::ffi::CStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Entries of the user database that are read; a directory service may have many more.
const MAX_USERS: usize = 10_000;
/// Users below are the system's: their "homes" are folders such as `/usr/sbin` and `/var/www`.
const FIRST_PERSON: u32 = 1000;

/// The home folders of root, of people, and of the user who runs this program.
pub fn home_folders() -> Vec<PathBuf> {
    static DATABASE: Mutex<()> = Mutex::new(());
    let _one_reader = DATABASE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let us = rustix::process::getuid().as_raw();
    let mut homes = Vec::new();
    let mut add = |user: *const libc::passwd| {
        // SAFETY: the entry and its texts stay valid until the next call of these functions, which the lock
        // above keeps to this thread.
        let (uid, home) = unsafe { ((*user).pw_uid, CStr::from_ptr((*user).pw_dir)) };
        let home = Path::new(std::ffi::OsStr::from_bytes(home.to_bytes()));
        let is_person = uid == 0 || uid == us || uid >= FIRST_PERSON;
        if is_person && home.is_absolute() && home.parent().is_some() {
            homes.push(home.to_owned());
            homes.extend(std::fs::canonicalize(home));
        }
    };
    // SAFETY: see above; a null pointer ends the list.
    unsafe {
        libc::setpwent();
        for _ in 0..MAX_USERS {
            match libc::getpwent() {
                user if user.is_null() => break,
                user => add(user),
            }
        }
        libc::endpwent();
        // A directory service may answer for one user without listing all.
        let user = libc::getpwuid(us);
        if !user.is_null() {
            add(user);
        }
    }
    homes.sort();
    homes.dedup();
    homes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_of_root_is_known_and_no_folder_of_the_system() {
        let homes = home_folders();
        assert!(homes.contains(&PathBuf::from("/root")), "{homes:?}");
        for system in ["/", "/bin", "/usr/sbin", "/var/www"] {
            assert!(!homes.contains(&PathBuf::from(system)), "{system}: {homes:?}");
        }
    }
}
