//! The HTTP edge on any byte stream, without a listener.

use crate::mcp::Mcp;
use crate::server::{App, HttpService, Options, UpgradeSlot};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWrite};
use toolyard_engine::Engine;

pub struct InProcess {
    http_service: HttpService,
    options: Options,
}

impl InProcess {
    pub fn new(engine: Arc<Engine>, mcp: Arc<Mcp>, options: Options) -> InProcess {
        let app = App { engine, started: Instant::now(), options: options.clone(), mcp };
        InProcess { http_service: HttpService::new(Arc::new(app)), options }
    }

    /// Serves one connection to its end. A client that has closed its writing half still gets the response.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        let http_service = self.http_service.clone();
        // An error means that the client disconnected or did not speak HTTP.
        let _ = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.options.header_timeout)
            .max_buf_size(64 * 1024)
            .half_close(true)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| {
                    http_service.clone().handle(request, Ok(true), UpgradeSlot::default(), Arc::default())
                }),
            )
            .await;
    }
}
