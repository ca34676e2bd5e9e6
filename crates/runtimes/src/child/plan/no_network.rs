//! A network namespace with nothing in it, made once and entered by every tool that has no network.
//!
//! Making one for each call would cost more than all other walls together. Tools cannot meet in it: the system call
//! filter gives them no socket but UNIX ones, and Landlock keeps abstract names apart, which is why it must be there.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use super::landlock::Abi;
use crate::child::TreeLevel;

/// The first version of Landlock that keeps abstract UNIX sockets apart.
const SCOPES: Abi = Abi(6);

pub struct NoNetwork {
    /// Keeps the namespace alive; launchers find it through `/proc`.
    fd: OwnedFd,
}

impl NoNetwork {
    /// `None` where it cannot be made or would not be safe to share; each tool then gets one of its own. A tool in a
    /// user namespace of its own could not enter it.
    pub fn new(abi: Abi, level: TreeLevel) -> Option<NoNetwork> {
        if abi < SCOPES || level != TreeLevel::PidNamespace {
            return None;
        }
        // A namespace belongs to a thread; this one ends with it, and the descriptor keeps it.
        let made = std::thread::spawn(|| {
            // SAFETY: changes this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return None;
            }
            File::open("/proc/thread-self/ns/net").ok()
        });
        let fd = made.join().ok().flatten()?.into();
        Some(NoNetwork { fd })
    }

    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.fd.as_raw_fd())
    }
}
