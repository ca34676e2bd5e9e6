//! A full disk: storing fails and leaves nothing behind, and stored blobs are intact.

use super::*;
use crate::require::require;
use std::process::{Command, Stdio};

const DISK: &str = "TOOLYARD_TEST_BLOBS_DISK";

/// Runs in a mount namespace where the folder is a small file system.
#[test]
#[ignore = "helper of a_full_disk_refuses_new_blobs_and_keeps_the_others"]
fn on_a_small_disk() {
    let dir = TempDir(PathBuf::from(std::env::var_os(DISK).unwrap()));
    run(fill_and_free(&dir));
    println!("small disk done");
}

async fn fill_and_free(dir: &TempDir) {
    let blobs = dir.blobs();
    let first = Bytes::from(sample(5 * G, 1));
    let hash = blobs.put(first.clone()).await.unwrap().hash;

    // Larger than the disk, all at once and in pieces.
    let large = Bytes::from(sample(6 << 20, 2));
    assert_eq!(blobs.put(large.clone()).await, Err(BlobError::Full));
    assert_eq!(dir.temps(), [] as [PathBuf; 0]);
    let mut writer = blobs.writer();
    let refused = async {
        for part in large.chunks(100_000) {
            writer.write(Bytes::copy_from_slice(part)).await?;
        }
        Ok(())
    };
    assert_eq!(refused.await, Err(BlobError::Full));
    assert_eq!(writer.finish().await, Err(BlobError::Broken));
    assert_eq!(dir.temps(), [] as [PathBuf; 0]);

    // Fill it with blobs, then to the last byte.
    let mut stored = vec![(hash, first.clone())];
    let refusal = loop {
        let bytes = Bytes::from(sample(70_000, 10 + stored.len() as u64));
        match blobs.put(bytes.clone()).await {
            Ok(done) => stored.push((done.hash, bytes)),
            Err(e) => break e,
        }
        assert!(stored.len() < 1000, "the disk is never full");
    };
    assert!(refusal == BlobError::Full && stored.len() > 10, "{refusal:?} after {}", stored.len());
    let ballast = dir.path().join("ballast");
    let mut rest = File::create(&ballast).unwrap();
    while std::io::Write::write(&mut rest, &[1; 512]).is_ok_and(|n| n > 0) {}
    assert_eq!(blobs.put(Bytes::from_static(b"tiny")).await, Err(BlobError::Full));

    let intact = async |blobs: &Blobs| {
        assert_eq!(dir.temps(), [] as [PathBuf; 0]);
        for (hash, bytes) in &stored {
            assert!(read_all(blobs, hash, None).await.unwrap() == *bytes);
        }
        assert!(blobs.verify().await.unwrap().damaged.is_empty());
    };
    intact(&blobs).await;
    // Storing an existing blob needs no space, and a second process can open the store.
    assert_eq!(blobs.put(first.clone()).await.unwrap().hash, hash);
    intact(&dir.blobs()).await;
    // A missing tree cannot be rebuilt without space, which is not damage. The whole blob can still be read.
    std::fs::rename(dir.file(&hash, "tree"), dir.path().join("tree")).unwrap();
    assert_eq!(blobs.reader(&hash, None).await.err(), Some(BlobError::Full));
    assert!(blobs.get(&hash, u64::MAX).await.unwrap() == first);
    std::fs::rename(dir.path().join("tree"), dir.file(&hash, "tree")).unwrap();

    // Collecting frees space.
    let later = Timestamp::from_unix_ms(u64::MAX);
    let gone = blobs.collect(&mut |live| *live == hash, Duration::ZERO, later).await.unwrap();
    assert_eq!((gone.removed as usize, gone.kept), (stored.len() - 1, 1));
    let again = Bytes::from(sample(200_000, 99));
    assert_eq!(blobs.put(again.clone()).await.unwrap().hash, hash_of(&again));
    assert!(blobs.get(&hash_of(&again), u64::MAX).await.unwrap() == again);
    assert!(read_all(&blobs, &hash, None).await.unwrap() == first);
}

#[test]
fn a_full_disk_refuses_new_blobs_and_keeps_the_others() {
    let dir = TempDir::new();
    let inner = helper("blobs::tests::full::on_a_small_disk");
    let script =
        format!("mount -t tmpfs -o size=4m,mode=700 tmpfs '{}' && exec \"$@\"", dir.path().display());
    let flags = if rustix::process::geteuid().is_root() { "-m" } else { "-Urm" };
    let probe = format!("mount -t tmpfs tmpfs '{}'", dir.path().display());
    let allowed = Command::new("unshare").args([flags, "sh", "-c", &probe]).stderr(Stdio::null()).status();
    if !require(
        allowed.is_ok_and(|status| status.success()),
        "mounts are refused, so there is no disk to fill",
    ) {
        return;
    }
    let output = Command::new("unshare")
        .args([flags, "sh", "-c", &script, "sh"])
        .arg(inner.get_program())
        .args(inner.get_args())
        .env(DISK, dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("small disk done"), "{text}");
}
