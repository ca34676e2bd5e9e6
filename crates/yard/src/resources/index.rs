//! The resources that a yard's files declare, reloaded when the files change.

use super::declared::{self, Content, DeclaredResource, DeclaredUri};
use super::mime;
use super::root::Root;
use super::watcher::{FileWatch, FileWatcher, WatchTarget};
use super::{blocking, failure, read_only, shutting_down};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::sync::broadcast;
use toolyard_engine::resources::{not_found, unknown_cursor};
use toolyard_engine::{
    Engine, RequestContext, RequestFuture, ResourceChange, Resources, SourceProblem, WatchGuard,
};
use toolyard_formats::template::Input;
use toolyard_protocol::json::Object;
use toolyard_protocol::{
    Body, CachePolicy, Completion, CompletionRequest, Error, ErrorKind, Extra, Page, Payload, ReadResult,
    Resource, ResourceContents, ResourceTemplate, Wait,
};
use toolyard_wire::mcp::contents;

pub struct ResourceIndex {
    weak_self: Weak<ResourceIndex>,
    yard: Arc<Root>,
    engine: Arc<Engine>,
    watcher: Arc<FileWatcher>,
    changes: broadcast::Sender<ResourceChange>,
    set: Mutex<Arc<DeclaredSet>>,
    watched: Mutex<HashMap<Arc<str>, WatchedUri>>,
    /// The watch of the folder itself.
    folder: Mutex<Option<FileWatch>>,
}

/// A snapshot of the declarations.
#[derive(Default)]
struct DeclaredSet {
    declared: Vec<Arc<DeclaredResource>>,
    problems: Vec<SourceProblem>,
}

/// A watched URI, shared by its subscribers, so that each change is announced once.
struct WatchedUri {
    callers: usize,
    /// Set when the content is in another file.
    _file: Option<FileWatch>,
}

/// The watch of one subscriber.
struct UriWatch {
    index: Weak<ResourceIndex>,
    uri: Arc<str>,
}

const PAGE_SIZE: usize = 200;

impl ResourceIndex {
    pub fn load(
        yard: Arc<Root>,
        engine: Arc<Engine>,
        watcher: Arc<FileWatcher>,
        changes: broadcast::Sender<ResourceChange>,
    ) -> Arc<ResourceIndex> {
        let set = DeclaredSet::load(&yard);
        Arc::new_cyclic(|weak_self| ResourceIndex {
            weak_self: weak_self.clone(),
            yard,
            engine,
            watcher,
            changes,
            set: Mutex::new(Arc::new(set)),
            watched: Mutex::default(),
            folder: Mutex::default(),
        })
    }

    pub fn problems(&self) -> Vec<SourceProblem> {
        self.set().problems.clone()
    }

    /// Reads the files again whenever they change; `on_problems` receives new problems.
    pub fn reload_on_change(&self, on_problems: impl Fn(&[SourceProblem]) + Send + Sync + 'static) {
        let index = self.weak_self.clone();
        let target = WatchTarget::Folder(self.yard.clone(), declared::FOLDER.to_owned());
        let reload = move || {
            if let Some(index) = index.upgrade() {
                index.reload(&on_problems);
            }
        };
        // The first watch cannot exceed the limit.
        *lock(&self.folder) = self.watcher.watch(target, reload).ok();
    }

    fn reload(&self, on_problems: &dyn Fn(&[SourceProblem])) {
        let new = Arc::new(DeclaredSet::load(&self.yard));
        let old = std::mem::replace(&mut *lock(&self.set), new.clone());
        let fresh: Vec<_> =
            new.problems.iter().filter(|problem| !old.problems.contains(problem)).cloned().collect();
        on_problems(&fresh);
        if old.listing() != new.listing() {
            let _ = self.changes.send(ResourceChange::List);
        }
        let watched: Vec<Arc<str>> = lock(&self.watched).keys().cloned().collect();
        for uri in watched {
            let text = |set: &DeclaredSet| set.find(&uri).map(|(declared, _)| declared.text.clone());
            if text(&old) == text(&new) {
                continue;
            }
            // The content may be in another file now.
            let file = self.watch_file(&uri).ok().flatten();
            let before =
                lock(&self.watched).get_mut(&uri).map(|watched| std::mem::replace(&mut watched._file, file));
            drop(before);
            let _ = self.changes.send(ResourceChange::Updated(uri));
        }
    }

    fn set(&self) -> Arc<DeclaredSet> {
        lock(&self.set).clone()
    }

    fn find(&self, uri: &str) -> Result<(Arc<DeclaredResource>, Payload), Error> {
        self.set().find(uri).ok_or_else(|| not_found(uri))
    }

    async fn content(&self, uri: &str, context: RequestContext<'_>) -> Result<Vec<ResourceContents>, Error> {
        let (declared, values) = self.find(uri)?;
        let part = |mime: String, body| {
            vec![ResourceContents { uri: uri.to_owned(), mime: Some(mime), body, meta: None }]
        };
        let mime = declared.mime.clone();
        Ok(match &declared.content {
            Content::Text(text) => part(mime.unwrap_or_default(), Body::Text(text.clone())),
            Content::Template(template) => {
                part(mime.unwrap_or_default(), Body::Text(template.render(&Input::new(&values)?)?))
            }
            Content::Bytes(bytes) => part(mime.unwrap_or_default(), Body::Blob(bytes.clone())),
            Content::File(path) => {
                let (yard, file) = (self.yard.clone(), path.clone());
                let bytes = blocking(move || yard.read(&file)).await?;
                let bytes = bytes.map_err(|error| failure(uri, &declared.source, error))?;
                match mime {
                    Some(mime) => {
                        let body = mime::body(&mime, bytes);
                        part(mime, body)
                    }
                    None => {
                        let (mime, body) = mime::content(path.split().1, bytes);
                        part(mime, body)
                    }
                }
            }
            Content::Tool(tool) => {
                let mut call = context.call(self.engine.call_id(), tool, values);
                call.wait = Wait::UntilDone;
                let outcome = self.engine.run(call, context.caller).await;
                contents::parts_of(&outcome, uri, declared.mime.as_deref())?
            }
        })
    }

    fn watch_file(&self, uri: &Arc<str>) -> Result<Option<FileWatch>, Error> {
        let (declared, _) = self.find(uri)?;
        let Content::File(path) = &declared.content else { return Ok(None) };
        let (changes, changed_uri) = (self.changes.clone(), uri.clone());
        let on_change = move || {
            let _ = changes.send(ResourceChange::Updated(changed_uri.clone()));
        };
        let target = WatchTarget::File(self.yard.clone(), path.clone());
        let guard = self.watcher.watch(target, on_change);
        guard.map(Some).map_err(|error| Error::new(ErrorKind::Busy, error.to_string()))
    }

    fn register(&self, uri: &str) -> Result<WatchGuard, Error> {
        let uri: Arc<str> = uri.into();
        // First, so that an unknown URI is refused before it is registered.
        let file = self.watch_file(&uri)?;
        let mut watched = lock(&self.watched);
        if watched.len() >= MAX_WATCHED && !watched.contains_key(&uri) {
            let message = format!("the limit of {MAX_WATCHED} watched resources is reached");
            return Err(Error::new(ErrorKind::Busy, message).hint("end other subscriptions first"));
        }
        let entry = watched.entry(uri.clone()).or_insert(WatchedUri { callers: 0, _file: None });
        entry.callers += 1;
        let other = std::mem::replace(&mut entry._file, file);
        drop(watched);
        drop(other);
        Ok(WatchGuard(Box::new(UriWatch { index: self.weak_self.clone(), uri })))
    }
}

const MAX_WATCHED: usize = 10_000;

impl Drop for UriWatch {
    fn drop(&mut self) {
        let Some(index) = self.index.upgrade() else { return };
        let mut watched = lock(&index.watched);
        let Some(entry) = watched.get_mut(&self.uri) else { return };
        entry.callers -= 1;
        let gone = if entry.callers == 0 { watched.remove(&self.uri) } else { None };
        drop(watched);
        drop(gone);
    }
}

impl DeclaredSet {
    fn load(yard: &Root) -> DeclaredSet {
        let (declared, problems) = declared::load(yard);
        DeclaredSet { declared: declared.into_iter().map(Arc::new).collect(), problems }
    }

    /// The declaration of a URI and the values of its variables, as JSON.
    fn find(&self, uri: &str) -> Option<(Arc<DeclaredResource>, Payload)> {
        let one = |declared: &&Arc<DeclaredResource>| matches!(&declared.address, DeclaredUri::Fixed(known) if known == uri);
        if let Some(declared) = self.declared.iter().find(one) {
            return Some((declared.clone(), Payload::json("{}")));
        }
        self.declared.iter().find_map(|declared| match &declared.address {
            DeclaredUri::Template(template) => Some((declared.clone(), arguments(template.matches(uri)?))),
            DeclaredUri::Fixed(_) => None,
        })
    }

    /// What a list shows of it.
    fn listing(&self) -> Vec<[Option<&str>; 5]> {
        self.declared.iter().map(|declared| declared.row()).collect()
    }
}

fn arguments(values: Vec<(&str, String)>) -> Payload {
    let mut out = Vec::new();
    let mut object = Object::new(&mut out);
    for (name, value) in values {
        object.text(name, &value);
    }
    object.end();
    Payload::json(out)
}

/// The page that starts at `cursor`, the index of its first item.
fn page<T>(items: Vec<T>, cursor: Option<&str>) -> Result<Page<T>, Error> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor.parse::<usize>().map_err(|_| unknown_cursor())?,
    };
    if start > items.len() {
        return Err(unknown_cursor());
    }
    let next = (items.len() > start + PAGE_SIZE).then(|| (start + PAGE_SIZE).to_string());
    Ok(Page {
        items: items.into_iter().skip(start).take(PAGE_SIZE).collect(),
        next,
        cache_policy: CachePolicy::default(),
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Resources for ResourceIndex {
    fn is_available(&self) -> bool {
        !self.set().declared.is_empty()
    }

    fn claims(&self, uri: &str) -> bool {
        !uri.split_once(':').is_some_and(|(scheme, _)| declared::RESERVED_SCHEMES.contains(&scheme))
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        let set = self.set();
        let resources = set.declared.iter().filter_map(|declared| match &declared.address {
            DeclaredUri::Fixed(uri) => Some(Resource {
                uri: uri.clone(),
                name: declared.name.clone(),
                title: declared.title.clone(),
                description: declared.description.clone(),
                mime: declared.mime.clone(),
                size: declared.size(),
                extra: Extra::default(),
            }),
            DeclaredUri::Template(_) => None,
        });
        Box::pin(std::future::ready(page(resources.collect(), cursor)))
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        let set = self.set();
        let templates = set.declared.iter().filter_map(|declared| match &declared.address {
            DeclaredUri::Template(template) => Some(ResourceTemplate {
                uri_template: template.as_str().to_owned(),
                name: declared.name.clone(),
                title: declared.title.clone(),
                description: declared.description.clone(),
                mime: declared.mime.clone(),
                extra: Extra::default(),
            }),
            DeclaredUri::Fixed(_) => None,
        });
        Box::pin(std::future::ready(page(templates.collect(), cursor)))
    }

    fn read<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move {
            Ok(ReadResult { parts: self.content(uri, context).await?, cache_policy: CachePolicy::default() })
        })
    }

    fn write<'a>(&'a self, part: ResourceContents, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        let refused = self.find(&part.uri).map(|(declared, _)| read_only(&part.uri, &declared.source));
        Box::pin(std::future::ready(Err(refused.unwrap_or_else(|error| error))))
    }

    fn delete<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        let refused = self.find(uri).map(|(declared, _)| read_only(uri, &declared.source));
        Box::pin(std::future::ready(Err(refused.unwrap_or_else(|error| error))))
    }

    /// Suggests nothing, because the values of a template are unknown; an unknown variable is an error.
    fn complete<'a>(
        &'a self,
        uri: &'a str,
        completing: CompletionRequest,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        let set = self.set();
        let known = set.declared.iter().find_map(|declared| match &declared.address {
            DeclaredUri::Template(template) if template.as_str() == uri => {
                Some(template.variables().any(|name| name == completing.argument))
            }
            _ => None,
        });
        Box::pin(std::future::ready(match known {
            Some(true) => Ok(Completion::default()),
            Some(false) => Err(Error::new(ErrorKind::InvalidInput, "the template has no such variable")),
            None => Err(not_found(uri)),
        }))
    }

    fn watch<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        Box::pin(async move {
            let (index, uri) = (self.weak_self.upgrade(), uri.to_owned());
            let index = index.ok_or_else(shutting_down)?;
            blocking(move || index.register(&uri)).await?
        })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.changes.subscribe()
    }
}
