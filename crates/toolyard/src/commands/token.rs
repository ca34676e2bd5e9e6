//! `toolyard token`: prints the token that HTTP clients send to call guarded tools.

use crate::output;
use crate::state_folder;
use crate::token;
use crate::wiring::{GlobalOptions, Yard};
use toolyard_engine::clock::SystemRandom;
use toolyard_formats::json::Object;
use toolyard_protocol::Error;

/// Print the token that HTTP clients send to call guarded tools
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args, global: GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::look(&global)?;
    state_folder::create(&yard.root, &yard.state)?;
    let token = token::read_or_create(&yard.state, &SystemRandom)?;
    if global.json {
        let mut out = Vec::new();
        Object::new(&mut out).text("token", &token);
        output::data(out);
    } else {
        output::line(token);
    }
    Ok(0)
}
