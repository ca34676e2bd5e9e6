//! Artifacts, jobs and tools as resources.

use super::{Session, addresses, ask, listen, text};
use crate::support::{Kind, Yard};
use serde_json::{Value, json};

#[test]
fn artifacts_jobs_and_tools_are_resources_where_their_built_in_tools_are_enabled() {
    let yard = Yard::new();
    yard.shell(Kind::Cli, "quick", "echo 1");
    assert_eq!(yard.run(&["resource", "list", "--json"]).expect(0).json()["resources"], json!([]));
    let gone = yard.run(&["resource", "read", "tool://tools.quick"]).expect(4);
    assert!(gone.stderr.contains("there is no resource 'tool://tools.quick'"), "{gone:?}");
    yard.file("toolyard.toml", "[builtin]\ntools = true\njobs = true\nartifacts = true\n")
        .file("song.txt", "la la");
    let (_, made) = yard.call(
        "artifact.upload",
        &json!({"file_path": "song.txt", "mime_type": "text/plain", "tags": ["demo"]}),
    );
    let artifact = format!("artifact://{}", made["data"]["artifact_id"].as_str().unwrap());
    let mut session = Session::start(&yard);
    let read = session.ask("resources/read", json!({"uri": artifact}));
    assert_eq!((text(&read), &read["result"]["contents"][0]["mimeType"]), ("la la", &json!("text/plain")));
    let spec: Value =
        serde_json::from_str(text(&session.ask("resources/read", json!({"uri": "tool://tools.quick"}))))
            .unwrap();
    assert_eq!((&spec["exposed"], &spec["kind"]), (&json!("quick"), &json!("cli")));
    let listed = session.ask("resources/list", json!({}));
    let all = addresses(&listed);
    let job =
        all.iter().find(|uri| uri.starts_with("job://")).unwrap_or_else(|| panic!("{all:?}")).to_string();
    assert!(all.contains(&artifact.as_str()) && all.contains(&"tool://tools.quick"), "{all:?}");
    let job: Value = serde_json::from_str(text(&session.ask("resources/read", json!({"uri": job})))).unwrap();
    assert_eq!(
        (&job["tool"], &job["state"], &job["outcome"]["status"]),
        (&json!("artifact.upload"), &json!("complete"), &json!("success"))
    );
    for uri in
        ["job://01890a5d-ac96-774b-bcce-b302099a8057", "artifact://x", "tool://none", "job://", "artifact:"]
    {
        let answer = session.ask("resources/read", json!({"uri": uri}));
        assert_eq!(answer["error"]["code"], -32002, "{uri}: {answer}");
    }
    let refused = session.ask("resources/delete", json!({"uri": artifact}));
    assert!(
        refused["error"]["message"].as_str().unwrap().contains("cannot be written or deleted"),
        "{refused}"
    );
    // A changed tool is an updated resource.
    assert_eq!(session.ask("resources/subscribe", json!({"uri": "tool://tools.quick"}))["result"], json!({}));
    yard.tool(Kind::Cli, "quick", &["echo", "2"], json!({"description": "now with words"}));
    let updated = wait_for_notification(&mut session, "notifications/resources/updated");
    assert_eq!(updated["params"]["uri"], "tool://tools.quick");
}

fn wait_for_notification(session: &mut Session, method: &str) -> Value {
    loop {
        let notification = session.notification();
        if notification["method"] == method {
            return notification;
        }
    }
}

#[test]
fn the_end_of_a_job_is_sent_to_its_subscriber() {
    let yard = Yard::new();
    yard.file("toolyard.toml", "[builtin]\njobs = true\n");
    yard.tool(
        Kind::Cli,
        "slow",
        &["sh", "-c", "while ! test -e go; do sleep 0.05; done; echo 5"],
        json!({"timing": "AsyncLong", "sandbox": "none"}),
    );
    let server = yard.serve();
    let mut client = server.client();
    client
        .write(
            "POST",
            "/v1/tools/slow",
            &[("prefer", "respond-async"), ("content-type", "application/json")],
            b"{}",
        )
        .unwrap();
    let started = client.read().unwrap().json();
    let id = started["job"]["id"].as_str().or(started["meta"]["job"]["id"].as_str()).map(str::to_owned);
    let id = id.unwrap_or_else(|| {
        let jobs = server.get("/v1/jobs").json();
        jobs["jobs"][0]["job_id"].as_str().unwrap_or_else(|| panic!("{started} {jobs}")).to_owned()
    });
    let uri = format!("job://{id}");
    let filter = json!({"notifications": {"resourceSubscriptions": [uri]}});
    let (mut listener, _) = listen(&server, filter);
    yard.file("go", "");
    let notification = listener.event().unwrap();
    assert_eq!(notification["params"]["uri"], uri.as_str(), "{notification}");
    let job: Value =
        serde_json::from_str(text(&ask(&mut client, "resources/read", json!({"uri": uri})))).unwrap();
    assert_eq!(job["state"], "complete", "{job}");
}
