//! Resources for machines: `resource list --json` and `resource read --json`.

use crate::json::Object;
use crate::mcp::base64;
use toolyard_protocol::{Body, Part, Resource, ResourceTemplate};

/// `{"resources": […], "resourceTemplates": […]}` with the members that MCP gives them.
pub fn write(resources: &[Resource], templates: &[ResourceTemplate]) -> Vec<u8> {
    let mut out = Vec::with_capacity(160 * (resources.len() + templates.len()) + 64);
    let mut object = Object::new(&mut out);
    list(object.member("resources"), resources, |out, resource| {
        let mut row = Object::new(out);
        row.text("uri", &resource.uri).text("name", &resource.name);
        words(&mut row, [&resource.title, &resource.description, &resource.mime]);
        if let Some(size) = resource.size {
            row.number("size", size);
        }
        row.end();
    });
    list(object.member("resourceTemplates"), templates, |out, template| {
        let mut row = Object::new(out);
        row.text("uriTemplate", &template.uri_template).text("name", &template.name);
        words(&mut row, [&template.title, &template.description, &template.mime]);
        row.end();
    });
    object.end();
    out
}

/// `{"contents": […]}`.
pub fn write_contents(parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.body.len() * 3 / 2 + 128).sum());
    let mut object = Object::new(&mut out);
    list(object.member("contents"), parts, |out, part| {
        let mut row = Object::new(out);
        row.text("uri", &part.uri);
        if let Some(mime) = &part.mime {
            row.text("mimeType", mime);
        }
        match &part.body {
            Body::Text(text) => row.text("text", text),
            Body::Blob(bytes) => row.text("blob", &base64::encode(bytes)),
        };
        row.end();
    });
    object.end();
    out
}

fn words(row: &mut Object<'_>, [title, description, mime]: [&Option<String>; 3]) {
    for (name, value) in [("title", title), ("description", description), ("mimeType", mime)] {
        if let Some(value) = value {
            row.text(name, value);
        }
    }
}

fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
