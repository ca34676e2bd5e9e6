//! `toolyard batch FILE`: runs several calls, some of which use the results of others.

use crate::input;
use crate::output;
use crate::remote::Remote;
use crate::wiring::{GlobalOptions, Yard, small_runtime};
use bytes::Bytes;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::RequestContext;
use toolyard_formats::json;
use toolyard_protocol::{Edge, Error, ErrorKind, Identity, NoopCaller};
use toolyard_wire::batch;

/// Run a batch of calls from a file
#[derive(clap::Args)]
pub struct Args {
    /// The batch as JSON, or '-' to read it from stdin
    file: PathBuf,
}

pub fn run(args: Args, global: GlobalOptions) -> Result<u8, Error> {
    let text = input::read(&args.file, input::MAX_JSON)?;
    let answer = small_runtime()?.block_on(async {
        tokio::select! {
            answer = run_batch(&global, text) => answer,
            _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the tools were stopped")),
        }
    })?;
    let shown = if global.json { Ok(answer.to_vec()) } else { json::pretty(&answer).map(String::into_bytes) };
    output::data(shown.unwrap_or_else(|_| answer.to_vec()));
    Ok(u8::from(batch::has_failure(&answer)))
}

async fn run_batch(global: &GlobalOptions, text: Bytes) -> Result<Bytes, Error> {
    if let Some(url) = &global.url {
        return Remote::new(url, global)?.post(&["v1", "batch"], text).await;
    }
    let yard = Yard::open(global)?;
    let engine = Arc::new(yard.engine()?);
    let opened = yard.resources(&engine)?;
    let batch::Request { batch, conversation } = batch::read(text)?;
    let identity = Identity::local();
    let context = RequestContext { identity: &identity, edge: Edge::Cli, trace: None, caller: &NoopCaller };
    let ends = engine.run_batch(&batch, context, opened.resources.as_ref()).await;
    engine.audit.close();
    let ends = ends?;
    Ok(conversation.map_or_else(|| batch::write(&batch, &ends), |history| history.write(&ends)).into())
}
