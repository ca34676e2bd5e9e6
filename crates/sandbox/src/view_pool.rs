//! Views that are pooled for the next run that is granted the same.
//!
//! Making the file system that a fully confined program sees takes some two hundred system calls, copying one that is
//! there takes two. A pooled view is used only while it is what would be made anew: the same steps, the same files and
//! folders behind their paths, and no mount of this machine changed since.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use super::TreeLevel;
use super::image::Image;
use super::launch_script::{LaunchScript, SystemView};
use super::probe::create_view;

/// Each costs two descriptors and a tree of mounts.
const MAX: usize = 32;

#[derive(Default)]
pub struct ViewPool {
    state: Mutex<PoolState>,
    /// One at a time; who comes meanwhile does without.
    creating: Mutex<()>,
}

#[derive(Default)]
struct PoolState {
    /// Those used last are at the end.
    views: Vec<PooledView>,
    /// Tells when a mount of this machine changes.
    mounts: Option<File>,
}

struct PooledView {
    steps: Vec<u8>,
    inodes: Vec<(u64, u64)>,
    /// A folder that is masked could be removed and its number given to another; held open, it can't.
    _masked: Vec<File>,
    namespace: Arc<OwnedFd>,
}

impl ViewPool {
    /// The pooled view that these steps would make.
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

    /// Creates and pools the view; `None` where that can't be done, and the run then makes its own. Blocks.
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
        // Something may have changed under our hands.
        if state.clear_if_mounts_changed() || inodes(script)? != before {
            return None;
        }
        let steps = script.bytes().to_vec();
        state.views.push(PooledView { steps, inodes: before, _masked: masked, namespace: namespace.clone() });
        let surplus = state.views.len().saturating_sub(MAX);
        state.views.drain(..surplus);
        Some(namespace)
    }

    /// After a view could not be used, whatever the reason.
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
        let mut poll = libc::pollfd { fd: mounts.as_raw_fd(), events: libc::POLLPRI, revents: 0 };
        // SAFETY: one entry, which outlives the call. The kernel tells each change once.
        let changed = unsafe { libc::poll(&mut poll, 1, 0) } != 0;
        if changed {
            self.views.clear();
        }
        changed
    }
}

/// Which files and folders are behind the paths now.
fn inodes(script: &LaunchScript) -> Option<Vec<(u64, u64)>> {
    let identity = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    script.shown.iter().chain(&script.masked).map(identity).collect()
}

fn open_path(path: &PathBuf) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path).ok()
}
