//! `annotation.search`: finds annotations that contain every word of a query, newest first.

use super::Annotations as AnnotationPage;
use crate::builtin::Services;
use crate::builtin::validate::{self, Limit};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Guarded, Request, Tool, Violation};

pub struct Search(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct SearchRequest {
    /// Words that must all occur in message, source or vibe; `warm*` matches a prefix.
    pub query: String,
    #[serde(default)]
    pub limit: Limit,
}

impl Request for SearchRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::label(violations, "/query", &self.query);
        if !self.query.is_empty() && !self.query.chars().any(char::is_alphanumeric) {
            validate::add(violations, "/query", "must contain a letter or digit");
        }
        self.limit.check(violations);
    }
}

impl Tool for Search {
    type Request = SearchRequest;
    type Response = AnnotationPage;

    const NAME: &'static str = "annotation.search";
    const TITLE: &'static str = "Search annotations";
    const DESCRIPTION: &'static str =
        "Finds annotations that contain every word of the query, case-insensitively, newest first.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const GUARDED: Option<Guarded> = Some(Guarded::Artifacts);
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: SearchRequest, _: Context<'_>) -> Result<AnnotationPage, Error> {
        let limit = request.limit.get();
        Ok(self.0.stores()?.annotations.search(&request.query, limit).await?.into())
    }
}
