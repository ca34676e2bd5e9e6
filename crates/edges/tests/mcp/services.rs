//! A few resources and prompts, with changes that a test can trigger.

use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use toolyard_engine::resources::not_found;
use toolyard_engine::{Prompts, RequestContext, RequestFuture, ResourceChange, Resources, WatchGuard};
use toolyard_protocol::{
    Body, CachePolicy, Completion, CompletionRequest, Error, ErrorKind, InputRequest, InputRequestBody, Page,
    Payload, Prompt, PromptArgument, ReadResult, RenderedPrompt, Resource, ResourceContents,
    ResourceTemplate,
};

pub struct TestResources {
    changes: broadcast::Sender<ResourceChange>,
    notes: Mutex<Vec<ResourceContents>>,
}

impl Default for TestResources {
    fn default() -> TestResources {
        TestResources { changes: broadcast::Sender::new(16), notes: Mutex::default() }
    }
}

impl TestResources {
    pub fn touch(&self, uri: &str) {
        let _ = self.changes.send(ResourceChange::Updated(uri.into()));
    }

    fn find(&self, uri: &str) -> Option<ResourceContents> {
        let part = |mime: &str, body| ResourceContents {
            uri: uri.into(),
            mime: Some(mime.into()),
            body,
            meta: None,
        };
        if let Some(note) = self.notes.lock().unwrap().iter().find(|note| note.uri == uri) {
            return Some(note.clone());
        }
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        match (uri, id) {
            ("test://static-text", _) => Some(part(
                "text/plain",
                Body::Text("This is the content of the static text resource.".into()),
            )),
            ("test://static-binary", _) => {
                Some(part("image/png", Body::Blob(b"\x89PNG\r\n".to_vec().into())))
            }
            ("test://watched-resource", _) => Some(part("text/plain", Body::Text("watched".into()))),
            (_, Some(id)) => {
                let text = format!(r#"{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}"#);
                Some(part("application/json", Body::Text(text)))
            }
            _ => None,
        }
    }
}

fn ready<'a, T: Send + 'a>(value: Result<T, Error>) -> RequestFuture<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Resources for TestResources {
    fn list<'a>(
        &'a self,
        cursor: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<Resource>> {
        let resource = |name: &str, mime: &str| Resource {
            uri: format!("test://{name}"),
            name: name.into(),
            mime: Some(mime.into()),
            ..Resource::default()
        };
        let cache_policy = CachePolicy { ttl: Duration::from_secs(60), shared: true };
        ready(match cursor {
            None => Ok(Page {
                items: vec![resource("static-text", "text/plain"), resource("static-binary", "image/png")],
                next: Some("two".into()),
                cache_policy,
            }),
            Some("two") => {
                Ok(Page { items: vec![resource("watched-resource", "text/plain")], next: None, cache_policy })
            }
            Some(_) => Err(Error::new(ErrorKind::InvalidInput, "unknown cursor")),
        })
    }

    fn templates<'a>(
        &'a self,
        _: Option<&'a str>,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Page<ResourceTemplate>> {
        ready(Ok(Page::whole(vec![ResourceTemplate {
            uri_template: "test://template/{id}/data".into(),
            name: "template".into(),
            mime: Some("application/json".into()),
            ..ResourceTemplate::default()
        }])))
    }

    fn read<'a>(&'a self, uri: &'a str, context: RequestContext<'a>) -> RequestFuture<'a, ReadResult> {
        Box::pin(async move {
            if uri == "test://asking" {
                let params = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
                let body = InputRequestBody::Elicit(Payload::json(params));
                let answer = context.caller.request_input(InputRequest { key: "what".into(), body }).await?;
                let text = String::from_utf8(answer.0.bytes().to_vec()).unwrap();
                let part =
                    ResourceContents { uri: uri.into(), mime: None, body: Body::Text(text), meta: None };
                return Ok(ReadResult { parts: vec![part], cache_policy: CachePolicy::default() });
            }
            let part = self.find(uri).ok_or_else(|| not_found(uri))?;
            Ok(ReadResult { parts: vec![part], cache_policy: CachePolicy::default() })
        })
    }

    fn write<'a>(&'a self, part: ResourceContents, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        if !part.uri.starts_with("note://") {
            return ready(Err(Error::new(ErrorKind::Forbidden, "only notes may be written")));
        }
        let mut notes = self.notes.lock().unwrap();
        notes.retain(|note| note.uri != part.uri);
        notes.push(part);
        let _ = self.changes.send(ResourceChange::List);
        ready(Ok(()))
    }

    fn delete<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, ()> {
        let mut notes = self.notes.lock().unwrap();
        let before = notes.len();
        notes.retain(|note| note.uri != uri);
        ready(if notes.len() < before { Ok(()) } else { Err(not_found(uri)) })
    }

    fn complete<'a>(
        &'a self,
        uri: &'a str,
        completing: CompletionRequest,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        if uri != "test://template/{id}/data" {
            return ready(Err(not_found(uri)));
        }
        let values = (0..150).map(|n| format!("{}{n}", completing.value)).collect();
        ready(Ok(Completion { values, total: None }))
    }

    fn watch<'a>(&'a self, uri: &'a str, _: RequestContext<'a>) -> RequestFuture<'a, WatchGuard> {
        ready(self.find(uri).map(|_| WatchGuard(Box::new(()))).ok_or_else(|| not_found(uri)))
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.changes.subscribe()
    }
}

pub struct TestPrompts {
    changes: watch::Sender<u64>,
}

impl Default for TestPrompts {
    fn default() -> TestPrompts {
        TestPrompts { changes: watch::Sender::new(0) }
    }
}

impl TestPrompts {
    pub fn touch(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Prompts for TestPrompts {
    fn list<'a>(&'a self, _: Option<&'a str>, _: RequestContext<'a>) -> RequestFuture<'a, Page<Prompt>> {
        let argument = |name: &str| PromptArgument {
            name: name.into(),
            description: Some(format!("The {name}")),
            required: true,
            title: None,
        };
        let prompt = |name: &str, arguments| Prompt {
            name: name.into(),
            description: Some("A test prompt".into()),
            arguments,
            ..Prompt::default()
        };
        ready(Ok(Page::whole(vec![
            prompt("test_simple_prompt", vec![]),
            prompt("test_prompt_with_arguments", vec![argument("arg1"), argument("arg2")]),
            prompt("test_prompt_with_embedded_resource", vec![argument("resourceUri")]),
            prompt("test_prompt_with_image", vec![]),
            prompt("test_input_required_result_prompt", vec![]),
        ])))
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        arguments: Payload,
        context: RequestContext<'a>,
    ) -> RequestFuture<'a, RenderedPrompt> {
        Box::pin(async move {
            let arguments: serde_json::Value = serde_json::from_slice(arguments.bytes()).unwrap();
            let content = match name {
                "test_simple_prompt" => {
                    serde_json::json!({"type": "text", "text": "This is a simple prompt for testing."})
                }
                "test_prompt_with_arguments" => {
                    let (first, second) = (&arguments["arg1"], &arguments["arg2"]);
                    let (Some(first), Some(second)) = (first.as_str(), second.as_str()) else {
                        return Err(Error::new(ErrorKind::InvalidInput, "arg1 and arg2 are needed"));
                    };
                    let text = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
                    serde_json::json!({"type": "text", "text": text})
                }
                "test_prompt_with_embedded_resource" => serde_json::json!({"type": "resource", "resource":
                    {"uri": arguments["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content for testing."}}),
                "test_prompt_with_image" => {
                    serde_json::json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"})
                }
                "test_input_required_result_prompt" => {
                    let params = serde_json::json!({"message": "What context should the prompt use?",
                        "requestedSchema": {"type": "object", "properties": {"context": {"type": "string"}}, "required": ["context"]}});
                    let body = InputRequestBody::Elicit(Payload::json(params.to_string()));
                    let answer = context
                        .caller
                        .request_input(InputRequest { key: "user_context".into(), body })
                        .await?;
                    let answer: serde_json::Value = serde_json::from_slice(answer.0.bytes()).unwrap();
                    serde_json::json!({"type": "text", "text": answer["content"]["context"].to_string()})
                }
                _ => return Err(toolyard_engine::prompts::prompt_not_found(name)),
            };
            let messages = serde_json::json!([{"role": "user", "content": content}]).to_string();
            Ok(RenderedPrompt { description: None, messages: Payload::json(messages) })
        })
    }

    fn complete<'a>(
        &'a self,
        name: &'a str,
        completing: CompletionRequest,
        _: RequestContext<'a>,
    ) -> RequestFuture<'a, Completion> {
        if name != "test_prompt_with_arguments" {
            return ready(Err(toolyard_engine::prompts::prompt_not_found(name)));
        }
        let known: serde_json::Value = serde_json::from_slice(completing.known.bytes()).unwrap();
        let more = known["arg2"].as_str().unwrap_or("one");
        ready(Ok(Completion { values: vec![format!("{}-{more}", completing.value)], total: None }))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
