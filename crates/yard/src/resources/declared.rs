//! `resources/*.resource.yaml`: resources that a yard declares, one resource or URI template per file.

use super::file_uri::FilePath;
use super::mime;
use super::root::{IfMissing, Root, RootError};
use bytes::Bytes;
use std::os::fd::AsFd;
use std::path::Path;
use toolyard_engine::{Severity, SourceProblem};
use toolyard_formats::doc::{self, DocumentFormat, Fields, Problem};
use toolyard_formats::template::{Target, Template};
use toolyard_formats::uri_template::UriTemplate;
use toolyard_protocol::base64;

/// The folder of resource files in a yard.
pub const FOLDER: &str = "resources";

const SUFFIXES: [&str; 2] = [".resource.yaml", ".resource.yml"];
const MAX_FILES: usize = 1000;
const MAX_URI: usize = 2048;

/// Schemes that Toolyard itself uses.
pub const RESERVED_SCHEMES: [&str; 5] = ["yard", "artifact", "job", "tool", "prompt"];

/// What one file declares.
pub struct DeclaredResource {
    /// The file, relative to the yard.
    pub source: String,
    pub address: DeclaredUri,
    pub name: String,
    pub title: Option<String>,
    pub description: Option<String>,
    pub mime: Option<String>,
    pub content: Content,
    /// The content of the file, to detect changes.
    pub text: Vec<u8>,
}

pub enum DeclaredUri {
    Fixed(String),
    Template(UriTemplate),
}

/// Where the content comes from.
pub enum Content {
    Text(String),
    /// Filled in with the variables of the URI, as `input`.
    Template(Box<Template>),
    File(FilePath),
    Bytes(Bytes),
    /// A tool, called with the variables of the URI.
    Tool(String),
}

impl DeclaredUri {
    pub fn as_str(&self) -> &str {
        match self {
            DeclaredUri::Fixed(uri) => uri,
            DeclaredUri::Template(template) => template.as_str(),
        }
    }
}

impl DeclaredResource {
    /// What a list shows of it.
    pub fn row(&self) -> [Option<&str>; 5] {
        let (title, description, mime) = (&self.title, &self.description, &self.mime);
        [
            Some(self.address.as_str()),
            Some(&self.name),
            title.as_deref(),
            description.as_deref(),
            mime.as_deref(),
        ]
    }

    /// `None` when a file or a tool provides the content.
    pub fn size(&self) -> Option<u64> {
        match &self.content {
            Content::Text(text) => Some(text.len() as u64),
            Content::Bytes(bytes) => Some(bytes.len() as u64),
            _ => None,
        }
    }
}

/// Whether the folder of a yard has a resource file.
pub fn has_files(yard: &Path) -> bool {
    let entries = std::fs::read_dir(yard.join(FOLDER));
    entries.is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_resource_file))
    })
}

fn is_resource_file(name: &str) -> bool {
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Reads every resource file of the yard; a broken one does not affect the others.
pub fn load(yard: &Root) -> (Vec<DeclaredResource>, Vec<SourceProblem>) {
    let (mut found, mut problems) = (Vec::<DeclaredResource>::new(), Vec::new());
    let names = yard
        .folder(&[FOLDER.to_owned()], IfMissing::Fail)
        .and_then(|folder| yard.names(folder.as_fd(), is_resource_file));
    let names = match names {
        Ok(names) => names,
        Err(RootError::Missing) => return (found, problems),
        Err(error) => {
            problems.push(problem(FOLDER, None, format!("the folder cannot be read: {error}"), None));
            return (found, problems);
        }
    };
    for name in &names.skipped {
        let message = "is a symbolic link or not a regular file; resource files are read only as files";
        let found = problem(&format!("{FOLDER}/{name}"), None, message.to_owned(), None);
        problems.push(SourceProblem { severity: Severity::Warning, ..found });
    }
    if names.names.len() > MAX_FILES || names.truncated {
        let message =
            format!("there are more than {MAX_FILES} resource files; only the first {MAX_FILES} are read");
        problems.push(problem(FOLDER, None, message, None));
    }
    for (name, _) in names.names.into_iter().filter(|(_, is_folder)| !is_folder).take(MAX_FILES) {
        let source = format!("{FOLDER}/{name}");
        match read_file(yard, &name, &source) {
            Ok(declared) => {
                match found.iter().find(|known| known.address.as_str() == declared.address.as_str()) {
                    Some(first) => {
                        let message = format!(
                            "'{}' is declared by {} already; this file is left out",
                            declared.address.as_str(),
                            first.source
                        );
                        problems.push(problem(
                            &source,
                            None,
                            message,
                            Some("give it another URI".to_owned()),
                        ));
                    }
                    None => found.push(declared),
                }
            }
            Err(wrong) => problems.extend(wrong.into_iter().map(|wrong| {
                let position = (wrong.position.line, wrong.position.column);
                problem(&source, Some(position), wrong.message, wrong.hint)
            })),
        }
    }
    (found, problems)
}

fn problem(
    source: &str,
    position: Option<(u32, u32)>,
    message: String,
    hint: Option<String>,
) -> SourceProblem {
    SourceProblem { source: source.to_owned(), position, message, hint, severity: Severity::Error }
}

fn read_file(yard: &Root, name: &str, source: &str) -> Result<DeclaredResource, Vec<Problem>> {
    let whole = |what: String| vec![Problem::new(doc::Position::START, what)];
    let path = FilePath::new(vec![FOLDER.to_owned(), name.to_owned()]);
    let path = path.map_err(|what| whole(format!("its name cannot be used: {what}")))?;
    let text = yard.read(&path).map_err(|error| whole(format!("cannot be read: {error}")))?;
    let node = doc::read(DocumentFormat::Yaml, &text).map_err(|wrong| vec![wrong])?;
    let mut fields = Fields::open(&node, "").map_err(|wrong| vec![wrong])?;
    let address = address(&mut fields);
    let stem = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
    let shown = fields.text("name").filter(|text| !text.trim().is_empty()).unwrap_or(stem).to_owned();
    let mut optional_text = |name| fields.text(name).map(str::to_owned);
    let (title, description, mime) =
        (optional_text("title"), optional_text("description"), optional_text("mimeType"));
    check_mime(&mut fields, mime.as_deref());
    let is_template = matches!(address, Some(DeclaredUri::Template(_)));
    let content = content(&mut fields, is_template, mime.as_deref());
    let position = fields.position;
    let problems = fields.finish(&[]);
    match (address, content) {
        (Some(address), Some(content)) if problems.is_empty() => {
            let mime = mime.or_else(|| content.default_mime());
            let source = source.to_owned();
            Ok(DeclaredResource { source, address, name: shown, title, description, mime, content, text })
        }
        _ if problems.is_empty() => Err(vec![Problem::new(position, "the resource cannot be read")]),
        _ => Err(problems),
    }
}

fn address(fields: &mut Fields<'_>) -> Option<DeclaredUri> {
    let hint = "for example uri: notes://today, or uriTemplate: notes://{day}";
    let (uri, template) = (fields.text_with_position("uri"), fields.text_with_position("uriTemplate"));
    let (text, position) = match (uri, template) {
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => {
            fields.problem(fields.position, "'uri' or 'uriTemplate' is missing", hint);
            return None;
        }
        (Some(_), Some((_, position))) => {
            fields.problem(position, "'uri' and 'uriTemplate' cannot both be given", "keep one of them");
            return None;
        }
    };
    if let Err(what) = check_scheme(text) {
        fields.problem(position, format!("'{text}' is not a valid URI: {what}"), hint);
        return None;
    }
    if uri.is_some() {
        return Some(DeclaredUri::Fixed(text.to_owned()));
    }
    match UriTemplate::parse(text) {
        Ok(template) => Some(DeclaredUri::Template(template)),
        Err(what) => {
            fields.problem(position, format!("'uriTemplate' cannot be used: {what}"), hint);
            None
        }
    }
}

fn check_scheme(text: &str) -> Result<(), String> {
    let (scheme, rest) = text.split_once(':').ok_or("it has no scheme")?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '+' | '-' | '.');
    if !scheme.starts_with(|c: char| c.is_ascii_lowercase()) || !scheme.chars().all(fits) {
        return Err("its scheme is not made of lower-case letters, digits, '+', '-' and '.'".to_owned());
    }
    if RESERVED_SCHEMES.contains(&scheme) {
        return Err(format!("the scheme '{scheme}' is used by Toolyard itself"));
    }
    if rest.trim_matches('/').is_empty() || text.len() > MAX_URI {
        return Err("it is empty after the scheme, or too long".to_owned());
    }
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err("it holds a character that must be percent-encoded".to_owned()),
    }
}

fn check_mime(fields: &mut Fields<'_>, mime: Option<&str>) {
    let fits = |text: &str| {
        text.split_once('/').is_some_and(|(kind, rest)| !kind.is_empty() && !rest.is_empty())
            && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ')
    };
    if let Some(mime) = mime.filter(|mime| !fits(mime)) {
        fields.problem(
            fields.position,
            format!("'mimeType' is '{mime}'"),
            "for example mimeType: text/markdown",
        );
    }
}

fn content(fields: &mut Fields<'_>, is_template: bool, mime: Option<&str>) -> Option<Content> {
    let sources = [
        ("text", fields.text_with_position("text")),
        ("file", fields.text_with_position("file")),
        ("base64", fields.text_with_position("base64")),
        ("tool", fields.text_with_position("tool")),
    ];
    let mut given = sources.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    let hint = "give exactly one of 'text', 'file', 'base64' and 'tool'";
    let Some((name, (text, position))) = given.next() else {
        fields.problem(fields.position, "it has no content", hint);
        return None;
    };
    if let Some((other, (_, position))) = given.next() {
        fields.problem(position, format!("'{name}' and '{other}' cannot both be given"), hint);
        return None;
    }
    let read = match name {
        "text" if is_template => parse_template(text, mime),
        "text" => Ok(Content::Text(text.to_owned())),
        "tool" if text.trim().is_empty() => Err("'tool' is empty".to_owned()),
        "tool" => Ok(Content::Tool(text.to_owned())),
        _ if is_template => {
            Err(format!("'{name}' is the same for every URI, so it cannot be used with 'uriTemplate'"))
        }
        "file" => {
            FilePath::plain(text).map(Content::File).map_err(|what| format!("'file' cannot be used: {what}"))
        }
        _ => {
            let compact: String = text.split_ascii_whitespace().collect();
            let bytes = base64::decode(&compact).map_err(|_| "'base64' is not base64".to_owned());
            bytes.map(|bytes| Content::Bytes(bytes.into()))
        }
    };
    read.map_err(|what| {
        let hint = match name {
            "file" if !is_template => "a path relative to the yard, without '..' and hidden names",
            "text" => "{{ input.NAME }} stands for a variable of 'uriTemplate'",
            _ => "a template takes 'text' or 'tool'; for the files of a folder there is [[resources.root]]",
        };
        fields.problem(position, what, hint);
    })
    .ok()
}

/// In JSON a value is inserted as JSON, so that none can break out of its quotes.
fn parse_template(text: &str, mime: Option<&str>) -> Result<Content, String> {
    let is_json = mime.is_some_and(|mime| mime == "application/json" || mime.ends_with("+json"));
    let target = if is_json { Target::Json } else { Target::Text };
    let template =
        Template::parse(text, target).map_err(|what| format!("'text' cannot be filled in: {what}"))?;
    match template.secrets_used().is_empty() {
        true => Ok(Content::Template(Box::new(template))),
        false => Err("'text' uses secrets, which clients must not see".to_owned()),
    }
}

impl Content {
    fn default_mime(&self) -> Option<String> {
        match self {
            Content::Text(_) | Content::Template(_) => Some("text/plain".to_owned()),
            Content::File(path) => mime::of_name(path.split().1).map(str::to_owned),
            Content::Bytes(bytes) => Some(mime::content("", bytes.to_vec()).0),
            Content::Tool(_) => None,
        }
    }
}
