//! `toolyard state`: only unreferenced blobs are removed.

use crate::support::Yard;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 3600);

/// `content` is base64.
fn stored(yard: &Yard, content: &str) -> String {
    let (ran, envelope) = yard.call("cas_store", &json!({"data": content, "mime_type": "text/plain"}));
    assert_eq!(ran.code, 0, "{ran:?}");
    envelope["data"]["hash"].as_str().unwrap().to_owned()
}

fn file_of(yard: &Yard, hash: &str) -> PathBuf {
    yard.path(&format!(".toolyard/blobs/{}/{}.blob", &hash[..2], &hash[2..]))
}

fn make_old(yard: &Yard, hash: &str) {
    let file = std::fs::File::options().write(true).open(file_of(yard, hash)).unwrap();
    file.set_modified(SystemTime::now() - 10 * DAY).unwrap();
}

fn prune(yard: &Yard, words: &[&str]) -> Value {
    yard.run(&[&["state", "prune", "--json"], words].concat()).expect(0).json()
}

#[test]
fn only_old_unreferenced_blobs_are_removed() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[builtin]\ncas = true\nartifacts = true\n");
    assert!(yard.run(&["state", "prune"]).expect(0).stderr.contains("nothing is stored"));
    let [lost, young, named] = ["bG9zdA==", "eW91bmc=", "bmFtZWQ="].map(|text| stored(&yard, text));
    yard.file("named.txt", "named");
    let (ran, made) =
        yard.call("artifact_upload", &json!({"file_path": "named.txt", "mime_type": "text/plain"}));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(made["data"]["content_hash"], *named);
    make_old(&yard, &lost);
    make_old(&yard, &named);

    assert_eq!(prune(&yard, &["--min-age", "30d"])["blobs_removed"], 0, "none is that old");
    let pruned = prune(&yard, &[]);
    assert_eq!(pruned["blobs_removed"], 1, "{pruned}");
    assert!(!file_of(&yard, &lost).exists() && file_of(&yard, &young).exists());
    assert!(file_of(&yard, &named).exists(), "{made}");
    yard.run(&["state", "prune", "--min-age", "23h"]).expect(2);
}

#[test]
fn a_damaged_blob_is_listed() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[builtin]\ncas = true\n");
    let hash = stored(&yard, "cmlnaHQ=");
    let whole = yard.run(&["state", "verify"]).expect(0);
    assert!(whole.stdout.contains("1 blob(s), 5 byte(s): intact"), "{whole:?}");
    std::fs::write(file_of(&yard, &hash), "wrong").unwrap();
    let broken = yard.run(&["state", "verify", "--json"]).expect(11);
    assert_eq!(broken.json()["hashes"], json!([hash]), "{broken:?}");
}
