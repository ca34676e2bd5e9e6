//! Known path traversal attacks on a root, tried with every operation; none may succeed.

use super::{Root, RootAccess, RootError};
use crate::resources::file_uri::{FilePath, FileUri};
use crate::testing::Folder;
use rustix::fs::{CWD, RenameFlags};
use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SECRET: &str = "the content outside";

/// A root with links and special files of all kinds, and a folder outside that must not change.
fn trap(name: &str) -> (Folder, Root) {
    let folder = Folder::new(name);
    folder.write("outside/secret.txt", SECRET);
    folder.write("root/a.txt", "inside");
    folder.write("root/sub/b.txt", "inside");
    folder.write("root/.env", SECRET);
    folder.write("root/state/audit.log", SECRET);
    let root = folder.path.join("root");
    let link = |target: &str, name: &str| symlink(target, root.join(name)).unwrap();
    link("../outside/secret.txt", "up");
    link("../outside", "folder");
    link("/etc/passwd", "absolute");
    link("a.txt", "within");
    link("../../outside", "sub/middle");
    link("/proc/self/root", "magic");
    link("/proc/self/fd", "descriptors");
    link("loop", "loop");
    rustix::fs::mkfifoat(CWD, root.join("fifo"), 0o666.into()).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(root.join("socket"));
    drop(socket.unwrap());
    let opened = open(&folder);
    (folder, opened)
}

fn open(folder: &Folder) -> Root {
    let root = folder.path.join("root");
    Root::open("n", &root, &root.join("state"), RootAccess { write: true, delete: true }, 1 << 20).unwrap()
}

const WAYS_OUT: &[&str] = &[
    "yard://n/..",
    "yard://n/../outside/secret.txt",
    "yard://n/sub/../../outside/secret.txt",
    "yard://n/%2e%2e/outside/secret.txt",
    "yard://n/%2E%2E/outside/secret.txt",
    "yard://n/.%2e/outside/secret.txt",
    "yard://n/..%2foutside%2fsecret.txt",
    "yard://n/%2e%2e%2foutside%2fsecret.txt",
    "yard://n/%252e%252e/outside/secret.txt",
    "yard://n/%252e%252e%252foutside%252fsecret.txt",
    "yard://n/%25252e%25252e/outside/secret.txt",
    "yard://n/%c0%ae%c0%ae/outside/secret.txt",
    "yard://n/%uff0e%uff0e/outside/secret.txt",
    "yard://n/..;/outside/secret.txt",
    "yard://n/..\\outside\\secret.txt",
    "yard://n/..%5coutside%5csecret.txt",
    "yard://n/sub\\..\\..\\outside\\secret.txt",
    "yard://n//etc/passwd",
    "yard://n/%2fetc%2fpasswd",
    "yard:///etc/passwd",
    "yard://n//proc/self/environ",
    "yard://n/up",
    "yard://n/folder/secret.txt",
    "yard://n/absolute",
    "yard://n/within",
    "yard://n/sub/middle/secret.txt",
    "yard://n/magic/etc/passwd",
    "yard://n/magic",
    "yard://n/descriptors/0",
    "yard://n/loop",
    "yard://n/loop/a",
    "yard://n/fifo",
    "yard://n/socket",
    "yard://n/sub",
    "yard://n/a.txt/b",
    "yard://n/.env",
    "yard://n/state/audit.log",
    "yard://n/a.txt%00.md",
    "yard://n/a.txt\0.md",
    "yard://n/%00",
    "yard://n/a%0a",
    "yard://n/",
    "yard://n",
    "yard://",
    "yard://n/./a.txt",
    "yard://n/sub/",
    "yard://N/a.txt",
    "yard://n:80/a.txt",
    "yard://user@n/a.txt",
    "yard://other/a.txt",
    "yard://n%2f..%2foutside/secret.txt",
    "yard://n/a.txt?x",
    "yard://n/a.txt#x",
    "YARD://n/a.txt",
    "yard:n/a.txt",
    "file:///etc/passwd",
    "file://n/a.txt",
    "http://n/a.txt",
    "/etc/passwd",
    "../outside/secret.txt",
];

fn path_of(uri: &str) -> Option<FilePath> {
    FileUri::parse(uri)?.ok().filter(|address| address.root == "n").map(|address| address.path)
}

/// Whether an operation succeeded on a URI.
fn does(root: &Root, operation: &str, uri: &str) -> bool {
    let Some(path) = path_of(uri) else { return false };
    match operation {
        "read" => root.read(&path).is_ok(),
        "write" => root.write(&path, b"overwritten").is_ok(),
        "delete" => root.delete(&path).is_ok(),
        _ => root.metadata(&path).is_ok(),
    }
}

#[test]
fn no_address_leads_out_by_any_operation() {
    let (folder, root) = trap("escapes");
    let long = format!("yard://n/{}", "a".repeat(5000));
    let deep = format!("yard://n/{}x", "a/".repeat(3000));
    let climb = format!("yard://n/{}etc/passwd", "../".repeat(30));
    let ways: Vec<&str> = WAYS_OUT.iter().copied().chain([&long[..], &deep, &climb]).collect();
    let before = tree(&folder.path);
    let mut tried = 0;
    for operation in ["read", "watch", "write", "delete"] {
        for uri in &ways {
            assert!(!does(&root, operation, uri), "{operation} {uri:.80}");
            tried += 1;
        }
    }
    assert_eq!(tried, 4 * ways.len());
    assert_eq!(tree(&folder.path), before, "nothing was created, changed or removed");
    // Positive control: the same operations succeed on allowed files.
    for (operation, uri) in [
        ("read", "yard://n/a.txt"),
        ("watch", "yard://n/sub/b.txt"),
        ("write", "yard://n/new/c.txt"),
        ("delete", "yard://n/a.txt"),
    ] {
        assert!(does(&root, operation, uri), "{operation} {uri}");
    }
}

#[test]
fn a_name_that_another_owner_gave_to_a_file_elsewhere_is_no_way_to_it() {
    let (folder, root) = trap("hardlinks");
    let (outside, inside) = (folder.path.join("outside/secret.txt"), folder.path.join("root/hard.txt"));
    fs::hard_link(&outside, &inside).unwrap();
    // With the root's own owner, a file with two hard links is allowed.
    assert!(does(&root, "read", "yard://n/hard.txt"));
    if !rustix::process::geteuid().is_root() {
        return;
    }
    chown(&outside, Some(12_345), None).unwrap();
    let path = path_of("yard://n/hard.txt").unwrap();
    assert!(matches!(root.read(&path), Err(RootError::OtherOwner)));
    assert!(matches!(root.metadata(&path), Err(RootError::OtherOwner)));
    assert!(matches!(root.write(&path, b"x"), Err(RootError::OtherOwner)));
    assert!(matches!(root.delete(&path), Err(RootError::OtherOwner)));
    assert_eq!(fs::read_to_string(&outside).unwrap(), SECRET);
    let listed = root.list(None, 100).unwrap().0;
    assert!(listed.iter().all(|file| file.path != path), "{listed:?}");
    // Another owner's file with a single hard link is allowed.
    let own = folder.write("root/theirs.txt", "theirs");
    chown(own, Some(12_345), None).unwrap();
    assert!(does(&root, "read", "yard://n/theirs.txt"));
}

/// One thread swaps files with links repeatedly, while the other reads and writes through their names.
#[test]
fn swapping_links_in_while_files_are_used_leads_nowhere() {
    let (folder, root) = trap("races");
    let base = folder.path.join("root");
    folder.write("root/victim.txt", "inside");
    symlink("../outside/secret.txt", base.join("evil")).unwrap();
    folder.write("root/place/secret.txt", "inside");
    symlink("../outside", base.join("evil-folder")).unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let (stop, at) = (done.clone(), base.clone());
    let swapping = std::thread::spawn(move || {
        let mut swaps = 0u64;
        while !stop.load(Ordering::Relaxed) {
            swap(&at, "victim.txt", "evil");
            swap(&at, "place", "evil-folder");
            swaps += 2;
        }
        swaps
    });
    let (file, inner) =
        (path_of("yard://n/victim.txt").unwrap(), path_of("yard://n/place/secret.txt").unwrap());
    let (mut given, mut refused) = (0u32, 0u32);
    let mut count = |is_ok: bool| *(if is_ok { &mut given } else { &mut refused }) += 1;
    for round in 0..6000 {
        for path in [&file, &inner] {
            match root.read(path) {
                Ok(bytes) => {
                    assert_ne!(bytes, SECRET.as_bytes(), "round {round}");
                    count(true);
                }
                Err(_) => count(false),
            }
            count(root.metadata(path).is_ok());
        }
        if round % 20 == 0 {
            count(root.write(&inner, b"inside").is_ok());
        }
    }
    // Last, because writing or deleting replaces the link.
    for _ in 0..1000 {
        count(root.write(&file, b"inside").is_ok());
        count(root.delete(&inner).is_ok());
        let _ = root.write(&inner, b"inside");
    }
    done.store(true, Ordering::Relaxed);
    let swaps = swapping.join().unwrap();
    assert!(
        given > 1000 && refused > 1000 && swaps > 1000,
        "given {given}, refused {refused}, swaps {swaps}"
    );
    assert_eq!(fs::read_to_string(folder.path.join("outside/secret.txt")).unwrap(), SECRET);
    assert_eq!(fs::read_dir(folder.path.join("outside")).unwrap().count(), 1);
}

fn swap(at: &Path, a: &str, b: &str) {
    // It fails when one of them is gone for the moment.
    let _ = rustix::fs::renameat_with(CWD, at.join(a), CWD, at.join(b), RenameFlags::EXCHANGE);
}

/// Every path with its content; for a link, its target.
fn tree(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() {
            found.extend(tree(&path));
        }
        let content = if kind.is_file() {
            fs::read_to_string(&path).unwrap()
        } else if kind.is_symlink() {
            fs::read_link(&path).unwrap().display().to_string()
        } else {
            String::new()
        };
        found.push((path.display().to_string(), content));
    }
    found.sort();
    found
}

#[test]
fn pages_show_every_file_once_and_nothing_else() {
    let (folder, root) = trap("pages");
    for name in ["sub/c/d.txt", "sub.txt", "sub-x/e.txt", "z/y/x/w.txt", "a b.txt", "\u{e4}.txt"] {
        folder.write(&format!("root/{name}"), "x");
    }
    fs::create_dir_all(folder.path.join("root/empty/er")).unwrap();
    let all = [
        "a b.txt",
        "a.txt",
        "sub/b.txt",
        "sub/c/d.txt",
        "sub-x/e.txt",
        "sub.txt",
        "z/y/x/w.txt",
        "\u{e4}.txt",
    ];
    for limit in 1..=10 {
        let (mut seen, mut after) = (Vec::new(), None);
        for page in 0.. {
            assert!(page < 20, "no end with {limit}");
            let (found, next) = root.list(after.as_ref(), limit).unwrap();
            assert!(found.len() <= limit);
            seen.extend(found.iter().map(|file| file.path.names().join("/")));
            after = next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, all, "pages of {limit}");
    }
}

#[test]
fn a_folder_with_more_names_than_are_held_is_shown_whole() {
    let folder = Folder::new("many");
    fs::create_dir(folder.path.join("root")).unwrap();
    for n in 0..5000 {
        fs::write(folder.path.join(format!("root/{n}")), "").unwrap();
    }
    let root = open(&folder);
    let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let (found, next) = root.list(after.as_ref(), 200).unwrap();
        seen.extend(found.into_iter().map(|file| file.path));
        (after, pages) = (next, pages + 1);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((seen.len(), seen.is_sorted()), (5000, true), "{pages} pages");
}

#[test]
fn what_is_written_is_whole_or_not_there() {
    let (folder, root) = trap("atomic");
    let path = path_of("yard://n/new/deep/file.txt").unwrap();
    root.write(&path, b"one").unwrap();
    assert_eq!(root.read(&path).unwrap(), b"one");
    let file = folder.path.join("root/new/deep/file.txt");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o4640)).unwrap();
    root.write(&path, b"two").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o640, "no special bits");
    assert!(matches!(root.write(&path, &vec![0; (1 << 20) + 1]), Err(RootError::TooLarge { .. })));
    assert_eq!(fs::read_to_string(&file).unwrap(), "two");
    let names: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
    assert_eq!(names.len(), 1, "no temporary file is left: {names:?}");
    // A concurrent reader sees the old content or the new one, never a part.
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, at) = (stop.clone(), file.clone());
    let reading = std::thread::spawn(move || {
        let mut reads = 0;
        while !stopped.load(Ordering::Relaxed) {
            let bytes = fs::read(&at).unwrap();
            assert!(
                bytes == b"two" || bytes == [b'a'; 70_000] || bytes == [b'b'; 70_000],
                "{} bytes",
                bytes.len()
            );
            reads += 1;
        }
        reads
    });
    for n in 0..100 {
        root.write(&path, &[if n % 2 == 0 { b'a' } else { b'b' }; 70_000]).unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(reading.join().unwrap() > 100);
    root.delete(&path).unwrap();
    assert!(matches!(root.read(&path), Err(RootError::Missing)));
    assert!(matches!(root.delete(&path), Err(RootError::Missing)));
}
