//! A few resources and prompts, with changes that a test can make.

use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::{broadcast, watch};
use toolyard_engine::resources::not_found;
use toolyard_engine::{Behalf, Found, Prompts, ResourceChange, Resources, Watch};
use toolyard_protocol::{
    Ask, Body, Completing, Completion, Error, ErrorKind, Filled, Keep, Page, Part, Payload, Prompt,
    PromptArgument, Question, Reading, Resource, ResourceTemplate,
};

pub struct Shelf {
    changes: broadcast::Sender<ResourceChange>,
    notes: Mutex<Vec<Part>>,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf { changes: broadcast::Sender::new(16), notes: Mutex::default() }
    }
}

impl Shelf {
    pub fn touch(&self, uri: &str) {
        let _ = self.changes.send(ResourceChange::Updated(uri.into()));
    }

    fn find(&self, uri: &str) -> Option<Part> {
        let part = |mime: &str, body| Part { uri: uri.into(), mime: Some(mime.into()), body, meta: None };
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

fn ready<'a, T: Send + 'a>(value: Result<T, Error>) -> Found<'a, T> {
    Box::pin(std::future::ready(value))
}

impl Resources for Shelf {
    fn list<'a>(&'a self, cursor: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<Resource>> {
        let resource = |name: &str, mime: &str| Resource {
            uri: format!("test://{name}"),
            name: name.into(),
            mime: Some(mime.into()),
            ..Resource::default()
        };
        let keep = Keep { ttl: Duration::from_secs(60), shared: true };
        ready(match cursor {
            None => Ok(Page {
                items: vec![resource("static-text", "text/plain"), resource("static-binary", "image/png")],
                next: Some("two".into()),
                keep,
            }),
            Some("two") => {
                Ok(Page { items: vec![resource("watched-resource", "text/plain")], next: None, keep })
            }
            Some(_) => Err(Error::new(ErrorKind::InvalidInput, "this cursor was not given out here")),
        })
    }

    fn templates<'a>(&'a self, _: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<ResourceTemplate>> {
        ready(Ok(Page::whole(vec![ResourceTemplate {
            uri_template: "test://template/{id}/data".into(),
            name: "template".into(),
            mime: Some("application/json".into()),
            ..ResourceTemplate::default()
        }])))
    }

    fn read<'a>(&'a self, uri: &'a str, behalf: Behalf<'a>) -> Found<'a, Reading> {
        Box::pin(async move {
            if uri == "test://asking" {
                let params = r#"{"message":"m","requestedSchema":{"type":"object","properties":{}}}"#;
                let body = Ask::Elicit(Payload::json(params));
                let answer = behalf.caller.ask(Question { key: "what".into(), body }).await?;
                let text = String::from_utf8(answer.0.bytes().to_vec()).unwrap();
                let part = Part { uri: uri.into(), mime: None, body: Body::Text(text), meta: None };
                return Ok(Reading { parts: vec![part], keep: Keep::default() });
            }
            let part = self.find(uri).ok_or_else(|| not_found(uri))?;
            Ok(Reading { parts: vec![part], keep: Keep::default() })
        })
    }

    fn write<'a>(&'a self, part: Part, _: Behalf<'a>) -> Found<'a, ()> {
        if !part.uri.starts_with("note://") {
            return ready(Err(Error::new(ErrorKind::Forbidden, "only notes may be written")));
        }
        let mut notes = self.notes.lock().unwrap();
        notes.retain(|note| note.uri != part.uri);
        notes.push(part);
        let _ = self.changes.send(ResourceChange::List);
        ready(Ok(()))
    }

    fn delete<'a>(&'a self, uri: &'a str, _: Behalf<'a>) -> Found<'a, ()> {
        let mut notes = self.notes.lock().unwrap();
        let before = notes.len();
        notes.retain(|note| note.uri != uri);
        ready(if notes.len() < before { Ok(()) } else { Err(not_found(uri)) })
    }

    fn complete<'a>(&'a self, uri: &'a str, completing: Completing, _: Behalf<'a>) -> Found<'a, Completion> {
        if uri != "test://template/{id}/data" {
            return ready(Err(not_found(uri)));
        }
        let values = (0..150).map(|n| format!("{}{n}", completing.value)).collect();
        ready(Ok(Completion { values, total: None }))
    }

    fn watch<'a>(&'a self, uri: &'a str, _: Behalf<'a>) -> Found<'a, Watch> {
        ready(self.find(uri).map(|_| Watch(Box::new(()))).ok_or_else(|| not_found(uri)))
    }

    fn changes(&self) -> broadcast::Receiver<ResourceChange> {
        self.changes.subscribe()
    }
}

pub struct Cards {
    changes: watch::Sender<u64>,
}

impl Default for Cards {
    fn default() -> Cards {
        Cards { changes: watch::Sender::new(0) }
    }
}

impl Cards {
    pub fn touch(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

impl Prompts for Cards {
    fn list<'a>(&'a self, _: Option<&'a str>, _: Behalf<'a>) -> Found<'a, Page<Prompt>> {
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

    fn get<'a>(&'a self, name: &'a str, arguments: Payload, behalf: Behalf<'a>) -> Found<'a, Filled> {
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
                    let body = Ask::Elicit(Payload::json(params.to_string()));
                    let answer = behalf.caller.ask(Question { key: "user_context".into(), body }).await?;
                    let answer: serde_json::Value = serde_json::from_slice(answer.0.bytes()).unwrap();
                    serde_json::json!({"type": "text", "text": answer["content"]["context"].to_string()})
                }
                _ => return Err(toolyard_engine::prompts::no_prompt(name)),
            };
            let messages = serde_json::json!([{"role": "user", "content": content}]).to_string();
            Ok(Filled { description: None, messages: Payload::json(messages) })
        })
    }

    fn complete<'a>(&'a self, name: &'a str, completing: Completing, _: Behalf<'a>) -> Found<'a, Completion> {
        if name != "test_prompt_with_arguments" {
            return ready(Err(toolyard_engine::prompts::no_prompt(name)));
        }
        let known: serde_json::Value = serde_json::from_slice(completing.known.bytes()).unwrap();
        let more = known["arg2"].as_str().unwrap_or("one");
        ready(Ok(Completion { values: vec![format!("{}-{more}", completing.value)], total: None }))
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
