//! Tool files of both formats, loaded as in a yard, including schemas, templates, programs and limits.

use super::{Target, kind_of, target};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use toolyard_protocol::Limits;
use toolyard_runtimes::Host;
use toolyard_sandbox::Launcher;
use toolyard_yard::{Defaults, Loader, SandboxPolicy};

pub fn targets(folder: &Path) -> Result<Vec<Target>, String> {
    let limits = Limits { timeout: Duration::from_secs(5), input: 65536, output: 65536 };
    let launcher = Launcher::new(folder).map_err(|error| error.to_string())?;
    let loader = Rc::new(Loader::new(
        folder.to_owned(),
        folder.join(".toolyard"),
        Arc::new(Host::new([("PATH".into(), "/usr/bin:/bin".into())])),
        Arc::new(launcher),
        Defaults { pack: limits, manifest: limits },
        SandboxPolicy::default(),
    ));
    let reader = |path: &'static str| {
        let loader = loader.clone();
        move |input: &[u8]| {
            let problems = loader.check(Path::new(path), input);
            problems.iter().map(|problem| kind_of(&problem.message)).fold(0, u64::wrapping_add)
        }
    };
    Ok(vec![
        target("tool_yaml", reader("tools/a/b.tool.yaml")),
        target("tool_json", reader("tools/a/tool.json")),
    ])
}
