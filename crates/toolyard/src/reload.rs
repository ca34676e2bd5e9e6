//! Reloads the tools and the configuration of a running engine when files of the yard change, and logs it.

use crate::commands::list::format_problem;
use crate::commands::prepare::prepare;
use crate::live_config::ConfigReload;
use crate::log;
use crate::wiring::Yard;
use std::sync::Arc;
use toolyard_engine::{Engine, SourceProblem};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_yard::{WatchEvent, WatchOptions, Watcher};
use tracing::{info, warn};

/// Reloads until the watcher is dropped.
pub fn watch(yard: &Yard, engine: &Arc<Engine>) -> Result<Watcher, Error> {
    let (ignore, config) = (Some(yard.state.clone()), Some(yard.source.file()));
    let options = WatchOptions { ignore, config, ..WatchOptions::default() };
    let (mut config, engine, prompts) =
        (ConfigReload::new(yard, engine), engine.clone(), yard.prompts.clone());
    let runtime = tokio::runtime::Handle::current();
    let watcher = Watcher::start(yard.loader.clone(), options, move |event| match event {
        WatchEvent::Loading => config.read(),
        WatchEvent::Loaded(loaded) => {
            if prompts.update(loaded.packs.clone()) {
                info!(target: "toolyard", prompts = loaded.packs.len(), "reloaded");
            }
            let changes = engine.registry.update(loaded.prepend(config.builtins.clone()).into_snapshot());
            if !changes.is_empty() {
                info!(target: "toolyard", "reloaded: {changes}");
                print_problems(&changes.problems);
                let snapshot = engine.registry.snapshot();
                runtime.spawn(async move { prepare(&snapshot, false).await });
            }
            config.report();
        }
        WatchEvent::Polling(reason) => {
            warn!(target: "toolyard", "{reason}; checking for changes every half second")
        }
    });
    watcher.map_err(|error| Error::new(ErrorKind::Internal, format!("the yard cannot be watched: {error}")))
}

/// One line per problem, in the log if there is one.
pub fn print_problems(problems: &[SourceProblem]) {
    for problem in problems {
        log::problem(problem.severity, &format_problem(problem));
    }
}
