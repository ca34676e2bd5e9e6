//! Bundles a schema: embeds the files it references into its `$defs` and rewrites the references.

use super::draft;
use crate::doc::{Key, Node, Position, Problem, Value};

/// A self-contained schema and the files it includes.
#[derive(Debug)]
pub struct Bundled {
    pub json: Vec<u8>,
    /// Paths relative to the yard, in order of first reference.
    pub files: Vec<String>,
}

/// Why a referenced file cannot be used.
pub struct FileError(pub String);

type ReadFile<'f> = dyn FnMut(&str) -> Result<Node, FileError> + 'f;

/// `schema` is in the file `home` (a path relative to the yard). `read` reads other files of the yard.
pub fn bundle(schema: &Node, home: &str, read: &mut ReadFile<'_>) -> Result<Bundled, Problem> {
    let mut bundler = Bundler { read, files: Vec::new(), stack: vec![home.to_owned()], keyword: "$defs" };
    let (mut root, base) = bundler.root(schema, home)?;
    if let Some(uri) = root.get("$schema").and_then(text) {
        match draft(uri) {
            Some(jsonschema::Draft::Draft7) => bundler.keyword = "definitions",
            Some(_) => {}
            None => {
                let hint = "use https://json-schema.org/draft/2020-12/schema or http://json-schema.org/draft-07/schema#";
                return Err(
                    Problem::new(schema.position, format!("'$schema' {uri:?} is not supported")).hint(hint)
                );
            }
        }
    }
    let scope = RefScope { file: &base, key: None };
    bundler.rewrite(&mut root, &scope, schema.position)?;
    let files: Vec<String> = std::iter::once(base.clone())
        .filter(|base| base != home)
        .chain(bundler.files.iter().map(|file| file.path.clone()))
        .collect();
    bundler.embed(&mut root, schema.position)?;
    Ok(Bundled { json: root.to_json(), files })
}

struct Bundler<'r, 'f> {
    read: &'r mut ReadFile<'f>,
    files: Vec<Embedded>,
    /// Files that are being read, outermost first: a reference to one of them is a cycle.
    stack: Vec<String>,
    keyword: &'static str,
}

struct Embedded {
    path: String,
    key: String,
    node: Option<Node>,
}

/// The file that references are relative to, and the key under which it is embedded.
struct RefScope<'p> {
    file: &'p str,
    key: Option<&'p str>,
}

impl Bundler<'_, '_> {
    /// A schema that consists of a single reference to a whole file is replaced by that file.
    fn root(&mut self, schema: &Node, home: &str) -> Result<(Node, String), Problem> {
        if let Value::Map(entries) = &schema.value
            && let [(key, target)] = entries.as_slice()
            && key.text == "$ref"
            && let Some(reference) = text(target)
            && let Reference::File { path, pointer } = split(reference)
            && pointer.is_empty()
        {
            let path = resolve(home, path).map_err(|what| Problem::new(target.position, what))?;
            let node =
                (self.read)(&path).map_err(|FileError(what)| missing(target.position, &path, &what))?;
            self.stack.push(path.clone());
            return Ok((node, path));
        }
        Ok((schema.clone(), home.to_owned()))
    }

    fn rewrite(&mut self, node: &mut Node, scope: &RefScope<'_>, position: Position) -> Result<(), Problem> {
        match &mut node.value {
            Value::List(items) => items.iter_mut().try_for_each(|item| self.rewrite(item, scope, position)),
            Value::Map(entries) => {
                for (key, member) in entries {
                    match key.text.as_str() {
                        // Data, not schemas: a "$ref" in them is not a reference.
                        "const" | "enum" | "default" | "examples" => {}
                        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                            self.rewrite_named(member, scope, position)?;
                        }
                        "$ref" => self.reference(member, scope, position)?,
                        _ => self.rewrite(member, scope, position)?,
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A map from arbitrary names to schemas.
    fn rewrite_named(
        &mut self,
        node: &mut Node,
        scope: &RefScope<'_>,
        position: Position,
    ) -> Result<(), Problem> {
        match &mut node.value {
            Value::Map(entries) => {
                entries.iter_mut().try_for_each(|(_, member)| self.rewrite(member, scope, position))
            }
            _ => Ok(()),
        }
    }

    fn reference(
        &mut self,
        node: &mut Node,
        scope: &RefScope<'_>,
        position: Position,
    ) -> Result<(), Problem> {
        let Some(reference) = text(node) else { return Ok(()) };
        // A position in another file would mislead; such problems are reported at the reference to that file.
        let position =
            if scope.key.is_none() && scope.file == self.stack[0] { node.position } else { position };
        let rewritten = match split(reference) {
            Reference::Absolute => return Ok(()),
            Reference::Local(fragment) => match scope.key {
                Some(key) if fragment.is_empty() || fragment.starts_with('/') => self.pointer(key, fragment),
                _ => return Ok(()),
            },
            Reference::File { path, pointer } => {
                let path = resolve(scope.file, path).map_err(|what| Problem::new(position, what))?;
                if path == scope.file {
                    match scope.key {
                        Some(key) => self.pointer(key, pointer),
                        None => format!("#{pointer}"),
                    }
                } else {
                    let key = self.file(&path, position)?;
                    self.pointer(&key, pointer)
                }
            }
        };
        node.value = Value::Text(rewritten);
        Ok(())
    }

    fn pointer(&self, key: &str, fragment: &str) -> String {
        format!("#/{}/{key}{fragment}", self.keyword)
    }

    /// The key under which a file is embedded; reads the file on first use.
    fn file(&mut self, path: &str, position: Position) -> Result<String, Problem> {
        if self.stack.iter().any(|open| open == path) {
            let chain = self.stack.iter().map(String::as_str).chain([path]).collect::<Vec<_>>().join(" → ");
            return Err(Problem::new(
                position,
                format!("schema files refer to each other in a cycle: {chain}"),
            )
            .hint("put schemas that need each other into one file"));
        }
        if let Some(known) = self.files.iter().find(|file| file.path == path) {
            return Ok(known.key.clone());
        }
        let mut node = (self.read)(path).map_err(|FileError(what)| missing(position, path, &what))?;
        if let Value::Map(entries) = &mut node.value {
            // An embedded file has no base URI or dialect of its own.
            entries.retain(|(key, _)| !matches!(key.text.as_str(), "$id" | "$schema"));
        }
        let key: String = path
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' })
            .collect();
        let key = if self.files.iter().any(|file| file.key == key) {
            format!("{key}.{}", self.files.len())
        } else {
            key
        };
        let slot = self.files.len();
        self.files.push(Embedded { path: path.to_owned(), key: key.clone(), node: None });
        self.stack.push(path.to_owned());
        self.rewrite(&mut node, &RefScope { file: path, key: Some(&key) }, position)?;
        self.stack.pop();
        self.files[slot].node = Some(node);
        Ok(key)
    }

    fn embed(self, root: &mut Node, position: Position) -> Result<(), Problem> {
        if self.files.is_empty() {
            return Ok(());
        }
        let embedded = self.files.into_iter().filter_map(|file| {
            let node = file.node?;
            Some((Key { text: file.key, position: node.position }, node))
        });
        let Value::Map(entries) = &mut root.value else {
            return Err(Problem::new(position, "a schema must be a map"));
        };
        match entries.iter_mut().find(|(key, _)| key.text == self.keyword) {
            Some((_, Node { value: Value::Map(defs), .. })) => defs.extend(embedded),
            Some(_) => {
                return Err(Problem::new(
                    position,
                    format!("'{}' of the schema must be a map", self.keyword),
                ));
            }
            None => {
                let value = Value::Map(embedded.collect());
                entries.push((Key { text: self.keyword.to_owned(), position }, Node { value, position }));
            }
        }
        Ok(())
    }
}

enum Reference<'r> {
    /// `#…` in the same document.
    Local(&'r str),
    /// A relative path, with the pointer after `#`.
    File { path: &'r str, pointer: &'r str },
    /// An absolute URI: known to the validator, or rejected by it.
    Absolute,
}

fn split(reference: &str) -> Reference<'_> {
    let (path, pointer) = reference.split_once('#').unwrap_or((reference, ""));
    if path.is_empty() {
        Reference::Local(pointer)
    } else if path.split('/').next().is_some_and(|first| first.contains(':')) {
        Reference::Absolute
    } else {
        Reference::File { path, pointer }
    }
}

/// `path` relative to the folder of `file`, within the yard.
fn resolve(file: &str, path: &str) -> Result<String, String> {
    if path.starts_with('/') {
        return Err(format!("'$ref' {path:?} must be relative to its file"));
    }
    let mut parts: Vec<&str> = file.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop().ok_or_else(|| format!("'$ref' {path:?} points outside the yard"))?;
            }
            name => parts.push(name),
        }
    }
    Ok(parts.join("/"))
}

fn missing(position: Position, path: &str, what: &str) -> Problem {
    Problem::new(position, format!("the schema file {path} {what}"))
        .hint("'$ref' is relative to the file that contains it")
}

fn text(node: &Node) -> Option<&str> {
    match &node.value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::{DocumentFormat, read};
    use std::collections::HashMap;

    fn run(schema: &str, files: &[(&str, &str)]) -> Result<(String, Vec<String>), String> {
        let files: HashMap<&str, &str> = files.iter().copied().collect();
        let node = read(DocumentFormat::Yaml, schema.as_bytes()).unwrap();
        let mut open = |path: &str| match files.get(path) {
            Some(text) => {
                read(DocumentFormat::Json, text.as_bytes()).map_err(|problem| FileError(problem.message))
            }
            None => Err(FileError("does not exist".to_owned())),
        };
        bundle(&node, "tools/example/x.tool.yaml", &mut open)
            .map(|bundled| (String::from_utf8(bundled.json).unwrap(), bundled.files))
            .map_err(|problem| problem.message)
    }

    #[test]
    fn a_reference_to_a_whole_file_is_that_file() {
        let file = r##"{"type":"object","properties":{"a":{"$ref":"#/definitions/x"}},"definitions":{"x":{"type":"string"}}}"##;
        let (json, files) = run("$ref: ./in.json", &[("tools/example/in.json", file)]).unwrap();
        assert_eq!((json.as_str(), files), (file, vec!["tools/example/in.json".to_owned()]));
    }

    #[test]
    fn files_are_embedded_once_and_their_own_pointers_follow() {
        let common =
            r##"{"$id":"x","definitions":{"id":{"$ref":"#/definitions/raw"},"raw":{"type":"integer"}}}"##;
        let schema = "type: object\nproperties:\n  a: {$ref: '../common.json#/definitions/id'}\n  b: {$ref: '../common.json#/definitions/raw'}\n  c: {enum: [{$ref: nothing}]}\n  $ref: {type: string}";
        let (json, files) = run(schema, &[("tools/common.json", common)]).unwrap();
        assert_eq!(
            json,
            concat!(
                r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/tools_common.json/definitions/id"},"##,
                r##""b":{"$ref":"#/$defs/tools_common.json/definitions/raw"},"c":{"enum":[{"$ref":"nothing"}]},"##,
                r##""$ref":{"type":"string"}},"$defs":{"tools_common.json":{"definitions":{"id":"##,
                r##"{"$ref":"#/$defs/tools_common.json/definitions/raw"},"raw":{"type":"integer"}}}}}"##
            )
        );
        assert_eq!(files, ["tools/common.json"]);
        assert!(super::super::Schema::compile(json.as_bytes()).is_ok());
    }

    #[test]
    fn cycles_escapes_and_missing_files_are_rejected() {
        let cycle = [
            ("tools/a.json", r##"{"$ref":"b.json#/x"}"##),
            ("tools/b.json", r##"{"x":{"$ref":"a.json#"}}"##),
        ];
        assert!(run("properties: {p: {$ref: ../a.json}}", &cycle).unwrap_err().contains("cycle"));
        assert!(run("$ref: ../../../etc/passwd", &[]).unwrap_err().contains("outside the yard"));
        assert!(run("$ref: /etc/passwd", &[]).unwrap_err().contains("relative"));
        assert!(run("$ref: ./nope.json", &[]).unwrap_err().contains("does not exist"));
    }
}
