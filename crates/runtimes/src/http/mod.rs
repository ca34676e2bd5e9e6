//! Runs a tool as an HTTP request.

mod client;
mod response;
mod url;

pub use client::Clients;
pub use url::UrlTemplate;

use crate::secrets::SecretBinding;
use crate::secrets::Secrets;
use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::sync::Arc;
use toolyard_engine::{Run, RunFuture, Runner};
use toolyard_formats::json;
use toolyard_formats::template::{Input, Template};
use toolyard_protocol::{Error, ErrorKind, Outcome};
use toolyard_sandbox::OutputMemory;

/// Runs one tool; holds everything that does not change between calls.
pub struct HttpRunner {
    pub url: UrlTemplate,
    pub method: Method,
    pub headers: Vec<(HeaderName, Template)>,
    pub body: Body,
    pub allow_private: bool,
    pub clients: Arc<Clients>,
    /// Secrets that header templates may use.
    pub secret_bindings: Vec<SecretBinding>,
    pub secrets: Arc<Secrets>,
    /// For large responses.
    pub memory: OutputMemory,
}

/// The request body.
pub enum Body {
    /// `{"input": payload}`, as in the toolpack format.
    Input,
    Payload,
    None,
    Template(Box<Template>),
}

impl Runner for HttpRunner {
    fn run<'a>(&'a self, run: Run<'a>) -> RunFuture<'a> {
        Box::pin(async move {
            match tokio::time::timeout_at(run.deadline.into(), self.exchange(&run)).await {
                Ok(result) => result,
                Err(_) => {
                    let limit = run.spec.limits.timeout.as_millis();
                    let message =
                        format!("'{}' got no response in time (its limit is {limit} ms)", run.spec.exposed);
                    Err(Error::new(ErrorKind::Timeout, message)
                        .hint("raise 'timeoutMs' in the tool's file if it needs longer"))
                }
            }
        })
    }

    fn secrets_fingerprint(&self) -> Option<[u8; 32]> {
        self.secrets.fingerprint(self.secret_bindings.iter().map(|secret| &secret.name))
    }
}

impl HttpRunner {
    async fn exchange(&self, run: &Run<'_>) -> Result<Outcome, Error> {
        let input = Input::new(&run.call.arguments)?;
        let url = self.url.render(&input)?;
        let headers = self.headers(&input)?;
        let client = self.clients.get(self.allow_private).map_err(|what| {
            Error::new(ErrorKind::Internal, format!("cannot create the HTTP client: {what}"))
        })?;
        let mut request = client.request(self.method.clone(), url).headers(headers);
        if let Some(body) = self.body(run, &input)? {
            request = request.body(body);
        }
        let response = request.send().await.map_err(|error| client::explain(&error, &self.url))?;
        response::read(response, run.spec.limits.output, &self.memory, self.secrets.as_ref()).await
    }

    fn headers(&self, input: &Input) -> Result<HeaderMap, Error> {
        let mut headers = HeaderMap::new();
        if !matches!(self.body, Body::None) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let secrets = self
            .secret_bindings
            .iter()
            .map(|secret| self.secrets.get(&secret.name).map(|value| (secret.variable.clone(), value)));
        let secrets: Vec<_> = secrets.collect::<Result<_, Error>>()?;
        for (name, template) in &self.headers {
            let value = template.render_with_secrets(input, &secrets)?;
            // Rejects line breaks and other control characters (header injection).
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                Error::new(
                    ErrorKind::InvalidInput,
                    format!("the header '{name}' would contain a line break or another control character"),
                )
                .hint("send a value without control characters")
            })?;
            value.set_sensitive(!template.secrets_used().is_empty());
            headers.insert(name.clone(), value);
        }
        Ok(headers)
    }

    fn body(&self, run: &Run<'_>, input: &Input) -> Result<Option<Vec<u8>>, Error> {
        let payload = run.call.arguments.bytes();
        Ok(match &self.body {
            Body::None => None,
            Body::Payload => Some(payload.to_vec()),
            Body::Input => {
                let mut out = Vec::with_capacity(payload.len() + 12);
                let mut object = json::Object::new(&mut out);
                object.raw("input", payload);
                object.end();
                Some(out)
            }
            Body::Template(template) => {
                let text = template.render(input)?.into_bytes();
                json::scan(&text).map_err(|defect| {
                    Error::new(
                        ErrorKind::Internal,
                        format!("the 'body' template does not produce JSON: {defect}"),
                    )
                })?;
                Some(text)
            }
        })
    }
}
