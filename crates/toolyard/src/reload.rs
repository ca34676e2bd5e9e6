//! Keeps a running engine's tools as the yard's files are, and says so on stderr.

use crate::commands::list::located;
use crate::commands::prepare::prepare;
use crate::output;
use crate::wiring::Yard;
use std::sync::Arc;
use toolyard_engine::{Changes, Engine, SourceProblem};
use toolyard_protocol::{Error, ErrorKind};
use toolyard_runtimes::{Seen, WatchOptions, Watcher};

/// Reloads until the watcher is dropped.
pub fn watch(yard: &Yard, engine: &Arc<Engine>) -> Result<Watcher, Error> {
    let options = WatchOptions { ignore: Some(yard.state.clone()), ..WatchOptions::default() };
    let engine = engine.clone();
    let (builtins, shelf) = (yard.builtins.clone(), yard.shelf.clone());
    let runtime = tokio::runtime::Handle::current();
    let watcher = Watcher::start(yard.loader.clone(), options, move |seen| match seen {
        Seen::Loaded(loaded) => {
            if shelf.update(loaded.packs.clone()) {
                output::note(format!("reloaded: {} prompt(s)", loaded.packs.len()));
            }
            announce(&engine.registry.update(loaded.after(builtins.clone()).into_snapshot()));
            let snapshot = engine.registry.snapshot();
            runtime.spawn(async move { prepare(&snapshot, false).await });
        }
        Seen::Polling(reason) => {
            output::note(format!("warning: {reason}; looking for changes every half second"))
        }
    });
    watcher.map_err(|error| Error::new(ErrorKind::Internal, format!("the yard cannot be watched: {error}")))
}

/// The place to tell clients from, too, that the list of tools is another one.
fn announce(changes: &Changes) {
    if !changes.is_empty() {
        output::note(format!("reloaded: {changes}"));
        tell(&changes.problems);
    }
}

/// One line per problem.
pub fn tell(problems: &[SourceProblem]) {
    for problem in problems {
        let word = problem.severity.as_str();
        output::note(format!("{word}: {}", located(problem)));
    }
}
