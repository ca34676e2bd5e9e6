//! Files damaged by a disk, a person or a crash: no wrong byte is ever returned.

use super::*;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use toolyard_protocol::{Error, ErrorKind};

fn flip(path: &Path, at: u64) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

/// Offsets around the border of every group, and one in the middle.
fn offsets(size: usize, step: usize) -> Vec<u64> {
    let mut offsets = Vec::new();
    for border in (0..=size).step_by(step).chain([size]) {
        for offset in [border.wrapping_sub(1), border, border + 1, border + step / 3] {
            if offset < size {
                offsets.push(offset as u64);
            }
        }
    }
    offsets.sort();
    offsets.dedup();
    offsets
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is_and_the_rest_stays_readable() {
    run(async {
        for size in [1, 1000, G, G + 1, 2 * G, 5 * G + 100, 9 * G] {
            let dir = TempDir::new();
            let blobs = dir.blobs();
            let bytes = sample(size, 11);
            let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
            let file = dir.file(&hash, "blob");
            for offset in offsets(size, G) {
                flip(&file, offset);
                let group = offset / GROUP * GROUP;
                let damaged = BlobError::Damaged { hash, at: group };
                assert_eq!(read_all(&blobs, &hash, None).await, Err(damaged.clone()), "{size} {offset}");
                let whole = blobs.get(&hash, u64::MAX).await.unwrap_err();
                // The last group verifies the size, so that nothing can be read when it is damaged.
                let last = size as u64 - group <= GROUP;
                assert!(whole == damaged || last && matches!(whole, BlobError::Damaged { .. }), "{whole:?}");
                let one = blobs.reader(&hash, Some(offset..offset + 1)).await;
                match one {
                    Ok(mut reader) => assert_eq!(reader.next().await, Some(Err(damaged))),
                    Err(e) => assert_eq!(e, damaged),
                }
                for (start, end) in [(0, group), (group + GROUP, size as u64)] {
                    if start < end && !last {
                        let part = read_all(&blobs, &hash, Some(start..end)).await.unwrap();
                        assert!(part == bytes[start as usize..end as usize], "{size} {offset}");
                    }
                }
                flip(&file, offset);
            }
            assert_eq!(read_all(&blobs, &hash, None).await.unwrap(), bytes);
        }
    });
}

#[test]
fn pieces_before_the_damage_are_right_and_nothing_comes_after_it() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = sample(20 * G, 2);
        let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
        flip(&dir.file(&hash, "blob"), 9 * GROUP + 3);
        let mut reader = blobs.reader(&hash, None).await.unwrap();
        let mut got = Vec::new();
        let error = loop {
            match reader.next().await.unwrap() {
                Ok(piece) => got.extend_from_slice(&piece),
                Err(e) => break e,
            }
        };
        assert_eq!(error, BlobError::Damaged { hash, at: 9 * GROUP });
        assert!(got == bytes[..8 * G], "{} bytes", got.len());
        assert_eq!(reader.next().await, None);
        let shown = Error::from(error);
        assert!(shown.kind == ErrorKind::Internal && shown.message.contains(&hash.hex()), "{shown:?}");
        assert!(shown.hint.unwrap().contains("store the same content again"));
    });
}

#[test]
fn a_file_of_another_length_or_of_another_blob_is_found() {
    run(async {
        for size in [1, 1000, G, G + 1, 2 * G, 5 * G + 100] {
            let dir = TempDir::in_memory();
            let blobs = dir.blobs();
            let bytes = sample(size, 21);
            let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
            let other = blobs.put(Bytes::from(sample(size, 22))).await.unwrap().hash;
            let (file, tree) = (dir.file(&hash, "blob"), dir.file(&hash, "tree"));
            let longer = |more: usize| [&bytes[..], &vec![0; more]].concat();
            let wrong = [
                Vec::new(),
                bytes[..size - 1].to_vec(),
                bytes[..size / 2].to_vec(),
                bytes[..size.saturating_sub(G)].to_vec(),
                longer(1),
                longer(1024),
                longer(G),
                [&bytes[..], &bytes[..]].concat(),
                fs::read(dir.file(&other, "blob")).unwrap(),
            ];
            let tree_before = fs::read(&tree).ok();
            for with_other_tree in [false, true] {
                for content in &wrong {
                    fs::write(&file, content).unwrap();
                    if let (true, Ok(theirs)) = (with_other_tree, fs::read(dir.file(&other, "tree"))) {
                        fs::write(&tree, theirs).unwrap();
                    }
                    let len = content.len();
                    for error in [
                        read_all(&blobs, &hash, None).await.unwrap_err(),
                        read_all(&blobs, &hash, Some(0..1)).await.unwrap_err(),
                        read_all(&blobs, &hash, Some(0..0)).await.unwrap_err(),
                        blobs.get(&hash, u64::MAX).await.unwrap_err(),
                    ] {
                        assert!(matches!(error, BlobError::Damaged { .. }), "{size} as {len}: {error:?}");
                    }
                    let report = blobs.verify().await.unwrap();
                    assert_eq!(report.damaged, [Damage { hash, flaw: Flaw::Content }], "{size} as {len}");
                    // Storing the content again repairs it.
                    blobs.put(Bytes::from(bytes.clone())).await.unwrap();
                    assert_eq!(read_all(&blobs, &hash, None).await.unwrap(), bytes);
                    assert_eq!(fs::read(&tree).ok(), tree_before);
                    assert_eq!(dir.temps(), [] as [PathBuf; 0]);
                }
            }
        }
    });
}

#[test]
fn a_damaged_or_missing_tree_is_rebuilt_from_the_data() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = sample(6 * G + 17, 31);
        let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
        let tree = dir.file(&hash, "tree");
        let right = fs::read(&tree).unwrap();
        let mut wrong: Vec<Vec<u8>> = offsets(right.len(), 32)
            .into_iter()
            .map(|offset| {
                let mut bad = right.clone();
                bad[offset as usize] ^= 1;
                bad
            })
            .collect();
        wrong.extend([Vec::new(), right[..right.len() - 64].to_vec(), [&right[..], &right[..64]].concat()]);
        wrong.push(vec![0; right.len()]);
        for (at, bad) in wrong.iter().enumerate() {
            fs::write(&tree, bad).unwrap();
            let flaw = Damage { hash, flaw: Flaw::Tree };
            assert_eq!(blobs.verify().await.unwrap().damaged, [flaw], "case {at}");
            assert_eq!(blobs.get(&hash, u64::MAX).await.unwrap(), bytes);
            assert_eq!(read_all(&blobs, &hash, None).await.unwrap(), bytes, "case {at}");
            assert!(fs::read(&tree).unwrap() == right, "case {at}");
        }
        fs::remove_file(&tree).unwrap();
        let range = GROUP - 5..3 * GROUP + 5;
        let part = read_all(&blobs, &hash, Some(range)).await.unwrap();
        assert!(part == bytes[G - 5..3 * G + 5] && fs::read(&tree).unwrap() == right);

        // Damaged while it is being read.
        let mut reader = blobs.reader(&hash, None).await.unwrap();
        fs::write(&tree, vec![7; right.len()]).unwrap();
        let mut got = Vec::new();
        while let Some(piece) = reader.next().await {
            got.extend_from_slice(&piece.unwrap());
        }
        assert!(got == bytes && fs::read(&tree).unwrap() == right);

        // Nothing can be verified when both are damaged.
        flip(&dir.file(&hash, "blob"), 3);
        fs::remove_file(&tree).unwrap();
        let nothing = Err(BlobError::Damaged { hash, at: 0 });
        assert_eq!(read_all(&blobs, &hash, Some(5 * GROUP..6 * GROUP)).await, nothing);
        assert!(!tree.exists());
        assert_eq!(dir.temps(), [] as [PathBuf; 0]);
    });
}

#[test]
fn planted_links_and_pipes_are_neither_followed_nor_waited_for() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = Bytes::from(sample(3 * G, 41));
        let hash = blobs.put(bytes.clone()).await.unwrap().hash;
        let (file, tree) = (dir.file(&hash, "blob"), dir.file(&hash, "tree"));
        let outside = dir.path().join("outside");
        fs::rename(&file, &outside).unwrap();

        symlink(&outside, &file).unwrap();
        let damaged = BlobError::Damaged { hash, at: 0 };
        assert_eq!(blobs.get(&hash, u64::MAX).await, Err(damaged.clone()));
        assert_eq!(blobs.reader(&hash, None).await.err(), Some(damaged.clone()));
        assert!(matches!(
            blobs.verify().await.unwrap().damaged[..],
            [Damage { flaw: Flaw::Unreadable(_), .. }]
        ));
        // Collection leaves it for inspection.
        let later = Timestamp::from_unix_ms(u64::MAX);
        blobs.collect(&mut |_| false, Duration::ZERO, later).await.unwrap();
        assert!(file.is_symlink());
        assert_eq!(blobs.put(bytes.clone()).await.unwrap().hash, hash);
        assert!(!file.is_symlink() && blobs.get(&hash, u64::MAX).await.unwrap() == bytes);

        // A tree behind a symbolic link is ignored, even a correct one.
        fs::rename(&tree, dir.path().join("tree")).unwrap();
        symlink(dir.path().join("tree"), &tree).unwrap();
        assert!(read_all(&blobs, &hash, None).await.unwrap() == bytes && !tree.is_symlink());

        fs::remove_file(&file).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        assert_eq!(blobs.get(&hash, u64::MAX).await, Err(damaged));

        // A shard behind a symbolic link: nothing is read or written there.
        let shard = file.parent().unwrap();
        fs::rename(shard, dir.path().join("shard")).unwrap();
        fs::rename(&outside, dir.path().join("shard").join(file.file_name().unwrap())).unwrap();
        symlink(dir.path().join("shard"), shard).unwrap();
        assert!(matches!(blobs.get(&hash, u64::MAX).await, Err(BlobError::Io(_))));
        assert!(matches!(blobs.put(bytes.clone()).await, Err(BlobError::Io(_))));
        drop(blobs);

        // Symbolic links in tmp/ are removed, never their targets.
        let target = dir.path().join("target");
        fs::write(&target, "x").unwrap();
        symlink(&target, dir.path().join("blobs/tmp/a.part")).unwrap();
        fs::create_dir(dir.path().join("blobs/tmp/b.part")).unwrap();
        dir.blobs();
        assert_eq!(dir.temps(), [dir.path().join("blobs/tmp/b.part")]);
        assert_eq!(fs::read(&target).unwrap(), b"x");
        fs::remove_file(dir.path().join("blobs/pins")).unwrap();
        symlink(&target, dir.path().join("blobs/pins")).unwrap();
        assert!(Blobs::open(&dir.path().join("blobs"), Arc::new(NoFaults)).is_err());
    });
}

#[test]
fn a_blob_that_is_removed_while_it_is_read_is_read_to_its_end() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = sample(20 * G, 51);
        let hash = blobs.put(Bytes::from(bytes.clone())).await.unwrap().hash;
        let mut reader = blobs.reader(&hash, None).await.unwrap();
        fs::remove_file(dir.file(&hash, "blob")).unwrap();
        fs::remove_file(dir.file(&hash, "tree")).unwrap();
        let mut got = Vec::new();
        while let Some(piece) = reader.next().await {
            got.extend_from_slice(&piece.unwrap());
        }
        assert!(got == bytes);
        assert_eq!(blobs.size(&hash).await.unwrap(), None);
    });
}
