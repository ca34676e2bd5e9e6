//! Packs in real folders: what is served, what is refused and why.

use super::packs::Packs;
use crate::testing::Folder;
use proptest::prelude::*;
use serde_json::{Value, json};
use toolyard_engine::{Registry, Severity};
use toolyard_protocol::{Error, ErrorKind, Payload};

/// A yard with these files below `prompts/`.
fn yard(files: &[(&str, &str)]) -> Folder {
    let folder = Folder::new("prompts");
    for (name, text) in files {
        folder.write(&format!("prompts/{name}"), text);
    }
    folder
}

fn load(files: &[(&str, &str)]) -> (Folder, Packs) {
    let folder = yard(files);
    let packs = Packs::load(&folder.path, &folder.path.join(".toolyard"));
    (folder, packs)
}

fn fill(packs: &Packs, name: &str, arguments: &str) -> Result<Value, Error> {
    let (pack, version) = packs.find(name)?;
    let arguments = version.check(&pack.exposed, Payload::json(arguments.to_owned()))?;
    Ok(serde_json::from_slice(version.fill(&arguments)?.messages.bytes()).unwrap())
}

fn text(packs: &Packs, name: &str, arguments: &str) -> String {
    let messages = fill(packs, name, arguments).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    messages[0]["content"]["text"].as_str().unwrap().to_owned()
}

fn problems(packs: &Packs) -> Vec<String> {
    let say = |p: &toolyard_engine::SourceProblem| {
        let position = p.position.map_or(String::new(), |(line, column)| format!(":{line}:{column}"));
        format!("{}{position}: {} ({})", p.source, p.message, p.hint.as_deref().unwrap_or("-"))
    };
    packs.problems.iter().map(say).collect()
}

const DRAFT: &str = "expose: draft\ninputs: {type: object, properties: {topic: {type: string}, words: {type: integer}}, required: [topic]}\n";

#[test]
fn every_version_is_there_under_every_spelling_and_the_newest_is_the_default() {
    let (_folder, packs) = load(&[
        ("REGISTRY.yaml", "writing: {draft: [3, 1, 10]}\n"),
        ("packs/writing/draft.spec.yaml", DRAFT),
        ("packs/writing/draft.v1.md", "one {{ input.topic }}"),
        ("packs/writing/draft.v3.md", "three {{ input.topic }}"),
        ("packs/writing/draft.v10.md", "ten {{ input.topic }} {{ input.words | default(5) }}"),
    ]);
    assert_eq!(problems(&packs), [""; 0]);
    let arguments = r#"{"topic":"tea"}"#;
    for name in ["draft", "writing.draft", "writing/draft"] {
        assert_eq!(text(&packs, name, arguments), "ten tea 5");
        assert_eq!(text(&packs, &format!("{name}@3"), arguments), "three tea");
        assert_eq!(text(&packs, &format!("{name}@1"), arguments), "one tea");
    }
    let listed = packs.list(&Registry::default());
    assert_eq!((listed.len(), listed[0].prompt.name.as_str()), (1, "draft"));
    assert_eq!((listed[0].id.as_str(), &listed[0].versions[..]), ("writing.draft", &[1, 3, 10][..]));
    for (name, kind, what, hint) in [
        ("draft@2", ErrorKind::ResourceNotFound, "no version 2", "available versions: 1, 3, 10"),
        ("draft@new", ErrorKind::InvalidInput, "\"new\" is not a version", "available versions: 1, 3, 10"),
        ("darft", ErrorKind::ResourceNotFound, "no prompt 'darft'", "'draft'"),
        ("writing", ErrorKind::ResourceNotFound, "no prompt 'writing'", "list the prompts"),
    ] {
        let error = packs.find(name).map(|_| ()).unwrap_err();
        assert_eq!(error.kind, kind, "{name}");
        assert!(error.message.contains(what) && error.hint.as_ref().unwrap().contains(hint), "{error:?}");
    }
}

#[test]
fn arguments_are_checked_and_texts_become_what_the_schema_wants() {
    let (_folder, packs) = load(&[
        ("REGISTRY.yaml", "a: {draft: [1], plain: [1]}\n"),
        ("packs/a/draft.spec.yaml", DRAFT),
        ("packs/a/draft.v1.md", "{{ input.topic }} {{ input.words + 1 }}"),
        ("packs/a/plain.v1.md", "nothing to fill in"),
    ]);
    assert_eq!(text(&packs, "draft", r#"{"topic":"7","words":"41"}"#), "7 42");
    let error = fill(&packs, "draft", r#"{"words":"many"}"#).unwrap_err();
    assert_eq!((error.kind, error.details.violations.len()), (ErrorKind::InvalidInput, 2));
    assert!(error.message.contains("invalid arguments for the prompt 'draft'"), "{error:?}");
    assert!(!format!("{error:?}").contains("many"), "the value stays with its caller");
    // Optional, and the template does without a default.
    let error = fill(&packs, "draft", r#"{"topic":"x"}"#).unwrap_err();
    assert!(error.message.contains("cannot render the template"), "{error:?}");
    assert_eq!(text(&packs, "a.plain", "{}"), "nothing to fill in");
    assert!(fill(&packs, "a.plain", r#"{"x":1}"#).unwrap_err().message.contains("takes no arguments"));
}

#[test]
fn messages_of_every_form_are_written_in_mcps_shape() {
    let spec = r#"
inputs: {type: object, properties: {who: {type: string}}}
messages:
  - {text: "Hello {{ input.who }}"}
  - {role: assistant, body: true}
  - {role: user, image: dot.png}
  - {image: {base64: "AA ==", mimeType: image/x-dot}}
  - {resource: {uri: "who://{{ input.who }}", mimeType: text/plain, text: "About {{ input.who }}"}}
  - {resource: {uri: "file:notes", file: notes.txt}}
  - {resource: {uri: "file:blob", base64: AQI=}}
"#;
    let (folder, packs) = load(&[
        ("REGISTRY.yaml", "a: {all: [1]}\n"),
        ("packs/a/all.spec.yaml", spec),
        ("packs/a/all.v1.md", "the body for {{ input.who }}"),
        ("packs/a/dot.png", "P"),
        ("packs/a/notes.txt", "{{ not.markup }}"),
    ]);
    assert_eq!(problems(&packs), [""; 0]);
    let messages = fill(&packs, "a.all", r#"{"who":"{{ 7 * 7 }}"}"#).unwrap();
    let user = |content: Value| json!({"role": "user", "content": content});
    let expected = json!([
        user(json!({"type": "text", "text": "Hello {{ 7 * 7 }}"})),
        {"role": "assistant", "content": {"type": "text", "text": "the body for {{ 7 * 7 }}"}},
        user(json!({"type": "image", "data": "UA==", "mimeType": "image/png"})),
        user(json!({"type": "image", "data": "AA==", "mimeType": "image/x-dot"})),
        user(json!({"type": "resource", "resource":
            {"uri": "who://{{ 7 * 7 }}", "mimeType": "text/plain", "text": "About {{ 7 * 7 }}"}})),
        user(json!({"type": "resource", "resource": {"uri": "file:notes", "text": "{{ not.markup }}"}})),
        user(json!({"type": "resource", "resource": {"uri": "file:blob", "blob": "AQI="}})),
    ]);
    assert_eq!(messages, expected);
    folder.remove("prompts/packs/a/all.v1.md");
    assert!(
        problems(&Packs::load(&folder.path, &folder.path.join(".toolyard")))[0]
            .contains("all.v1.md: cannot be read")
    );
}

#[test]
fn a_version_may_have_a_spec_of_its_own() {
    let (_folder, packs) = load(&[
        ("REGISTRY.yaml", "a: {x: [1, 2]}\n"),
        ("packs/a/x.spec.yaml", "expose: x\ninputs: {type: object, properties: {new: {type: string}}}\n"),
        ("packs/a/x.v1.spec.yaml", "inputs: {type: object, properties: {old: {type: string}}}\n"),
        ("packs/a/x.v1.md", "{{ input.old }}"),
        ("packs/a/x.v2.md", "{{ input.new }}"),
    ]);
    assert_eq!(problems(&packs), [""; 0]);
    assert_eq!(text(&packs, "x", r#"{"new":"n"}"#), "n");
    assert_eq!(text(&packs, "x@1", r#"{"old":"o"}"#), "o");
}

#[test]
fn what_is_wrong_with_a_spec_is_told_with_its_place() {
    for (spec, line, what) in [
        ("descripton: x", "1:1", "unknown field 'descripton' (did you mean 'description'?)"),
        ("messages: [{role: usr, text: x}]", "1:19", "\"usr\" does not exist (did you mean 'user'?)"),
        ("messages: [{texts: x}]", "1:13", "unknown field 'messages.texts' (did you mean 'messages.text'?)"),
        ("messages: [{text: x, body: true}]", "1:12", "exactly one of"),
        ("messages: []", "1:11", "holds 0"),
        ("messages: [{text: '{% if %}'}]", "1:19", "invalid template"),
        ("messages: [{image: ../../../secret.png}]", "1:20", "lies outside the folder"),
        ("messages: [{image: /etc/passwd}]", "1:20", "lies outside the folder"),
        ("messages: [{image: leak.png}]", "1:20", "is a symbolic link"),
        ("messages: [{image: none.png}]", "1:20", "cannot be read"),
        ("messages: [{image: x.v1.md}]", "1:20", "type of the image"),
        ("messages: [{image: {base64: '!', mimeType: a/b}}]", "1:29", "not valid base64"),
        ("messages: [{image: {base64: AA==}}]", "1:20", "mimeType"),
        ("messages: [{image: {mimeType: a/b}}]", "1:20", "exactly one of 'file' and 'base64'"),
        ("messages: [{resource: {text: x}}]", "1:23", "'resource.uri' is missing"),
        ("messages: [{resource: {uri: a, text: x, base64: AA==}}]", "1:38", "exactly one of 'text'"),
        ("messages: [{text: x}]\ntool: t", "2:7", "exclude each other"),
        ("expose: a b", "1:9", "is not a valid name"),
        ("inputs: 5", "1:9", "must be a map"),
        ("inputs: {type: objekt}", "1:9", "not a valid JSON Schema"),
        ("constraints: 5", "1:14", "must be a map"),
        ("complete: {x: [a]}", "1:1", "which 'inputs' does not declare"),
        ("complete: {x: {tol: a}}", "1:15", "'complete.tool' is missing"),
        ("a: [", "", "not valid YAML"),
    ] {
        let (folder, _) = load(&[
            ("REGISTRY.yaml", "a: {x: [1], good: [1]}\n"),
            ("packs/a/x.spec.yaml", spec),
            ("packs/a/x.v1.md", "x"),
            ("packs/a/good.v1.md", "still here"),
        ]);
        std::os::unix::fs::symlink("/etc/hostname", folder.path.join("prompts/packs/a/leak.png")).unwrap();
        let packs = Packs::load(&folder.path, &folder.path.join(".toolyard"));
        let said = problems(&packs).join("\n");
        assert!(said.contains(&format!("x.spec.yaml:{line}")) && said.contains(what), "{spec}: {said}");
        assert!(packs.problems.iter().all(|problem| problem.severity == Severity::Error), "{spec}: {said}");
        assert_eq!(text(&packs, "a.good", "{}"), "still here");
        assert_eq!(packs.len(), 1, "{spec}");
        assert_eq!(packs.find("a.x").map(|_| ()).unwrap_err().kind, ErrorKind::Unavailable, "{spec}");
    }
}

#[test]
fn what_a_body_uses_must_be_declared() {
    for (body, what) in [
        ("{{ topic }}", "uses 'topic', which does not exist (arguments are under 'input'"),
        ("{{ secrets.KEY }}", "uses 'secrets.KEY', which does not exist"),
        (
            "{{ input.topc }}",
            "uses 'input.topc', which 'inputs' does not declare (did you mean 'input.topic'?)",
        ),
        ("{% for %}", "invalid template"),
        ("{% include 'x' %}", "invalid template"),
    ] {
        let (_folder, packs) = load(&[
            ("REGISTRY.yaml", "a: {x: [1]}\n"),
            ("packs/a/x.spec.yaml", DRAFT),
            ("packs/a/x.v1.md", body),
        ]);
        let said = problems(&packs).join("\n");
        assert!(said.starts_with("prompts/packs/a/x.v1.md: ") && said.contains(what), "{body}: {said}");
    }
}

#[test]
fn the_newest_version_that_is_broken_is_not_replaced_by_an_older_one() {
    let (_folder, packs) = load(&[
        ("REGISTRY.yaml", "a: {x: [1, 2]}\n"),
        ("packs/a/x.v1.md", "old"),
        ("packs/a/x.v2.md", "{{ broken"),
    ]);
    let error = packs.find("a.x").map(|_| ()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.contains("the newest version of 'a.x', 2, is broken"), "{error:?}");
    assert_eq!(text(&packs, "a.x@1", "{}"), "old");
    assert!(packs.list(&Registry::default()).is_empty());
}

#[test]
fn one_name_has_one_prompt_and_forgotten_files_are_told() {
    let (_folder, packs) = load(&[
        ("REGISTRY.yaml", "a: {x: [1], y: [1]}\n"),
        ("packs/a/x.spec.yaml", "expose: same"),
        ("packs/a/y.spec.yaml", "expose: same"),
        ("packs/a/x.v1.md", "x"),
        ("packs/a/y.v1.md", "y"),
        ("packs/a/y.v2.md", "y2"),
        ("packs/b/z.v1.md", "z"),
    ]);
    let said = problems(&packs);
    assert_eq!(said.len(), 3, "{said:#?}");
    assert!(said[0].contains("y.v2.md: version 2 is not in prompts/REGISTRY.yaml"), "{said:#?}");
    assert!(said[1].contains("(add it there: b: {z: [1]})"), "{said:#?}");
    assert!(said[2].contains("y.spec.yaml: the name 'same' is already taken by prompts/packs/a/x.spec.yaml"));
    assert_eq!(text(&packs, "same", "{}"), "x");
}

#[test]
fn work_and_size_of_a_filled_prompt_are_bounded() {
    let list = r#"inputs: {type: object, properties: {l: {type: array}, v: {type: string}}}"#;
    let (_folder, packs) = load(&[
        ("REGISTRY.yaml", "a: {steps: [1], size: [1], many: [1]}\n"),
        ("packs/a/steps.spec.yaml", list),
        (
            "packs/a/steps.v1.md",
            "{% for a in input.l %}{% for b in input.l %}{% for c in input.l %}x{% endfor %}{% endfor %}{% endfor %}",
        ),
        ("packs/a/size.spec.yaml", list),
        ("packs/a/size.v1.md", "{% for i in range(40) %}{{ input.v }}{% endfor %}"),
        (
            "packs/a/many.spec.yaml",
            &format!("{list}\nmessages: [{}]\n", vec!["{text: '{{ input.v }}'}"; 90].join(", ")),
        ),
    ]);
    assert_eq!(problems(&packs), [""; 0]);
    let long = format!(r#"{{"v":"{}"}}"#, "x".repeat(100_000));
    let items = format!(r#"{{"l":[{}]}}"#, vec!["1"; 300].join(","));
    for (name, arguments, what) in [
        ("a.steps", &items, "too many steps"),
        ("a.size", &long, "over 1048576"),
        ("a.many", &long, "over 8388608"),
    ] {
        let error = fill(&packs, name, arguments).unwrap_err();
        assert!(error.message.contains(what), "{name}: {error:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_spec_and_no_body_is_ever_more_than_a_problem(
        spec in r"((expose|title|inputs|messages|tool|complete|constraints|text): ?[\[{]?[a-z0-9:, {}\[\]'.]{0,20}[\]}]?\n){0,3}",
        body in r"[{}%a-z. |]{0,30}",
    ) {
        let (_folder, packs) = load(&[
            ("REGISTRY.yaml", "a: {x: [1], good: [1]}\n"),
            ("packs/a/x.spec.yaml", &spec),
            ("packs/a/x.v1.md", &body),
            ("packs/a/good.v1.md", "still here"),
        ]);
        prop_assert_eq!(text(&packs, "a.good", "{}"), "still here");
        let inside = |problem: &toolyard_engine::SourceProblem| problem.source.starts_with("prompts/packs/a/x.");
        prop_assert!(packs.problems.iter().all(inside), "{:?}", packs.problems);
        let there = packs.find("a.x").is_ok() || packs.list(&Registry::default()).len() == 2;
        let errors = packs.problems.iter().filter(|problem| problem.severity == Severity::Error).count();
        prop_assert!(there == (errors == 0), "{:?}", packs.problems);
    }
}
