//! Several sources of resources as one: lists go through all of them in turn, an address goes to the one that claims it.

use super::{ResourceChange, Resources, Watch, not_found, unknown_cursor};
use crate::behalf::{Behalf, Found};
use std::sync::Arc;
use tokio::sync::broadcast;
use toolyard_protocol::{
    Completing, Completion, Error, Keep, Page, Part, Reading, Resource, ResourceTemplate,
};

pub struct Joined {
    sources: Vec<Arc<dyn Resources>>,
    /// Every source tells its changes here.
    notices: broadcast::Sender<ResourceChange>,
}

/// How a source is asked for a page.
type List<T> = for<'a> fn(&'a dyn Resources, Option<&'a str>, Behalf<'a>) -> Found<'a, Page<T>>;

/// A page is full with so many; the last source of a page may add a page of its own.
const ENOUGH: usize = 100;

impl Joined {
    pub fn new(sources: Vec<Arc<dyn Resources>>, notices: broadcast::Sender<ResourceChange>) -> Joined {
        Joined { sources, notices }
    }

    fn of(&self, uri: &str) -> Result<&Arc<dyn Resources>, Error> {
        self.sources.iter().find(|source| source.claims(uri)).ok_or_else(|| not_found(uri))
    }

    /// Goes on where `cursor` says: `SOURCE.CURSOR`, the second part empty at a source's start.
    async fn page<T>(
        &self,
        cursor: Option<&str>,
        behalf: Behalf<'_>,
        list: List<T>,
    ) -> Result<Page<T>, Error> {
        let (mut at, mut inner) = parse(cursor)?;
        if cursor.is_some() && at >= self.sources.len() {
            return Err(unknown_cursor());
        }
        let mut page: Option<Page<T>> = None;
        while let Some(source) = self.sources.get(at) {
            let mut found = list(source.as_ref(), inner.as_deref(), behalf).await?;
            (at, inner) = match found.next.take() {
                Some(next) => (at, Some(next)),
                None => (at + 1, None),
            };
            page = Some(match page {
                None => found,
                Some(page) => join(page, found),
            });
            if inner.is_some() || page.as_ref().is_some_and(|page| page.items.len() >= ENOUGH) {
                break;
            }
        }
        let mut page = page.unwrap_or_else(|| Page::whole(Vec::new()));
        page.next = (at < self.sources.len()).then(|| format!("{at}.{}", inner.unwrap_or_default()));
        Ok(page)
    }
}

fn parse(cursor: Option<&str>) -> Result<(usize, Option<String>), Error> {
    let Some(cursor) = cursor else { return Ok((0, None)) };
    let (at, inner) = cursor.split_once('.').ok_or_else(unknown_cursor)?;
    let at = at.parse().map_err(|_| unknown_cursor())?;
    Ok((at, Some(inner.to_owned()).filter(|inner| !inner.is_empty())))
}

fn join<T>(mut first: Page<T>, second: Page<T>) -> Page<T> {
    first.items.extend(second.items);
    let (a, b) = (first.keep, second.keep);
    first.keep = Keep { ttl: a.ttl.min(b.ttl), shared: a.shared && b.shared };
    first
}

impl Resources for Joined {
    fn are_there(&self) -> bool {
        self.sources.iter().any(|source| source.are_there())
    }

    fn claims(&self, uri: &str) -> bool {
        self.sources.iter().any(|source| source.claims(uri))
    }

    fn list<'a>(&'a self, cursor: Option<&'a str>, behalf: Behalf<'a>) -> Found<'a, Page<Resource>> {
        Box::pin(self.page(cursor, behalf, |source, cursor, behalf| source.list(cursor, behalf)))
    }

    fn templates<'a>(
        &'a self,
        cursor: Option<&'a str>,
        behalf: Behalf<'a>,
    ) -> Found<'a, Page<ResourceTemplate>> {
        Box::pin(self.page(cursor, behalf, |source, cursor, behalf| source.templates(cursor, behalf)))
    }

    fn read<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Reading> {
        Box::pin(async move { self.of(uri)?.read(uri, behalf).await })
    }

    fn write<'a>(&'a self, part: Part, behalf: Behalf<'a>) -> Found<'a, ()> {
        Box::pin(async move { self.of(&part.uri)?.write(part, behalf).await })
    }

    fn delete<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, ()> {
        Box::pin(async move { self.of(uri)?.delete(uri, behalf).await })
    }

    fn complete<'a>(
        &'a self,
        uri_template: &'a str,
        completing: Completing,
        behalf: Behalf<'a>,
    ) -> Found<'a, Completion> {
        Box::pin(async move { self.of(uri_template)?.complete(uri_template, completing, behalf).await })
    }

    fn watch<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Watch> {
        Box::pin(async move { self.of(uri)?.watch(uri, behalf).await })
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.notices.subscribe()
    }
}
