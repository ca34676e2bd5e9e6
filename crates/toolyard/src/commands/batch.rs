//! `toolyard batch FILE`: several calls at once, some of which need the results of others.

use crate::output;
use crate::remote::Remote;
use crate::wiring::{Place, Yard, small_runtime};
use bytes::Bytes;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use toolyard_engine::Behalf;
use toolyard_protocol::{Edge, Error, ErrorKind, Identity, Nobody};
use toolyard_wire::{batch, json};

/// Run a batch of calls from a file
#[derive(clap::Args)]
pub struct Args {
    /// The batch as JSON, or '-' to read it from stdin
    file: PathBuf,
}

/// The largest batch that is read.
const MAX: u64 = 64 << 20;

pub fn run(args: Args, place: Place) -> Result<u8, Error> {
    let text = read(&args.file)?;
    let answer = small_runtime()?.block_on(async {
        tokio::select! {
            answer = run_batch(&place, text) => answer,
            _ = tokio::signal::ctrl_c() => Err(Error::new(ErrorKind::Cancelled, "interrupted; the tools were stopped")),
        }
    })?;
    let shown = if place.json { Ok(answer.to_vec()) } else { json::pretty(&answer).map(String::into_bytes) };
    output::line(shown.unwrap_or_else(|_| answer.to_vec()));
    Ok(u8::from(batch::has_failure(&answer)))
}

async fn run_batch(place: &Place, text: Bytes) -> Result<Bytes, Error> {
    if let Some(url) = &place.url {
        return Remote::new(url)?.post(&["v1", "batch"], text).await;
    }
    let yard = Yard::open(place)?;
    let engine = Arc::new(yard.engine()?);
    let opened = yard.resources(&engine)?;
    let batch::Request { batch, conversation } = batch::read(text)?;
    let identity = Identity::local();
    let behalf = Behalf { identity: &identity, edge: Edge::Cli, trace: None, caller: &Nobody };
    let ends = engine.run_batch(&batch, behalf, opened.resources.as_ref()).await;
    engine.audit.close();
    let ends = ends?;
    Ok(conversation.map_or_else(|| batch::write(&batch, &ends), |history| history.write(&ends)).into())
}

fn read(file: &PathBuf) -> Result<Bytes, Error> {
    let mut text = Vec::new();
    let read = if file.as_os_str() == "-" {
        std::io::stdin().lock().take(MAX + 1).read_to_end(&mut text)
    } else {
        std::fs::File::open(file).and_then(|file| file.take(MAX + 1).read_to_end(&mut text))
    };
    read.map_err(|error| {
        Error::new(ErrorKind::FileNotFound, format!("{} cannot be read: {error}", file.display()))
    })?;
    if text.len() as u64 > MAX {
        return Err(Error::new(ErrorKind::InputTooLarge, format!("{} is over {MAX} bytes", file.display())));
    }
    Ok(text.into())
}
