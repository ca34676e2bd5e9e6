//! Files of a yard, loaded as in a yard: tool files of both formats, prompts and resources.

use super::{Target, kind_of, target};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::{Severity, SourceProblem};
use toolyard_formats::json;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Limits, Payload};
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;
use toolyard_yard::resources::Setup;
use toolyard_yard::{Defaults, Loader, Packs, SandboxPolicy};

pub fn targets(folder: &Path) -> Result<Vec<Target>, String> {
    let mut targets = tool_files(folder)?;
    let failed = |error: std::io::Error| error.to_string();
    // The yard's real path, as files outside it are not read.
    let folder = std::fs::canonicalize(folder).map_err(failed)?;
    targets.push(prompt_spec(&folder.join("prompt_spec")).map_err(failed)?);
    targets.push(prompt_registry(&folder.join("prompt_registry")).map_err(failed)?);
    targets.push(resource_file(&folder.join("resource_file")).map_err(failed)?);
    Ok(targets)
}

fn tool_files(folder: &Path) -> Result<Vec<Target>, String> {
    let limits = Limits { timeout: Duration::from_secs(5), input: 65536, output: 65536 };
    let launcher = Launcher::new(folder).map_err(|error| error.to_string())?;
    let loader = Rc::new(Loader::new(
        folder.to_owned(),
        folder.join(".toolyard"),
        Arc::new(Host::new([("PATH".into(), "/usr/bin:/bin".into())])),
        Arc::new(launcher),
        Defaults { pack: limits, manifest: limits },
        SandboxPolicy::default(),
    ));
    let reader = |path: &'static str| {
        let loader = loader.clone();
        move |input: &[u8]| check_problems(&loader.check(Path::new(path), input), path, input)
    };
    Ok(vec![
        target("tool_yaml", reader("tools/a/b.tool.yaml")),
        target("tool_json", reader("tools/a/tool.json")),
    ])
}

/// The spec of a prompt with one version. When it loads, the prompt is listed and filled in.
fn prompt_spec(yard: &Path) -> std::io::Result<Target> {
    const SPEC: &str = "prompts/packs/a/b.spec.yaml";
    let pack = yard.join("prompts/packs/a");
    std::fs::create_dir_all(&pack)?;
    std::fs::write(yard.join("prompts/REGISTRY.yaml"), "a: {b: [1]}")?;
    std::fs::write(pack.join("b.v1.md"), "Write about {{ input | length }} things.")?;
    std::fs::write(pack.join("dot.png"), "P")?;
    std::fs::write(pack.join("rules.md"), "Rules")?;
    let yard = yard.to_owned();
    Ok(target("prompt_spec", move |input| {
        replace(&yard.join(SPEC), input);
        let packs = Packs::load(&yard, &yard.join(".toolyard"));
        let kind = check_problems(&packs.problems, SPEC, input);
        kind.wrapping_mul(31).wrapping_add(use_prompt(&packs))
    }))
}

fn use_prompt(packs: &Packs) -> u64 {
    for row in packs.list(&toolyard_engine::Registry::default()) {
        let meta = row.prompt.extra.meta.as_ref();
        assert!(meta.is_none_or(is_json), "metadata of a prompt is not JSON: {meta:?}");
    }
    let (pack, version) = match packs.find("a.b") {
        Ok(found) => found,
        Err(error) => return kind_of(&error.message),
    };
    // Each argument as a text, which is how clients send them; then none.
    let arguments = version.spec.arguments();
    let mut kind = arguments.len().min(5) as u64;
    for given in [arguments.as_slice(), &[]] {
        let mut object = vec![b'{'];
        for (at, argument) in given.iter().enumerate() {
            if at > 0 {
                object.push(b',');
            }
            push_json_string(&mut object, &argument.name);
            object.extend_from_slice(br#":"12""#);
        }
        object.push(b'}');
        let filled = version.check(&pack.exposed, Payload::json(object)).and_then(|good| version.fill(&good));
        kind = kind.wrapping_mul(31).wrapping_add(match filled {
            Ok(filled) => {
                assert!(is_json(&filled.messages), "messages are not JSON: {:?}", filled.messages);
                1
            }
            Err(error) => kind_of(&error.message),
        });
    }
    kind
}

fn is_json(payload: &Payload) -> bool {
    json::scan(payload.bytes()).is_ok()
}

/// The list of prompts; the files of some exist.
fn prompt_registry(yard: &Path) -> std::io::Result<Target> {
    const REGISTRY: &str = "prompts/REGISTRY.yaml";
    let pack = yard.join("prompts/packs/a");
    std::fs::create_dir_all(&pack)?;
    std::fs::write(pack.join("b.v1.md"), "one")?;
    std::fs::write(pack.join("b.v2.md"), "two")?;
    std::fs::write(pack.join("c.v1.md"), "{{ broken")?;
    let yard = yard.to_owned();
    Ok(target("prompt_registry", move |input| {
        replace(&yard.join(REGISTRY), input);
        let packs = Packs::load(&yard, &yard.join(".toolyard"));
        let kind = check_problems(&packs.problems, REGISTRY, input);
        let loaded = packs.with_versions();
        assert!(loaded.iter().all(|pack| !pack.versions.is_empty()), "a prompt without a version is listed");
        kind.wrapping_mul(31).wrapping_add(loaded.iter().map(|pack| pack.versions.len() as u64).sum())
    }))
}

fn resource_file(yard: &Path) -> std::io::Result<Target> {
    const FILE: &str = "resources/a.resource.yaml";
    std::fs::create_dir_all(yard.join("resources"))?;
    let state = yard.join(".toolyard");
    let setup = Setup { yard: yard.to_owned(), state, roots: Vec::new(), max_bytes: 1 << 20 };
    Ok(target("resource_file", move |input| {
        replace(&setup.yard.join(FILE), input);
        check_problems(&setup.check(), FILE, input)
    }))
}

/// Writes a new file: ext4 syncs one that is truncated and written again, which takes 40 times as long.
fn replace(file: &Path, input: &[u8]) {
    let _ = std::fs::remove_file(file);
    let written = std::fs::write(file, input);
    assert!(written.is_ok(), "{} cannot be written: {written:?}", file.display());
}

/// An error of the file itself has a position in it, and none is a panic that the loader caught.
fn check_problems(problems: &[SourceProblem], source: &str, input: &[u8]) -> u64 {
    for problem in problems {
        assert!(!problem.message.contains("internal error"), "{problem:?}");
        assert!(!problem.message.is_empty(), "{problem:?}");
        if problem.source == source && problem.severity == Severity::Error {
            assert!(problem.position.is_some_and(|at| is_within(at, input)), "not in the file: {problem:?}");
        }
    }
    problems.iter().map(|problem| kind_of(&problem.message)).fold(0, u64::wrapping_add)
}

/// Whether the file has such a line, and the line such a column; just after the end counts too.
fn is_within((line, column): (u32, u32), input: &[u8]) -> bool {
    let text = String::from_utf8_lossy(input);
    // YAML also ends a line with a carriage return alone; elsewhere only a newline counts.
    [text.replace("\r\n", "\n").replace('\r', "\n"), text.into_owned()].iter().any(|text| {
        let mut lines = text.split('\n').chain([""]).map(|line| line.chars().count());
        let length = line.checked_sub(1).and_then(|before| lines.nth(before as usize));
        column > 0 && length.is_some_and(|length| column as usize <= length + 1)
    })
}
