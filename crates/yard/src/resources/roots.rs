//! Files of the configured roots as resources: `yard://ROOT/path`.

use super::file_uri::{FilePath, FileUri, SCHEME};
use super::mime;
use super::root::{IfMissing, Root};
use super::shared_watches::SharedWatches;
use super::watcher::{FileWatch, FileWatcher, WatchTarget};
use super::{blocking, failure};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::broadcast;
use toolyard_engine::resources::{not_found, unknown_cursor};
use toolyard_engine::{RequestContext, RequestFuture, ResourceChange, Resources, WatchGuard};
use toolyard_formats::percent;
use toolyard_protocol::{
    Body, CachePolicy, Completion, CompletionRequest, Error, ErrorKind, Extra, Page, ReadResult, Resource,
    ResourceContents, ResourceTemplate,
};

pub struct Roots {
    roots: Mutex<Arc<Vec<Arc<Root>>>>,
    watcher: Arc<FileWatcher>,
    watched: Arc<SharedWatches<FileWatch>>,
    changes: broadcast::Sender<ResourceChange>,
}

const PAGE_SIZE: usize = 200;
/// The variable in the URI template of each root.
const VARIABLE: &str = "path";
const MAX_SUGGESTIONS: usize = 100;

impl Roots {
    pub fn new(watcher: Arc<FileWatcher>, changes: broadcast::Sender<ResourceChange>) -> Roots {
        Roots { roots: Mutex::default(), watcher, watched: Arc::default(), changes }
    }

    /// Files that are watched already stay so until their subscribers leave.
    pub fn replace(&self, roots: Vec<Arc<Root>>) {
        *lock(&self.roots) = Arc::new(roots);
    }

    fn roots(&self) -> Arc<Vec<Arc<Root>>> {
        lock(&self.roots).clone()
    }

    fn find(&self, uri: &str) -> Result<(Arc<Root>, FilePath), Error> {
        let address = FileUri::parse(uri).ok_or_else(|| not_found(uri))??;
        let root = self.roots().iter().find(|root| root.name == address.root).cloned();
        Ok((root.ok_or_else(|| not_found(uri))?, address.path))
    }

    /// Parses a cursor: `ROOT/path`, the last listed file, or `ROOT`, the next root.
    fn start(roots: &[Arc<Root>], cursor: Option<&str>) -> Result<(usize, Option<FilePath>), Error> {
        let Some(cursor) = cursor else { return Ok((0, None)) };
        let (name, path) = cursor.split_once('/').unwrap_or((cursor, ""));
        let at = roots.iter().position(|root| root.name == name).ok_or_else(unknown_cursor)?;
        let path = Some(path).filter(|path| !path.is_empty());
        let path = path.map(FilePath::decode).transpose().map_err(|_| unknown_cursor())?;
        Ok((at, path))
    }

    async fn page(&self, cursor: Option<&str>) -> Result<Page<Resource>, Error> {
        let roots = self.roots();
        let (mut at, mut after) = Roots::start(&roots, cursor)?;
        let mut items = Vec::new();
        while let Some(root) = roots.get(at)
            && items.len() < PAGE_SIZE
        {
            let (root, from, left) = (root.clone(), after.take(), PAGE_SIZE - items.len());
            let name = root.name.clone();
            let (found, next) = blocking(move || root.list(from.as_ref(), left))
                .await?
                .map_err(|error| failure(&format!("{SCHEME}{name}"), "toolyard.toml", error))?;
            items.extend(found.into_iter().map(|file| resource(&name, file.path, file.size)));
            match next {
                Some(next) => {
                    let next = Some(format!("{name}/{}", next.encoded()));
                    return Ok(Page { items, next, cache_policy: CachePolicy::default() });
                }
                None => at += 1,
            }
        }
        let next = roots.get(at).map(|root| root.name.clone());
        Ok(Page { items, next, cache_policy: CachePolicy::default() })
    }

    fn template(root: &Root) -> String {
        format!("{SCHEME}{}/{{+{VARIABLE}}}", root.name)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn resource(root: &str, path: FilePath, size: u64) -> Resource {
    let mime = mime::of_name(path.split().1).map(str::to_owned);
    let name = path.names().join("/");
    let uri = FileUri { root: root.to_owned(), path }.to_string();
    Resource { uri, name, mime, size: Some(size), ..Resource::default() }
}

/// Paths that start with the typed text, percent-encoded; folders end with a slash.
fn suggestions(root: &Root, typed: &str) -> Option<Completion> {
    let (folders, start) =
        typed.rsplit_once('/').map_or((None, typed), |(folders, start)| (Some(folders), start));
    let start = percent::decode(start)?;
    let path = folders.map(FilePath::decode).transpose().ok()?;
    let names = path.as_ref().map_or(&[][..], FilePath::names);
    let folder = root.folder(names, IfMissing::Fail).ok()?;
    let found = root.names(folder.as_fd(), |name| name.starts_with(&start)).ok()?.names;
    let total = Some(found.len() as u64);
    let encoded = found.into_iter().take(MAX_SUGGESTIONS).filter_map(|(name, is_folder)| {
        let path = FilePath::new(names.iter().cloned().chain([name]).collect()).ok()?;
        Some(path.encoded() + if is_folder { "/" } else { "" })
    });
    Some(Completion { values: encoded.collect(), total })
}

fn forbidden(root: &Root, act: &str, key: &str) -> Error {
    Error::new(ErrorKind::Forbidden, format!("files of the root '{}' may not be {act}", root.name))
        .hint(format!("its owner can allow it: {key} = true in [[resources.root]] of toolyard.toml"))
}

impl Resources for Roots {
    fn is_available(&self) -> bool {
        !self.roots().is_empty()
    }

    fn claims(&self, uri: &str) -> bool {
        uri.starts_with("yard:")
    }

    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        Box::pin(self.page(cursor))
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        let template = |root: &Arc<Root>| ResourceTemplate {
            uri_template: Roots::template(root),
            name: root.name.clone(),
            title: None,
            description: Some(format!("A file of the root '{}'", root.name)),
            mime: None,
            extra: Extra::default(),
        };
        // There are few roots: one page holds them all.
        Box::pin(std::future::ready(match cursor {
            None => Ok(Page::whole(self.roots().iter().map(template).collect())),
            Some(_) => Err(unknown_cursor()),
        }))
    }

    fn read<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move {
            let (root, path) = self.find(uri)?;
            let name = path.split().1.to_owned();
            let bytes = blocking(move || root.read(&path)).await?;
            let bytes = bytes.map_err(|error| failure(uri, "toolyard.toml", error))?;
            let (mime, body) = mime::content(&name, bytes);
            let part = ResourceContents { uri: uri.to_owned(), mime: Some(mime), body, meta: None };
            Ok(ReadResult { parts: vec![part], cache_policy: CachePolicy::default() })
        })
    }

    fn write<'a>(&'a self, part: ResourceContents, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move {
            let (root, path) = self.find(&part.uri)?;
            if !root.access.write {
                return Err(forbidden(&root, "written", "write"));
            }
            let ResourceContents { uri, body, .. } = part;
            let written = blocking(move || match &body {
                Body::Text(text) => root.write(&path, text.as_bytes()),
                Body::Blob(bytes) => root.write(&path, bytes),
            });
            written.await?.map_err(|error| failure(&uri, "toolyard.toml", error))
        })
    }

    fn delete<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        Box::pin(async move {
            let (root, path) = self.find(uri)?;
            if !root.access.delete {
                return Err(forbidden(&root, "deleted", "delete"));
            }
            let deleted = blocking(move || root.delete(&path)).await?;
            deleted.map_err(|error| failure(uri, "toolyard.toml", error))
        })
    }

    fn complete<'a>(
        &'a self,
        uri: &'a str,
        completing: CompletionRequest,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        Box::pin(async move {
            let root = self.roots().iter().find(|root| Roots::template(root) == uri).cloned();
            let root = root.ok_or_else(|| not_found(uri))?;
            if completing.argument != VARIABLE {
                return Err(Error::new(ErrorKind::InvalidInput, "the template has no such variable")
                    .hint(format!("its variable is '{VARIABLE}'")));
            }
            Ok(blocking(move || suggestions(&root, &completing.value)).await?.unwrap_or_default())
        })
    }

    fn watch<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        Box::pin(async move {
            let (root, path) = self.find(uri)?;
            let (watcher, changes, uri) = (self.watcher.clone(), self.changes.clone(), Arc::<str>::from(uri));
            let watched = self.watched.clone();
            let guard = blocking(move || {
                root.metadata(&path).map_err(|error| failure(&uri, "toolyard.toml", error))?;
                let changed_uri = uri.clone();
                let on_change = move || {
                    let _ = changes.send(ResourceChange::Updated(changed_uri.clone()));
                };
                watched.get(&uri, || {
                    let guard = watcher.watch(WatchTarget::File(root, path), on_change);
                    guard.map_err(|error| Error::new(ErrorKind::Busy, error.to_string()))
                })
            });
            Ok(WatchGuard(Box::new(guard.await??)))
        })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.changes.subscribe()
    }
}
