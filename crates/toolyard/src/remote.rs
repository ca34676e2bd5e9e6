//! Client for the server given with `--url`: its HTTP API (`/v1/`), and MCP for prompts and resources.

use crate::token;
use crate::wiring::GlobalOptions;
use bytes::Bytes;
use reqwest::{Client, Method, Url};
use std::time::Duration;
use toolyard_protocol::text::push_json_string;
use toolyard_protocol::{Error, ErrorKind, Outcome, Payload, Wait};
use toolyard_wire::mcp::client::{self, ClientRequest};
use toolyard_wire::{envelope, outcome};

/// The largest response body that is read, in bytes.
const MAX_RESPONSE: usize = 256 << 20;

/// The most items of a list that are read.
const MAX_ITEMS: usize = 1_000_000;

/// The value of `--url`.
pub fn parse_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    match url.scheme() {
        "http" | "https" if !url.cannot_be_a_base() => Ok(url),
        _ => Err("only http and https addresses are supported, such as http://127.0.0.1:3333".to_owned()),
    }
}

pub struct Remote {
    base: Url,
    client: Client,
    token: Option<String>,
}

/// One call of a tool of the server.
pub struct RemoteCall<'a> {
    pub tool: &'a str,
    pub arguments: &'a Payload,
    pub wait: Wait,
    pub key: Option<&'a str>,
    pub timeout: Option<Duration>,
}

impl Remote {
    /// A client of the server at `base`, with the yard's token if that server may get it.
    pub fn new(base: &Url, global: &GlobalOptions) -> Result<Remote, Error> {
        let token = token::for_server(global, base)?;
        // Fails only when a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("toolyard/", env!("CARGO_PKG_VERSION")))
            .no_proxy()
            // Arguments are sent to this server only.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10));
        let builder = match token.as_ref().and_then(|token| token.address) {
            // The name may have other addresses, where somebody else may wait for the token.
            Some(address) => builder.resolve("localhost", address),
            None => builder,
        };
        let client = builder.build().map_err(|error| {
            Error::new(ErrorKind::Internal, format!("the HTTP client cannot start: {error}"))
        })?;
        Ok(Remote { base: base.clone(), client, token: token.map(|token| token.token) })
    }

    pub async fn get(&self, path: &[&str], query: &[(&str, String)]) -> Result<Bytes, Error> {
        self.request(Method::GET, path, query, None).await
    }

    pub async fn post(&self, path: &[&str], body: Bytes) -> Result<Bytes, Error> {
        self.request(Method::POST, path, &[], Some(body)).await
    }

    pub async fn call(&self, call: RemoteCall<'_>) -> Result<Outcome, Error> {
        let mut request = self
            .client
            .post(self.address(&["v1", "tools", call.tool], &[])?)
            .header("content-type", "application/json")
            .body(call.arguments.bytes().clone());
        if call.wait == Wait::NoWait {
            request = request.header("prefer", "respond-async");
        }
        if let Some(key) = call.key {
            request = request.header("idempotency-key", key);
        }
        if let Some(timeout) = call.timeout {
            request = request.timeout(timeout);
        }
        let (status, body) = self.send(request).await?;
        outcome::read(&body).or_else(|_| match envelope::read_error_body(&body) {
            Some(error) => Ok(Outcome::failure(error)),
            None => Err(self.unexpected_response(status)),
        })
    }

    /// The raw result of an MCP request. `name` is the prompt or the resource that it concerns.
    pub async fn mcp(
        &self,
        method: &str,
        name: Option<&str>,
        params: &[(&str, &[u8])],
    ) -> Result<Bytes, Error> {
        let ClientRequest { body, headers } = ClientRequest::new(method, name, params);
        let mut request = self.client.post(self.address(&["mcp"], &[])?);
        request = request.header("content-type", "application/json").header("accept", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let (status, body) = self.send(request.body(body)).await?;
        // Errors come with a status of their own, but with a JSON-RPC body.
        client::read_response(&body).map_err(|error| match error.kind {
            ErrorKind::InvalidOutput => self.unexpected_response(status),
            _ => error,
        })
    }

    /// Every page of an MCP list, each item as raw JSON.
    pub async fn mcp_list(&self, method: &str, member: &str) -> Result<Vec<Bytes>, Error> {
        let (mut all, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let mut raw = Vec::new();
            push_json_string(&mut raw, cursor.as_deref().unwrap_or_default());
            let params = [("cursor", raw.as_slice())];
            let given = if cursor.is_some() { &params[..] } else { &[] };
            let (items, next) = client::read_page(&self.mcp(method, None, given).await?, member)?;
            all.extend(items);
            if all.len() > MAX_ITEMS {
                let message = format!("the list of {} is over {MAX_ITEMS} items", self.base);
                return Err(Error::new(ErrorKind::OutputTooLarge, message));
            }
            if next.is_none() || next == cursor {
                return Ok(all);
            }
            cursor = next;
        }
    }

    async fn request(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, String)],
        body: Option<Bytes>,
    ) -> Result<Bytes, Error> {
        let mut request = self.client.request(method, self.address(path, query)?);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body);
        }
        let (status, body) = self.send(request).await?;
        if status == 200 {
            return Ok(body);
        }
        Err(envelope::read_error_body(&body).unwrap_or_else(|| self.unexpected_response(status)))
    }

    async fn send(&self, mut request: reqwest::RequestBuilder) -> Result<(u16, Bytes), Error> {
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        let mut response = request.send().await.map_err(|error| self.connection_error(&error))?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.connection_error(&error))? {
            if body.len() + chunk.len() > MAX_RESPONSE {
                let message = format!("the response of {} is over {MAX_RESPONSE} bytes", self.base);
                return Err(Error::new(ErrorKind::OutputTooLarge, message));
            }
            body.extend_from_slice(&chunk);
        }
        Ok((response.status().as_u16(), body.into()))
    }

    /// Names are added as whole path segments, so that none can change the path.
    fn address(&self, path: &[&str], query: &[(&str, String)]) -> Result<Url, Error> {
        let mut url = self.base.clone();
        match url.path_segments_mut() {
            Ok(mut segments) => {
                segments.pop_if_empty().extend(path);
            }
            Err(()) => {
                return Err(Error::new(ErrorKind::InvalidInput, format!("{} cannot have a path", self.base)));
            }
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(url)
    }

    fn connection_error(&self, error: &reqwest::Error) -> Error {
        if error.is_timeout() {
            return Error::new(ErrorKind::Timeout, format!("{} did not answer in time", self.base));
        }
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        Error::new(ErrorKind::Unavailable, format!("{} cannot be reached: {cause}", self.base))
            .hint("check that 'toolyard serve' is running there")
    }

    fn unexpected_response(&self, status: u16) -> Error {
        Error::new(
            ErrorKind::InvalidOutput,
            format!("{} answered with status {status} and an unknown body", self.base),
        )
        .hint("check that it is a toolyard server of the same version")
    }
}
