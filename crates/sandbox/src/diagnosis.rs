//! Why this machine does not support the full sandbox, and what its owner can do about it.

use std::fs;
use std::path::Path;

use rustix::process::geteuid;

use super::SandboxLevel;

/// What is missing, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weakness {
    pub what: String,
    pub remedy: String,
}

/// What decides whether namespaces and Landlock are to be had.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    is_root: bool,
    /// A seccomp filter is already in force.
    is_filtered: bool,
    /// Root without `CAP_SYS_ADMIN`, as in a container.
    lacks_capability: bool,
    /// `kernel.apparmor_restrict_unprivileged_userns`
    apparmor_restricts: bool,
    /// `kernel.unprivileged_userns_clone` (Debian) is 0, or `user.max_user_namespaces` is.
    switched_off: Option<&'static str>,
    /// Major and minor version of the kernel.
    kernel: (u32, u32),
    /// `/sys/kernel/security/lsm`, if it can be read.
    lsm: Option<String>,
    has_landlock: bool,
}

/// `mount_setattr`, which makes a bind mount read-only with everything below it.
const KERNEL_WITH_VIEWS: (u32, u32) = (5, 12);
const KERNEL_WITH_LANDLOCK: (u32, u32) = (5, 13);
const CONTAINER_REMEDY: &str = "start the container with rights for namespaces (for example docker run \
     --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined \
     --cap-add SYS_ADMIN)";

impl Facts {
    pub fn read(has_landlock: bool) -> Facts {
        let sysctl = |name: &str| {
            let text = fs::read_to_string(Path::new("/proc/sys").join(name)).ok()?;
            text.trim().parse::<u64>().ok()
        };
        let is = |name: &str, value: u64| sysctl(name) == Some(value);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
        Facts {
            is_root: geteuid().is_root(),
            is_filtered: status.lines().any(|line| line.starts_with("Seccomp:") && line.ends_with('2')),
            lacks_capability: geteuid().is_root() && !has_sys_admin(&status),
            apparmor_restricts: is("kernel/apparmor_restrict_unprivileged_userns", 1),
            switched_off: match () {
                () if is("kernel/unprivileged_userns_clone", 0) => Some("kernel.unprivileged_userns_clone=1"),
                () if is("user/max_user_namespaces", 0) => Some("user.max_user_namespaces=10000"),
                () => None,
            },
            kernel: (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)),
            lsm: fs::read_to_string("/sys/kernel/security/lsm").ok(),
            has_landlock,
        }
    }

    /// Why `level` is the strongest. `error` is what the probe of the full level ended with.
    pub fn weakness(&self, level: SandboxLevel, error: &str) -> Option<Weakness> {
        let namespaces = self.no_namespaces(error);
        match level {
            SandboxLevel::Full => None,
            SandboxLevel::Landlock => Some(namespaces),
            SandboxLevel::None => {
                let landlock = self.no_landlock()?;
                let what = format!("{}, and {}", namespaces.what, landlock.what);
                Some(Weakness { what, remedy: format!("{}; or {}", namespaces.remedy, landlock.remedy) })
            }
        }
    }

    /// Why Landlock cannot be used; `None` if it can.
    pub fn no_landlock(&self) -> Option<Weakness> {
        let (what, remedy) = match self {
            Facts { has_landlock: true, .. } => return None,
            Facts { kernel, .. } if *kernel < KERNEL_WITH_LANDLOCK => {
                ("this kernel is older than Landlock (5.13)", "use a newer kernel")
            }
            Facts { lsm: Some(lsm), .. } if !lsm.contains("landlock") => {
                ("Landlock is not enabled in this kernel", "add landlock to the kernel parameter 'lsm='")
            }
            Facts { is_filtered: true, .. } => {
                ("a seccomp filter refuses Landlock", "allow the landlock_* system calls in the filter")
            }
            _ => ("Landlock is not in this kernel", "use a kernel with CONFIG_SECURITY_LANDLOCK"),
        };
        Some(Weakness { what: what.to_owned(), remedy: remedy.to_owned() })
    }

    fn no_namespaces(&self, error: &str) -> Weakness {
        let (what, remedy) = match self {
            Facts { kernel, .. } if *kernel < KERNEL_WITH_VIEWS => {
                ("this kernel is older than 5.12".to_owned(), "use a newer kernel".to_owned())
            }
            Facts { lacks_capability: true, .. } => {
                let what = "root has no CAP_SYS_ADMIN here, as in a container".to_owned();
                (what, CONTAINER_REMEDY.to_owned())
            }
            Facts { is_filtered: true, .. } => {
                let what = "a seccomp filter, as container runtimes set one, refuses namespaces".to_owned();
                (what, "allow unshare, clone with namespaces, mount and setns in the filter".to_owned())
            }
            Facts { is_root: false, switched_off: Some(setting), .. } => {
                let what = "user namespaces are switched off for ordinary users".to_owned();
                (what, format!("sysctl -w {setting}"))
            }
            Facts { is_root: false, apparmor_restricts: true, .. } => (
                "AppArmor restricts user namespaces of ordinary users".to_owned(),
                "give toolyard an AppArmor profile with 'userns,', or sysctl -w \
                 kernel.apparmor_restrict_unprivileged_userns=0"
                    .to_owned(),
            ),
            _ => {
                ("namespaces are refused".to_owned(), "look at the limits of its user or service".to_owned())
            }
        };
        Weakness { what: format!("{what} ({error})"), remedy }
    }
}

/// From `/proc/self/status`.
fn has_sys_admin(status: &str) -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.is_some_and(|hex| u64::from_str_radix(hex.trim(), 16).is_ok_and(|set| set & CAP_SYS_ADMIN != 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: Facts = Facts {
        is_root: false,
        is_filtered: false,
        lacks_capability: false,
        apparmor_restricts: false,
        switched_off: None,
        kernel: (6, 8),
        lsm: None,
        has_landlock: true,
    };

    #[test]
    fn each_cause_has_its_reason_and_remedy() {
        for (facts, what, remedy) in [
            (Facts { apparmor_restricts: true, ..NEW }, "AppArmor restricts", "userns,"),
            (
                Facts { switched_off: Some("kernel.unprivileged_userns_clone=1"), ..NEW },
                "switched off",
                "sysctl -w kernel.unprivileged_userns_clone=1",
            ),
            (Facts { is_filtered: true, ..NEW }, "a seccomp filter", "in the filter"),
            (
                Facts { is_root: true, lacks_capability: true, is_filtered: true, ..NEW },
                "no CAP_SYS_ADMIN",
                "seccomp=unconfined",
            ),
            (Facts { kernel: (5, 10), ..NEW }, "older than 5.12", "newer kernel"),
            // What restricts ordinary users is not the reason for root.
            (Facts { is_root: true, apparmor_restricts: true, ..NEW }, "namespaces are refused", "limits"),
        ] {
            let weakness = facts.weakness(SandboxLevel::Landlock, "EPERM").unwrap();
            assert!(weakness.what.contains(what) && weakness.what.ends_with("(EPERM)"), "{weakness:?}");
            assert!(weakness.remedy.contains(remedy), "{weakness:?}");
        }
        assert_eq!(NEW.weakness(SandboxLevel::Full, ""), None);
        assert_eq!(NEW.no_landlock(), None);
        for (facts, what) in [
            (Facts { kernel: (5, 10), ..NEW }, "older than Landlock"),
            (Facts { lsm: Some("lockdown,yama".to_owned()), ..NEW }, "not enabled"),
            (
                Facts { is_filtered: true, lsm: Some("landlock".to_owned()), ..NEW },
                "a seccomp filter refuses",
            ),
        ] {
            let facts = Facts { has_landlock: false, ..facts };
            assert!(facts.no_landlock().unwrap().what.contains(what), "{facts:?}");
            let both = facts.weakness(SandboxLevel::None, "EPERM").unwrap();
            assert!(both.what.contains(", and ") && both.remedy.contains("; or "), "{both:?}");
        }
    }
}
