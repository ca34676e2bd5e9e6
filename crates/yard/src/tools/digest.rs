//! The digest of everything a tool is made of: it changes exactly when the tool may behave differently.

use std::fs::File;
use std::path::{Path, PathBuf};
use toolyard_protocol::Digest;

/// `files` are relative to `root`; missing ones count as missing, so that their arrival changes the digest, and are
/// told to `missing`.
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

/// A length before each part keeps two parts from being read as one.
fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

fn content(path: &Path) -> std::io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path)?)?;
    Ok(hasher.finalize())
}
