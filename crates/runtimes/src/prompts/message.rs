//! The messages of a prompt as its file writes them: a text, the version's body, an image or an embedded resource.

use super::spec::Surroundings;
use toolyard_protocol::{Error, text::nearest};
use toolyard_wire::doc::{Fields, Node, Place, Value};
use toolyard_wire::prompt::{Embedded, MAX_MESSAGES, Messages, Role, encode_base64, is_base64};
use toolyard_wire::template::{Input, Target, Template};

pub struct Message {
    role: Role,
    part: Part,
}

enum Part {
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
        inside: Inside,
    },
}

enum Inside {
    Text(Box<Template>),
    /// As base64.
    Blob(String),
}

/// What a picture's name tells of its type.
const IMAGES: &[(&str, &str)] = &[
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
];

impl Message {
    /// A prompt without messages of its own says its body.
    pub fn body() -> Message {
        Message { role: Role::User, part: Part::Body }
    }

    pub fn is_body(&self) -> bool {
        matches!(self.part, Part::Body)
    }

    /// The templates in it.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let (first, second) = match &self.part {
            Part::Text(text) => (Some(&**text), None),
            Part::Resource { uri, inside: Inside::Text(text), .. } => (Some(&**uri), Some(&**text)),
            Part::Resource { uri, .. } => (Some(&**uri), None),
            Part::Body | Part::Image { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }

    pub fn fill(&self, body: Option<&Template>, input: &Input, out: &mut Messages) -> Result<(), Error> {
        match &self.part {
            Part::Text(text) => out.text(self.role, &text.render(input)?),
            // A version without a body is not loaded where a message says it.
            Part::Body => {
                if let Some(body) = body {
                    out.text(self.role, &body.render(input)?);
                }
            }
            Part::Image { mime, data } => out.image(self.role, mime, data),
            Part::Resource { uri, mime, inside } => {
                let uri = uri.render(input)?;
                match inside {
                    Inside::Text(text) => {
                        let text = text.render(input)?;
                        out.resource(self.role, &uri, mime.as_deref(), Embedded::Text(&text));
                    }
                    Inside::Blob(data) => {
                        out.resource(self.role, &uri, mime.as_deref(), Embedded::Blob(data))
                    }
                }
            }
        }
        Ok(())
    }
}

/// `None` when something is wrong with one of them.
pub fn read(fields: &mut Fields<'_>, around: &Surroundings<'_>) -> Option<Vec<Message>> {
    let node = fields.take("messages")?;
    let Value::List(items) = &node.value else { return fields.wrong(node, "messages", "a list") };
    if items.is_empty() || items.len() > MAX_MESSAGES {
        let what = format!("'messages' holds {}; 1 to {MAX_MESSAGES} are allowed", items.len());
        fields.problem(node.place, what, "for example messages: [{role: user, text: Hello}]");
        return None;
    }
    let read: Vec<Option<Message>> = items.iter().map(|item| one(fields, item, around)).collect();
    read.into_iter().collect()
}

fn one(outer: &mut Fields<'_>, item: &Node, around: &Surroundings<'_>) -> Option<Message> {
    let mut fields = Fields::open(item, "messages").map_err(|problem| outer.problems.push(problem)).ok()?;
    let role = role(&mut fields);
    let kinds = ["text", "body", "image", "resource"].into_iter().filter(|kind| fields.has(kind)).count();
    if kinds != 1 {
        let what = "a message holds exactly one of 'text', 'body', 'image' and 'resource'";
        fields.problem(item.place, what, "split it into several messages");
    }
    let text = fields.placed_text("text").and_then(|text| template(&mut fields, text)).map(Part::Text);
    let body = match fields.bool("body") {
        Some(false) => {
            fields.problem(item.place, "'body: false' says nothing", "remove the message");
            None
        }
        given => given.map(|_| Part::Body),
    };
    let image = fields.take("image").and_then(|node| image(&mut fields, node, around));
    let resource = fields.take("resource").and_then(|node| resource(&mut fields, node, around));
    outer.close(fields);
    let part = text.or(body).or(image).or(resource)?;
    Some(Message { role: role?, part })
}

fn role(fields: &mut Fields<'_>) -> Option<Role> {
    let Some((text, place)) = fields.placed_text("role") else { return Some(Role::User) };
    let role = Role::parse(text);
    if role.is_none() {
        let near = nearest(text, Role::ALL.map(Role::as_str));
        let hint =
            near.map_or("write user or assistant".to_owned(), |near| format!("did you mean '{near}'?"));
        fields.problem(place, format!("the role {text:?} does not exist"), &hint);
    }
    role
}

/// A path, or `{file, mimeType}`, or `{base64, mimeType}`.
fn image(outer: &mut Fields<'_>, node: &Node, around: &Surroundings<'_>) -> Option<Part> {
    if let Value::Text(path) = &node.value {
        let data = file(outer, path, node.place, around)?;
        let mime = mime_of(outer, path, node.place)?;
        return Some(Part::Image { mime, data: encode_base64(&data) });
    }
    let mut fields = Fields::open(node, "image").map_err(|problem| outer.problems.push(problem)).ok()?;
    let given = fields.placed_text("file");
    let data = data(&mut fields, node.place, given, around);
    let mime = match fields.text("mimeType") {
        Some(mime) => Some(mime.to_owned()),
        None => match given {
            Some((path, place)) => mime_of(&mut fields, path, place),
            None => {
                fields.problem(node.place, "'image.mimeType' is missing", "for example image/png");
                None
            }
        },
    };
    outer.close(fields);
    Some(Part::Image { mime: mime?, data: data? })
}

fn mime_of(fields: &mut Fields<'_>, path: &str, place: Place) -> Option<String> {
    let ending = path.rsplit_once('.').map_or("", |(_, ending)| ending).to_ascii_lowercase();
    let found = IMAGES.iter().find(|(known, _)| *known == ending);
    if found.is_none() {
        let what = format!("the type of the image {path:?} is not known by its name");
        fields.problem(place, what, "say it: image: {file: …, mimeType: image/png}");
    }
    found.map(|(_, mime)| (*mime).to_owned())
}

/// Base64 of `base64` or of the file; one of the two must be there.
fn data(
    fields: &mut Fields<'_>,
    place: Place,
    path: Option<(&str, Place)>,
    around: &Surroundings<'_>,
) -> Option<String> {
    match (fields.placed_text("base64"), path) {
        (Some((text, at)), None) => {
            let packed: String = text.split_whitespace().collect();
            if !is_base64(&packed) {
                fields.problem(at, "'base64' is not valid base64", "encode the bytes with padding");
                return None;
            }
            Some(packed)
        }
        (None, Some((path, at))) => Some(encode_base64(&file(fields, path, at, around)?)),
        _ => {
            fields.problem(place, "exactly one of 'file' and 'base64' is needed", "give one of them");
            None
        }
    }
}

fn resource(outer: &mut Fields<'_>, node: &Node, around: &Surroundings<'_>) -> Option<Part> {
    let mut fields = Fields::open(node, "resource").map_err(|problem| outer.problems.push(problem)).ok()?;
    let uri = fields.required_text("uri", "for example uri: docs://style-guide");
    let uri = uri.and_then(|uri| template(&mut fields, uri));
    let mime = fields.text("mimeType").map(str::to_owned);
    let path = fields.placed_text("file");
    let inside = match fields.placed_text("text") {
        Some((_, place)) if path.is_some() || fields.has("base64") => {
            let what = "'resource' holds exactly one of 'text', 'file' and 'base64'";
            fields.problem(place, what, "remove the others");
            None
        }
        Some(text) => template(&mut fields, text).map(Inside::Text),
        None => match path {
            // A file of text is embedded as text, as it is: templates are for what the spec itself says.
            Some((path, at)) => file(&mut fields, path, at, around).map(|bytes| Inside::of(&bytes)),
            None => data(&mut fields, node.place, None, around).map(Inside::Blob),
        },
    };
    if path.is_some() && fields.has("base64") {
        fields.problem(node.place, "'resource' holds 'file' and 'base64'", "remove one of them");
    }
    fields.take("base64");
    outer.close(fields);
    Some(Part::Resource { uri: uri?, mime, inside: inside? })
}

impl Inside {
    fn of(bytes: &[u8]) -> Inside {
        match std::str::from_utf8(bytes) {
            // Markup in it must stay what it is.
            Ok(text) => Inside::Text(Box::new(Template::plain(text))),
            Err(_) => Inside::Blob(encode_base64(bytes)),
        }
    }
}

fn file(fields: &mut Fields<'_>, path: &str, place: Place, around: &Surroundings<'_>) -> Option<Vec<u8>> {
    let read = around.file(path);
    read.map_err(|what| {
        fields.problem(place, format!("the file {path:?} {what}"), "paths start at the spec's folder")
    })
    .ok()
}

fn template(fields: &mut Fields<'_>, (text, place): (&str, Place)) -> Option<Box<Template>> {
    let template = Template::parse(text, Target::Page).map(Box::new);
    template.map_err(|what| fields.problem(place, what, "templates look like {{ input.name }}")).ok()
}
