//! Jobs, artifacts and tools as resources, visible only to their caller.

use crate::fixture::Fixture;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use toolyard_engine::{RequestContext, ResourceChange, Resources};
use toolyard_protocol::{
    Body, CompletionRequest, Edge, Error, ErrorKind, Identity, NoopCaller, Payload, ResourceContents,
};
use toolyard_runtimes::builtin::Selection;
use toolyard_yard::resources::Setup;

fn resources(fixture: &Fixture, on: &Selection) -> Arc<dyn Resources> {
    let setup = Setup {
        yard: fixture.root.clone(),
        state: fixture.root.join(".toolyard"),
        roots: Vec::new(),
        max_bytes: 1 << 20,
    };
    setup.open(fixture.engine.clone(), &fixture.services, on).unwrap().resources
}

fn of(identity: &Identity) -> RequestContext<'_> {
    RequestContext { identity, edge: Edge::Mcp, trace: None, caller: &NoopCaller }
}

fn text(body: &Body) -> Value {
    match body {
        Body::Text(text) => serde_json::from_str(text).unwrap(),
        Body::Blob(bytes) => panic!("{} bytes", bytes.len()),
    }
}

#[tokio::test]
async fn jobs_of_another_caller_are_not_found() {
    let fixture = Fixture::new();
    let resources = resources(&fixture, &Selection::all());
    let (ann, bob) = (Identity::new("ann"), Identity::new("bob"));
    let job = fixture.start("ann", "job.sleep", json!({"milliseconds": 300})).await;
    let uri = format!("job://{job}");
    let mut changes = resources.changes();
    let listed = |page: toolyard_protocol::Page<toolyard_protocol::Resource>| {
        page.items.iter().any(|resource| resource.uri == uri)
    };
    assert!(listed(resources.list(None, of(&ann)).await.unwrap()));
    assert!(!listed(resources.list(None, of(&bob)).await.unwrap()));
    let completing =
        || CompletionRequest { argument: "id".into(), value: job[..8].into(), known: Payload::json("{}") };
    assert_eq!(
        resources.complete("job://{id}", completing(), of(&ann)).await.unwrap().values,
        std::slice::from_ref(&job)
    );
    assert!(resources.complete("job://{id}", completing(), of(&bob)).await.unwrap().values.is_empty());
    // Every operation fails as for an unknown job.
    let never = "job://01890a5d-ac96-774b-bcce-b302099a8057";
    let part = |uri: &str| ResourceContents {
        uri: uri.into(),
        mime: None,
        body: Body::Text("x".into()),
        meta: None,
    };
    let same = |a: Error, b: Error| {
        assert_eq!((a.kind, a.message.replace(&uri, never)), (ErrorKind::ResourceNotFound, b.message));
    };
    same(
        resources.read(&uri, of(&bob)).await.unwrap_err(),
        resources.read(never, of(&bob)).await.unwrap_err(),
    );
    // Only the owner may write or delete, whether the job exists or not.
    for uri in [uri.as_str(), never] {
        let (deleted, written) =
            (resources.delete(uri, of(&bob)).await, resources.write(part(uri), of(&bob)).await);
        assert_eq!(deleted.unwrap_err().kind, ErrorKind::Forbidden);
        assert_eq!(written.unwrap_err().kind, ErrorKind::Forbidden);
    }
    let (a, b) = (resources.watch(&uri, of(&bob)).await, resources.watch(never, of(&bob)).await);
    same(a.err().unwrap(), b.err().unwrap());
    // Its caller may watch it twice and is notified once.
    let watches =
        [resources.watch(&uri, of(&ann)).await.unwrap(), resources.watch(&uri, of(&ann)).await.unwrap()];
    let change = tokio::time::timeout(Duration::from_secs(20), changes.recv()).await.unwrap().unwrap();
    assert_eq!(change, ResourceChange::Updated(uri.as_str().into()));
    assert!(tokio::time::timeout(Duration::from_millis(300), changes.recv()).await.is_err());
    drop(watches);
    let read = resources.read(&uri, of(&ann)).await.unwrap();
    assert_eq!(text(&read.parts[0].body)["state"], "complete");
    assert_eq!(resources.write(part(&uri), of(&ann)).await.unwrap_err().kind, ErrorKind::Forbidden);
}

#[tokio::test]
async fn disabled_tools_have_no_resources() {
    let fixture = Fixture::new();
    let resources = resources(&fixture, &Selection::default());
    assert!(!resources.is_available());
    let local = Identity::local();
    let page = resources.list(None, of(&local)).await.unwrap();
    assert!(page.items.is_empty() && page.next.is_none());
    assert!(resources.templates(None, of(&local)).await.unwrap().items.is_empty());
    for uri in ["tool://yard.echo", "job://x", "artifact://x", "yard://x/y", "other://x", "nothing"] {
        assert_eq!(
            resources.read(uri, of(&local)).await.unwrap_err().kind,
            ErrorKind::ResourceNotFound,
            "{uri}"
        );
    }
}

#[tokio::test]
async fn pages_cover_every_source_without_duplicates() {
    let fixture = Fixture::new();
    fixture.file("song.txt", "la");
    for n in 0..230 {
        let tags = json!([format!("n{n}")]);
        fixture
            .ok("artifact.upload", json!({"file_path": "song.txt", "mime_type": "text/plain", "tags": tags}))
            .await;
    }
    let resources = resources(&fixture, &Selection::all());
    let (local, mut seen, mut cursor, mut pages) = (Identity::local(), Vec::new(), None::<String>, 0);
    loop {
        let page = resources.list(cursor.as_deref(), of(&local)).await.unwrap();
        seen.extend(page.items.into_iter().map(|resource| resource.uri));
        (cursor, pages) = (page.next, pages + 1);
        if cursor.is_none() {
            break;
        }
    }
    let count = |scheme: &str| seen.iter().filter(|uri| uri.starts_with(scheme)).count();
    assert_eq!((count("artifact://"), count("job://"), count("tool://")), (230, 230, 27), "{pages} pages");
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all);
}
