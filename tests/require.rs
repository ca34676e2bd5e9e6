//! What a test needs of the machine. Test binaries include this file with `#[path]`.

/// Whether a test can run, with what it lacks otherwise. Where CI is set nothing may be lacking: it fails there.
/// `scripts/test` lists what was skipped.
#[track_caller]
#[allow(clippy::print_stderr, reason = "says what a test had to leave out")]
pub fn require(is_met: bool, lack: &str) -> bool {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(is_met || !is_ci, "CI=true, but {lack}");
    if !is_met {
        eprintln!("skipped: {lack}");
    }
    is_met
}
