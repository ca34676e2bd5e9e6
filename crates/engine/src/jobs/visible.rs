//! Which events a caller may see: those about its own jobs, and those that are not about a job. The owner of the
//! yard may see all of them.

use super::Jobs;
use std::collections::HashMap;
use toolyard_protocol::{Error, Event, Id, Identity};

/// Events about a job. Their subject is the job's id.
const JOB_EVENTS: [&str; 3] = ["job_state_changed", "progress", "log"];

impl Jobs {
    /// Without the events about jobs of other callers. The owner of a removed job is unknown, so its events are
    /// not visible.
    pub async fn visible_events(&self, events: Vec<Event>, identity: &Identity) -> Result<Vec<Event>, Error> {
        if identity.is_owner() {
            return Ok(events);
        }
        let mut known = HashMap::<Id, bool>::new();
        let mut visible = Vec::with_capacity(events.len());
        for event in events {
            let is_visible = match event.subject.as_deref().map(Id::parse) {
                Some(job) if JOB_EVENTS.contains(&event.kind.as_str()) => match job {
                    None => false,
                    Some(id) => match known.get(&id) {
                        Some(own) => *own,
                        None => {
                            let own = self.store.get(id).await?.is_some_and(|job| job.identity == *identity);
                            known.insert(id, own);
                            own
                        }
                    },
                },
                _ => true,
            };
            if is_visible {
                visible.push(event);
            }
        }
        Ok(visible)
    }
}
