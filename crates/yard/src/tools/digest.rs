//! The digest of all inputs of a tool: it changes exactly when the tool may behave differently.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use toolyard_protocol::Digest;
use toolyard_runtimes::beneath::{self, LinkPolicy, ReadError};

/// Bytes that are hashed of one file, and of all files of a tool: whoever looks at a yard reads them.
const MAX_FILE: u64 = 64 << 20;
const MAX_TOTAL: u64 = 256 << 20;

/// Why a tool has no digest.
#[derive(Debug, thiserror::Error)]
pub enum DigestError {
    #[error("{} is too large for a file of a tool: at most {MAX_FILE} bytes are read", .0.display())]
    File(PathBuf),
    #[error("the files of the tool are too large: at most {MAX_TOTAL} bytes are read")]
    Total,
}

/// `files` are relative to `root`. A missing file is hashed as missing, so that its creation changes the
/// digest, and is reported to `missing`.
pub fn digest(
    manifest: &[u8],
    root: &Path,
    files: &[PathBuf],
    mut missing: impl FnMut(PathBuf),
) -> Result<Digest, DigestError> {
    let mut hasher = blake3::Hasher::new();
    part(&mut hasher, manifest);
    let mut left = MAX_TOTAL;
    for file in files {
        part(&mut hasher, file.as_os_str().as_encoded_bytes());
        match content(root, file, left.min(MAX_FILE)) {
            Ok((content, bytes)) => {
                left -= bytes;
                part(&mut hasher, content.as_bytes());
            }
            Err(ReadError::TooLarge { .. }) if left < MAX_FILE => return Err(DigestError::Total),
            Err(ReadError::TooLarge { .. }) => return Err(DigestError::File(file.clone())),
            Err(_) => {
                missing(root.join(file));
                part(&mut hasher, b"missing");
            }
        }
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// The length prefix keeps adjacent parts apart.
fn part(hasher: &mut blake3::Hasher, bytes: &[u8]) {
    hasher.update(&(bytes.len() as u64).to_le_bytes());
    hasher.update(bytes);
}

/// The hash of the content, and how many bytes were read.
fn content(root: &Path, path: &Path, max: u64) -> Result<(blake3::Hash, u64), ReadError> {
    let mut hasher = blake3::Hasher::new();
    match beneath::open_regular(root, path, LinkPolicy::Follow) {
        Ok(file) => {
            // Not by its size, which may grow while it is read.
            hasher.update_reader(file.take(max + 1))?;
            if hasher.count() > max {
                return Err(ReadError::TooLarge { max: max as usize });
            }
        }
        // A link to a program of the machine, such as an interpreter, whose content is not read.
        Err(ReadError::Outside) => {
            let meta = std::fs::metadata(root.join(path))?;
            let state = format!("outside {} {} {}", meta.ino(), meta.len(), meta.mtime());
            hasher.update(state.as_bytes());
        }
        Err(error) => return Err(error),
    }
    Ok((hasher.finalize(), hasher.count()))
}
