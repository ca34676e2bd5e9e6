//! The resources that a yard's files declare, kept as the files are.

use super::declared::{self, Content, Declared, DeclaredAddress};
use super::mime;
use super::root::Root;
use super::watching::{Held, Subject, Watching};
use super::{blocking, failure, read_only, shutting_down};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use tokio::sync::broadcast;
use toolyard_engine::resources::{not_found, unknown_cursor};
use toolyard_engine::{Behalf, Engine, Found, ResourceChange, Resources, SourceProblem, Watch};
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{
    Body, Completing, Completion, Error, ErrorKind, Extra, Keep, Page, Part, Payload, Reading, Resource,
    ResourceTemplate, Wait,
};
use toolyard_wire::mcp::contents;
use toolyard_wire::template::Input;

pub struct Shelf {
    me: Weak<Shelf>,
    yard: Arc<Root>,
    engine: Arc<Engine>,
    watching: Arc<Watching>,
    notices: broadcast::Sender<ResourceChange>,
    set: Mutex<Arc<Set>>,
    watched: Mutex<HashMap<Arc<str>, Watched>>,
    /// The watch of the folder itself.
    folder: Mutex<Option<Held>>,
}

/// The files at one moment.
#[derive(Default)]
struct Set {
    declared: Vec<Arc<Declared>>,
    problems: Vec<SourceProblem>,
}

/// An address that callers watch: told of once, however many they are.
struct Watched {
    callers: usize,
    /// Where the content is in another file.
    _file: Option<Held>,
}

/// One caller's watch.
struct Registered {
    shelf: Weak<Shelf>,
    uri: Arc<str>,
}

const PAGE: usize = 200;

impl Shelf {
    pub fn load(
        yard: Arc<Root>,
        engine: Arc<Engine>,
        watching: Arc<Watching>,
        notices: broadcast::Sender<ResourceChange>,
    ) -> Arc<Shelf> {
        let set = Set::load(&yard);
        Arc::new_cyclic(|me| Shelf {
            me: me.clone(),
            yard,
            engine,
            watching,
            notices,
            set: Mutex::new(Arc::new(set)),
            watched: Mutex::default(),
            folder: Mutex::default(),
        })
    }

    pub fn problems(&self) -> Vec<SourceProblem> {
        self.set().problems.clone()
    }

    /// Reads the files again whenever they change; `tell` hears of new problems.
    pub fn follow(&self, tell: impl Fn(&[SourceProblem]) + Send + Sync + 'static) {
        let shelf = self.me.clone();
        let subject = Subject::Folder(self.yard.clone(), declared::FOLDER.to_owned());
        let reload = move || {
            if let Some(shelf) = shelf.upgrade() {
                shelf.reload(&tell);
            }
        };
        // The first watch of all is never one too many.
        *lock(&self.folder) = self.watching.watch(subject, reload).ok();
    }

    fn reload(&self, tell: &dyn Fn(&[SourceProblem])) {
        let new = Arc::new(Set::load(&self.yard));
        let old = std::mem::replace(&mut *lock(&self.set), new.clone());
        let fresh: Vec<_> =
            new.problems.iter().filter(|problem| !old.problems.contains(problem)).cloned().collect();
        tell(&fresh);
        if old.listing() != new.listing() {
            let _ = self.notices.send(ResourceChange::List);
        }
        let watched: Vec<Arc<str>> = lock(&self.watched).keys().cloned().collect();
        for uri in watched {
            let text = |set: &Set| set.find(&uri).map(|(declared, _)| declared.text.clone());
            if text(&old) == text(&new) {
                continue;
            }
            // The content may be in another file now.
            let file = self.watch_file(&uri).ok().flatten();
            let before =
                lock(&self.watched).get_mut(&uri).map(|watched| std::mem::replace(&mut watched._file, file));
            drop(before);
            let _ = self.notices.send(ResourceChange::Updated(uri));
        }
    }

    fn set(&self) -> Arc<Set> {
        lock(&self.set).clone()
    }

    fn find(&self, uri: &str) -> Result<(Arc<Declared>, Payload), Error> {
        self.set().find(uri).ok_or_else(|| not_found(uri))
    }

    async fn content(&self, uri: &str, behalf: Behalf<'_>) -> Result<Vec<Part>, Error> {
        let (declared, values) = self.find(uri)?;
        let part =
            |mime: String, body| vec![Part { uri: uri.to_owned(), mime: Some(mime), body, meta: None }];
        let mime = declared.mime.clone();
        Ok(match &declared.content {
            Content::Text(text) => part(mime.unwrap_or_default(), Body::Text(text.clone())),
            Content::Filled(template) => {
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
                let mut call = behalf.call(self.engine.call_id(), tool, values);
                call.wait = Wait::ToTheEnd;
                let outcome = self.engine.run(call, behalf.caller).await;
                contents::parts_of(&outcome, uri, declared.mime.as_deref())?
            }
        })
    }

    fn watch_file(&self, uri: &Arc<str>) -> Result<Option<Held>, Error> {
        let (declared, _) = self.find(uri)?;
        let Content::File(path) = &declared.content else { return Ok(None) };
        let (notices, told) = (self.notices.clone(), uri.clone());
        let tell = move || {
            let _ = notices.send(ResourceChange::Updated(told.clone()));
        };
        let subject = Subject::File(self.yard.clone(), path.clone());
        let held = self.watching.watch(subject, tell);
        held.map(Some).map_err(|error| Error::new(ErrorKind::Busy, error.to_string()))
    }

    fn register(&self, uri: &str) -> Result<Watch, Error> {
        let uri: Arc<str> = uri.into();
        // Looked for first, so that what is not there is not watched.
        let file = self.watch_file(&uri)?;
        let mut watched = lock(&self.watched);
        if watched.len() >= MAX_WATCHED && !watched.contains_key(&uri) {
            let message = format!("{MAX_WATCHED} resources are watched already");
            return Err(Error::new(ErrorKind::Busy, message).hint("end other subscriptions first"));
        }
        let entry = watched.entry(uri.clone()).or_insert(Watched { callers: 0, _file: None });
        entry.callers += 1;
        let other = std::mem::replace(&mut entry._file, file);
        drop(watched);
        drop(other);
        Ok(Watch(Box::new(Registered { shelf: self.me.clone(), uri })))
    }
}

const MAX_WATCHED: usize = 10_000;

impl Drop for Registered {
    fn drop(&mut self) {
        let Some(shelf) = self.shelf.upgrade() else { return };
        let mut watched = lock(&shelf.watched);
        let Some(entry) = watched.get_mut(&self.uri) else { return };
        entry.callers -= 1;
        let gone = if entry.callers == 0 { watched.remove(&self.uri) } else { None };
        drop(watched);
        drop(gone);
    }
}

impl Set {
    fn load(yard: &Root) -> Set {
        let (declared, problems) = declared::load(yard);
        Set { declared: declared.into_iter().map(Arc::new).collect(), problems }
    }

    /// The declaration of an address and the values of its variables, as JSON.
    fn find(&self, uri: &str) -> Option<(Arc<Declared>, Payload)> {
        let one = |declared: &&Arc<Declared>| matches!(&declared.address, DeclaredAddress::One(known) if known == uri);
        if let Some(declared) = self.declared.iter().find(one) {
            return Some((declared.clone(), Payload::json("{}")));
        }
        self.declared.iter().find_map(|declared| match &declared.address {
            DeclaredAddress::Family(template) => Some((declared.clone(), arguments(template.matches(uri)?))),
            DeclaredAddress::One(_) => None,
        })
    }

    /// What a list shows of it.
    fn listing(&self) -> Vec<[Option<&str>; 5]> {
        self.declared.iter().map(|declared| declared.row()).collect()
    }
}

fn arguments(values: Vec<(&str, String)>) -> Payload {
    let mut out = vec![b'{'];
    for (i, (name, value)) in values.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        push_json_string(&mut out, name);
        out.push(b':');
        push_json_string(&mut out, value);
    }
    out.push(b'}');
    Payload::json(out)
}

/// A page from `cursor`, the number of the first item, on.
fn page<T>(items: Vec<T>, cursor: Option<&str>) -> Result<Page<T>, Error> {
    let start = match cursor {
        None => 0,
        Some(cursor) => cursor.parse::<usize>().map_err(|_| unknown_cursor())?,
    };
    if start > items.len() {
        return Err(unknown_cursor());
    }
    let next = (items.len() > start + PAGE).then(|| (start + PAGE).to_string());
    Ok(Page { items: items.into_iter().skip(start).take(PAGE).collect(), next, keep: Keep::default() })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Resources for Shelf {
    fn are_there(&self) -> bool {
        !self.set().declared.is_empty()
    }

    fn claims(&self, uri: &str) -> bool {
        !uri.split_once(':').is_some_and(|(scheme, _)| declared::TAKEN.contains(&scheme))
    }

    fn list<'a>(&'a self, cursor: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<Resource>> {
        let set = self.set();
        let resources = set.declared.iter().filter_map(|declared| match &declared.address {
            DeclaredAddress::One(uri) => Some(Resource {
                uri: uri.clone(),
                name: declared.name.clone(),
                title: declared.title.clone(),
                description: declared.description.clone(),
                mime: declared.mime.clone(),
                size: declared.size(),
                extra: Extra::default(),
            }),
            DeclaredAddress::Family(_) => None,
        });
        Box::pin(std::future::ready(page(resources.collect(), cursor)))
    }

    fn templates<'a>(&'a self, cursor: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<ResourceTemplate>> {
        let set = self.set();
        let templates = set.declared.iter().filter_map(|declared| match &declared.address {
            DeclaredAddress::Family(template) => Some(ResourceTemplate {
                uri_template: template.as_str().to_owned(),
                name: declared.name.clone(),
                title: declared.title.clone(),
                description: declared.description.clone(),
                mime: declared.mime.clone(),
                extra: Extra::default(),
            }),
            DeclaredAddress::One(_) => None,
        });
        Box::pin(std::future::ready(page(templates.collect(), cursor)))
    }

    fn read<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Reading> {
        Box::pin(
            async move { Ok(Reading { parts: self.content(uri, behalf).await?, keep: Keep::default() }) },
        )
    }

    fn write<'a>(&'a self, part: Part, _: Behalf<'a>) -> Found<'a, ()> {
        let refused = self.find(&part.uri).map(|(declared, _)| read_only(&part.uri, &declared.source));
        Box::pin(std::future::ready(Err(refused.unwrap_or_else(|error| error))))
    }

    fn delete<'a>(&'a self, uri: &'a str, _: Behalf<'a>) -> Found<'a, ()> {
        let refused = self.find(uri).map(|(declared, _)| read_only(uri, &declared.source));
        Box::pin(std::future::ready(Err(refused.unwrap_or_else(|error| error))))
    }

    /// Nothing is known about the values of a template, but whether it has the variable is.
    fn complete<'a>(&'a self, uri: &'a str, completing: Completing, _: Behalf<'a>) -> Found<'a, Completion> {
        let set = self.set();
        let known = set.declared.iter().find_map(|declared| match &declared.address {
            DeclaredAddress::Family(template) if template.as_str() == uri => {
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

    fn watch<'a>(&'a self, uri: &'a str, _: Behalf<'a>) -> Found<'a, Watch> {
        Box::pin(async move {
            let (shelf, uri) = (self.me.upgrade(), uri.to_owned());
            let shelf = shelf.ok_or_else(shutting_down)?;
            blocking(move || shelf.register(&uri)).await?
        })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.notices.subscribe()
    }
}
