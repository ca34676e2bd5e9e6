//! `graph.find`: finds identities by name, tag or hint.

use super::{IdentityFilter, IdentityInfo};
use crate::builtin::Services;
use crate::builtin::validate::Limit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use toolyard_protocol::{Annotations, Context, Error, Request, Tool, Violation};

pub struct Find(pub Arc<Services>);

#[derive(Deserialize, JsonSchema)]
pub struct FindRequest {
    /// Part of the name; case-insensitive.
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub tag_namespace: Option<String>,
    #[serde(default)]
    pub tag_value: Option<String>,
    #[serde(default)]
    pub hint_kind: Option<String>,
    #[serde(default)]
    pub hint_value: Option<String>,
    #[serde(default)]
    pub limit: Limit,
}

#[derive(Serialize, JsonSchema)]
pub struct FindResponse {
    /// Sorted by id.
    pub identities: Vec<IdentityInfo>,
    pub count: usize,
}

impl FindRequest {
    fn filter(&self) -> IdentityFilter {
        IdentityFilter {
            name: self.name.clone(),
            tag_namespace: self.tag_namespace.clone(),
            tag_value: self.tag_value.clone(),
            hint_kind: self.hint_kind.clone(),
            hint_value: self.hint_value.clone(),
        }
    }
}

impl Request for FindRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        self.filter().check(violations, "");
        self.limit.check(violations);
    }
}

impl Tool for Find {
    type Request = FindRequest;
    type Response = FindResponse;

    const NAME: &'static str = "graph.find";
    const TITLE: &'static str = "Find identities";
    const DESCRIPTION: &'static str = "Finds identities by part of their name, by tag or by hint.";
    const ANNOTATIONS: Annotations = Annotations::READ_ONLY;
    const OUTPUT: usize = 16 << 20;

    async fn run(&self, request: FindRequest, _: Context<'_>) -> Result<FindResponse, Error> {
        let limit = request.limit.get();
        let found = self.0.stores()?.graph.find(request.filter().with_limit(limit)).await?;
        let identities: Vec<_> = found.into_iter().map(IdentityInfo::from).collect();
        Ok(FindResponse { count: identities.len(), identities })
    }
}
