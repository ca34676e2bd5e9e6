//! `tool://NAME`: everything that is known about a tool, as `show --json` prints it.

use super::{Content, Following, Kind, PAGE, Tell};
use crate::builtin::{Group, Services};
use crate::resources::shutting_down;
use std::sync::Arc;
use toolyard_engine::{Behalf, Found, Registry};
use toolyard_protocol::{Body, Error, ErrorKind, Resource, ToolSpec};
use toolyard_wire::listing::{self, Listed};

pub struct ToolSpecs {
    pub services: Arc<Services>,
}

const MIME: &str = "application/json";

impl ToolSpecs {
    fn registry(&self) -> Result<Arc<Registry>, Error> {
        self.services.registry.upgrade().ok_or_else(shutting_down)
    }
}

impl Kind for ToolSpecs {
    const SCHEME: &'static str = "tool";
    const GROUP: Group = Group::Tools;
    const DESCRIPTION: &'static str = "The specification of a tool, by its canonical name";

    fn list<'a>(&'a self, cursor: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Vec<Resource>> {
        Box::pin(async move {
            let snapshot = self.registry()?.snapshot();
            let specs = snapshot.entries().iter().map(|entry| &entry.spec);
            let later = specs.filter(|spec| cursor.is_none_or(|cursor| spec.name.as_str() > cursor));
            Ok(later.take(PAGE).map(resource).collect())
        })
    }

    fn read<'a>(&'a self, id: &'a str, _: Behalf<'a>) -> Found<'a, Option<Content>> {
        Box::pin(async move {
            let Some(entry) = self.registry()?.find(id) else { return Ok(None) };
            let text = String::from_utf8(page(&entry.spec));
            let text = text.map_err(|_| Error::new(ErrorKind::Internal, "a specification is not UTF-8"))?;
            Ok(Some(Content { mime: MIME.to_owned(), body: Body::Text(text) }))
        })
    }

    fn follow(&self, id: &str, _: Behalf<'_>, tell: Tell) -> Option<Following> {
        let (registry, id) = (self.services.registry.clone(), id.to_owned());
        let mut changes = registry.upgrade()?.changes();
        let shown =
            move || registry.upgrade().and_then(|known| known.find(&id)).map(|entry| page(&entry.spec));
        let mut seen = shown();
        Some(Box::pin(async move {
            while changes.changed().await.is_ok() {
                let now = shown();
                if now != seen {
                    seen = now;
                    tell();
                }
            }
        }))
    }
}

fn page(spec: &ToolSpec) -> Vec<u8> {
    listing::write_tool(&Listed { spec: Some(spec), source: &spec.source, enabled: true, problems: &[] })
}

fn resource(spec: &ToolSpec) -> Resource {
    Resource {
        uri: format!("{}://{}", ToolSpecs::SCHEME, spec.name),
        name: spec.name.to_string(),
        title: spec.about.title.clone(),
        description: spec.about.description.clone(),
        mime: Some(MIME.to_owned()),
        ..Resource::default()
    }
}
