//! Several calls in one request, some of which need the results of others.

use crate::{Error, Outcome, Payload};

/// Checked: ids are unique, every need names an earlier or later step, and there is no circle.
pub struct Batch {
    pub steps: Vec<Step>,
}

pub struct Step {
    pub id: String,
    pub action: Action,
    /// Places in [`Batch::steps`] of what must have ended first.
    pub needs: Vec<usize>,
    pub arguments: Box<dyn StepArguments>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Call { tool: String },
    Read { uri: String },
}

/// Arguments with references that results of other steps fill.
pub trait StepArguments: Send + Sync {
    /// `outcomes` has an outcome for each step that is over.
    fn resolve(&self, outcomes: &[Option<Outcome>]) -> Result<Payload, Error>;
}
