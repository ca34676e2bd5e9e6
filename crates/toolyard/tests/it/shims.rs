//! Programs of version managers: a tool of every kind runs the program behind a shim, as the manager says.

use crate::support::{CommandOutput, Kind, RunAs, TIMEOUT, Yard, run_for};
use serde_json::json;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// A version manager in the home folder, with the files as it lays them out.
struct Manager {
    name: &'static str,
    /// Its folder on the search path.
    path: &'static str,
    /// Executable files; HOME stands for the home folder.
    programs: &'static [(&'static str, &'static str)],
    links: &'static [(&'static str, &'static str)],
    /// Where the program is that `which` must find.
    target: &'static str,
}

/// Prints the path for `which tool`, and fails as soon as it sees more of the owner than it needs.
const WHICH: &str = "#!/bin/sh
test -z \"$OWNER_SECRET\" && ! test -e HOME/private && test \"$1 $2\" = 'which tool' && test $HOME = HOME || exit 9
echo HOME/TARGET
";

const MANAGERS: &[Manager] = &[
    Manager {
        name: "pyenv",
        path: ".pyenv/shims",
        programs: &[
            (
                "HOME/.pyenv/shims/tool",
                "#!/usr/bin/env bash\nset -e\nprogram=\"${0##*/}\"\nexport PYENV_ROOT=\"HOME/.pyenv\"\nexec \"HOME/.pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n",
            ),
            ("HOME/.pyenv/libexec/pyenv", WHICH),
        ],
        links: &[],
        target: ".pyenv/versions/3.12.1/bin/tool",
    },
    Manager {
        name: "rbenv",
        path: ".rbenv/shims",
        programs: &[
            (
                "HOME/.rbenv/shims/tool",
                "#!/usr/bin/env bash\nset -e\nexport RBENV_ROOT=\"HOME/.rbenv\"\nexec \"HOME/.rbenv/bin/rbenv\" exec \"$program\" \"$@\"\n",
            ),
            ("HOME/.rbenv/bin/rbenv", WHICH),
        ],
        links: &[],
        target: ".rbenv/versions/3.3.0/bin/tool",
    },
    Manager {
        name: "asdf",
        path: ".asdf/shims",
        programs: &[
            (
                "HOME/.asdf/shims/tool",
                "#!/usr/bin/env bash\n# asdf-plugin: nodejs 20.1.0\nexec HOME/.asdf/bin/asdf exec \"tool\" \"$@\" # asdf_allow: ' asdf '\n",
            ),
            ("HOME/.asdf/bin/asdf", WHICH),
        ],
        links: &[],
        target: ".asdf/installs/nodejs/20.1.0/bin/tool",
    },
    Manager {
        name: "mise",
        path: ".local/share/mise/shims",
        programs: &[("HOME/.local/bin/mise", WHICH)],
        links: &[("HOME/.local/share/mise/shims/tool", "HOME/.local/bin/mise")],
        target: ".local/share/mise/installs/tool/1.2/bin/tool",
    },
    Manager {
        name: "rustup",
        path: ".cargo/bin",
        programs: &[("HOME/.cargo/bin/rustup", WHICH)],
        links: &[("HOME/.cargo/bin/tool", "rustup")],
        target: ".rustup/toolchains/stable/bin/tool",
    },
    // No shim: the folder of a version is on the search path.
    Manager {
        name: "nvm",
        path: ".nvm/versions/node/v20.1.0/bin",
        programs: &[],
        links: &[],
        target: ".nvm/versions/node/v20.1.0/bin/tool",
    },
];

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Installs the manager with a program that reads a file of its own installation and calls one beside it.
fn install(manager: &Manager, yard: &Yard) -> String {
    let home = yard.home().display().to_string();
    let at = |text: &str| text.replace("HOME", &home).replace("TARGET", manager.target);
    for (path, text) in manager.programs {
        // Not `$HOME`, which the script reads.
        program(Path::new(&at(path)), &at(&text.replace("$HOME", "$H0ME")).replace("$H0ME", "$HOME"));
    }
    for (link, target) in manager.links {
        fs::create_dir_all(Path::new(&at(link)).parent().unwrap()).unwrap();
        symlink(at(target), at(link)).unwrap();
    }
    let target = yard.home().join(manager.target);
    let prefix = target.parent().unwrap().parent().unwrap();
    program(
        &target,
        "#!/bin/sh\nread -r version <${0%/bin/*}/lib/version\nbeside=$(beside)\nprintf '\"%s %s\"' \"$version\" \"$beside\"\n",
    );
    program(&target.with_file_name("beside"), "#!/bin/sh\nprintf beside\n");
    fs::create_dir_all(prefix.join("lib")).unwrap();
    fs::write(prefix.join("lib/version"), format!("{}\n", manager.name)).unwrap();
    fs::write(yard.home().join("private"), "not for managers").unwrap();
    format!("{}:/usr/bin:/bin", yard.home().join(manager.path).display())
}

fn run(yard: &Yard, path: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = yard.command();
    command.env("PATH", path).env("OWNER_SECRET", "x").args(arguments);
    run_for(command, TIMEOUT)
}

#[test]
fn a_tool_of_every_kind_runs_the_program_behind_a_shim() {
    for manager in MANAGERS {
        for run_as in RunAs::all() {
            let yard = Yard::of(run_as);
            let path = install(manager, &yard);
            yard.tool(Kind::Cli, "cli", &["tool"], json!({}));
            yard.tool(Kind::Process, "process", &["tool"], json!({}));
            // A script of the yard, which finds its interpreter by the search path.
            yard.executable("tools/script", "#!/usr/bin/env tool\n");
            yard.tool(Kind::Cli, "script", &["tools/script"], json!({}));
            for name in ["cli", "process", "script"] {
                let ran = run(&yard, &path, &["call", name]).expect(0);
                assert_eq!(ran.stdout.trim(), format!("{} beside", manager.name), "{name} {run_as:?}");
            }
            let shown = run(&yard, &path, &["show", "cli"]).expect(0).stdout;
            assert!(shown.contains(manager.target), "{}: {shown}", manager.name);
            assert!(!shown.contains("private"), "{}: {shown}", manager.name);
        }
    }
}

/// The machine's own, if it has one: what a developer who uses it gets.
#[test]
fn the_python_of_this_machines_pyenv_runs_under_kind_cli() {
    let pyenv = std::env::var_os("HOME").map(|home| Path::new(&home).join(".pyenv/shims"));
    let Some(shims) = pyenv.filter(|shims| shims.join("python3").is_file()) else {
        // Most machines have none; the managers above are tested everywhere.
        return;
    };
    let yard = Yard::new();
    yard.tool(
        Kind::Cli,
        "which",
        &["python3", "-c", "import json, sys; print(json.dumps(sys.executable))"],
        json!({}),
    );
    let path = format!("{}:/usr/bin:/bin", shims.display());
    let mut command = yard.command();
    command.env("PATH", path).env("HOME", std::env::var_os("HOME").unwrap()).args(["call", "which"]);
    let ran = run_for(command, TIMEOUT).expect(0);
    assert!(ran.stdout.contains("/.pyenv/versions/"), "{ran:?}");
}
