//! The launcher's numbers and structures, and the numbers that `libc` has for aarch64, against the kernel's
//! and the C library's headers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test states what it expects, in its helpers too")]

#[path = "../program/numbers.rs"]
#[allow(dead_code, reason = "compared by their tables")]
mod numbers;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

const HEADERS: &str = "
#define _GNU_SOURCE
#include <asm/unistd.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <linux/openat2.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <linux/filter.h>
";

/// The structures that the program writes as plain numbers or bytes.
const STRUCTURES: &[(&str, i64)] = &[
    ("sizeof(struct mount_attr)", 32),
    ("offsetof(struct mount_attr, attr_set)", 0),
    ("sizeof(struct open_how)", 24),
    ("offsetof(struct open_how, mode)", 8),
    ("offsetof(struct open_how, resolve)", 16),
    ("sizeof(struct rlimit64)", 16),
    ("sizeof(struct stat) <= 144", 1),
    ("offsetof(struct stat, st_dev)", 0),
    ("offsetof(struct stat, st_ino)", 8),
    ("sizeof(struct landlock_path_beneath_attr)", 12),
    ("offsetof(struct landlock_path_beneath_attr, parent_fd)", 8),
    ("offsetof(struct landlock_ruleset_attr, handled_access_fs)", 0),
    ("sizeof(struct sock_filter)", 8),
    ("sizeof(struct sock_fprog)", 16),
    ("offsetof(struct sock_fprog, filter)", 8),
    ("sizeof(struct ifreq)", 40),
    ("offsetof(struct ifreq, ifr_flags)", 16),
    ("sizeof(struct sockaddr_in)", 16),
    ("offsetof(struct sockaddr_in, sin_port)", 2),
    ("offsetof(struct sockaddr_in, sin_addr)", 4),
    ("sizeof(struct msghdr)", 56),
    ("offsetof(struct msghdr, msg_iov)", 16),
    ("offsetof(struct msghdr, msg_control)", 32),
    ("offsetof(struct cmsghdr, cmsg_level)", 8),
    ("offsetof(struct cmsghdr, cmsg_type)", 12),
    ("CMSG_LEN(sizeof(int))", 20),
    ("CMSG_SPACE(sizeof(int))", 24),
    ("sizeof(struct __user_cap_header_struct)", 8),
    ("2 * sizeof(struct __user_cap_data_struct)", 24),
    ("sizeof(struct pollfd)", 8),
    ("sizeof(struct clone_args)", 88),
    ("offsetof(struct clone_args, exit_signal)", 32),
    ("offsetof(struct clone_args, stack)", 40),
    ("offsetof(struct clone_args, cgroup)", 80),
];

/// The architectures in the order of the table, and Debian's names for them.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "amd64"), ("aarch64", "arm64")];

#[test]
fn every_number_is_the_one_of_the_headers_of_both_architectures() {
    for (index, (arch, _)) in ARCHITECTURES.into_iter().enumerate() {
        let mut claims: Vec<(String, i64)> = Vec::new();
        claims.extend(numbers::SYSCALLS.iter().map(|(name, n)| (format!("__NR_{name}"), n[index] as i64)));
        claims.extend(numbers::CONSTANTS.iter().map(|(name, value)| ((*name).to_owned(), *value)));
        claims.extend(STRUCTURES.iter().map(|(what, value)| ((*what).to_owned(), *value)));
        check(index, &claims).unwrap_or_else(|errors| panic!("{arch}:\n{errors}"));
        // Positive control: a wrong number is found.
        let wrong = [("__NR_openat".to_owned(), 1)];
        assert!(check(index, &wrong).is_err_and(|errors| errors.contains("__NR_openat")), "{arch}");
    }
}

/// The seccomp filter takes its numbers from `libc`, which on this machine shows only those of its own
/// architecture; its source has both.
#[test]
fn the_system_call_numbers_of_libc_are_those_of_the_headers() {
    // Only packages of this platform are sure to have been downloaded.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let options = ["metadata", "--format-version", "1", "--offline", "--filter-platform", &platform];
    let metadata = Command::new(env!("CARGO")).args(options).output().unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata = String::from_utf8(metadata.stdout).unwrap();
    let mut manifests = metadata.split("\"manifest_path\":\"").filter_map(|rest| rest.split('"').next());
    let manifest = manifests.find(|path| path.contains("/libc-0.2.")).unwrap();
    let source = std::path::Path::new(manifest).parent().unwrap().join("src/unix/linux_like/linux/gnu/b64");
    for (index, file) in ["x86_64/not_x32.rs", "aarch64/mod.rs"].into_iter().enumerate() {
        let known = compile(index, &["-E", "-dM"], HEADERS).unwrap();
        let known: Vec<&str> = known.lines().filter_map(|line| line.split(' ').nth(1)).collect();
        let text = std::fs::read_to_string(source.join(file)).unwrap();
        let claims = text.lines().filter_map(|line| {
            let (name, value) = line.trim().strip_prefix("pub const SYS_")?.split_once(": c_long = ")?;
            Some((format!("__NR_{name}"), value.strip_suffix(';')?.parse().ok()?))
        });
        let claims: Vec<(String, i64)> = claims.filter(|(name, _)| known.contains(&name.as_str())).collect();
        assert!(claims.len() > 280, "{file} has only {} system calls of the headers", claims.len());
        check(index, &claims).unwrap_or_else(|errors| panic!("{file}:\n{errors}"));
    }
}

/// Compiles the claims against the headers of one architecture. The compiler of this machine is enough: only
/// constants and the layout of structures are evaluated, and both architectures have the same basic types.
fn check(index: usize, claims: &[(String, i64)]) -> Result<(), String> {
    let mut source = HEADERS.to_owned();
    for (what, value) in claims {
        let message = format!("{what} is not {value}");
        writeln!(source, "_Static_assert((long long)({what}) == {value}LL, \"{message}\");").unwrap();
    }
    compile(index, &["-fsyntax-only"], &source).map(drop)
}

fn compile(index: usize, options: &[&str], source: &str) -> Result<String, String> {
    let (arch, debian) = ARCHITECTURES[index];
    let (folders, package) = match arch == std::env::consts::ARCH {
        true => (vec![format!("/usr/include/{arch}-linux-gnu"), "/usr/include".into()], "libc6-dev".into()),
        false => (vec![format!("/usr/{arch}-linux-gnu/include")], format!("libc6-dev-{debian}-cross")),
    };
    let mut compiler = Command::new("cc");
    compiler.args(["-x", "c", "-nostdinc", "-U__x86_64__", "-U__aarch64__"]).args(options);
    compiler.arg(format!("-D__{arch}__"));
    let own = Command::new("cc").arg("-print-file-name=include").output().unwrap();
    compiler.arg("-isystem").arg(String::from_utf8(own.stdout).unwrap().trim());
    for folder in folders {
        let there = std::path::Path::new(&folder).exists();
        assert!(there, "{folder} is missing: install the Debian package {package}");
        compiler.args(["-isystem", &folder]);
    }
    compiler.arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = compiler.spawn().unwrap();
    child.stdin.take().unwrap().write_all(source.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.success() {
        Ok(String::from_utf8(output.stdout).unwrap())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
