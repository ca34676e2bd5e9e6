//! Which events a caller may see: those about its own jobs. The owner of the yard may see all of them.

use super::Jobs;
use std::collections::HashMap;
use toolyard_protocol::{Error, Event, Id, Identity};

impl Jobs {
    /// Without the events that are not about jobs of the caller. The owner of a removed job is unknown, so its events are
    /// not visible.
    pub async fn visible_events(&self, events: Vec<Event>, identity: &Identity) -> Result<Vec<Event>, Error> {
        if identity.is_owner() {
            return Ok(events);
        }
        let mut known = HashMap::<Id, bool>::new();
        let mut visible = Vec::new();
        for event in events {
            let Some(subject) = event.subject.as_deref().and_then(Id::parse) else { continue };
            let is_own = match known.get(&subject) {
                Some(own) => *own,
                None => {
                    let job = self.store.get(subject).await?;
                    *known.entry(subject).or_insert(job.is_some_and(|job| job.identity == *identity))
                }
            };
            if is_own {
                visible.push(event);
            }
        }
        Ok(visible)
    }
}
