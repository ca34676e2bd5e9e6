//! Concurrent tasks and processes: blobs that are pinned or were just stored are not collected.

use super::*;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

const FOLDER: &str = "TOOLYARD_TEST_BLOBS_TOGETHER";
const PINNED: &str = "TOOLYARD_TEST_BLOBS_PINNED";
const HOUR: Duration = Duration::from_secs(3600);

fn now() -> Timestamp {
    toolyard_engine::clock::Clock::now(&SystemClock)
}

fn later() -> Timestamp {
    Timestamp::from_unix_ms(now().unix_ms() + 100 * HOUR.as_millis() as u64)
}

fn make_old(file: &Path) {
    // It may have been collected meanwhile.
    if let Ok(file) = File::options().append(true).open(file) {
        file.set_modified(SystemTime::now() - 2 * HOUR).unwrap();
    }
}

#[test]
fn a_collection_takes_what_is_neither_live_nor_pinned_nor_young() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let mut hashes = Vec::new();
        for seed in 1..6 {
            hashes.push(blobs.put(Bytes::from(sample(2 * G, seed))).await.unwrap().hash);
        }
        let [dead, live, pinned, young, read] = hashes[..] else { panic!() };
        for hash in [dead, live, pinned, read] {
            make_old(&dir.file(&hash, "blob"));
            make_old(&dir.file(&hash, "tree"));
        }
        let pin = blobs.pin(&pinned);
        let second = blobs.pin(&pinned);
        let reader = blobs.reader(&read, None).await.unwrap();
        let mut asked = Vec::new();
        let mut is_live = |hash: &Hash| {
            asked.push(*hash);
            *hash == live
        };
        let done = blobs.collect(&mut is_live, HOUR, now()).await.unwrap();
        assert_eq!(done, CollectReport { removed: 1, bytes: 2 * GROUP, kept: 4, pinned: 2 });
        assert!(!asked.contains(&young), "`live` is not called for young blobs");
        assert!(!dir.file(&dead, "blob").exists() && !dir.file(&dead, "tree").exists());
        assert_eq!(blobs.size(&dead).await.unwrap(), None);

        // The second pin still protects the blob.
        drop((pin, reader));
        let done = blobs.collect(&mut |hash| *hash == live, HOUR, now()).await.unwrap();
        assert_eq!(done, CollectReport { removed: 1, bytes: 2 * GROUP, kept: 3, pinned: 1 });
        assert_eq!(blobs.size(&read).await.unwrap(), None);
        drop(second);
        let done = blobs.collect(&mut |_| true, Duration::ZERO, later()).await.unwrap();
        assert_eq!((done.removed, done.kept), (0, 3));
        let done = blobs.collect(&mut |_| false, Duration::ZERO, later()).await.unwrap();
        assert_eq!((done.removed, done.kept), (3, 0));
        assert_eq!(blobs.verify().await.unwrap(), Report::default());
        assert_eq!(dir.temps(), [] as [PathBuf; 0]);
    });
}

#[test]
fn a_tree_without_a_blob_goes_once_it_is_old() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let hash = blobs.put(Bytes::from(sample(2 * G, 1))).await.unwrap().hash;
        fs::remove_file(dir.file(&hash, "blob")).unwrap();
        let strange = dir.file(&hash, "blob").with_file_name("notes.txt");
        fs::write(&strange, "mine").unwrap();
        let found = Report { stray_trees: 1, foreign: 1, ..Report::default() };
        assert_eq!(blobs.verify().await.unwrap(), found);
        assert_eq!(blobs.collect(&mut |_| true, HOUR, now()).await.unwrap(), CollectReport::default());
        assert!(dir.file(&hash, "tree").exists());
        blobs.collect(&mut |_| true, HOUR, later()).await.unwrap();
        assert!(!dir.file(&hash, "tree").exists() && strange.exists());
    });
}

/// Pins a blob and waits.
#[test]
#[ignore = "helper of pins_of_another_process_hold_until_it_ends_however_it_ends"]
fn pinning() {
    let blobs = Blobs::open(Path::new(&std::env::var_os(FOLDER).unwrap()), Arc::new(NoFaults)).unwrap();
    let _pin = blobs.pin(&Hash::parse(&std::env::var(PINNED).unwrap()).unwrap());
    println!("\npinned");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn pins_of_another_process_hold_until_it_ends_however_it_ends() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = Bytes::from(sample(100, 1));
        let hash = blobs.put(bytes.clone()).await.unwrap().hash;
        let mut child = start("pinning", &dir, &hash.hex());
        wait_for(&mut child, "pinned");
        let done = blobs.collect(&mut |_| false, Duration::ZERO, later()).await.unwrap();
        assert_eq!((done.removed, done.pinned), (0, 1));
        // Also for a file stored later under the same name.
        fs::remove_file(dir.file(&hash, "blob")).unwrap();
        blobs.put(bytes).await.unwrap();
        let done = blobs.collect(&mut |_| false, Duration::ZERO, later()).await.unwrap();
        assert_eq!((done.removed, done.pinned), (0, 1));
        child.kill().unwrap();
        child.wait().unwrap();
        let done = blobs.collect(&mut |_| false, Duration::ZERO, later()).await.unwrap();
        assert_eq!((done.removed, done.pinned), (1, 0));
    });
}

#[test]
fn a_temporary_file_is_swept_only_when_its_writer_is_gone() {
    run(async {
        let dir = TempDir::new();
        let blobs = dir.blobs();
        let bytes = sample(20 * G, 1);
        let mut writer = blobs.writer();
        for part in bytes.chunks(5 * G) {
            writer.write(Bytes::copy_from_slice(part)).await.unwrap();
            // Other openers and collectors sweep meanwhile.
            dir.blobs();
            blobs.collect(&mut |_| false, Duration::ZERO, later()).await.unwrap();
            assert_eq!(dir.temps().len(), 1);
        }
        fs::write(dir.path().join("blobs/tmp/left.part"), "x").unwrap();
        fs::write(dir.path().join("blobs/tmp/left.gone"), "x").unwrap();
        dir.blobs();
        assert_eq!(dir.temps().len(), 1);
        assert_eq!(writer.finish().await.unwrap().hash, hash_of(&bytes));
        assert_eq!(dir.temps(), [] as [PathBuf; 0]);
    });
}

/// Collects repeatedly until its input ends.
#[test]
#[ignore = "helper of storing_again_races_with_collectors_in_two_processes_and_always_wins"]
fn collecting() {
    let folder = std::env::var_os(FOLDER).unwrap();
    static STOP: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        STOP.store(true, Ordering::SeqCst);
    });
    run(async {
        let blobs = Blobs::open(Path::new(&folder), Arc::new(NoFaults)).unwrap();
        println!("\ncollecting");
        while !STOP.load(Ordering::SeqCst) {
            let done = blobs.collect(&mut |_| false, HOUR, now()).await.unwrap();
            println!("removed {}", done.removed);
        }
    });
}

/// Blobs grow old and are stored again while two processes collect. A blob must be readable after it was
/// stored successfully, and while it is pinned, whatever its age.
#[test]
fn storing_again_races_with_collectors_in_two_processes_and_always_wins() {
    // Without a disk there are more races in the same time.
    let dir = TempDir::in_memory();
    let blobs = dir.blobs();
    let mut child = start("collecting", &dir, "");
    let mut lines = wait_for(&mut child, "collecting");
    let (stop, ours) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let theirs = Arc::new(AtomicU64::new(0));
    let counted = theirs.clone();
    let counting = std::thread::spawn(move || {
        while let Some(Ok(line)) = lines.next() {
            let removed = line.strip_prefix("removed ").and_then(|count| count.parse().ok());
            counted.fetch_add(removed.unwrap_or(0), Ordering::SeqCst);
        }
    });
    let rounds = run(async {
        let tasks: Vec<_> = (1..=3u64)
            .map(|seed| {
                let (stop, blobs) = (stop.clone(), blobs.clone());
                let bytes = Bytes::from(sample(if seed == 3 { 2 * G } else { 500 }, seed));
                let file = dir.file(&hash_of(&bytes), "blob");
                tokio::spawn(store_again(blobs, bytes, file, stop))
            })
            .collect();
        let until = Instant::now() + Duration::from_secs(60);
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(3)
            || ours.load(Ordering::SeqCst) < 20
            || theirs.load(Ordering::SeqCst) < 20
        {
            assert!(Instant::now() < until, "no race was seen: {ours:?} {theirs:?}");
            let done = blobs.collect(&mut |_| false, HOUR, now()).await.unwrap();
            ours.fetch_add(done.removed, Ordering::SeqCst);
        }
        stop.store(true, Ordering::SeqCst);
        let mut rounds = 0;
        for task in tasks {
            rounds += task.await.unwrap();
        }
        rounds
    });
    drop(child.stdin.take());
    child.wait().unwrap();
    counting.join().unwrap();
    println!("{rounds} times stored again, collected {ours:?} times here and {theirs:?} times there");
    assert_eq!(dir.temps(), [] as [PathBuf; 0]);
}

async fn store_again(blobs: Arc<Blobs>, bytes: Bytes, file: PathBuf, stop: Arc<AtomicBool>) -> u64 {
    let hash = hash_of(&bytes);
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        make_old(&file);
        rounds += 1;
        // Varies the timing of the collectors.
        if rounds % 3 == 0 {
            tokio::time::sleep(Duration::from_millis(rounds % 7)).await;
        }
        if rounds % 2 == 0 {
            blobs.put(bytes.clone()).await.unwrap();
            tokio::time::sleep(Duration::from_millis(rounds % 20)).await;
            assert!(blobs.get(&hash, u64::MAX).await.unwrap() == bytes);
        } else {
            let pin = blobs.pin(&hash);
            blobs.put(bytes.clone()).await.unwrap();
            make_old(&file);
            tokio::time::sleep(Duration::from_millis(rounds % 20)).await;
            assert!(read_all(&blobs, &hash, None).await.unwrap() == bytes);
            drop(pin);
        }
    }
    rounds
}

#[test]
fn many_tasks_may_store_and_read_the_same_blob_at_once() {
    run(async {
        let dir = TempDir::in_memory();
        let other = dir.blobs();
        let blobs = dir.blobs();
        let tasks: Vec<_> = (0..40usize)
            .map(|task| {
                let blobs = if task % 2 == 0 { blobs.clone() } else { other.clone() };
                tokio::spawn(async move {
                    for round in 0..20 {
                        let bytes = sample((round % 5) * G + round % 3, round as u64 + 1);
                        let stored = blobs.put(Bytes::from(bytes.clone())).await.unwrap();
                        assert!(read_all(&blobs, &stored.hash, None).await.unwrap() == bytes);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        let report = blobs.verify().await.unwrap();
        // Two of the twenty samples are empty, and therefore the same.
        assert_eq!((report.blobs, report.damaged), (19, Vec::new()));
        assert_eq!(dir.temps(), [] as [PathBuf; 0]);
    });
}

fn start(test: &str, dir: &TempDir, pinned: &str) -> Child {
    let mut command = helper(&format!("blobs::tests::concurrent::{test}"));
    command.env(FOLDER, dir.path().join("blobs")).env(PINNED, pinned);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

fn wait_for(child: &mut Child, word: &str) -> std::io::Lines<impl BufRead + use<>> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while lines.next().expect("the child ended by itself").unwrap() != word {}
    lines
}
