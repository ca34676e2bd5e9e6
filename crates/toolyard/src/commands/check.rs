//! `toolyard check`: reads every file of the yard and says what is wrong, all of it.

use super::list::located;
use crate::output;
use crate::wiring::{Place, Yard};
use toolyard_engine::Severity;
use toolyard_protocol::{Error, ErrorKind};
use toolyard_wire::problems;

/// Check every file of the yard and report all problems
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args, place: Place) -> Result<u8, Error> {
    let yard = Yard::open(&place)?;
    let snapshot = yard.load();
    let found = [snapshot.problems(), &yard.resource_setup().check()].concat();
    let errors = found.iter().filter(|problem| problem.severity == Severity::Error).count();
    if place.json {
        let rows = found.iter().map(|problem| problems::Row {
            source: &problem.source,
            place: problem.place,
            message: &problem.message,
            hint: problem.hint.as_deref(),
            severity: problem.severity.as_str(),
        });
        output::line(problems::write(rows));
    } else {
        for problem in &found {
            let word = problem.severity.as_str();
            output::line(format!("{word}: {}", located(problem)));
        }
        let tools = snapshot.entries().len();
        let warnings = found.iter().filter(|problem| problem.severity == Severity::Warning).count();
        let prompts = match yard.shelf.packs().len() {
            0 => String::new(),
            prompts => format!(" and {prompts} prompt(s)"),
        };
        output::line(format!("{tools} tool(s){prompts} loaded, {errors} error(s), {warnings} warning(s)"));
    }
    Ok(if errors == 0 { 0 } else { ErrorKind::InvalidInput.row().exit })
}
