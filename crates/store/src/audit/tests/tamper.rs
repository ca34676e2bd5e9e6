//! Changed, removed and moved records are detected.

use super::*;
use proptest::prelude::*;

/// Two closed segments of one run and one of another, all with heads.
fn yard() -> TempDir {
    let dir = TempDir::new();
    for (calls, segment_bytes) in [(5, 2_000), (2, 1 << 20)] {
        let log = open(dir.path(), Options { segment_bytes, ..Default::default() });
        for _ in 0..calls {
            log.begin(&call("{\"n\":[1,2]}"), &spec()).unwrap().end(&success(9)).unwrap();
        }
    }
    assert!(segments(dir.path()).len() >= 3);
    let report = assert_sound(dir.path());
    assert_eq!(report.notes, []);
    dir
}

#[derive(Clone, Debug)]
enum Tampering {
    Flip { at: f64, bit: u8 },
    DeleteLine { at: f64 },
    SwapLines { a: f64, b: f64 },
    RepeatLine { at: f64 },
    Cut { at: f64 },
    RemoveSegment,
    RemoveSegmentAndHead,
    RemoveHead,
    SwapSegments,
}

fn tampering() -> impl Strategy<Value = Tampering> {
    use Tampering::*;
    prop_oneof![
        8 => (0.0..1.0, 0u8..8).prop_map(|(at, bit)| Flip { at, bit }),
        2 => (0.0..1.0).prop_map(|at| DeleteLine { at }),
        2 => (0.0..1.0, 0.0..1.0).prop_map(|(a, b)| SwapLines { a, b }),
        1 => (0.0..1.0).prop_map(|at| RepeatLine { at }),
        2 => (0.0..1.0).prop_map(|at| Cut { at }),
        1 => Just(RemoveSegment),
        1 => Just(RemoveSegmentAndHead),
        1 => Just(RemoveHead),
        1 => Just(SwapSegments),
    ]
}

/// Tampers with a file; `false` if that changed nothing.
fn tamper(state: &Path, which: usize, how: &Tampering) -> bool {
    let paths = segments(state);
    let path = &paths[which % paths.len()];
    let bytes = std::fs::read(path).unwrap();
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
    let pick = |share: f64, of: usize| (share * of as f64) as usize;
    let head = state.join("audit-heads").join(path.with_extension("head").file_name().unwrap());
    let changed = match how {
        Tampering::Flip { at, bit } => {
            let mut bytes = bytes.clone();
            let at = pick(*at, bytes.len());
            bytes[at] ^= 1 << bit;
            bytes
        }
        Tampering::DeleteLine { at } => {
            lines.remove(pick(*at, lines.len()));
            lines.concat()
        }
        Tampering::SwapLines { a, b } => {
            let (a, b) = (pick(*a, lines.len()), pick(*b, lines.len()));
            lines.swap(a, b);
            lines.concat()
        }
        Tampering::RepeatLine { at } => {
            lines.insert(pick(*at, lines.len()), lines[pick(*at, lines.len())]);
            lines.concat()
        }
        Tampering::Cut { at } => bytes[..pick(*at, bytes.len())].to_vec(),
        Tampering::RemoveSegment | Tampering::RemoveSegmentAndHead => {
            std::fs::remove_file(path).unwrap();
            if matches!(how, Tampering::RemoveSegmentAndHead) {
                std::fs::remove_file(head).unwrap();
            }
            return true;
        }
        Tampering::RemoveHead => {
            std::fs::remove_file(head).unwrap();
            return true;
        }
        Tampering::SwapSegments => {
            let other = &paths[(which + 1) % paths.len()];
            let theirs = std::fs::read(other).unwrap();
            std::fs::write(other, &bytes).unwrap();
            theirs
        }
    };
    std::fs::write(path, &changed).unwrap();
    changed != bytes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_tampering_is_reported(which in 0usize..8, how in tampering()) {
        let dir = yard();
        let changed = tamper(dir.path(), which, &how);
        let report = verify(dir.path()).unwrap();
        prop_assert_eq!(changed, !report.problems.is_empty(), "{:?}: {:?}", how, report);
    }
}

#[test]
fn a_chain_rewritten_with_right_hashes_does_not_match_its_head() {
    use crate::audit::record::{Chain, Line};
    let dir = yard();
    let path = segments(dir.path()).pop().unwrap();
    let mut chain = Chain::START;
    let mut forged = Vec::new();
    for line in std::fs::read(&path).unwrap().split_inclusive(|b| *b == b'\n') {
        let body = String::from_utf8(Line::read(line).unwrap().hashed.to_vec()).unwrap();
        let body = body.split_once(",\"time\"").unwrap().1.replace("example.echo", "example.ecHo");
        chain.append(&mut forged, format!(",\"time\"{body}").as_bytes());
    }
    std::fs::write(&path, forged).unwrap();
    let report = verify(dir.path()).unwrap();
    assert!(report.problems[0].what.contains("does not match its head"), "{report:?}");
}

#[test]
fn one_changed_record_is_one_finding_at_its_line() {
    let dir = yard();
    let path = segments(dir.path()).pop().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("\"n\":[1,2]", "\"n\":[1,3]", 1)).unwrap();
    let report = verify(dir.path()).unwrap();
    assert_eq!(report.problems.len(), 1, "{report:?}");
    assert_eq!(report.problems[0].line, 2);
}
