//! Runs a batch: independent calls concurrently, dependent calls after the calls they need. Each call passes
//! every gate by itself.

use crate::execute::Engine;
use crate::request_context::RequestContext;
use crate::resources::Resources;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use toolyard_protocol::batch::{Action, Batch};
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Body, Error, ErrorKind, Outcome, Payload, ReadResult, Wait};

/// Calls of one batch that run at the same time.
const MAX_CONCURRENT: usize = 16;

impl Engine {
    /// The outcomes in the order of the steps. An unknown tool refuses the whole batch before anything runs.
    pub async fn run_batch(
        &self,
        batch: &Batch,
        context: RequestContext<'_>,
        resources: &dyn Resources,
    ) -> Result<Vec<Outcome>, Error> {
        self.check_tools(batch)?;
        let mut outcomes: Vec<Option<Outcome>> = vec![None; batch.steps.len()];
        let mut started = vec![false; batch.steps.len()];
        let mut running = FuturesUnordered::new();
        loop {
            for (index, step) in batch.steps.iter().enumerate() {
                let ready = step.needs.iter().all(|&need| outcomes[need].is_some());
                if started[index] || !ready || running.len() >= MAX_CONCURRENT {
                    continue;
                }
                started[index] = true;
                let arguments = arguments(batch, index, &outcomes);
                running.push(async move {
                    let outcome = match arguments {
                        Ok(arguments) => self.run_step(batch, index, arguments, context, resources).await,
                        Err(error) => Outcome::failure(error),
                    };
                    (index, outcome)
                });
            }
            match running.next().await {
                Some((index, outcome)) => outcomes[index] = Some(outcome),
                None => break,
            }
        }
        // Nothing runs and nothing can start; a batch has no cycles, so every step has ended.
        let missing = || Outcome::failure(Error::new(ErrorKind::Internal, "the call was never started"));
        Ok(outcomes.into_iter().map(|end| end.unwrap_or_else(missing)).collect())
    }

    fn check_tools(&self, batch: &Batch) -> Result<(), Error> {
        for step in &batch.steps {
            if let Action::Call { tool } = &step.action {
                self.registry.require(tool).map_err(|error| {
                    let message = format!("call '{}': {}; nothing was run", step.id, error.message);
                    Error { message, ..error }
                })?;
            }
        }
        Ok(())
    }

    async fn run_step(
        &self,
        batch: &Batch,
        index: usize,
        arguments: Payload,
        context: RequestContext<'_>,
        resources: &dyn Resources,
    ) -> Outcome {
        match &batch.steps[index].action {
            Action::Call { tool } => {
                let mut call = context.call(self.call_id(), tool, arguments);
                if batch.steps.iter().any(|step| step.needs.contains(&index)) {
                    // Dependent steps need the result, not a job id.
                    call.wait = Wait::UntilDone;
                }
                self.run(call, context.caller).await
            }
            Action::Read { uri } => match resources.read(uri, context).await {
                Ok(reading) => Outcome::success(Some(text_of(reading))),
                Err(error) => Outcome::failure(error),
            },
        }
    }
}

/// The arguments with the results of other calls filled in; an error when one of those calls failed.
fn arguments(batch: &Batch, index: usize, outcomes: &[Option<Outcome>]) -> Result<Payload, Error> {
    let step = &batch.steps[index];
    for &need in &step.needs {
        let failed = outcomes[need].as_ref().and_then(Outcome::error);
        if let Some(error) = failed {
            let id = &batch.steps[need].id;
            let message = format!("not run, because '{id}', which it needs, failed: {}", error.message);
            return Err(Error::new(ErrorKind::ToolFailed, message).hint(format!("fix '{id}' first")));
        }
    }
    step.arguments.resolve(outcomes)
}

/// A resource as a result: its texts as one JSON string, with a placeholder for each binary part.
fn text_of(reading: ReadResult) -> Payload {
    let mut texts = Vec::new();
    for part in reading.parts {
        texts.push(match part.body {
            Body::Text(text) => text,
            Body::Blob(bytes) => {
                format!("[{} bytes of {}]", bytes.len(), part.mime.as_deref().unwrap_or("data"))
            }
        });
    }
    let mut out = Vec::new();
    push_json_string(&mut out, &texts.join("\n"));
    Payload::json(out)
}
