//! Namespaces with nothing in them, made once and entered by every tool: one without a network, one without shared
//! memory segments, queues and semaphores by number.
//!
//! Making them for each call would cost more than all other walls together. Tools cannot meet in them: the system call
//! filter gives them no socket but UNIX ones and none of the calls for such objects, and Landlock keeps abstract names
//! apart, which is why it must be there.

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};

use super::landlock::Abi;
use crate::child::TreeLevel;

/// The first version of Landlock that keeps abstract UNIX sockets apart.
const SCOPES: Abi = Abi(6);

/// Descriptors keep the namespaces alive; launchers find them through `/proc`.
pub struct Empty {
    network: OwnedFd,
    ipc: OwnedFd,
}

impl Empty {
    /// `None` where they cannot be made or would not be safe to share; each tool then gets its own. A tool in a user
    /// namespace of its own could not enter them.
    pub fn new(abi: Abi, level: TreeLevel) -> Option<Empty> {
        if abi < SCOPES || level != TreeLevel::PidNamespace {
            return None;
        }
        // Namespaces belong to a thread; this one ends at once, and the descriptors keep them.
        let made = std::thread::spawn(|| {
            // SAFETY: changes this thread alone.
            if unsafe { libc::unshare(libc::CLONE_NEWNET | libc::CLONE_NEWIPC) } != 0 {
                return None;
            }
            let open =
                |name: &str| File::open(format!("/proc/thread-self/ns/{name}")).ok().map(OwnedFd::from);
            Some(Empty { network: open("net")?, ipc: open("ipc")? })
        });
        made.join().ok().flatten()
    }

    pub fn network(&self) -> String {
        path(&self.network)
    }

    pub fn ipc(&self) -> String {
        path(&self.ipc)
    }
}

fn path(fd: &OwnedFd) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd())
}
