//! Looking at a yard runs nothing of it, and what must be asked outside of it is asked in the sandbox.

use crate::support::{CommandOutput, Kind, RunAs, Yard, eventually, run_for};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A place that every user of the test can write, so that a program that runs leaves a trace.
fn trace(yard: &Yard) -> PathBuf {
    let folder = yard.home().join("traces");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    folder.join("ran")
}

#[track_caller]
fn run(yard: &Yard, path: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = yard.command();
    command.env("PATH", path).env("OWNER_SECRET", "for nobody").args(arguments);
    run_for(command, LIMIT)
}

#[test]
fn no_program_of_the_yard_runs_to_list_check_show_doctor_or_reload_it() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let mark = trace(&yard);
        let script = format!("#!/bin/sh\necho ran > {}\necho /usr/bin/php\n", mark.display());
        // Named by a tool file, found on a search path that leads into the yard, and behind a link from outside.
        for file in ["tools/p/php.sh", "bin/node", "bin/ruby", ".venv/bin/python"] {
            yard.executable(file, &script);
        }
        let outside = yard.home().join("links");
        fs::create_dir_all(&outside).unwrap();
        symlink(yard.path("tools/p/php.sh"), outside.join("php")).unwrap();
        yard.file("tools/p/x.php", "").file("tools/x.mjs", "").file("tools/x.rb", "").file("tools/x.py", "");
        yard.file("tools/p.tool.yaml", "id: p\nkind: php\nphp: tools/p/x.php\nphpBinary: tools/p/php.sh\n");
        yard.file("tools/l.tool.yaml", "id: l\nkind: php\nphp: tools/p/x.php\n");
        yard.file("tools/n.tool.yaml", "id: n\nkind: node\nentry: tools/x.mjs\n");
        yard.file("tools/r.tool.yaml", "id: r\nkind: ruby\nentry: tools/x.rb\n");
        yard.file("tools/y.tool.yaml", "id: y\nkind: python\nentry: tools/x.py\n");
        let path = format!("{}:{}:/usr/bin:/bin", yard.path("bin").display(), outside.display());
        for words in [&["list"][..], &["check"], &["show", "p"], &["show", "l"], &["doctor"]] {
            run(&yard, &path, words);
            assert!(!mark.exists(), "{run_as:?}: {words:?} ran a program of the yard");
        }
        let mut command = yard.command();
        command.env("PATH", &path).args(["serve", "--listen", "127.0.0.1:0"]);
        let server = crate::support::Server::start(command);
        yard.file("tools/p.tool.yaml", "id: p2\nkind: php\nphp: tools/p/x.php\nphpBinary: tools/p/php.sh\n");
        eventually("the reload", LIMIT, || server.get("/v1/tools/p2").status == 200);
        assert!(!mark.exists(), "{run_as:?}: the reload ran a program of the yard");
        // Control: the program leaves a trace when it is run.
        assert!(Command::new(yard.path("tools/p/php.sh")).output().unwrap().status.success());
        assert!(mark.exists());
    }
}

/// A version manager with two interpreters: its shim starts the second when it sees more than it should.
fn version_manager(yard: &Yard) -> (PathBuf, PathBuf) {
    let manager = yard.home().join(".manager");
    for version in ["clean", "leaky"] {
        fs::create_dir_all(manager.join("versions").join(version).join("bin")).unwrap();
        let python = manager.join("versions").join(version).join("bin/python3");
        fs::copy(fs::canonicalize("/usr/bin/python3").unwrap(), python).unwrap();
    }
    fs::write(yard.home().join("private"), "not for shims").unwrap();
    let mark = trace(yard);
    let shim = format!(
        "#!/bin/sh\nv=clean\n[ -n \"$OWNER_SECRET\" ] && v=leaky\ncat {}/private && v=leaky\n\
         echo ran > {} && v=leaky\nexec {}/versions/$v/bin/python3 \"$@\"\n",
        yard.home().display(),
        mark.display(),
        manager.display()
    );
    program(&manager.join("shims/python3"), &shim);
    (manager.join("shims"), mark)
}

#[test]
fn a_shim_is_asked_in_the_sandbox_without_the_owners_environment() {
    for run_as in RunAs::all() {
        let yard = Yard::of(run_as);
        let (shims, mark) = version_manager(&yard);
        yard.file("tools/t.py", "def run():\n    import sys\n    return sys.executable\n");
        yard.file("tools/t.tool.yaml", "id: t\nkind: python\nentry: tools.t:run\n");
        let path = format!("{}:/usr/bin:/bin", shims.display());
        let doctor = run(&yard, &path, &["doctor"]).stdout;
        assert!(doctor.contains("versions/clean/bin/python3"), "{run_as:?}: {doctor}");
        assert!(!mark.exists(), "{run_as:?}: the shim was run outside the sandbox");
        let called = run(&yard, &path, &["call", "t"]).expect(0).stdout;
        assert!(called.contains("versions/clean/bin/python3"), "{run_as:?}: {called}");
        // Control: outside the sandbox the shim sees all of it.
        let mut shim = Command::new(shims.join("python3"));
        shim.env("OWNER_SECRET", "x").args(["-c", "import sys; print(sys.executable)"]);
        let printed = String::from_utf8(shim.output().unwrap().stdout).unwrap();
        assert!(printed.contains("versions/leaky") && mark.exists(), "{printed}");
    }
}

#[test]
fn a_shim_that_does_not_end_or_leaves_a_child_behind_is_not_waited_for() {
    for run_as in RunAs::all() {
        let python = fs::canonicalize("/usr/bin/python3").unwrap();
        for (name, text) in [
            ("hangs", "#!/bin/sh\nsleep 60\n".to_owned()),
            // The child keeps the pipe open.
            ("leaves a child", format!("#!/bin/sh\nsleep 60 &\nexec {} \"$@\"\n", python.display())),
        ] {
            let yard = Yard::of(run_as);
            let shims = yard.home().join(".manager/shims");
            program(&shims.join("python3"), &text);
            yard.file("tools/t.py", "def run():\n    return 1\n").shell(Kind::Cli, "other", "echo 1");
            yard.file("tools/t.tool.yaml", "id: t\nkind: python\nentry: tools.t:run\n");
            let started = Instant::now();
            let listed =
                run(&yard, &format!("{}:/usr/bin:/bin", shims.display()), &["list"]).expect(0).stdout;
            assert!(listed.contains("other"), "{name}: {listed}");
            assert!(started.elapsed() < Duration::from_secs(10), "{name}: {:?}", started.elapsed());
        }
    }
}
