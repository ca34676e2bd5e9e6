//! Crashes and failures at every point, and kill -9 at any moment: a blob is complete or absent, and
//! acknowledged blobs exist.

use super::*;
use crate::faults::Fault;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::time::Instant;

const FOLDER: &str = "TOOLYARD_TEST_BLOBS";
const POINT: &str = "TOOLYARD_TEST_BLOBS_POINT";

/// Every fault point of the store.
const POINTS: [&str; 11] = [
    "blob.created",
    "blob.written",
    "blob.grown",
    "blob.synced",
    "blob.tree_synced",
    "blob.tree_placed",
    "blob.placed",
    "blob.durable",
    "blob.found",
    "blob.renewed",
    "blob.moved",
];

/// Injects the fault the n-th time that the point is passed.
struct FaultAtNth {
    point: String,
    nth: usize,
    fault: Fault,
    passed: Mutex<BTreeMap<&'static str, usize>>,
}

impl FaultAtNth {
    fn new(point: &str, nth: usize, fault: Fault) -> Arc<FaultAtNth> {
        Arc::new(FaultAtNth { point: point.to_owned(), nth, fault, passed: Mutex::default() })
    }
}

impl Faults for FaultAtNth {
    fn at(&self, point: &'static str) -> Fault {
        assert!(POINTS.contains(&point), "{point} is not tested");
        let mut passed = self.passed.lock().unwrap();
        let count = passed.entry(point).or_default();
        *count += 1;
        if point == self.point && *count == self.nth { self.fault } else { Fault::None }
    }
}

fn contents() -> [Bytes; 3] {
    [(100, 1), (3 * G, 2), (9 * G + 1, 3)].map(|(len, seed)| Bytes::from(sample(len, seed)))
}

/// Stores small and large blobs, in one piece and in many, once and again, then collects all but the last.
async fn work(blobs: &Blobs, mut stored: impl FnMut(Hash)) -> Result<(), BlobError> {
    let [small, middle, large] = contents();
    stored(blobs.put(small).await?.hash);
    stored(blobs.put(middle.clone()).await?.hash);
    let mut writer = blobs.writer();
    for part in large.chunks(100_000) {
        writer.write(Bytes::copy_from_slice(part)).await?;
    }
    let live = writer.finish().await?.hash;
    stored(live);
    stored(blobs.put(middle.clone()).await?.hash);
    let mut writer = blobs.writer();
    writer.write(middle).await?;
    stored(writer.finish().await?.hash);
    let later = Timestamp::from_unix_ms(u64::MAX);
    let collected = blobs.collect(&mut |hash| *hash == live, Duration::ZERO, later).await?;
    assert_eq!((collected.removed, collected.kept), (2, 1));
    Ok(())
}

/// Checks that blobs are complete or absent, nothing is left over, and everything can be stored again.
async fn check(dir: &TempDir, acknowledged: &[Hash], collected: bool) {
    let blobs = dir.blobs();
    assert_eq!(dir.temps(), [] as [PathBuf; 0]);
    let live = hash_of(&contents()[2]);
    for bytes in contents() {
        let hash = hash_of(&bytes);
        let found = blobs.size(&hash).await.unwrap();
        if acknowledged.contains(&hash) && (!collected || hash == live) {
            assert!(found.is_some(), "{hash} was acknowledged and is gone");
        }
        if found.is_some() {
            assert!(blobs.get(&hash, u64::MAX).await.unwrap() == bytes);
            assert!(read_all(&blobs, &hash, None).await.unwrap() == bytes);
        }
    }
    let report = blobs.verify().await.unwrap();
    assert!(report.damaged.is_empty() && report.foreign == 0, "{report:?}");
    work(&blobs, |_| {}).await.unwrap();
    let report = blobs.verify().await.unwrap();
    assert_eq!((report.blobs, report.stray_trees), (1, 0), "{report:?}");
    assert_eq!(dir.temps(), [] as [PathBuf; 0]);
}

/// Crashes at a point.
#[test]
#[ignore = "helper of a_crash_at_any_point_leaves_every_blob_whole_or_absent"]
fn crashing() {
    let (folder, point) = (std::env::var_os(FOLDER).unwrap(), std::env::var(POINT).unwrap());
    // Crashes on purpose need no core file.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).unwrap();
    let (point, nth) = point.split_once(':').unwrap();
    let faults = FaultAtNth::new(point, nth.parse().unwrap(), Fault::Crash);
    let mut count = 0;
    // Ends the line that the test runner has begun.
    print_line("");
    run(async {
        let blobs = Blobs::open(Path::new(&folder), faults).unwrap();
        work(&blobs, |hash| {
            count += 1;
            print_line(&format!("ack {hash}"));
            if count == 5 {
                print_line("collecting");
            }
        })
        .await
        .unwrap();
    });
    print_line("end");
}

fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}

/// The hashes that a child acknowledged.
fn acknowledged_hashes(lines: &[String]) -> Vec<Hash> {
    lines.iter().filter_map(|line| Hash::parse(line.strip_prefix("ack ")?)).collect()
}

#[test]
fn a_crash_at_any_point_leaves_every_blob_whole_or_absent() {
    let mut crashes = BTreeMap::new();
    for point in POINTS {
        for nth in 1.. {
            let dir = TempDir::new();
            let output = helper("blobs::tests::crash::crashing")
                .env(FOLDER, dir.path().join("blobs"))
                .env(POINT, format!("{point}:{nth}"))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let ended = lines.iter().any(|line| line == "end");
            assert_eq!(output.status.success(), ended, "{point}:{nth}: {output:?}");
            if ended {
                break;
            }
            let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
            assert_eq!(signal, Some(libc::SIGABRT), "{point}:{nth}: {output:?}");
            *crashes.entry(point).or_insert(0) += 1;
            let collecting = lines.iter().any(|line| line == "collecting");
            run(check(&dir, &acknowledged_hashes(&lines), collecting));
        }
    }
    println!("crashes by point: {crashes:?}");
    assert_eq!(crashes.len(), POINTS.len(), "a point is never passed: {crashes:?}");
}

#[test]
fn a_failure_at_any_point_is_reported_and_leaves_nothing_behind() {
    let mut failures = BTreeMap::new();
    for point in POINTS {
        for nth in 1.. {
            let dir = TempDir::in_memory();
            let (mut acknowledged, mut count) = (Vec::new(), 0);
            let done = run(async {
                let blobs =
                    Blobs::open(&dir.path().join("blobs"), FaultAtNth::new(point, nth, Fault::Fail)).unwrap();
                let stored = |hash| {
                    acknowledged.push(hash);
                    count += 1;
                };
                let done = work(&blobs, stored).await;
                // The failed store itself has cleaned up, not only a restarted one.
                let until = Instant::now() + Duration::from_secs(5);
                while point != "blob.moved" && !dir.temps().is_empty() {
                    assert!(Instant::now() < until, "{point}:{nth} left {:?}", dir.temps());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                done
            });
            let Err(error) = done else { break };
            assert!(error.to_string().contains(point), "{error}");
            *failures.entry(point).or_insert(0) += 1;
            run(check(&dir, &acknowledged, count == 5));
        }
    }
    assert_eq!(failures.len(), POINTS.len(), "{failures:?}");
}

/// Stores blobs of many sizes until it is killed.
#[test]
#[ignore = "helper of kill_9_at_any_moment_loses_no_acknowledged_blob"]
fn victim() {
    let folder = std::env::var_os(FOLDER).unwrap();
    print_line("");
    run(async {
        let blobs = Blobs::open(Path::new(&folder), Arc::new(NoFaults)).unwrap();
        let tasks = (0..3u64).map(|task| {
            let blobs = blobs.clone();
            tokio::spawn(async move {
                for round in 0.. {
                    let seed = u64::from(std::process::id()) << 32 | task << 24 | round;
                    let len = (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize % (6 * G);
                    let bytes = Bytes::from(sample(len, seed));
                    // Some are stored twice, some in pieces.
                    let mut writer = blobs.writer();
                    for part in bytes.chunks(70_000).filter(|_| round % 2 == 0) {
                        writer.write(Bytes::copy_from_slice(part)).await.unwrap();
                    }
                    let stored = match round % 2 {
                        0 => writer.finish().await.unwrap(),
                        _ => blobs.put(bytes).await.unwrap(),
                    };
                    print_line(&format!("ack {}", stored.hash));
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
}

#[test]
fn kill_9_at_any_moment_loses_no_acknowledged_blob() {
    const KILLS: u64 = 60;
    let dir = TempDir::new();
    let mut acknowledged = Vec::new();
    let mut left_over = 0;
    for round in 0..KILLS {
        let mut child = helper("blobs::tests::crash::victim")
            .env(FOLDER, dir.path().join("blobs"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = kill_after(&mut child, Duration::from_micros(round * 7919 % 60_000));
        let now = acknowledged_hashes(&lines);
        left_over += dir.temps().len();
        run(async {
            let blobs = dir.blobs();
            assert_eq!(dir.temps(), [] as [PathBuf; 0], "after kill {round}");
            for hash in &now {
                blobs.get(hash, u64::MAX).await.unwrap_or_else(|e| panic!("kill {round}: {e}"));
            }
        });
        acknowledged.extend(now);
    }
    run(async {
        let blobs = dir.blobs();
        for hash in &acknowledged {
            let size = blobs.size(hash).await.unwrap().unwrap_or_else(|| panic!("{hash} is gone"));
            assert_eq!(read_all(&blobs, hash, None).await.unwrap().len() as u64, size);
        }
        let report = blobs.verify().await.unwrap();
        assert!(report.damaged.is_empty() && report.foreign == 0, "{report:?}");
        println!(
            "{KILLS} kills, {} blobs acknowledged, {} there, {left_over} temporary files swept",
            acknowledged.len(),
            report.blobs
        );
    });
    assert!(acknowledged.len() as u64 > KILLS, "only {} blobs: nothing was tested", acknowledged.len());
    assert!(left_over > 0, "no kill interrupted a write");
}

/// Kills the child `delay` after its first acknowledgement. Returns its output.
fn kill_after(child: &mut Child, delay: Duration) -> Vec<String> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut output: Vec<String> = Vec::new();
    while !output.iter().any(|line| line.starts_with("ack ")) {
        output.push(lines.next().expect("the child ended by itself").unwrap());
    }
    std::thread::sleep(delay);
    child.kill().unwrap();
    // An incomplete last line is not an acknowledgement.
    output.extend(lines.map_while(Result::ok));
    child.wait().unwrap();
    output
}
