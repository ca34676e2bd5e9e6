//! The digest of all inputs of a tool: it changes exactly when the tool may behave differently.

use std::fs::File;
use std::path::{Path, PathBuf};
use toolyard_protocol::Digest;

/// `files` are relative to `root`. A missing file is hashed as missing, so that its creation changes the
/// digest, and is reported to `missing`.
pub fn digest(manifest: &[u8], root: &Path, files: &[PathBuf], mut missing: impl FnMut(PathBuf)) -> Digest {
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, manifest);
    for file in files {
        part(&mut hasher, file.as_os_str().as_encoded_bytes());
        match content(&root.join(file)) {
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

fn content(path: &Path) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize())
}
