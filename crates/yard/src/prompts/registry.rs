//! `prompts/REGISTRY.yaml`: which versions of which prompts are served, as `domain: {name: [majors]}`.

use super::naming::{MAX_MAJOR, PackName, parse_major, parse_part};
use std::collections::BTreeSet;
use toolyard_formats::doc::{Node, Position, Problem, Value};

/// Prompts that a yard may have.
pub const MAX_PACKS: usize = 1000;
/// Versions that one prompt may have.
const MAX_VERSIONS: usize = 100;

/// One prompt of the registry.
#[derive(Debug, PartialEq, Eq)]
pub struct RegistryEntry {
    pub name: PackName,
    /// Never empty.
    pub majors: BTreeSet<u32>,
    pub position: Position,
}

/// The valid entries, sorted by name, and every problem.
pub fn read(document: &Node) -> (Vec<RegistryEntry>, Vec<Problem>) {
    let (mut found, mut problems) = (Vec::new(), Vec::new());
    for (domain, domain_place, names) in map(document, "the registry", &mut problems) {
        let Some(domain) = parse_name(domain, domain_place, &mut problems) else { continue };
        for (name, position, majors) in map(names, &format!("'{domain}'"), &mut problems) {
            let Some(name) = parse_name(name, position, &mut problems) else { continue };
            let name = PackName { domain: domain.clone(), name };
            if found.len() == MAX_PACKS {
                let message = format!("there are more than {MAX_PACKS} prompts; the rest is not loaded");
                problems.push(Problem::new(position, message));
                return (found, problems);
            }
            if let Some(majors) = versions(&name, majors, &mut problems) {
                found.push(RegistryEntry { name, majors, position });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    (found, problems)
}

fn map<'n>(node: &'n Node, what: &str, problems: &mut Vec<Problem>) -> Vec<(&'n str, Position, &'n Node)> {
    match &node.value {
        Value::Map(entries) => entries.iter().map(|(key, node)| (&*key.text, key.position, node)).collect(),
        _ => {
            let message = format!("{what} must be a map, not {}", node.kind());
            problems.push(Problem::new(node.position, message).hint("write domain: {name: [1, 2]}"));
            Vec::new()
        }
    }
}

fn parse_name(text: &str, position: Position, problems: &mut Vec<Problem>) -> Option<String> {
    parse_part(text)
        .map_err(|what| problems.push(Problem::new(position, format!("the name {text:?}: {what}"))))
        .ok()
}

fn versions(name: &PackName, node: &Node, problems: &mut Vec<Problem>) -> Option<BTreeSet<u32>> {
    let hint = "list the versions, for example [1, 2, 3]";
    let Value::List(items) = &node.value else {
        let message = format!("the versions of '{name}' must be a list, not {}", node.kind());
        problems.push(Problem::new(node.position, message).hint(hint));
        return None;
    };
    let mut majors = BTreeSet::new();
    for item in items {
        let major = match &item.value {
            Value::Number(digits) => parse_major(digits),
            _ => None,
        };
        let what = match major {
            None => format!("a version of '{name}' is not a whole number from 1 to {MAX_MAJOR}"),
            Some(major) if !majors.insert(major) => format!("version {major} of '{name}' is listed twice"),
            Some(_) => continue,
        };
        problems.push(Problem::new(item.position, what).hint(hint));
    }
    if majors.is_empty() || majors.len() > MAX_VERSIONS {
        let message = format!("'{name}' has {} versions; 1 to {MAX_VERSIONS} are allowed", majors.len());
        problems.push(Problem::new(node.position, message).hint(hint));
        return None;
    }
    Some(majors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use toolyard_formats::doc::{DocumentFormat, read as parse};

    fn of(text: &str) -> (Vec<String>, Vec<String>) {
        let (found, problems) = read(&parse(DocumentFormat::Yaml, text.as_bytes()).unwrap());
        let found = found.iter().map(|r| format!("{} {:?}", r.name, r.majors)).collect();
        (found, problems.iter().map(|p| format!("{}: {}", p.position, p.message)).collect())
    }

    #[test]
    fn the_documented_example_is_read() {
        assert_eq!(of("writing:\n  sectioned_draft:\n    - 3\n").0, ["writing.sectioned_draft {3}"]);
        assert_eq!(of(""), (vec![], vec![]));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_leaves_the_rest() {
        let text =
            "b:\n  ok: [2, 1]\n  'a/b': [1]\n  none: []\n  odd: [x, 1, 1]\n  text: 3\n../c: {d: [1]}\nz: 5\n";
        let (found, problems) = of(text);
        assert_eq!(found, ["b.odd {1}", "b.ok {1, 2}"]);
        let expected = [
            "3:3: the name \"a/b\": only letters",
            "4:9: 'b.none' has 0 versions",
            "5:9: a version of 'b.odd' is not a whole",
            "5:15: version 1 of 'b.odd' is listed twice",
            "6:9: the versions of 'b.text' must be a list",
            "7:1: the name \"../c\": only letters",
            "8:4: 'z' must be a map",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:#?}");
        for (problem, expected) in problems.iter().zip(expected) {
            assert!(problem.starts_with(expected), "{problem} / {expected}");
        }
        assert!(of("[1]").1[0].contains("must be a map"));
    }

    proptest! {
        #[test]
        fn any_document_is_read_or_refused(text in "[ab:.\\-\\[\\]{},0-9 \n]{0,60}") {
            if let Ok(node) = parse(DocumentFormat::Yaml, text.as_bytes()) {
                let (found, problems) = read(&node);
                prop_assert!(found.iter().all(|registered| !registered.majors.is_empty()));
                let empty = matches!(&node.value, Value::Map(entries) if entries.is_empty());
                let said = !found.is_empty() || !problems.is_empty() || empty || text.contains("{}");
                prop_assert!(said, "nothing came of {:?}", text);
            }
        }
    }
}
