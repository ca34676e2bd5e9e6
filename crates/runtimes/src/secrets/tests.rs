//! Tests of secret sources, their precedence, permissions and redaction.

use super::*;
use std::ffi::OsString;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        use std::sync::atomic::AtomicU32;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("toolyard-secrets-{}-{count}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        Folder(folder)
    }

    fn secrets(&self, env: &[(&str, &str)]) -> Secrets {
        let env = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Secrets::new(&self.0, &self.0, &Host::new(env))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn name(text: &str) -> SecretName {
    SecretName::parse(text).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn the_environment_takes_precedence_and_is_not_visible_in_the_host() {
    let folder = Folder::new();
    let host = Host::new([("TOOLYARD_SECRET_MY_KEY".into(), "from the environment".into())]);
    assert_eq!(host.var("TOOLYARD_SECRET_MY_KEY"), None);
    let secrets = Secrets::new(&folder.0, &folder.0, &host);
    secrets.set(&name("my-key"), "from the store").unwrap();
    secrets.set(&name("other"), "stored only").unwrap();
    for (requested, value) in
        [("my-key", "from the environment"), ("MY.KEY", "from the environment"), ("other", "stored only")]
    {
        assert_eq!(secrets.get(&name(requested)).unwrap(), value, "{requested}");
    }
    let listed = secrets.list().unwrap();
    let shown: Vec<_> =
        listed.iter().map(|row| (row.name.as_str(), row.source, row.problem.is_some())).collect();
    let expected = [
        ("my-key", Source::Store, true),
        ("my_key", Source::Environment, false),
        ("other", Source::Store, false),
    ];
    assert_eq!(shown, expected);
    assert!(!format!("{listed:?}").contains("from the"));
}

#[test]
fn files_are_private_and_others_are_rejected() {
    let folder = Folder::new();
    let secrets = folder.secrets(&[]);
    secrets.set(&name("key"), "first value").unwrap();
    secrets.set(&name("key"), "second value").unwrap();
    let (store, file) = (folder.0.join("secrets"), folder.0.join("secrets/key"));
    assert_eq!((mode(&store), mode(&file)), (0o700, 0o600));
    let files = std::fs::read_dir(&store).unwrap().count();
    assert_eq!(files, 2, "the secret and .gitignore, nothing temporary");
    let chmod = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    chmod(&file, 0o640);
    let error = secrets.get(&name("key")).unwrap_err();
    assert!(error.kind == ErrorKind::Unavailable && error.message.contains("mode 640"), "{error}");
    chmod(&file, 0o600);
    chmod(&store, 0o755);
    let error = secrets.get(&name("key")).unwrap_err();
    assert!(error.message.contains("mode 755") && !error.message.contains("value"), "{error}");
    assert!(secrets.set(&name("new"), "some value").is_err());
    chmod(&store, 0o700);
    assert_eq!(secrets.get(&name("key")).unwrap(), "second value");
    std::fs::rename(&file, store.join("elsewhere")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &file).unwrap();
    assert!(secrets.get(&name("key")).unwrap_err().message.contains("cannot be read"));
}

#[test]
fn a_missing_secret_says_how_to_set_it() {
    let secrets = Folder::new().secrets(&[]);
    let error = secrets.get(&name("my.key")).unwrap_err();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (ErrorKind::FileNotFound, "the secret 'my.key' is not set")
    );
    let hint = error.hint.unwrap();
    assert!(hint.contains("toolyard secret set my.key") && hint.contains("TOOLYARD_SECRET_MY_KEY"), "{hint}");
}

#[test]
fn values_that_cannot_be_redacted_or_passed_are_rejected() {
    let folder = Folder::new();
    let secrets = folder.secrets(&[("TOOLYARD_SECRET_SHORT", "abcde")]);
    for (value, what) in [("", "0 characters"), ("12345", "fewer than 6"), ("123456\0", "NUL")] {
        let error = secrets.set(&name("x"), value).unwrap_err();
        assert!(error.message.contains(what), "{error}");
    }
    assert!(secrets.set(&name("x"), &"x".repeat(20_000)).is_err());
    let error = secrets.get(&name("short")).unwrap_err();
    assert!(error.message.contains("fewer than 6") && !error.message.contains("abcde"), "{error}");
}

#[test]
fn values_are_redacted_after_they_were_replaced_or_removed() {
    let folder = Folder::new();
    let (secrets, other) = (folder.secrets(&[]), folder.secrets(&[]));
    assert_eq!(secrets.text("the first value"), None);
    other.set(&name("key"), "first value").unwrap();
    // Reading a value updates the redactor at once.
    assert_eq!(secrets.get(&name("key")).unwrap(), "first value");
    assert_eq!(secrets.text("the first value").unwrap(), "the [secret key]");
    let leftover = folder.0.join("secrets/.key.12345.new");
    std::fs::write(&leftover, "half a va").unwrap();
    other.set(&name("key"), "second value").unwrap();
    assert!(!leftover.exists(), "left by a process that was killed");
    assert_eq!(secrets.get(&name("key")).unwrap(), "second value");
    assert!(other.remove(&name("key")).unwrap() && !other.remove(&name("key")).unwrap());
    assert!(secrets.get(&name("key")).is_err());
    assert_eq!(secrets.text("first value, second value").unwrap(), "[secret key], [secret key]");
}

#[test]
fn the_fingerprint_changes_with_the_values() {
    let folder = Folder::new();
    let secrets = folder.secrets(&[]);
    let key = name("key");
    let fingerprint = || secrets.fingerprint([&key].into_iter());
    assert_eq!(secrets.fingerprint([].into_iter()), None);
    let mut seen = vec![fingerprint()];
    for value in ["first value", "second value"] {
        secrets.set(&key, value).unwrap();
        seen.push(fingerprint());
        assert_eq!(fingerprint(), fingerprint());
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2] && seen[2].is_some());
}

#[test]
fn a_secret_set_by_another_process_is_redacted_soon_after() {
    let folder = Folder::new();
    let secrets = folder.secrets(&[]);
    assert_eq!(secrets.text("late value"), None);
    folder.secrets(&[]).set(&name("key"), "late value").unwrap();
    let started = Instant::now();
    while secrets.text("late value").is_none() {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn the_kernel_keyring_has_the_lowest_precedence_and_its_values_are_redacted() {
    let name = SecretName::parse(&format!("ring_{}", std::process::id())).unwrap();
    let folder = std::env::temp_dir().join(format!("toolyard-ring-{}", std::process::id()));
    let description = std::ffi::CString::new(format!("toolyard:{}:{name}", folder.display())).unwrap();
    let value = "stored in the kernel";
    const PROCESS_KEYRING: i64 = -2;
    // SAFETY: texts end with NUL, and the length is that of the value.
    let key = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            c"user".as_ptr(),
            description.as_ptr(),
            value.as_ptr(),
            value.len(),
            PROCESS_KEYRING,
        )
    };
    if !crate::require::require(key >= 0, "this kernel has no keyrings") {
        return;
    }
    std::fs::create_dir_all(&folder).unwrap();
    let host = crate::Host::new([]);
    let secrets = Secrets::new(&folder, &folder, &host);
    assert_eq!(secrets.get(&name).unwrap(), value);
    assert_eq!(secrets.text(&format!("<{value}>")).unwrap(), format!("<[secret {name}]>"));
    let of_another_yard = Secrets::new(Path::new("/elsewhere"), &folder, &host).get(&name);
    assert_eq!(of_another_yard.unwrap_err().kind, ErrorKind::FileNotFound);
    // The store takes precedence.
    secrets.set(&name, "stored in a file").unwrap();
    assert_eq!(secrets.get(&name).unwrap(), "stored in a file");
    std::fs::remove_dir_all(&folder).unwrap();
}
