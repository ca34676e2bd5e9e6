//! Batch requests: several calls, some of which depend on the results of others.

use crate::{Error, Outcome, Payload};

/// Validated: ids are unique, every dependency exists, and there is no cycle.
pub struct Batch {
    pub steps: Vec<Step>,
}

pub struct Step {
    pub id: String,
    pub action: Action,
    /// Indices into [`Batch::steps`] of the steps that must finish first.
    pub needs: Vec<usize>,
    pub arguments: Box<dyn StepArguments>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Call { tool: String },
    Read { uri: String },
}

/// Arguments with references to the results of other steps.
pub trait StepArguments: Send + Sync {
    /// Replaces the references. `outcomes` has an outcome for each finished step.
    fn resolve(&self, outcomes: &[Option<Outcome>]) -> Result<Payload, Error>;
}
