//! Where distributions keep the certificates of authorities: a tool reads them under every name that programs use.

use crate::support::{Kind, TIMEOUT, Yard, is_root, require, run_for};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The layout of one distribution.
struct Layout {
    name: &'static str,
    files: &'static [&'static str],
    /// Link and target.
    links: &'static [(&'static str, &'static str)],
    /// What a tool must be able to read.
    read: &'static [&'static str],
    /// What it must not find.
    hidden: &'static [&'static str],
}

const LAYOUTS: &[Layout] = &[
    Layout {
        name: "Debian",
        files: &["etc/ssl/certs/ca-certificates.crt", "etc/ssl/private/key.pem"],
        links: &[],
        read: &["/etc/ssl/certs/ca-certificates.crt"],
        hidden: &["/etc/ssl/private/key.pem"],
    },
    Layout {
        name: "Fedora",
        files: &["etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "etc/pki/tls/private/key.pem"],
        links: &[
            ("etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
            ("etc/pki/tls/cert.pem", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"),
            ("etc/ssl/certs", "../pki/tls/certs"),
        ],
        read: &["/etc/pki/tls/certs/ca-bundle.crt", "/etc/pki/tls/cert.pem", "/etc/ssl/certs/ca-bundle.crt"],
        hidden: &["/etc/pki/tls/private/key.pem"],
    },
    Layout {
        name: "Arch",
        files: &["etc/ca-certificates/extracted/tls-ca-bundle.pem", "etc/ca-certificates/trust-source/own"],
        links: &[
            ("etc/ssl/certs/ca-certificates.crt", "../../ca-certificates/extracted/tls-ca-bundle.pem"),
            ("etc/ssl/cert.pem", "../ca-certificates/extracted/tls-ca-bundle.pem"),
        ],
        read: &["/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"],
        hidden: &["/etc/ca-certificates/trust-source/own"],
    },
    Layout {
        name: "NixOS",
        files: &["nix/store/1-cacert/bundle.crt", "etc/nixos/secret"],
        links: &[
            ("nix/store/2-etc/etc/ssl/certs/ca-bundle.crt", "/nix/store/1-cacert/bundle.crt"),
            ("etc/static", "/nix/store/2-etc/etc"),
            ("etc/ssl/certs/ca-bundle.crt", "/etc/static/ssl/certs/ca-bundle.crt"),
        ],
        read: &["/etc/ssl/certs/ca-bundle.crt"],
        hidden: &["/etc/nixos/secret"],
    },
];

/// Changes the root to a copy of the machine's with another `/etc` and `/nix`, and runs a command there.
const IN_LAYOUT: &str = r#"
set -e
layout=$1 yard=$2
shift 2
mount --make-rprivate /
mount -t tmpfs none "$layout/root"
cd "$layout/root"
for entry in /*; do
    name=${entry#/}
    case $name in etc | nix) continue ;; esac
    if [ -L "$entry" ]; then cp -P "$entry" "$name"; elif [ -d "$entry" ]; then mkdir "$name"; mount --rbind "$entry" "$name"; fi
done
mkdir -p etc nix old
cp -a "$layout/etc/." etc
if [ -d "$layout/nix" ]; then cp -a "$layout/nix/." nix; fi
echo root:x:0:0::/root:/bin/sh >etc/passwd
pivot_root . old
umount -l /old
cd "$yard"
exec "$@"
"#;

#[test]
fn certificates_are_readable_in_the_layout_of_every_distribution() {
    if !require(is_root(), "other layouts of /etc need root, so that only this machine's is tested") {
        return;
    }
    for layout in LAYOUTS {
        let yard = Yard::without_secret();
        let base = yard.home().join("layout");
        fs::create_dir_all(base.join("root")).unwrap();
        let place = |path: &str| {
            let path = base.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        layout.files.iter().for_each(|file| fs::write(place(file), "certificate").unwrap());
        layout.links.iter().for_each(|(link, target)| symlink(Path::new(target), place(link)).unwrap());
        let words: Vec<&str> = layout.read.iter().chain(layout.hidden).copied().collect();
        let script =
            r#"printf '"'; for file; do cat $file 2>/dev/null || printf none; printf ' '; done; printf '"'"#;
        let argv: Vec<&str> = ["/bin/sh", "-c", script, "sh"].into_iter().chain(words).collect();
        yard.tool(Kind::Cli, "read", &argv, json!({}));
        let mut command = yard.command_of("unshare");
        command.args(["--mount", "sh", "-c", IN_LAYOUT, "sh"]).arg(&base).arg(yard.root());
        command.arg(crate::support::toolyard_path()).args(["call", "read"]);
        let ran = run_for(command, TIMEOUT).expect(0);
        let expected = "certificate ".repeat(layout.read.len()) + &"none ".repeat(layout.hidden.len());
        assert_eq!(ran.stdout.trim(), expected.trim(), "{}: {ran:?}", layout.name);
    }
}
