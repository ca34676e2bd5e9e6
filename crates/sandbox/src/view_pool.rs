//! Pool of file system views, shared by runs with the same grants.
//!
//! Creating the view of a fully sandboxed program takes about two hundred system calls, copying a pooled one
//! takes two. A pooled view is reused only if the steps and the inodes behind their paths are the same and no
//! mount of this machine has changed since.

use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::TreeLevel;
use super::image::Image;
use super::launch_script::{LaunchScript, SystemView};
use super::probe::create_view;

/// Each costs two descriptors and a tree of mounts.
const MAX: usize = 32;

#[derive(Default)]
pub struct ViewPool {
    state: Mutex<PoolState>,
    /// One view is created at a time; concurrent runs create their own without pooling it.
    creating: Mutex<()>,
}

#[derive(Default)]
struct PoolState {
    /// Least recently used first.
    views: Vec<PooledView>,
    /// `/proc/self/mountinfo`, polled for changed mounts.
    mounts: Option<File>,
}

struct PooledView {
    steps: Vec<u8>,
    inodes: Vec<(u64, u64)>,
    /// Held open so that the inode number of a removed masked folder is not reused.
    _masked: Vec<File>,
    namespace: Arc<OwnedFd>,
}

impl ViewPool {
    /// The pooled view that these steps would create.
    pub fn find(&self, script: &LaunchScript) -> Option<Arc<OwnedFd>> {
        let inodes = inodes(script)?;
        let mut state = self.lock();
        state.clear_if_mounts_changed();
        let at = state.views.iter().position(|view| view.steps == script.bytes())?;
        let view = state.views.remove(at);
        if view.inodes != inodes {
            return None;
        }
        let namespace = view.namespace.clone();
        state.views.push(view);
        Some(namespace)
    }

    /// Creates and pools the view. Blocks. `None` if that fails; the run then creates its own.
    pub fn create(
        &self,
        script: &LaunchScript,
        image: &Image,
        levels: &[TreeLevel],
        system: &SystemView,
    ) -> Option<Arc<OwnedFd>> {
        let _creating = self.creating.try_lock().ok()?;
        self.lock().watch_mounts()?;
        let before = inodes(script)?;
        let masked = script.masked.iter().map(open_path).collect::<Option<_>>()?;
        let namespace = Arc::new(create_view(image, levels, script, system).ok()?);
        let mut state = self.lock();
        // Files or mounts may have changed while the view was created.
        if state.clear_if_mounts_changed() || inodes(script)? != before {
            return None;
        }
        let steps = script.bytes().to_vec();
        state.views.push(PooledView { steps, inodes: before, _masked: masked, namespace: namespace.clone() });
        let surplus = state.views.len().saturating_sub(MAX);
        state.views.drain(..surplus);
        Some(namespace)
    }

    /// Called after a view could not be used, whatever the reason.
    pub fn clear(&self) {
        self.lock().views.clear();
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl PoolState {
    fn watch_mounts(&mut self) -> Option<()> {
        if self.mounts.is_none() {
            self.mounts = Some(File::open("/proc/self/mountinfo").ok()?);
        }
        Some(())
    }

    fn clear_if_mounts_changed(&mut self) -> bool {
        let Some(mounts) = &self.mounts else { return false };
        // The kernel reports each change once.
        let changed = poll(&mut [PollFd::new(mounts, PollFlags::PRI)], Some(&Timespec::default())) != Ok(0);
        if changed {
            self.views.clear();
        }
        changed
    }
}

/// Device and inode numbers currently behind the paths of the script.
fn inodes(script: &LaunchScript) -> Option<Vec<(u64, u64)>> {
    let identity = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    script.shown.iter().chain(&script.masked).map(identity).collect()
}

fn open_path(path: &PathBuf) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path).ok()
}
