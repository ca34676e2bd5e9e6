//! File systems whose inotify events do not cover changes made elsewhere.

use std::path::Path;

/// By the `f_type` of `statfs`. An overlay reports changes made through the mount; writing to its lower layer
/// while it is mounted is not allowed anyway.
const FILESYSTEMS_WITHOUT_EVENTS: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517B, "SMB"),
    (0xFF53_4D42, "CIFS"),
    (0xFE53_4D42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9p"),
    (0x7375_7245, "Coda"),
    (0x5346_414F, "AFS"),
    (0x6B41_4653, "AFS"),
    (0x00C3_6400, "Ceph"),
    (0x786F_4256, "VirtualBox shared folder"),
    (0xBACB_ACBC, "VMware shared folder"),
    (0x0BD0_0BD0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636F, "OCFS2"),
    (0x0116_1970, "GFS2"),
];

/// The kind of file system `folder` is on, if it must be polled.
pub fn filesystem_without_events(folder: &Path) -> Option<&'static str> {
    // The field is signed and of another width on some systems; the number is in its lower half.
    name_of(rustix::fs::statfs(folder).ok()?.f_type as u32)
}

fn name_of(kind: u32) -> Option<&'static str> {
    FILESYSTEMS_WITHOUT_EVENTS.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_mounts_are_told_from_disks() {
        assert_eq!(name_of(0x6969), Some("NFS"));
        assert_eq!(name_of(0xFF53_4D42_u32 as i32 as u32), Some("CIFS"));
        let (ext4, tmpfs, overlay) = (0xEF53, 0x0102_1994, 0x794C_7630);
        assert!([ext4, tmpfs, overlay].into_iter().all(|kind| name_of(kind).is_none()));
        assert_eq!(filesystem_without_events(Path::new("/proc")), None);
        assert_eq!(filesystem_without_events(Path::new("/no/such/folder")), None);
    }
}
