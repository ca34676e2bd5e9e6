//! `graph.bind`: creates or renames an identity and adds hints.

use super::{HintInfo, IdentityInfo};
use crate::builtin::{Services, validate};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use toolyard_engine::stores::Hint;
use toolyard_protocol::{Annotations, Context, Error, Request, Timing, Tool, Violation};

pub struct Bind(pub Arc<Services>);

const MAX_HINTS: usize = 64;

#[derive(Deserialize, JsonSchema)]
pub struct BindRequest {
    pub id: String,
    pub name: String,
    #[serde(default)]
    pub hints: Vec<HintInfo>,
}

impl Request for BindRequest {
    fn check(&self, violations: &mut Vec<Violation>) {
        validate::label(violations, "/id", &self.id);
        validate::label(violations, "/name", &self.name);
        if self.hints.len() > MAX_HINTS {
            let count = self.hints.len();
            validate::add(violations, "/hints", format!("has {count} hints; the maximum is {MAX_HINTS}"));
        }
        for (i, hint) in self.hints.iter().enumerate().take(MAX_HINTS) {
            validate::label(violations, &format!("/hints/{i}/kind"), &hint.kind);
            validate::label(violations, &format!("/hints/{i}/value"), &hint.value);
            if !(0.0..=1.0).contains(&hint.confidence) {
                validate::add(violations, &format!("/hints/{i}/confidence"), "must be from 0 to 1");
            }
        }
    }
}

impl Tool for Bind {
    type Request = BindRequest;
    type Response = IdentityInfo;

    const NAME: &'static str = "graph.bind";
    const TITLE: &'static str = "Bind an identity";
    const DESCRIPTION: &'static str =
        "Creates or renames an identity, and adds hints by which it can be recognized.";
    const TIMING: Timing = Timing::AsyncShort;
    const ANNOTATIONS: Annotations = Annotations::IDEMPOTENT;

    async fn run(&self, request: BindRequest, _: Context<'_>) -> Result<IdentityInfo, Error> {
        let BindRequest { id, name, hints } = request;
        let hint = |HintInfo { kind, value, confidence }| Hint { kind, value, confidence };
        let hints = hints.into_iter().map(hint).collect();
        Ok(self.0.stores()?.graph.bind(id, name, hints, self.0.now()).await?.into())
    }
}
