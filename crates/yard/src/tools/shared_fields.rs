//! Reads and checks the fields that both file formats share.

use super::sandbox;
use super::secrets;
use super::tool_reader::FileContext;
use std::time::Duration;
use toolyard_formats::doc::{Fields, Node, Value};
use toolyard_protocol::secret::VARIABLE_PREFIX;
use toolyard_protocol::{
    About, Annotations, Behavior, Example, Expect, Guarded, Payload, Rate, Retry, Timing, Version,
};
use toolyard_runtimes::sandbox_builder::SandboxRequest;
use toolyard_runtimes::secrets::SecretBinding;

/// The longest a tool may be allowed to run: a day.
pub const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1000;
/// The largest limit for input or output, which are held in memory.
pub const MAX_BYTES: u64 = 1 << 30;

/// The fields that do not depend on the tool's kind.
pub struct SharedFields {
    pub about: About,
    pub annotations: Annotations,
    pub behavior: Behavior,
    pub timing: Timing,
    pub examples: Vec<Example>,
    pub enabled: bool,
    /// Names of host variables to pass on.
    pub env: Vec<String>,
    pub sandbox_request: SandboxRequest,
    pub secrets: Vec<SecretBinding>,
}

/// `title_field` is `title` in packs and `name` in manifests.
pub fn read(
    fields: &mut Fields<'_>,
    title_field: &'static str,
    mut sandbox_request: SandboxRequest,
    context: &FileContext<'_>,
) -> SharedFields {
    sandbox::read(&mut sandbox_request, fields, context);
    let about = About {
        title: fields.text(title_field).map(str::to_owned),
        description: fields.text("description").map(str::to_owned),
        version: version(fields),
        categories: Vec::new(),
    };
    let annotations = annotations(fields);
    let (behavior, timing) = (behavior(fields, &annotations), timing(fields));
    check_attached(fields, &behavior, timing);
    SharedFields {
        about,
        annotations,
        behavior,
        timing,
        examples: examples(fields),
        enabled: fields.bool("enabled").unwrap_or(true),
        env: Vec::new(),
        sandbox_request,
        secrets: secrets::read(fields),
    }
}

fn version(fields: &mut Fields<'_>) -> Option<Version> {
    let node = fields.take("version")?;
    let Value::Text(text) = &node.value else {
        return fields.wrong(node, "version", "a string such as \"1.2.3\", in quotes");
    };
    let version = Version::parse(text);
    if version.is_none() {
        fields.problem(
            node.position,
            format!("'version' {text:?} is not a semantic version"),
            "write it as \"1.2.3\"",
        );
    }
    version
}

fn annotations(fields: &mut Fields<'_>) -> Annotations {
    let Some(mut map) = fields.map("annotations") else { return Annotations::default() };
    let annotations = Annotations {
        read_only: map.bool("readOnlyHint"),
        destructive: map.bool("destructiveHint"),
        idempotent: map.bool("idempotentHint"),
        open_world: map.bool("openWorldHint"),
    };
    fields.close(map);
    annotations
}

fn behavior(fields: &mut Fields<'_>, annotations: &Annotations) -> Behavior {
    let behavior = Behavior {
        deterministic: fields.bool("deterministic").unwrap_or(false),
        dialog: fields.bool("dialog").unwrap_or(false),
        attached: fields.bool("attached").unwrap_or(false),
        context: fields.bool("context").unwrap_or(false),
        concurrency: fields.integer("concurrency", 1..=10_000).map(|calls| calls as usize),
        rate: rate(fields),
        retry: retry(fields, annotations),
        guarded: fields.bool("guarded").unwrap_or(false).then_some(Guarded::Declared),
    };
    if behavior.deterministic && behavior.dialog {
        fields.problem(
            fields.position,
            "'deterministic' and 'dialog' exclude each other: a cached or shared result cannot ask questions",
            "remove one of the two",
        );
    }
    behavior
}

/// Only a job with a dialog can say when it detaches from its caller.
fn check_attached(fields: &mut Fields<'_>, behavior: &Behavior, timing: Timing) {
    let waits = matches!(timing, Timing::AsyncShort | Timing::AsyncMedium | Timing::AsyncLong);
    if behavior.attached && !(behavior.dialog && waits) {
        let what = "'attached' has no effect without 'dialog: true' and a timing async_short, async_medium or async_long";
        fields.problem(fields.position, what, "add both, or remove 'attached'");
    }
}

fn timing(fields: &mut Fields<'_>) -> Timing {
    let Some((text, position)) = fields.text_with_position("timing") else { return Timing::Sync };
    Timing::parse(text).unwrap_or_else(|| {
        let hint = "write sync, async_short, async_medium, async_long or fire_and_forget";
        fields.problem(position, format!("'timing' {text:?} is not known"), hint);
        Timing::Sync
    })
}

fn rate(fields: &mut Fields<'_>) -> Option<Rate> {
    let mut map = fields.map("rateLimit")?;
    let position = map.position;
    let calls = map.integer("calls", 1..=1_000_000);
    let per = map.integer("perMs", 1..=MAX_TIMEOUT_MS);
    fields.close(map);
    match (calls, per) {
        (Some(calls), Some(per)) => Some(Rate { calls: calls as u32, per: Duration::from_millis(per) }),
        _ => {
            fields.problem(
                position,
                "'rateLimit' needs 'calls' and 'perMs'",
                "for example rateLimit: {calls: 10, perMs: 1000}",
            );
            None
        }
    }
}

/// Only a tool that is safe to repeat may declare it.
fn retry(fields: &mut Fields<'_>, annotations: &Annotations) -> Option<Retry> {
    let mut map = fields.map("retry")?;
    let position = map.position;
    let attempts = map.integer("attempts", 2..=10);
    let backoff = map.integer("backoffMs", 0..=60_000).unwrap_or(200);
    fields.close(map);
    if !annotations.is_safe_to_repeat() {
        let hint = "declare annotations: {idempotentHint: true} or {readOnlyHint: true} if it is";
        fields.problem(
            position,
            "'retry' would run the tool twice, but the tool is not declared safe to repeat",
            hint,
        );
        return None;
    }
    let Some(attempts) = attempts else {
        fields.problem(
            position,
            "'retry' needs 'attempts', from 2 to 10",
            "for example retry: {attempts: 3, backoffMs: 200}",
        );
        return None;
    };
    Some(Retry { attempts: attempts as u32, backoff: Duration::from_millis(backoff) })
}

fn examples(fields: &mut Fields<'_>) -> Vec<Example> {
    let Some(node) = fields.take("examples") else { return Vec::new() };
    let Value::List(items) = &node.value else {
        return fields.wrong(node, "examples", "a list").unwrap_or_default();
    };
    items.iter().filter_map(|item| example(fields, item)).collect()
}

fn example(fields: &mut Fields<'_>, item: &Node) -> Option<Example> {
    let mut map = Fields::open(item, "examples").map_err(|problem| fields.problems.push(problem)).ok()?;
    let name = map.text("name").map(str::to_owned);
    let input = map.take("input").map_or_else(|| Payload::json("{}"), |node| Payload::json(node.to_json()));
    let output = map.take("output");
    let error = map.text("error");
    let expect = match (output, error) {
        (Some(_), Some(_)) => {
            map.problem(item.position, "an example has 'output' or 'error', not both", "remove one of them");
            Expect::Success
        }
        (Some(node), None) => Expect::Output(Payload::json(node.to_json())),
        (None, Some(code)) => Expect::Error(code.to_owned()),
        (None, None) => Expect::Success,
    };
    fields.close(map);
    Some(Example { name, input, expect })
}

/// Names of variables to pass on.
pub fn env(fields: &mut Fields<'_>, name: &'static str) -> Vec<String> {
    let names = fields.texts(name).unwrap_or_default();
    let mut env = Vec::with_capacity(names.len());
    for (text, position) in names {
        if text.is_empty() || text.contains(['=', '\0']) {
            fields.problem(
                position,
                format!("'{name}' lists {text:?}, which is not a variable name"),
                "list names only, without values",
            );
        } else if text == "TOOLYARD_TOKEN" {
            fields.problem(
                position,
                format!("'{name}' lists {text}, which gives the rights of the yard's owner"),
                "remove it; a tool cannot have the token",
            );
        } else if text.starts_with(VARIABLE_PREFIX) {
            fields.problem(
                position,
                format!("'{name}' lists {text}, which holds a secret"),
                "declare it: secrets: {VARIABLE: \"secret:name\"}",
            );
        } else {
            env.push(text.to_owned());
        }
    }
    env
}

/// A limit in milliseconds, or the default.
pub fn timeout(fields: &mut Fields<'_>, name: &'static str, default: Duration) -> Duration {
    fields.integer(name, 1..=MAX_TIMEOUT_MS).map_or(default, Duration::from_millis)
}

/// The default time limit of a run: as long as its caller waits, or an hour when none does.
pub fn default_timeout(timing: Timing, configured: Duration) -> Duration {
    match timing {
        Timing::Sync | Timing::AsyncShort => configured,
        Timing::AsyncMedium => configured.max(Duration::from_secs(120)),
        Timing::AsyncLong | Timing::FireAndForget => configured.max(Duration::from_secs(3600)),
    }
}

/// A limit in bytes, or the default.
pub fn bytes(fields: &mut Fields<'_>, name: &'static str, default: usize) -> usize {
    fields.integer(name, 1..=MAX_BYTES).map_or(default, |value| value as usize)
}
