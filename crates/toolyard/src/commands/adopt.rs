//! `toolyard state adopt`: makes a copied or restored state folder the yard's own. Nothing in it may lead
//! elsewhere, and nothing in it runs.

use crate::output;
use crate::private_file;
use crate::state::StateDir;
use crate::state_folder::{self, Found, ORIGIN, Refusal};
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use rustix::process::geteuid;
use std::fs::TryLockError;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toolyard_engine::clock::{Clock, SystemClock, SystemRandom, new_id};
use toolyard_engine::stores::{Durability, JobEnd, JobStore, Recovered};
use toolyard_formats::json::Object;
use toolyard_protocol::{Error, ErrorKind, JobState};

/// Jobs that are read at a time.
const PAGE: usize = 20;

/// How long an ended job is shown.
const TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is kept, and databases without the files that SQLite puts beside them.
const KEPT: [&str; 6] = ["audit", "audit-heads", "blobs", "secrets", "steady-clock", "yard.sqlite"];

/// What is removed: others may know it, a copy of it is of no use, or it is code.
const REMOVED: [&str; 8] =
    [ORIGIN, "audit-index.sqlite", "cache.sqlite", "mcp.key", "servers", "token", UV, "workers"];

const UV: &str = "uv";

pub fn run(global: &GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::look_at_files_of(global.root()?)?;
    let (root, state) = (&yard.root, &yard.state);
    match state_folder::check(root, state) {
        Ok(Found::Own) => {
            output::note("the state folder is this yard's own already");
            return Ok(0);
        }
        Ok(Found::Nothing) => {
            output::note("nothing is stored in this yard yet");
            return Ok(0);
        }
        Err(refusal) if !refusal.is_adoptable() => return Err(refusal.error(state)),
        Err(_) => {}
    }
    let removed = examine(state)?;
    refuse_if_in_use(state)?;
    state_folder::close(state).map_err(|error| failed(state, &error))?;
    for path in removed {
        // Removes a link, and not what it leads to.
        let is_dir = std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir());
        let done = if is_dir { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        done.map_err(|error| failed(&path, &error))?;
    }
    let ended = match yard.state_dir.exists() {
        true => small_runtime()?.block_on(end_jobs(&yard.state_dir))?,
        false => 0,
    };
    // Last, so that a folder that was adopted by half is still refused.
    state_folder::write_origin(root, state)?;
    if global.json {
        let mut out = Vec::new();
        Object::new(&mut out).number("jobs_ended", ended);
        output::data(out);
    } else {
        output::line(format!(
            "adopted {}; {ended} open job(s) ended as unknown, and the token is a new one",
            state.display()
        ));
    }
    Ok(0)
}

/// Refuses what Toolyard does not create in a state folder: it may be something else altogether, or lead out of it.
/// Returns what is to be removed.
fn examine(state: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut removed = Vec::new();
    let mut folders = Vec::new();
    for entry in entries(state, state)? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_one_of(&name, &REMOVED) || is_leftover(&name) {
            // The environments of uv consist of links, and are removed without following them.
            if name != UV {
                folders.extend(examine_entry(state, &entry)?);
            }
            removed.push(entry);
        } else if is_one_of(&name, &KEPT) {
            folders.extend(examine_entry(state, &entry)?);
        } else {
            let what = format!("'{name}', which is no part of a state folder");
            return Err(Refusal::Entry(what).error(state));
        }
    }
    while let Some(folder) = folders.pop() {
        for entry in entries(state, &folder)? {
            folders.extend(examine_entry(state, &entry)?);
        }
    }
    Ok(removed)
}

fn is_one_of(name: &str, known: &[&str]) -> bool {
    let database = ["-journal", "-shm", "-wal"].iter().find_map(|end| name.strip_suffix(end));
    known.contains(&database.filter(|name| name.ends_with(".sqlite")).unwrap_or(name))
}

/// Launchers, and what a process left that was killed while it wrote a file.
fn is_leftover(name: &str) -> bool {
    ["launcher-", ".steady-clock-"].iter().any(|start| name.starts_with(start))
        || [ORIGIN, "mcp.key", "token"].iter().any(|file| private_file::is_unfinished(name, file))
}

/// Returns the path if it is a folder.
fn examine_entry(state: &Path, path: &Path) -> Result<Option<PathBuf>, Error> {
    let meta = std::fs::symlink_metadata(path).map_err(|error| failed(path, &error))?;
    let what = match &meta {
        meta if meta.is_symlink() => "a symbolic link",
        meta if !meta.is_dir() && !meta.is_file() => "neither a file nor a folder",
        meta if meta.uid() != geteuid().as_raw() => "the property of another user",
        meta if meta.is_file() && meta.nlink() > 1 => "a hard link to another file",
        meta => return Ok(meta.is_dir().then(|| path.to_owned())),
    };
    let shown = path.strip_prefix(state).unwrap_or(path).display();
    Err(Refusal::Entry(format!("'{shown}', which is {what}")).error(state))
}

fn entries(state: &Path, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = state_folder::entries(folder).map_err(|refusal| refusal.error(state))?;
    Ok(listed.map(|entry| entry.path()).collect())
}

/// A process that runs jobs holds a lock there, also one of an older version.
fn refuse_if_in_use(state: &Path) -> Result<(), Error> {
    for folder in ["workers", "servers"] {
        for entry in std::fs::read_dir(state.join(folder)).into_iter().flatten().flatten() {
            let file = private_file::open(&entry.path()).map_err(|error| failed(&entry.path(), &error))?;
            if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)) {
                let message = format!("the state folder {} is in use", state.display());
                return Err(Error::new(ErrorKind::Unavailable, message).hint("stop the yard's servers first"));
            }
        }
    }
    Ok(())
}

/// Takes every open job over and ends it: whoever made the copy decided what it would run.
async fn end_jobs(state_dir: &StateDir) -> Result<u64, Error> {
    let (jobs, me) = (state_dir.job_store()?, new_id(&SystemClock, &SystemRandom));
    let mut ended = 0;
    for owner in jobs.owners().await? {
        loop {
            let now = SystemClock.now();
            let taken = jobs.take_over(owner, me, now, PAGE).await?;
            if taken.is_empty() {
                break;
            }
            ended += taken.len() as u64;
            for recovered in taken {
                if let Recovered::Requeued(lease, _) = recovered {
                    let end =
                        JobEnd { state: JobState::Unknown, outcome: None, progress: None, now, ttl: TTL };
                    jobs.finish(lease, end, Durability::Synced).await?;
                }
            }
        }
    }
    Ok(ended)
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let message = format!("{} cannot be adopted: {error}", path.display());
    Error::new(ErrorKind::Unavailable, message).hint("make the state folder writable")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_toolyard_creates_are_removed_or_kept() {
        for (name, kept, removed) in [
            ("audit", true, false),
            ("yard.sqlite-wal", true, false),
            ("token", false, true),
            ("cache.sqlite-shm", false, true),
            ("launcher-0123456789abcdef", false, true),
            (".token.01a1ec41-3114-7ca2-a87d-9de518a0aee5.new", false, true),
            ("token-wal", false, false),
            ("tokens", false, false),
            (".ssh", false, false),
            ("Documents", false, false),
        ] {
            let is_removed = is_one_of(name, &REMOVED) || is_leftover(name);
            assert_eq!((is_one_of(name, &KEPT), is_removed), (kept, removed), "{name}");
        }
    }
}
