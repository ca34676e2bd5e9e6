//! The messages that a prompt spec declares: a text, the version's body, an image or an embedded resource.

use super::spec::SpecContext;
use toolyard_formats::doc::{Fields, Node, Position, Value};
use toolyard_formats::template::{Input, Target, Template};
use toolyard_protocol::{Error, base64, text::nearest};
use toolyard_wire::prompt::{Embedded, MAX_MESSAGES, Messages, Role};

pub struct Message {
    role: Role,
    content: Content,
}

enum Content {
    Text(Box<Template>),
    /// The Markdown file of the version.
    Body,
    Image {
        mime: String,
        /// As base64.
        data: String,
    },
    Resource {
        uri: Box<Template>,
        mime: Option<String>,
        embedded: EmbeddedContent,
    },
}

enum EmbeddedContent {
    Text(Box<Template>),
    /// As base64.
    Blob(String),
}

/// MIME types of images by file extension.
const IMAGES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
];

impl Message {
    /// The message of a prompt whose spec declares none.
    pub fn body() -> Message {
        Message { role: Role::User, content: Content::Body }
    }

    pub fn is_body(&self) -> bool {
        matches!(self.content, Content::Body)
    }

    /// The templates in it.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (first, second) = match &self.content {
            Content::Text(text) => (Some(&**text), None),
            Content::Resource { uri, embedded: EmbeddedContent::Text(text), .. } => {
                (Some(&**uri), Some(&**text))
            }
            Content::Resource { uri, .. } => (Some(&**uri), None),
            Content::Body | Content::Image { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    pub fn fill(&self, body: Option<&Template>, input: &Input, out: &mut Messages) -> Result<(), Error> {
        match &self.content {
            Content::Text(text) => out.text(self.role, &text.render(input)?),
            // A version without a body is not loaded if a message uses it.
            Content::Body => {
                if let Some(body) = body {
                    out.text(self.role, &body.render(input)?);
                }
            }
            Content::Image { mime, data } => out.image(self.role, mime, data),
            Content::Resource { uri, mime, embedded } => {
                let uri = uri.render(input)?;
                match embedded {
                    EmbeddedContent::Text(text) => {
                        let text = text.render(input)?;
                        out.resource(self.role, &uri, mime.as_deref(), Embedded::Text(&text));
                    }
                    EmbeddedContent::Blob(data) => {
                        out.resource(self.role, &uri, mime.as_deref(), Embedded::Blob(data))
                    }
                }
            }
        }
        Ok(())
    }
}

/// `None` when there are none, or one of them is invalid.
pub fn read(fields: &mut Fields<'_>, context: &SpecContext<'_>) -> Option<Vec<Message>> {
    let node = fields.take("messages")?;
    let Value::List(items) = &node.value else { return fields.wrong(node, "messages", "a list") };
    if items.is_empty() || items.len() > MAX_MESSAGES {
        let what = format!("'messages' holds {}; 1 to {MAX_MESSAGES} are allowed", items.len());
        fields.problem(node.position, what, "for example messages: [{role: user, text: Hello}]");
        return None;
    }
    let read: Vec<Option<Message>> = items.iter().map(|item| read_message(fields, item, context)).collect();
    read.into_iter().collect()
}

fn read_message(outer: &mut Fields<'_>, item: &Node, context: &SpecContext<'_>) -> Option<Message> {
    let mut fields = Fields::open(item, "messages").map_err(|problem| outer.problems.push(problem)).ok()?;
    let role = role(&mut fields);
    let kinds = ["text", "body", "image", "resource"].into_iter().filter(|kind| fields.has(kind)).count();
    if kinds != 1 {
        let what = "a message holds exactly one of 'text', 'body', 'image' and 'resource'";
        fields.problem(item.position, what, "split it into several messages");
    }
    let text =
        fields.text_with_position("text").and_then(|text| template(&mut fields, text)).map(Content::Text);
    let body = match fields.bool("body") {
        Some(false) => {
            fields.problem(item.position, "'body: false' has no effect", "remove the message");
            None
        }
        given => given.map(|_| Content::Body),
    };
    let image = fields.take("image").and_then(|node| image(&mut fields, node, context));
    let resource = fields.take("resource").and_then(|node| resource(&mut fields, node, context));
    outer.close(fields);
    let content = text.or(body).or(image).or(resource)?;
    Some(Message { role: role?, content })
}

fn role(fields: &mut Fields<'_>) -> Option<Role> {
    let Some((text, position)) = fields.text_with_position("role") else { return Some(Role::User) };
    let role = Role::parse(text);
    if role.is_none() {
        let near = nearest(text, Role::ALL.map(Role::as_str));
        let hint =
            near.map_or("write user or assistant".to_owned(), |near| format!("did you mean '{near}'?"));
        fields.problem(position, format!("the role {text:?} does not exist"), &hint);
    }
    role
}

/// A path, or `{file, mimeType}`, or `{base64, mimeType}`.
fn image(outer: &mut Fields<'_>, node: &Node, context: &SpecContext<'_>) -> Option<Content> {
    if let Value::Text(path) = &node.value {
        let data = file(outer, path, node.position, context)?;
        let mime = mime_of(outer, path, node.position)?;
        return Some(Content::Image { mime, data: base64::encode(&data) });
    }
    let mut fields = Fields::open(node, "image").map_err(|problem| outer.problems.push(problem)).ok()?;
    let given = fields.text_with_position("file");
    let data = data(&mut fields, node.position, given, context);
    let mime = match fields.text("mimeType") {
        Some(mime) => Some(mime.to_owned()),
        None => match given {
            Some((path, position)) => mime_of(&mut fields, path, position),
            None => {
                fields.problem(node.position, "'image.mimeType' is missing", "for example image/png");
                None
            }
        },
    };
    outer.close(fields);
    Some(Content::Image { mime: mime?, data: data? })
}

fn mime_of(fields: &mut Fields<'_>, path: &str, position: Position) -> Option<String> {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
    let found = IMAGES.iter().find(|(known, _)| *known == extension);
    if found.is_none() {
        let what = format!("the MIME type of the image {path:?} cannot be derived from its extension");
        fields.problem(position, what, "declare it: image: {file: …, mimeType: image/png}");
    }
    found.map(|(_, mime)| (*mime).to_owned())
}

/// The `base64` field, or the content of the file as base64; exactly one is required.
fn data(
    fields: &mut Fields<'_>,
    position: Position,
    path: Option<(&str, Position)>,
    context: &SpecContext<'_>,
) -> Option<String> {
    match (fields.text_with_position("base64"), path) {
        (Some((text, at)), None) => {
            let packed: String = text.split_whitespace().collect();
            if base64::decode(&packed).is_err() {
                fields.problem(at, "'base64' is not valid base64", "encode the bytes with padding");
                return None;
            }
            Some(packed)
        }
        (None, Some((path, at))) => Some(base64::encode(&file(fields, path, at, context)?)),
        _ => {
            fields.problem(position, "exactly one of 'file' and 'base64' is needed", "give one of them");
            None
        }
    }
}

fn resource(outer: &mut Fields<'_>, node: &Node, context: &SpecContext<'_>) -> Option<Content> {
    let mut fields = Fields::open(node, "resource").map_err(|problem| outer.problems.push(problem)).ok()?;
    let uri = fields.required_text("uri", "for example uri: docs://style-guide");
    let uri = uri.and_then(|uri| template(&mut fields, uri));
    let mime = fields.text("mimeType").map(str::to_owned);
    let path = fields.text_with_position("file");
    let embedded = match fields.text_with_position("text") {
        Some((_, position)) if path.is_some() || fields.has("base64") => {
            let what = "'resource' holds exactly one of 'text', 'file' and 'base64'";
            fields.problem(position, what, "remove the others");
            None
        }
        Some(text) => template(&mut fields, text).map(EmbeddedContent::Text),
        None => match path {
            // A text file is embedded verbatim; only text in the spec itself is a template.
            Some((path, at)) => file(&mut fields, path, at, context).map(|bytes| EmbeddedContent::of(&bytes)),
            None => data(&mut fields, node.position, None, context).map(EmbeddedContent::Blob),
        },
    };
    if path.is_some() && fields.has("base64") {
        fields.problem(node.position, "'resource' holds 'file' and 'base64'", "remove one of them");
    }
    fields.take("base64");
    outer.close(fields);
    Some(Content::Resource { uri: uri?, mime, embedded: embedded? })
}

impl EmbeddedContent {
    fn of(bytes: &[u8]) -> EmbeddedContent {
        match std::str::from_utf8(bytes) {
            // Not parsed as a template.
            Ok(text) => EmbeddedContent::Text(Box::new(Template::plain(text))),
            Err(_) => EmbeddedContent::Blob(base64::encode(bytes)),
        }
    }
}

fn file(
    fields: &mut Fields<'_>,
    path: &str,
    position: Position,
    context: &SpecContext<'_>,
) -> Option<Vec<u8>> {
    let read = context.file(path);
    read.map_err(|what| {
        fields.problem(position, format!("the file {path:?} {what}"), "paths start at the spec's folder")
    })
    .ok()
}

fn template(fields: &mut Fields<'_>, (text, position): (&str, Position)) -> Option<Box<Template>> {
    let template = Template::parse(text, Target::Page).map(Box::new);
    template.map_err(|what| fields.problem(position, what, "templates look like {{ input.name }}")).ok()
}
