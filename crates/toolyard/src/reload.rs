//! Reloads the tools of a running engine when files of the yard change, and reports it on stderr.

use crate::commands::list::format_problem;
use crate::commands::prepare::prepare;
use crate::output;
use crate::wiring::Yard;
use std::sync::Arc;
use toolyard_engine::{Changes, Engine, SourceProblem};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_yard::{WatchEvent, WatchOptions, Watcher};

/// Reloads until the watcher is dropped.
pub fn watch(yard: &Yard, engine: &Arc<Engine>) -> Result<Watcher, Error> {
    let options = WatchOptions { ignore: Some(yard.state.clone()), ..WatchOptions::default() };
    let engine = engine.clone();
    let (builtins, prompts) = (yard.builtins.clone(), yard.prompts.clone());
    let runtime = tokio::runtime::Handle::current();
    let watcher = Watcher::start(yard.loader.clone(), options, move |event| match event {
        WatchEvent::Loaded(loaded) => {
            if prompts.update(loaded.packs.clone()) {
                output::note(format!("reloaded: {} prompt(s)", loaded.packs.len()));
            }
            print_changes(&engine.registry.update(loaded.prepend(builtins.clone()).into_snapshot()));
            let snapshot = engine.registry.snapshot();
            runtime.spawn(async move { prepare(&snapshot, false).await });
        }
        WatchEvent::Polling(reason) => {
            output::note(format!("warning: {reason}; checking for changes every half second"))
        }
    });
    watcher.map_err(|error| Error::new(ErrorKind::Internal, format!("the yard cannot be watched: {error}")))
}

fn print_changes(changes: &Changes) {
    if !changes.is_empty() {
        output::note(format!("reloaded: {changes}"));
        print_problems(&changes.problems);
    }
}

/// One line per problem.
pub fn print_problems(problems: &[SourceProblem]) {
    for problem in problems {
        let word = problem.severity.as_str();
        output::note(format!("{word}: {}", format_problem(problem)));
    }
}
