//! The table of HTTP routes. The router, the hint of a 404 and the `Allow` header of a 405 follow from it.

use crate::mcp;
use crate::{plain_http, v1};
use axum::Router;
use axum::extract::MatchedPath;
use axum::handler::Handler;
use axum::http::{HeaderValue, StatusCode, Uri, header};
use axum::response::Response;
use axum::routing::{get, post};
use std::sync::Arc;
use toolyard_protocol::{Error, ErrorKind, Outcome};
use toolyard_wire::framed_dialect;

/// The paths of MCP, which the service handles before the router.
pub(crate) const MCP: &str = "/mcp";
pub(crate) const SSE: &str = "/sse";
pub(crate) const MESSAGES: &str = "/messages";
pub(crate) const WEB_SOCKET: &str = "/ws";
/// Answered without the token.
pub(crate) const HEALTH: &str = "/healthz";

/// The methods of [`MCP`].
pub(crate) const MCP_METHODS: &str = "POST, GET, DELETE";

const MCP_ROUTES: [(&str, &str); 4] =
    [(MCP, MCP_METHODS), (SSE, "GET"), (MESSAGES, "POST"), (WEB_SOCKET, "GET")];

/// Routes and the router for them.
pub(crate) struct Routes<S = ()> {
    router: Router<S>,
    table: Vec<(&'static str, &'static str)>,
}

impl<S: Clone + Send + Sync + 'static> Routes<S> {
    pub fn new() -> Routes<S> {
        Routes { router: Router::new(), table: Vec::new() }
    }

    pub fn get<T: 'static>(mut self, path: &'static str, handler: impl Handler<T, S>) -> Routes<S> {
        self.table.push((path, "GET"));
        Routes { router: self.router.route(path, get(handler)), ..self }
    }

    pub fn post<T: 'static>(mut self, path: &'static str, handler: impl Handler<T, S>) -> Routes<S> {
        self.table.push((path, "POST"));
        Routes { router: self.router.route(path, post(handler)), ..self }
    }

    pub fn with_state(self, state: S) -> Routes {
        Routes { router: self.router.with_state(state), table: self.table }
    }
}

impl Routes {
    pub fn merge(mut self, other: Routes) -> Routes {
        self.table.extend(other.table);
        Routes { router: self.router.merge(other.router), table: self.table }
    }

    /// The router, with an answer for every path and method that is not in the table.
    pub fn into_router(self) -> Router {
        let lines = MCP_ROUTES.iter().chain(&self.table).map(|(path, methods)| format!("{methods} {path}"));
        let hint: Arc<str> = lines.collect::<Vec<_>>().join("; ").into();
        let table = self.table;
        let not_found = async move |uri: Uri| {
            refuse(uri.path(), Error::new(ErrorKind::ResourceNotFound, "there is no such route").hint(&*hint))
        };
        let wrong_method = async move |path: MatchedPath, uri: Uri| {
            let methods =
                table.iter().filter(|(known, _)| *known == path.as_str()).map(|(_, method)| *method);
            let allowed = methods.collect::<Vec<_>>().join(", ");
            let error = Error::new(ErrorKind::InvalidInput, "method not allowed")
                .hint(format!("{allowed} {}", path.as_str()));
            let mut response = refuse(uri.path(), error);
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            if let Ok(allowed) = HeaderValue::from_str(&allowed) {
                response.headers_mut().insert(header::ALLOW, allowed);
            }
            response
        };
        self.router.fallback(not_found).method_not_allowed_fallback(wrong_method)
    }
}

/// An error outside a call, in the form that clients of the path know.
pub(crate) fn refuse(path: &str, error: Error) -> Response {
    if path.starts_with("/v1/") {
        return v1::error_response(error);
    }
    let status = v1::status_of(&error);
    if MCP_ROUTES.iter().any(|(known, _)| *known == path) {
        return mcp::refuse(status, &error.message);
    }
    v1::respond(status, framed_dialect::write_envelope(&Outcome::failure(error)))
}

/// Every route that is not MCP's.
pub(crate) fn all(app: &Arc<crate::server::App>) -> Router {
    let (engine, resources) = (app.engine.clone(), app.mcp.resources());
    let v1 = v1::V1 { engine, resources, max_body: app.options.max_body };
    plain_http::routes(app.clone()).merge(v1::routes(v1)).into_router()
}
