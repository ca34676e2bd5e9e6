//! `tool://NAME`: the specification of a tool, as `show --json` prints it.

use super::{BuiltinScheme, OnChange, PAGE_SIZE, TypedBody, WatchFuture};
use crate::resources::shutting_down;
use std::sync::Arc;
use toolyard_engine::{Registry, RequestContext, RequestFuture};
use toolyard_protocol::{Body, Error, ErrorKind, Resource, ToolSpec};
use toolyard_runtimes::builtin::{Group, Services};
use toolyard_wire::tool_list::{self, ToolRow};

pub struct ToolSpecs {
    pub services: Arc<Services>,
}

const MIME: &str = "application/json";

impl ToolSpecs {
    fn registry(&self) -> Result<Arc<Registry>, Error> {
        self.services.registry.upgrade().ok_or_else(shutting_down)
    }
}

impl BuiltinScheme for ToolSpecs {
    const SCHEME: &'static str = "tool";
    const GROUP: Group = Group::Tools;
    const DESCRIPTION: &'static str = "The specification of a tool, by its canonical name";

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Vec<Resource>> {
        Box::pin(async move {
            let snapshot = self.registry()?.snapshot();
            let specs = snapshot.entries().iter().map(|entry| &entry.spec);
            let later = specs.filter(|spec| cursor.is_none_or(|cursor| spec.name.as_str() > cursor));
            Ok(later.take(PAGE_SIZE).map(resource).collect())
        })
    }

    fn read<'a>(&'a self, id: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, Option<TypedBody>> {
        Box::pin(async move {
            let Some(entry) = self.registry()?.find(id) else { return Ok(None) };
            let text = String::from_utf8(page(&entry.spec));
            let text = text.map_err(|_| Error::new(ErrorKind::Internal, "a specification is not UTF-8"))?;
            Ok(Some(TypedBody { mime: MIME.to_owned(), body: Body::Text(text) }))
        })
    }

    fn watch(&self, id: &str, _: RequestContext<'_>, on_change: OnChange) -> Option<WatchFuture> {
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
                    on_change();
                }
            }
        }))
    }
}

fn page(spec: &ToolSpec) -> Vec<u8> {
    tool_list::write_tool(&ToolRow { spec: Some(spec), source: &spec.source, enabled: true, problems: &[] })
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
