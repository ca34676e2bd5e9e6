//! Real files, changed the way people and their editors do it; every test runs with events and with polling.

use super::{Events, WaitResult, WatchEvent, WatchOptions, Watcher};
use crate::testing::{Folder, echo};
use crate::tools::changes::Changes;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use toolyard_engine::{Registry, Severity};

/// A watched yard and its registry.
struct Watching {
    folder: Folder,
    registry: Arc<Registry>,
    loads: Receiver<usize>,
    _watcher: Watcher,
}

const SECOND: Duration = Duration::from_secs(1);

impl Watching {
    fn start(folder: Folder, polling: bool) -> Watching {
        let registry = Arc::new(Registry::default());
        let (sender, loads) = channel();
        let options = WatchOptions {
            polling,
            ignore: Some(folder.path.join(".toolyard")),
            config: Some(folder.path.join("toolyard.toml")),
        };
        let target = registry.clone();
        let watcher = Watcher::start(Arc::new(folder.loader()), options, move |event| match event {
            WatchEvent::Loaded(loaded) => {
                let read = loaded.read;
                target.update(loaded.into_snapshot());
                let _ = sender.send(read);
            }
            WatchEvent::Loading => {}
            // The temporary folder is expected to support inotify.
            WatchEvent::Polling(reason) => assert!(polling, "{reason}"),
        });
        Watching { folder, registry, loads, _watcher: watcher.unwrap() }
    }

    /// The tools by name with the last argument of their file, and how many files are broken.
    fn state(&self) -> String {
        let snapshot = self.registry.snapshot();
        let names: Vec<_> = snapshot
            .entries()
            .iter()
            .map(|entry| {
                let text = fs::read_to_string(self.folder.path.join(&entry.spec.source)).unwrap_or_default();
                let fresh = self.folder.loader().load().into_snapshot();
                let same = fresh.entries().iter().any(|other| other.spec.digest == entry.spec.digest);
                let answer = text.split('"').nth(1).unwrap_or_default().to_owned();
                format!("{}={}", entry.spec.exposed, if same { answer } else { "stale".to_owned() })
            })
            .collect();
        let broken = snapshot.problems().iter().filter(|problem| problem.severity == Severity::Error).count();
        format!("{} !{broken}", names.join(" "))
    }

    /// Waits until the registry is as expected, at most a second.
    fn becomes(&self, expected: &str) {
        let start = Instant::now();
        while self.state() != expected {
            assert!(start.elapsed() < SECOND, "expected {expected:?}, found {:?}", self.state());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits until the watcher is idle, and discards the loads so far.
    fn rest(&self) {
        while self.loads.recv_timeout(Duration::from_millis(700)).is_ok() {}
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path.join(name)
    }
}

fn each_way(name: &str, test: impl Fn(Watching)) {
    for polling in [false, true] {
        let folder = Folder::new(name);
        folder.write("tools/a.tool.yaml", &echo("a", "one"));
        let watching = Watching::start(folder, polling);
        watching.becomes("a=one !0");
        test(watching);
    }
}

#[test]
fn a_change_of_the_configuration_causes_a_load_and_no_file_is_read_for_it() {
    each_way("configuration", |watching| {
        watching.rest();
        let file = watching.path("toolyard.toml");
        // The second has the size of the first, and follows at once.
        for content in ["a = 1", "a = 2", "a = 2, and more"] {
            fs::write(&file, content).unwrap();
            assert_eq!(watching.loads.recv_timeout(SECOND), Ok(0), "{content}");
        }
        watching.rest();
        fs::remove_file(&file).unwrap();
        assert_eq!(watching.loads.recv_timeout(SECOND), Ok(0), "removed");
        watching.rest();
        fs::write(watching.path("other.toml"), "a = 1").unwrap();
        assert!(watching.loads.recv_timeout(SECOND).is_err(), "another file in the same folder");
    });
}

#[test]
fn other_settings_read_every_file_again_once() {
    let folder = Folder::new("settings");
    folder.write("tools/a.tool.yaml", &echo("a", "one"));
    let loader = folder.loader();
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!((loader.load().read, loader.load().read), (1, 0));
    let mut settings = loader.settings();
    loader.set_settings(settings);
    assert_eq!(loader.load().read, 0, "the same settings");
    settings.defaults.pack.output = 77;
    loader.set_settings(settings);
    let loaded = loader.load();
    assert_eq!((loaded.read, loaded.candidates[0].entry.spec.limits.output), (1, 77));
    assert_eq!(loader.load().read, 0);
}

#[test]
fn every_way_to_save_is_one_change() {
    type Save = fn(&Path, &str);
    let ways: [Save; 6] = [
        |path, text| fs::write(path, text).unwrap(),
        // Truncated, then written in two parts by a program that holds it open.
        |path, text| {
            use std::io::Write;
            let mut file = fs::File::create(path).unwrap();
            file.write_all(&text.as_bytes()[..5]).unwrap();
            std::thread::sleep(Duration::from_millis(30));
            file.write_all(&text.as_bytes()[5..]).unwrap();
        },
        // A new file renamed over the old one.
        |path, text| {
            fs::write(path.with_extension("tmp"), text).unwrap();
            fs::rename(path.with_extension("tmp"), path).unwrap();
        },
        // The old file renamed to a backup, a new one written.
        |path, text| {
            fs::rename(path, path.with_extension("yaml~")).unwrap();
            fs::write(path, text).unwrap();
        },
        // Removed and created again.
        |path, text| {
            fs::remove_file(path).unwrap();
            fs::write(path, text).unwrap();
        },
        // A swap file beside it, a probe, then in place.
        |path, text| {
            fs::write(path.with_file_name(".a.tool.yaml.swp"), "swap").unwrap();
            fs::write(path.with_file_name("4913"), "").unwrap();
            fs::remove_file(path.with_file_name("4913")).unwrap();
            fs::write(path, text).unwrap();
            fs::remove_file(path.with_file_name(".a.tool.yaml.swp")).unwrap();
        },
    ];
    each_way("saves", |watching| {
        for (n, save) in ways.iter().enumerate() {
            watching.rest();
            save(&watching.path("tools/a.tool.yaml"), &echo("a", &format!("way{n}")));
            watching.becomes(&format!("a=way{n} !0"));
            watching.rest();
            assert_eq!(watching.state(), format!("a=way{n} !0"));
        }
    });
}

#[test]
fn tools_are_added_broken_fixed_and_removed() {
    each_way("life", |watching| {
        let folder = &watching.folder;
        folder.write("tools/b.tool.yaml", &echo("b", "two"));
        watching.becomes("a=one b=two !0");
        folder.write("tools/b.tool.yaml", "id: b\nkind: nonsense\n");
        watching.becomes("a=one !1");
        folder.write("tools/b.tool.yaml", &echo("b", "three"));
        watching.becomes("a=one b=three !0");
        folder.remove("tools/a.tool.yaml");
        watching.becomes("b=three !0");
        fs::rename(watching.path("tools/b.tool.yaml"), watching.path("tools/c.tool.yaml")).unwrap();
        watching.becomes("b=three !0");
    });
}

#[test]
fn a_missing_schema_and_a_missing_script_are_noticed_when_they_come() {
    each_way("parts", |watching| {
        let folder = &watching.folder;
        let tool = "id: b # \"b\"\nkind: cli\nentry: [sh, lib/deep/run.sh]\nschema: {input: {$ref: ../schemas/in.json}}\n";
        folder.write("tools/b.tool.yaml", tool);
        watching.becomes("a=one !1");
        folder.write("schemas/in.json", r#"{"type": "object"}"#);
        watching.becomes("a=one b=b !0");
        for text in ["echo 1", "echo 2"] {
            folder.write("lib/deep/run.sh", text);
            watching.becomes("a=one b=b !0");
        }
        fs::rename(watching.path("lib"), watching.path("elsewhere")).unwrap();
        watching.becomes("a=one b=b !0");
        folder.write("schemas/in.json", "{");
        watching.becomes("a=one !1");
        folder.remove("schemas");
        watching.becomes("a=one !1");
        folder.write("schemas/in.json", "{}");
        watching.becomes("a=one b=b !0");
    });
}

#[test]
fn folders_come_deep_and_go_whole() {
    each_way("folders", |watching| {
        let folder = &watching.folder;
        folder.write("tools/x/y/z/b.tool.yaml", &echo("b", "two"));
        watching.becomes("a=one b=two !0");
        folder.write("tools/x/y/z/b.tool.yaml", &echo("b", "three"));
        watching.becomes("a=one b=three !0");
        fs::rename(watching.path("tools/x"), watching.path("away")).unwrap();
        watching.becomes("a=one !0");
        fs::rename(watching.path("away"), watching.path("tools/w")).unwrap();
        watching.becomes("a=one b=three !0");
        folder.write("tools/w/y/z/b.tool.yaml", &echo("b", "four"));
        watching.becomes("a=one b=four !0");
        folder.remove("tools");
        watching.becomes(" !0");
        folder.write("tools/c.tool.yaml", &echo("c", "five"));
        watching.becomes("c=five !0");
        folder.write("tools/c.tool.yaml", &echo("c", "six"));
        watching.becomes("c=six !0");
    });
}

#[test]
fn a_yard_without_tools_or_that_is_gone_for_a_while_is_watched() {
    for polling in [false, true] {
        let watching = Watching::start(Folder::new("empty"), polling);
        watching.rest();
        watching.folder.write("tools/a.tool.yaml", &echo("a", "one"));
        watching.becomes("a=one !0");
        fs::remove_dir_all(&watching.folder.path).unwrap();
        watching.becomes(" !0");
        std::thread::sleep(Duration::from_millis(100));
        watching.folder.write("tools/a.tool.yaml", &echo("a", "two"));
        watching.becomes("a=two !0");
    }
}

#[test]
fn a_link_is_watched_where_it_leads() {
    each_way("links", |watching| {
        let outside = Folder::new("outside");
        let script = outside.write("run.sh", "echo 1");
        std::os::unix::fs::symlink(&script, watching.path("run.sh")).unwrap();
        watching.folder.write("tools/b.tool.yaml", "id: b # \"b\"\nkind: cli\nentry: [sh, run.sh]\n");
        watching.becomes("a=one b=b !0");
        fs::write(&script, "echo 2").unwrap();
        watching.becomes("a=one b=b !0");
    });
}

#[test]
fn a_yard_that_is_always_written_to_is_still_loaded() {
    each_way("busy", |watching| {
        let start = Instant::now();
        let mut last = String::new();
        while watching.registry.find("b").is_none() {
            assert!(start.elapsed() < 10 * SECOND, "it waits for a quiet moment that never comes");
            last = start.elapsed().as_micros().to_string();
            watching.folder.write("tools/b.tool.yaml", &echo("b", &last));
            std::thread::sleep(Duration::from_millis(5));
        }
        watching.becomes(&format!("a=one b={last} !0"));
    });
}

#[test]
fn files_that_are_no_business_of_ours_cause_no_load() {
    let folder = Folder::new("noise");
    folder.write("tools/x/a.tool.yaml", &echo("a", "one"));
    let watching = Watching::start(folder, false);
    watching.rest();
    for n in 0..20 {
        watching.folder.write(".toolyard/audit/log", &n.to_string());
        watching.folder.write("output.txt", &n.to_string());
        watching.folder.write("tools/x/notes.md", &n.to_string());
        watching.folder.write("tools/x/.a.tool.yaml.swp", &n.to_string());
        watching.folder.write("tools/x/__pycache__/a.pyc", &n.to_string());
    }
    assert!(watching.loads.recv_timeout(Duration::from_millis(700)).is_err());
}

#[test]
fn a_lost_event_queue_means_looking_at_everything() {
    let folder = Folder::new("overflow");
    folder.write("tools/a.tool.yaml", &echo("a", "one"));
    let mut events = Events::new(&folder.path, &WatchOptions::default()).unwrap();
    assert_eq!(events.update_watches(&folder.loader().load()), Ok(true));
    let (_stop, stopped) = UnixStream::pair().unwrap();
    let mut wait = || events.wait(&stopped, Some(Duration::from_millis(20)));
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    // Two names in turns, because an event that equals the one before it is merged with it.
    let names = [folder.path.join("tools/0.tmp"), folder.path.join("tools/1.tmp")];
    names.iter().for_each(|name| fs::write(name, "").unwrap());
    assert!(matches!(wait(), WaitResult::Quiet), "these names don't matter");
    for n in 0..=limit.trim().parse().unwrap() {
        let n: usize = n;
        fs::File::options().append(true).open(&names[n % 2]).unwrap();
    }
    assert!(matches!(wait(), WaitResult::Changed), "the lost names are unknown");
    assert!(matches!(wait(), WaitResult::Quiet));
    assert_eq!(*events.changes(), Changes::Everywhere);
}

#[test]
fn a_change_is_told_with_its_place() {
    let folder = Folder::new("places");
    folder.write("tools/a.tool.yaml", &echo("a", "one"));
    folder.write("tools/x/b.tool.yaml", "id: b\nkind: cli\nentry: [sh, ./run/b.sh]\n");
    folder.write("run/b.sh", "echo 1");
    let (_stop, stopped) = UnixStream::pair().unwrap();
    let mut events = Events::new(&folder.path, &WatchOptions::default()).unwrap();
    assert_eq!(*events.changes(), Changes::Everywhere, "nothing is known yet");
    for (n, (expected, change)) in [
        (
            vec!["tools/a.tool.yaml"],
            (|path| fs::write(path.join("tools/a.tool.yaml"), "x").unwrap()) as fn(&Path),
        ),
        (vec!["run/b.sh"], |path| fs::write(path.join("run/b.sh"), "echo 2").unwrap()),
        (vec!["tools/c.tool.yaml"], |path| fs::write(path.join("tools/c.tool.yaml"), "x").unwrap()),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(events.update_watches(&folder.loader().load()), Ok(n == 0));
        if n == 0 {
            assert_eq!(*events.changes(), Changes::Everywhere, "it may have changed before it was watched");
            assert_eq!(events.update_watches(&folder.loader().load()), Ok(false));
        }
        change(&folder.path);
        assert!(matches!(events.wait(&stopped, Some(SECOND)), WaitResult::Changed));
        let expected = expected.into_iter().map(|name| folder.path.join(name));
        assert_eq!(*events.changes(), expected.collect::<Changes>());
    }
    assert_eq!(events.update_watches(&folder.loader().load()), Ok(false));
    fs::rename(folder.path.join("run"), folder.path.join("gone")).unwrap();
    assert!(matches!(events.wait(&stopped, Some(SECOND)), WaitResult::Changed));
    assert_eq!(*events.changes(), Changes::Everywhere);
}

#[test]
fn a_file_with_a_second_name_is_looked_at_by_every_load() {
    let outside = Folder::new("second");
    let folder = Folder::new("names");
    let script = outside.write("run.sh", "echo 1");
    fs::hard_link(&script, folder.path.join("run.sh")).unwrap();
    folder.write("tools/a.tool.yaml", &echo("a", "one"));
    folder.write("tools/b.tool.yaml", "id: b # \"b\"\nkind: cli\nentry: [sh, run.sh]\n");
    let watching = Watching::start(folder, false);
    watching.becomes("a=one b=b !0");
    watching.rest();
    fs::write(&script, "echo 2").unwrap();
    watching.folder.write("tools/a.tool.yaml", &echo("a", "two"));
    watching.becomes("a=two b=b !0");
}

#[test]
fn nothing_is_done_while_nothing_happens() {
    let folder = Folder::new("idle");
    folder.write("tools/a.tool.yaml", &echo("a", "one"));
    let watching = Watching::start(folder, false);
    watching.rest();
    assert!(watching.loads.recv_timeout(SECOND).is_err());
}

#[test]
fn prompts_are_watched_like_tools() {
    each_way("watched-prompts", |watching| {
        // The registry names a body that does not exist yet.
        watching.folder.write("prompts/REGISTRY.yaml", "a: {x: [1]}\n");
        watching.becomes("a=one !1");
        watching.folder.write("prompts/packs/a/x.v1.md", "hello");
        watching.becomes("a=one !0");
        watching.rest();
        watching.folder.write("prompts/packs/a/x.spec.yaml", "mesages: []\n");
        watching.becomes("a=one !1");
        watching.folder.write("prompts/packs/a/x.spec.yaml", "messages: [{image: dot.png}]\n");
        watching.folder.write("prompts/packs/a/dot.png", "P");
        watching.becomes("a=one !0");
        watching.rest();
        watching.folder.remove("prompts/packs/a/dot.png");
        watching.becomes("a=one !1");
        watching.folder.remove("prompts");
        watching.becomes("a=one !0");
    });
}
