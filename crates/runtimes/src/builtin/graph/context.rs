//! `graph.context`: describes recent artifacts, annotations and identities as text for a model.

use crate::builtin::{Services, Stores, validate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::sync::Arc;
use toolyard_engine::stores::{Artifact, ArtifactFilter, GraphNode, GraphNodeFilter};
use toolyard_protocol::text::escape_control;
use toolyard_protocol::{Annotations, Context as Run, Error, Guarded, Request, Timestamp, Tool, Violation};

pub struct Context(pub Arc<Services>);

const DEFAULT_LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 200;
const YEAR: u64 = 366 * 24 * 60;
/// Maximum annotations per artifact, and characters per text.
const MAX_ANNOTATIONS: usize = 10;
const MAX_CHARS: usize = 500;

#[derive(Deserialize, JsonSchema)]
pub struct ContextRequest {
    /// Maximum number of artifacts and of identities; default 20.
    #[serde(default)]
    #[schemars(range(min = 1, max = 200))]
    pub limit: Option<u64>,
    /// Only artifacts with this tag.
    #[serde(default)]
    pub tag: Option<String>,
    #[serde(default)]
    pub creator: Option<String>,
    /// Only artifacts with an annotation that contains these words.
    #[serde(default)]
    pub vibe_search: Option<String>,
    /// Only artifacts created within this many minutes.
    #[serde(default)]
    pub within_minutes: Option<u64>,
    /// Include annotations; default true.
    #[serde(default = "default_true")]
    pub include_annotations: bool,
    /// Include metadata as JSON; default false.
    #[serde(default)]
    pub include_metadata: bool,
}

fn default_true() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
pub struct ContextResponse {
    /// Plain text, one entry per line.
    pub context: String,
    pub artifact_count: usize,
    pub identity_count: usize,
}

impl Request for ContextRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::number(violations, "/limit", self.limit, 1..=MAX_LIMIT);
        validate::number(violations, "/within_minutes", self.within_minutes, 1..=YEAR * 100);
        let given = [("/tag", &self.tag), ("/creator", &self.creator), ("/vibe_search", &self.vibe_search)];
        validate::labels(violations, &given);
    }
}

impl Tool for Context {
    type Request = ContextRequest;
    type Response = ContextResponse;

    const NAME: &'static str = "graph.context";
    const TITLE: &'static str = "Get context";
    const DESCRIPTION: &'static str =
        "Describes recent artifacts, their annotations and the identities of the graph, as text for a model.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);
    const OUTPUT: usize = 4 << 20;

    async fn run(&self, request: ContextRequest, _: Run<'_>) -> Result<ContextResponse, Error> {
        let stores = self.0.stores()?;
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT) as usize;
        let artifacts = artifacts(stores, &request, self.0.now(), limit).await?;
        let identities = stores.graph.find(GraphNodeFilter { limit, ..GraphNodeFilter::default() }).await?;
        let mut text = format!("Artifacts, newest first ({}):\n", artifacts.len());
        for artifact in &artifacts {
            describe(&mut text, artifact, request.include_metadata);
            if request.include_annotations {
                for note in stores.annotations.for_artifact(artifact.id, MAX_ANNOTATIONS).await? {
                    let by = [note.source.as_deref(), note.vibe.as_deref()];
                    let by: Vec<String> = by.into_iter().flatten().map(one_line).collect();
                    let by = if by.is_empty() { String::new() } else { format!(" ({})", by.join(", ")) };
                    // Writing to a string cannot fail.
                    let _ = writeln!(text, "  note{by}: {}", one_line(&note.message));
                }
            }
        }
        let _ = writeln!(text, "Identities ({}):", identities.len());
        identities.iter().for_each(|identity| describe_identity(&mut text, identity));
        let (artifact_count, identity_count) = (artifacts.len(), identities.len());
        Ok(ContextResponse { context: text, artifact_count, identity_count })
    }
}

async fn artifacts(
    stores: &Stores,
    request: &ContextRequest,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Artifact>, Error> {
    let ms = request.within_minutes.map(|minutes| minutes * 60_000);
    let since = ms.map(|ms| Timestamp::from_unix_ms(now.unix_ms().saturating_sub(ms)));
    let (tag, creator) = (request.tag.clone(), request.creator.clone());
    let Some(words) = &request.vibe_search else {
        let filter = ArtifactFilter { tag, creator, since, before: None, limit };
        return Ok(stores.artifacts.list(filter).await?);
    };
    let notes = stores.annotations.search(words, validate::MAX_LIMIT as usize).await?;
    let mut ids: Vec<_> = notes.into_iter().map(|note| note.artifact).collect();
    // Ids are ordered by time; newest first.
    ids.sort_unstable_by(|a, b| b.cmp(a));
    ids.dedup();
    let mut found = Vec::new();
    for id in ids {
        let Some(artifact) = stores.artifacts.get(id).await? else { continue };
        let matches = tag.as_ref().is_none_or(|tag| artifact.lineage.tags.contains(tag))
            && creator.as_ref().is_none_or(|creator| artifact.lineage.creator.as_ref() == Some(creator))
            && since.is_none_or(|since| artifact.created >= since);
        if matches {
            found.push(artifact);
        }
        if found.len() == limit {
            break;
        }
    }
    Ok(found)
}

fn describe(text: &mut String, artifact: &Artifact, with_metadata: bool) {
    let lineage = &artifact.lineage;
    let _ = write!(text, "- {} {}, {} bytes", artifact.id, one_line(&artifact.mime), artifact.size);
    if let Some(creator) = &lineage.creator {
        let _ = write!(text, ", by {}", one_line(creator));
    }
    let _ = write!(text, ", {}", artifact.created);
    if !lineage.tags.is_empty() {
        let tags: Vec<String> = lineage.tags.iter().map(|tag| one_line(tag)).collect();
        let _ = write!(text, ", tags {}", tags.join(" "));
    }
    if let Some(parent) = lineage.parent {
        let _ = write!(text, ", from {parent}");
    }
    if let Some(set) = &lineage.variation_set {
        let _ = write!(text, ", variation of {}", one_line(set));
    }
    text.push('\n');
    if let Some(metadata) = artifact.metadata.as_ref().filter(|_| with_metadata) {
        let _ = writeln!(text, "  metadata: {}", one_line(&String::from_utf8_lossy(metadata.bytes())));
    }
}

fn describe_identity(text: &mut String, identity: &GraphNode) {
    let _ = write!(text, "- {}: {}", one_line(&identity.id), one_line(&identity.name));
    for tag in &identity.tags {
        let _ = write!(text, " {}:{}", one_line(&tag.namespace), one_line(&tag.value));
    }
    text.push('\n');
}

/// Shortens a text to one line, so that it cannot forge another entry.
fn one_line(text: &str) -> String {
    let short: String = text.chars().take(MAX_CHARS).collect();
    let cut = if short.len() < text.len() { "…" } else { "" };
    escape_control(&short.replace(['\n', '\t', '\r'], " ")) + cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_stays_on_its_line() {
        assert_eq!(one_line("a\n- b\u{1b}"), "a - b\\u{1b}");
        assert_eq!(one_line(&"x".repeat(501)).chars().count(), 501);
        assert!(one_line(&"x".repeat(501)).ends_with('…'));
    }
}
