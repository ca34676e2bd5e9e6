//! `toolyard check`: checks every file of the yard and reports all problems.

use super::list::format_problem;
use crate::output;
use crate::wiring::{GlobalOptions, Yard};
use toolyard_engine::Severity;
use toolyard_formats::json;
use toolyard_protocol::{Error, ErrorKind};

/// Check every file of the yard and report all problems
#[derive(clap::Args)]
pub struct Args {}

pub fn run(_: Args, global: GlobalOptions) -> Result<u8, Error> {
    let yard = Yard::look_at_files(&global)?;
    let snapshot = yard.load();
    let found = [snapshot.problems(), &yard.resource_setup().check()].concat();
    let errors = found.iter().filter(|problem| problem.severity == Severity::Error).count();
    if global.json {
        output::data(json::objects(&found, |object, problem| {
            object.text("file", &problem.source).text("severity", problem.severity.as_str());
            if let Some((line, column)) = problem.position {
                object.number("line", line.into()).number("column", column.into());
            }
            object.text("message", &problem.message).text_or_null("hint", problem.hint.as_deref());
        }));
    } else {
        for problem in &found {
            let word = problem.severity.as_str();
            output::line(format!("{word}: {}", format_problem(problem)));
        }
        let tools = snapshot.entries().len();
        let warnings = found.iter().filter(|problem| problem.severity == Severity::Warning).count();
        let prompts = match yard.prompts.packs().len() {
            0 => String::new(),
            prompts => format!(" and {prompts} prompt(s)"),
        };
        output::line(format!("{tools} tool(s){prompts} loaded, {errors} error(s), {warnings} warning(s)"));
    }
    Ok(if errors == 0 { 0 } else { ErrorKind::InvalidInput.row().exit })
}
