//! The digest of all inputs of a tool: it changes exactly when the tool may behave differently.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toolyard_protocol::Digest;
use toolyard_runtimes::beneath::{self, LinkPolicy, ReadError};

/// `files` are relative to `root`. A missing file is hashed as missing, so that its creation changes the
/// digest, and is reported to `missing`.
pub fn digest(manifest: &[u8], root: &Path, files: &[PathBuf], mut missing: impl FnMut(PathBuf)) -> Digest {
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, manifest);
    for file in files {
        part(&mut hasher, file.as_os_str().as_encoded_bytes());
        match content(root, file) {
            Ok(content) => part(&mut hasher, content.as_bytes()),
            Err(_) => {
                missing(root.join(file));
                part(&mut hasher, b"missing");
            }
        }
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The length prefix keeps adjacent parts apart.
fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn content(root: &Path, path: &Path) -> Result<blake3::Hash, ReadError> {
    let mut hasher = blake3::Hasher::new();
    match beneath::open_regular(root, path, LinkPolicy::Follow) {
        Ok(file) => drop(hasher.update_reader(file)?),
        // A link to a program of the machine, such as an interpreter, whose content is not read.
        Err(ReadError::Outside) => {
            let meta = std::fs::metadata(root.join(path))?;
            let state = format!("outside {} {} {}", meta.ino(), meta.len(), meta.mtime());
            hasher.update(state.as_bytes());
        }
        Err(error) => return Err(error),
    }
    Ok(hasher.finalize())
}
