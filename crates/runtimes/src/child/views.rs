//! Views that are kept for the next run that is granted the same.
//!
//! Making the file system that a fully confined program sees takes some two hundred system calls, copying one that is
//! there takes two. A kept view is used only while it is what would be made anew: the same steps, the same files and
//! folders behind their paths, and no mount of this machine changed since.

use std::fs::{self, File, OpenOptions};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use super::TreeLevel;
use super::image::Image;
use super::plan::{Plan, System};
use super::probe::make_view;

/// Each costs two descriptors and a tree of mounts.
const MAX: usize = 32;

#[derive(Default)]
pub struct Views {
    kept: Mutex<Kept>,
    /// One at a time; who comes meanwhile does without.
    making: Mutex<()>,
}

#[derive(Default)]
struct Kept {
    /// Those used last are at the end.
    views: Vec<View>,
    /// Tells when a mount of this machine changes.
    mounts: Option<File>,
}

struct View {
    steps: Vec<u8>,
    behind: Vec<(u64, u64)>,
    /// A folder that is masked could be removed and its number given to another; held open, it can't.
    _masked: Vec<File>,
    namespace: Arc<OwnedFd>,
}

impl Views {
    /// The kept view that these steps would make.
    pub fn find(&self, plan: &Plan) -> Option<Arc<OwnedFd>> {
        let behind = behind(plan)?;
        let mut kept = self.lock();
        kept.forget_if_mounts_changed();
        let at = kept.views.iter().position(|view| view.steps == plan.bytes())?;
        let view = kept.views.remove(at);
        if view.behind != behind {
            return None;
        }
        let namespace = view.namespace.clone();
        kept.views.push(view);
        Some(namespace)
    }

    /// Makes and keeps the view; `None` where that can't be done, and the run then makes its own. Blocks.
    pub fn make(
        &self,
        plan: &Plan,
        image: &Image,
        levels: &[TreeLevel],
        system: &System,
    ) -> Option<Arc<OwnedFd>> {
        let _making = self.making.try_lock().ok()?;
        self.lock().watch_mounts()?;
        let before = behind(plan)?;
        let masked = plan.masked.iter().map(hold).collect::<Option<_>>()?;
        let namespace = Arc::new(make_view(image, levels, plan, system).ok()?);
        let mut kept = self.lock();
        // Something may have changed under our hands.
        if kept.forget_if_mounts_changed() || behind(plan)? != before {
            return None;
        }
        let steps = plan.bytes().to_vec();
        kept.views.push(View { steps, behind: before, _masked: masked, namespace: namespace.clone() });
        let surplus = kept.views.len().saturating_sub(MAX);
        kept.views.drain(..surplus);
        Some(namespace)
    }

    /// After a view could not be used, whatever the reason.
    pub fn forget(&self) {
        self.lock().views.clear();
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Kept {
    fn watch_mounts(&mut self) -> Option<()> {
        if self.mounts.is_none() {
            self.mounts = Some(File::open("/proc/self/mountinfo").ok()?);
        }
        Some(())
    }

    fn forget_if_mounts_changed(&mut self) -> bool {
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
fn behind(plan: &Plan) -> Option<Vec<(u64, u64)>> {
    let identity = |path: &PathBuf| fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    plan.shown.iter().chain(&plan.masked).map(identity).collect()
}

fn hold(path: &PathBuf) -> Option<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path).ok()
}
