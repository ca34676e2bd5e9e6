//! One GiB, in constant memory.

use super::*;
use std::time::Instant;

const PIECES: u64 = 4096;
const PIECE: usize = 256 * 1024;
const SIZE: u64 = PIECES * PIECE as u64;

/// The n-th piece: made from one sample, different in every group.
fn piece(base: &[u8], number: u64) -> Bytes {
    let mut bytes = base.to_vec();
    for (group, part) in bytes.chunks_mut(G).enumerate() {
        part[..8].copy_from_slice(&(number * 4 + group as u64).to_le_bytes());
    }
    bytes.into()
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn one_gib_is_stored_read_by_range_and_streamed_to_a_slow_reader_in_constant_memory() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let base = sample(PIECE, 1);
        let before = memory("VmRSS");

        let start = Instant::now();
        let mut writer = blobs.writer();
        for number in 0..PIECES {
            writer.write(piece(&base, number)).await.unwrap();
        }
        let stored = writer.finish().await.unwrap();
        assert_eq!(stored.size, SIZE);
        let stored_in = start.elapsed();

        let start = Instant::now();
        for at in [0, 1, 12_345_678, SIZE / 2 - 3, SIZE - PIECE as u64 - 70_000, SIZE - 10] {
            let range = at..(at + 300_000).min(SIZE);
            let got = read_all(&blobs, &stored.hash, Some(range.clone())).await.unwrap();
            let first = range.start / PIECE as u64;
            let around = [piece(&base, first), piece(&base, first + 1), piece(&base, first + 2)].concat();
            let skip = (range.start - first * PIECE as u64) as usize;
            assert!(got == around[skip..skip + got.len()] && got.len() as u64 == range.end - range.start);
        }
        let ranges_in = start.elapsed();

        let start = Instant::now();
        let mut reader = blobs.reader(&stored.hash, None).await.unwrap();
        let mut number = 0;
        while let Some(got) = reader.next().await {
            assert!(got.unwrap() == piece(&base, number), "piece {number}");
            number += 1;
            // A reader that stops now and then, three seconds in all.
            if number % 64 == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        assert_eq!((number, reader.left()), (PIECES, 0));
        let streamed_in = start.elapsed();

        let rise = memory("VmHWM") - before;
        println!(
            "stored in {stored_in:?}, six ranges in {ranges_in:?}, streamed in {streamed_in:?}, memory rise {rise} KiB"
        );
        assert!(rise < 16 * 1024, "memory rose by {rise} KiB");
        // A range must not cost a pass over the whole.
        assert!(ranges_in < stored_in, "{ranges_in:?}");
    });
}
