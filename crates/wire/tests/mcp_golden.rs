//! Golden tests of the messages of each MCP revision. `UPDATE_GOLDEN=1` rewrites the golden files.
#![allow(clippy::unwrap_used, reason = "a test states what it expects")]

use std::fmt::Write;
use std::time::Duration;
use toolyard_protocol::{
    About, Annotations, Behavior, Body, CachePolicy, Completion, Digest, Error, ErrorKind, ExposedName,
    Extra, Id, Identity, InputRequest, InputRequestBody, Job, JobState, Limits, LogLevel, LogLine, Outcome,
    Page, Payload, Progress, Prompt, PromptArgument, PromptPack, PromptSource, ReadResult, RenderedPrompt,
    Resource, ResourceContents, ResourceTemplate, RpcError, Sandbox, Status, Timestamp, Timing, ToolName,
    ToolSpec, Violation,
};
use toolyard_wire::framed_dialect;
use toolyard_wire::jsonrpc::RequestId;
use toolyard_wire::mcp::failure::Failure;
use toolyard_wire::mcp::initialize::{Dialect, Handshake, ServerCapabilities};
use toolyard_wire::mcp::listen::Filter;
use toolyard_wire::mcp::meta::ClientCapabilities;
use toolyard_wire::mcp::tasks::TaskView;
use toolyard_wire::mcp::{
    Revision, completion, initialize, input_requests, listen, lists, notifications, prompts, resources,
    result, tasks, tools, v1,
};

#[test]
fn every_revision_matches_its_golden_file() {
    for revision in Revision::ALL {
        compare(&format!("mcp-{}", revision.as_str()), messages(revision));
    }
}

#[test]
fn the_other_dialects_match_their_golden_files() {
    compare("mcp-1.0", v1_dialect());
    compare("content-length", framed_dialect());
}

fn compare(name: &str, messages: Vec<(&'static str, Vec<u8>)>) {
    let mut page = String::new();
    for (name, message) in messages {
        let text = String::from_utf8(message).unwrap();
        assert_eq!(text.lines().count(), 1, "{name} is not one line");
        serde_json::from_str::<serde_json::Value>(&text).unwrap();
        writeln!(page, "{name}\n    {text}").unwrap();
    }
    let file = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let golden = std::fs::read_to_string(&file).unwrap_or_default();
    for (found, expected) in page.lines().zip(golden.lines()) {
        assert_eq!(found, expected, "{name}; UPDATE_GOLDEN=1 rewrites it");
    }
    assert_eq!(page.lines().count(), golden.lines().count(), "{name}");
}

/// Protocol version 1.0.
fn v1_dialect() -> Vec<(&'static str, Vec<u8>)> {
    let id = RequestId::parse(b"\"m\"").unwrap();
    let server_capabilities = ServerCapabilities { resources: true, prompts: false, tasks: true };
    let v1 = Handshake { dialect: Dialect::V1 { notifications: true }, ..handshake(v1::REVISION) };
    let mut all = vec![(
        "initialize",
        initialize::write_initialize_result(&RequestId::none(), &v1, server_capabilities),
    )];
    let push = |out: &mut Vec<u8>, spec: &ToolSpec| tools::push_tool(out, spec, v1::REVISION);
    all.push(("tools/list", v1::write_list(&id, &[spec(true), spec(false)], push)));
    all.push(("empty list", v1::write_list(&id, &[], push)));
    for (name, outcome) in outcomes() {
        all.push((name, v1::write_outcome(&id, &outcome)));
    }
    let part =
        |body| ResourceContents { uri: "file:///a/b".into(), mime: Some("x/y".into()), body, meta: None };
    let text = ReadResult { parts: vec![part(Body::Text("hi".into()))], cache_policy: cache_policy() };
    let both = ReadResult {
        parts: vec![part(Body::Text("hi".into())), part(Body::Blob(b"\x00\xff".to_vec().into()))],
        cache_policy: cache_policy(),
    };
    all.push(("resources/read", v1::write_read_result(&id, "file:///a/b", &text)));
    all.push(("resources/read of several", v1::write_read_result(&id, "file:///a", &both)));
    let subject = v1::ResourceRef { uri: "file:///a/b".into(), name: "b".into() };
    for (name, done) in [
        ("resources/write", v1::ResourceAction::Written),
        ("resources/delete", v1::ResourceAction::Deleted),
        ("resources/subscribe", v1::ResourceAction::Subscribed),
        ("unsubscribed", v1::ResourceAction::Unsubscribed),
    ] {
        all.push((name, v1::write_action_result(&id, &subject, done)));
    }
    let gone = Error::new(ErrorKind::ResourceNotFound, "there is no resource 'file:///a/b'");
    all.push(("updated", v1::updated(&id, "file:///a/b", &Ok(text))));
    all.push(("updated to nothing", v1::updated(&id, "file:///a/b", &Err(gone))));
    all
}

/// The framed dialect without its headers.
fn framed_dialect() -> Vec<(&'static str, Vec<u8>)> {
    let id = RequestId::number(1);
    let mut all = Vec::new();
    for (name, outcome) in outcomes() {
        all.push((name, framed_dialect::write_response(&id, &outcome)));
    }
    for (name, kind) in [("timeout", ErrorKind::Timeout), ("over a limit", ErrorKind::OutputTooLarge)] {
        all.push((name, framed_dialect::write_response(&id, &Outcome::failure(Error::new(kind, "no")))));
    }
    let prompt = PromptSource {
        body: Some("# Draft\n{{ input.topic }}".into()),
        description: Some("d".into()),
        inputs: Some(Payload::json(r#"{"type":"object"}"#)),
        constraints: Some(Payload::json(r#"{"length":{"max_tokens":9}}"#)),
        ..PromptSource::default()
    };
    all.push(("prompt", framed_dialect::write_prompt(&prompt)));
    all.push(("prompt without a text", framed_dialect::write_prompt(&PromptSource::default())));
    let versions = vec![(1, None), (3, Some("newer".to_owned()))];
    let packs = [PromptPack { domain: "writing".into(), name: "draft".into(), versions }];
    let specs = [spec(true), spec(false)];
    let document = framed_dialect::Discovery {
        server_version: "0.1.0",
        uptime_seconds: 7,
        tools: &mut specs.iter(),
        prompts: &packs,
    };
    all.push(("discover", framed_dialect::write_discovery(document)));
    all
}

fn handshake(revision: Revision) -> Handshake {
    Handshake { revision, capabilities: ClientCapabilities::default(), dialect: Dialect::Standard }
}

fn messages(revision: Revision) -> Vec<(&'static str, Vec<u8>)> {
    let id = RequestId::number(1);
    let server_capabilities = ServerCapabilities { resources: true, prompts: true, tasks: true };
    let mut all = Vec::new();
    if revision.is_stateless() {
        all.push((
            "server/discover",
            initialize::write_discover(&id, revision, server_capabilities, cache_policy()),
        ));
    } else {
        all.push((
            "initialize",
            initialize::write_initialize_result(&id, &handshake(revision), server_capabilities),
        ));
    }
    all.push(("empty result", result::empty(&id, revision)));
    let page = Page {
        items: vec![spec(true), spec(false)],
        next: Some(lists::cursor_after("demo.b")),
        cache_policy: cache_policy(),
    };
    let list = lists::write(&id, revision, "tools", &page, |out, spec| tools::push_tool(out, spec, revision));
    all.push(("tools/list", list));
    for (name, outcome) in outcomes() {
        all.push((name, result::write_outcome(&id, &outcome, revision)));
    }
    all.extend(of_resources(&id, revision));
    all.extend(of_prompts(&id, revision));
    all.extend(conversation(&id, revision));
    all.extend(failures(&id, revision));
    if revision.is_stateless() {
        all.extend(stateless_only(&id, revision));
    }
    all
}

fn cache_policy() -> CachePolicy {
    CachePolicy { ttl: Duration::from_secs(5), shared: true }
}

fn spec(full: bool) -> ToolSpec {
    let name = if full { "demo.a" } else { "demo.b" };
    let words =
        About { title: Some("Title".into()), description: Some("Does \"it\"".into()), ..About::default() };
    let hints = Annotations { read_only: Some(true), destructive: Some(false), ..Annotations::default() };
    ToolSpec {
        name: ToolName::parse(name).unwrap(),
        exposed: ExposedName::parse(name).unwrap(),
        kind: "cli",
        source: "x".into(),
        about: if full { words } else { About::default() },
        annotations: if full { hints } else { Annotations::default() },
        timing: Timing::Sync,
        limits: Limits { timeout: Duration::from_secs(1), input: 1, output: 1 },
        behavior: Behavior::default(),
        sandbox: Sandbox::Full,
        permissions: Default::default(),
        examples: Vec::new(),
        digest: Digest::ZERO,
        input_schema: full.then(|| Payload::json(r#"{"$schema":"s","properties":{"n":{"minimum":1e2}}}"#)),
        output_schema: Some(Payload::json(if full { r#"{"type":"object"}"# } else { r#"{"type":"array"}"# })),
    }
}

fn outcomes() -> Vec<(&'static str, Outcome)> {
    let data = |text: &'static str| Some(Payload::json(text));
    let content = Payload::json("[\n{\"type\":\"vendor\",\"x\":1.50}]");
    let violation = |pointer: &str| Violation { pointer: pointer.into(), message: "is wrong".into() };
    let invalid = Error::new(ErrorKind::InvalidInput, "the arguments do not fit").hint("look");
    let invalid = invalid.with(|details| details.violations = vec![violation("/a"), violation("/b")]);
    let mut cached = Outcome::success(data("{\"a\": 12345678901234567890}"));
    cached.meta.cached = true;
    cached.meta.call_id = Some(Id::from_parts(0, [0; 10]));
    cached.meta.warnings = vec!["old".into()];
    let own = Error::new(ErrorKind::ToolFailed, "it fell over").with(|details| {
        let data = Some(Payload::json(r#"{"why":1}"#));
        details.rpc = Some(RpcError { code: 7, message: "fell".into(), data });
    });
    let partly = Error::new(ErrorKind::ToolFailed, "half");
    let block = || Payload::json(r#"[{"type":"text","text":"no"}]"#);
    let mut noted = Outcome::success(data(r#"{"n":1}"#)).with_content(block());
    noted.meta.tool_meta =
        data(r#"{"vendor/cost": 12345678901234567890, "toolyard/call":"forged", "a":[1]}"#);
    let refused =
        Error::new(ErrorKind::ToolFailed, "no").with(|details| details.tool_details = data(r#"{"n":2}"#));
    let mut refused = Outcome::failure(refused).with_content(block());
    refused.meta.tool_meta = data(r#"{"vendor/cost":1}"#);
    vec![
        ("object", cached),
        ("array", Outcome::success(data("[1,\"é\"]"))),
        ("string", Outcome::success(data("\"hello\\n\""))),
        ("null data", Outcome::success(data("null"))),
        ("nothing", Outcome::success(None)),
        ("content of the tool's own", Outcome::success(None).with_content(content)),
        ("invalid input", Outcome::failure(invalid)),
        ("unknown tool", Outcome::failure(Error::new(ErrorKind::UnknownTool, "there is no tool 'x'"))),
        ("a JSON-RPC error of the tool's own", Outcome::failure(own)),
        ("partial success", Outcome::new(Status::PartialSuccess, data("{}"), Some(partly)).unwrap()),
        ("_meta of the tool's own", noted),
        ("structured content with isError", refused),
    ]
}

fn of_resources(id: &RequestId, revision: Revision) -> Vec<(&'static str, Vec<u8>)> {
    let resource = Resource {
        uri: "test://a".into(),
        name: "a".into(),
        title: Some("A".into()),
        description: Some("the first".into()),
        mime: Some("text/plain".into()),
        size: Some(5),
        extra: Extra {
            annotations: Some(Payload::json(r#"{"priority":1}"#)),
            icons: Some(Payload::json("[]")),
            meta: Some(Payload::json(r#"{"v":1}"#)),
        },
    };
    let template = ResourceTemplate {
        uri_template: "test://{id}".into(),
        name: "t".into(),
        ..ResourceTemplate::default()
    };
    let part = |body| ResourceContents { uri: "test://a".into(), mime: Some("x/y".into()), body, meta: None };
    let parts = vec![part(Body::Text("hi".into())), part(Body::Blob(b"\x00\xff".to_vec().into()))];
    vec![
        ("resources/list", resources::write_list(id, revision, &Page::whole(vec![resource]))),
        ("resources/templates/list", resources::write_templates(id, revision, &Page::whole(vec![template]))),
        (
            "resources/read",
            resources::write_read_result(id, revision, &ReadResult { parts, cache_policy: cache_policy() }),
        ),
    ]
}

fn of_prompts(id: &RequestId, revision: Revision) -> Vec<(&'static str, Vec<u8>)> {
    let argument =
        PromptArgument { name: "n".into(), title: Some("N".into()), description: None, required: true };
    let prompt =
        Prompt { name: "p".into(), title: Some("P".into()), arguments: vec![argument], ..Prompt::default() };
    let rendered = RenderedPrompt { description: Some("d".into()), messages: Payload::json("[]") };
    let many = Completion { values: (0..101).map(|n| n.to_string()).collect(), total: None };
    let completed = completion::write(id, revision, &many);
    let shown = serde_json::from_slice::<serde_json::Value>(&completed).unwrap();
    assert_eq!(shown["result"]["completion"]["values"].as_array().unwrap().len(), 100);
    let few = Completion { values: vec!["x".into()], total: None };
    vec![
        ("prompts/list", prompts::write_list(id, revision, &Page::whole(vec![prompt]))),
        ("prompts/get", prompts::write_rendered(id, revision, &rendered)),
        ("completion/complete", completion::write(id, revision, &few)),
    ]
}

fn questions() -> Vec<InputRequest> {
    let question = |key: &str, body| InputRequest { key: key.into(), body };
    vec![
        question("form", InputRequestBody::Elicit(Payload::json(r#"{"message":"m","requestedSchema":{}}"#))),
        question(
            "page",
            InputRequestBody::ElicitUrl(Payload::json(r#"{"message":"m","url":"https://x.example/"}"#)),
        ),
        question("model", InputRequestBody::Sample(Payload::json(r#"{"messages":[],"maxTokens":1}"#))),
        question("roots", InputRequestBody::Roots),
    ]
}

fn conversation(id: &RequestId, revision: Revision) -> Vec<(&'static str, Vec<u8>)> {
    let half = Progress { done: 50.0, total: None, message: Some("half".into()) };
    let more = Progress { done: 1.5, total: Some(3.0), message: None };
    let over = Progress { done: 4.0, total: Some(3.0), message: None };
    let line =
        LogLine { level: LogLevel::Warning, logger: Some("l".into()), data: Payload::json("{\"a\":1}") };
    let mut all = vec![
        ("progress", notifications::progress(b"\"t\"", &half, revision)),
        ("progress of a total", notifications::progress(b"7", &more, revision)),
        ("progress over its total", notifications::progress(b"7", &over, revision)),
        ("log", notifications::message(&line)),
        ("list changed", notifications::list_changed(notifications::TOOLS, None)),
        ("resource updated", notifications::resource_updated("test://a", None)),
        ("cancelled", notifications::cancelled(id, "why")),
    ];
    if !revision.is_stateless() {
        let names = ["ask form", "ask page", "ask model", "ask roots"];
        let asked =
            questions().into_iter().map(|question| input_requests::write_request(id, &question, revision));
        all.extend(names.into_iter().zip(asked));
    }
    all
}

fn failures(id: &RequestId, revision: Revision) -> Vec<(&'static str, Vec<u8>)> {
    let gone = Error::new(ErrorKind::ResourceNotFound, "there is no resource 'test://x'");
    let broken = Error::new(ErrorKind::Unavailable, "down for now");
    vec![
        ("resource not found", Failure::of(&gone, revision, Some("test://x")).write(Some(id))),
        ("prompt not found", Failure::of(&gone, revision, None).write(Some(id))),
        ("unavailable", Failure::of(&broken, revision, None).write(Some(id))),
        ("unknown method", Failure::unknown_method("a\u{1b}b").write(Some(id))),
        ("unsupported version", Failure::unsupported_version("v9").write(Some(id))),
        (
            "missing capability",
            Failure::missing_capability(input_requests::required_capability(&InputRequestBody::Roots))
                .write(Some(id)),
        ),
        ("header mismatch", Failure::header_mismatch("no").write(Some(id))),
    ]
}

fn stateless_only(id: &RequestId, revision: Revision) -> Vec<(&'static str, Vec<u8>)> {
    let filter = Filter {
        tools: true,
        uris: vec!["test://a".into()],
        tasks: vec![Id::from_parts(1, [0; 10])],
        ..Filter::default()
    };
    let mut all = vec![
        ("input required", input_requests::write_input_required(id, revision, &questions(), "sealed")),
        ("acknowledged", listen::acknowledged(id, &filter)),
        ("list changed for a subscription", notifications::list_changed(notifications::TOOLS, Some(id))),
        ("end of a subscription", listen::write_end(id, revision)),
    ];
    let failed = Outcome::failure(Error::new(ErrorKind::ToolFailed, "it broke"));
    let fault = Outcome::failure(Error::new(ErrorKind::Internal, "a fault"));
    for (name, state, outcome) in [
        ("task working", JobState::Running, None),
        ("task asks", JobState::InputRequired, None),
        ("task completed", JobState::Complete, Some(Outcome::success(Some(Payload::json("{}"))))),
        ("task completed with an error of its tool", JobState::Failed, Some(failed)),
        ("task failed", JobState::Failed, Some(fault)),
        ("task cancelled", JobState::Cancelled, None),
        ("task interrupted", JobState::Unknown, None),
    ] {
        let job = job(state);
        let view = TaskView {
            job: &job,
            questions: &questions()[..1],
            outcome: outcome.as_ref(),
            ttl: Some(Duration::from_secs(60)),
            poll: Duration::from_millis(500),
        };
        if state == JobState::Running {
            all.push(("task created", tasks::write_created(id, revision, &view)));
            all.push(("task notification", tasks::notification(id, revision, &view)));
        }
        all.push((name, tasks::write_task(id, revision, &view)));
    }
    all
}

fn job(state: JobState) -> Job {
    Job {
        id: Id::from_parts(1, [0; 10]),
        tool: "demo.a".into(),
        arguments: Payload::json("{}"),
        identity: Identity::local(),
        timing: Timing::AsyncLong,
        state,
        progress: Some(Progress { done: 5.0, total: None, message: None }),
        outcome: None,
        created: Timestamp::from_unix_ms(0),
        started: Some(Timestamp::from_unix_ms(1000)),
        finished: None,
        attempt: 1,
        deaths: Vec::new(),
        repeatable: false,
        cancel_requested: false,
        key: None,
        trace: None,
        expires: None,
    }
}
