//! `annotation.search`: annotations that hold every word of a query, newest first.

use super::Annotations as AnnotationPage;
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Request, Tool, Violation};

pub struct Search(pub Arc<Services>);

const DEFAULT_LIMIT: u64 = 100;

#[derive(Deserialize, JsonSchema)]
pub struct SearchRequest {
    /// Words that must all occur in message, source or vibe; `warm*` finds what begins so.
    pub query: String,
    /// How many at most; 100 without it.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u64>,
}

impl Request for SearchRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::label(violations, "/query", &self.query);
        if !self.query.is_empty() && !self.query.chars().any(char::is_alphanumeric) {
            validate::add(violations, "/query", "has no word: letters or digits");
        }
        validate::limit(violations, self.limit);
    }
}

impl Tool for Search {
    type Request = SearchRequest;
    type Response = AnnotationPage;

    const NAME: &'static str = "annotation.search";
    const TITLE: &'static str = "Search annotations";
    const DESCRIPTION: &'static str =
        "Finds annotations that hold every word of the query, without regard to case, newest first.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: SearchRequest, _: Context<'_>) -> Result<AnnotationPage, Error> {
        let limit = request.limit.unwrap_or(DEFAULT_LIMIT) as usize;
        Ok(self.0.stores()?.annotations.search(&request.query, limit).await?.into())
    }
}
