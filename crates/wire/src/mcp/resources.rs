//! `resources/list`, `resources/templates/list`, `resources/read` and `resources/write`.

use super::{Revision, lists, result};
use crate::jsonrpc::{self, Params, RequestId};
use toolyard_formats::json::{Object, array};
use toolyard_protocol::{
    Body, Extra, Page, Payload, ReadResult, Resource, ResourceContents, ResourceTemplate, base64,
};

pub fn write_list(id: &RequestId, revision: Revision, page: &Page<Resource>) -> Vec<u8> {
    lists::write(id, revision, "resources", page, |out, resource| push_resource(out, revision, resource))
}

pub fn write_templates(id: &RequestId, revision: Revision, page: &Page<ResourceTemplate>) -> Vec<u8> {
    lists::write(id, revision, "resourceTemplates", page, |out, template| {
        push_template(out, revision, template);
    })
}

pub fn push_resource(out: &mut Vec<u8>, revision: Revision, resource: &Resource) {
    let mut object = Object::new(out);
    object.text("uri", &resource.uri).text("name", &resource.name);
    let metadata = (&resource.title, &resource.description, &resource.mime);
    push_metadata(&mut object, revision, metadata, &resource.extra);
    if let Some(size) = resource.size {
        object.number("size", size);
    }
    object.end();
}

pub fn push_template(out: &mut Vec<u8>, revision: Revision, template: &ResourceTemplate) {
    let mut object = Object::new(out);
    object.text("uriTemplate", &template.uri_template).text("name", &template.name);
    let metadata = (&template.title, &template.description, &template.mime);
    push_metadata(&mut object, revision, metadata, &template.extra);
    object.end();
}

type Metadata<'a> = (&'a Option<String>, &'a Option<String>, &'a Option<String>);

fn push_metadata(object: &mut Object<'_>, revision: Revision, metadata: Metadata<'_>, extra: &Extra) {
    let (title, description, mime) = metadata;
    if let Some(title) = title.as_deref().filter(|_| revision.has_structure()) {
        object.text("title", title);
    }
    for (name, value) in [("description", description), ("mimeType", mime)] {
        if let Some(value) = value {
            object.text(name, value);
        }
    }
    push_extra(object, revision, extra);
}

pub(super) fn push_extra(object: &mut Object<'_>, revision: Revision, extra: &Extra) {
    let raw = |payload: &Option<Payload>, known: bool| payload.as_ref().filter(|_| known).cloned();
    for (name, payload) in [
        ("annotations", raw(&extra.annotations, true)),
        ("icons", raw(&extra.icons, revision.has_icons())),
        ("_meta", raw(&extra.meta, true)),
    ] {
        if let Some(payload) = payload {
            object.raw(name, payload.bytes());
        }
    }
}

pub fn write_read_result(id: &RequestId, revision: Revision, reading: &ReadResult) -> Vec<u8> {
    let size: usize = reading.parts.iter().map(|part| part.body.len() * 3 / 2 + 128).sum();
    jsonrpc::result(id, size, |out| {
        let mut object = result::complete(out, revision);
        array(object.member("contents"), &reading.parts, push_part);
        lists::push_cache_policy(&mut object, revision, reading.cache_policy);
        object.end();
    })
}

pub fn push_part(out: &mut Vec<u8>, part: &ResourceContents) {
    let mut object = Object::new(out);
    push_content(&mut object, part);
    object.end();
}

pub(super) fn push_content(object: &mut Object<'_>, part: &ResourceContents) {
    object.text("uri", &part.uri);
    if let Some(mime) = &part.mime {
        object.text("mimeType", mime);
    }
    match &part.body {
        Body::Text(text) => object.text("text", text),
        Body::Blob(bytes) => object.text("blob", &base64::encode(bytes)),
    };
    if let Some(meta) = &part.meta {
        object.raw("_meta", meta.bytes());
    }
}

/// The parameters of `resources/write`: a URI, and text or a blob.
pub fn read_part(params: &Params) -> Result<ResourceContents, String> {
    let body = match (params.text("text")?, params.text("blob")?) {
        (Some(text), None) => Body::Text(text),
        (None, Some(blob)) => Body::Blob(base64::decode(&blob).map_err(|_| "'blob' must be base64")?.into()),
        _ => return Err("exactly one of 'text' and 'blob' is required".to_owned()),
    };
    Ok(ResourceContents {
        uri: params.required_text("uri")?,
        mime: params.text("mimeType")?,
        body,
        meta: None,
    })
}
