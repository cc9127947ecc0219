//! Accepting connections: HTTP/1.1 and HTTP/2 without TLS on one port, and a graceful end.

use axum::Router;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Connections at once; more wait to be accepted.
const MAX_CONNECTIONS: usize = 4_096;
/// Requests at once on one HTTP/2 connection.
const MAX_STREAMS: u32 = 1_024;
/// A client must have sent the head of a request in this time.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// An HTTP/2 connection that is silent is asked after this time, and closed after it once more.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// After a failure that is not the client's, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Requests under way may take so long when the server ends.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `closing`, then lets the requests under way end.
pub async fn serve(listener: TcpListener, router: Router, closing: CancellationToken) {
    let builder = Arc::new(builder());
    let service = TowerToHyperService::new(router.into_service::<Incoming>());
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let (stream, place) = tokio::select! {
            () = closing.cancelled() => break,
            accepted = accept(&listener, &places) => match accepted {
                Some(accepted) => accepted,
                None => continue,
            },
        };
        let (builder, service, watcher) = (builder.clone(), service.clone(), graceful.watcher());
        tokio::spawn(async move {
            let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
            if let Err(error) = watcher.watch(connection).await {
                tracing::debug!(error, "a connection ended badly");
            }
            drop(place);
        });
    }
    drop(listener);
    if tokio::time::timeout(DRAIN, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests were still under way when the server ended");
    }
}

fn builder() -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    let mut http2 = builder.http2();
    http2.timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).keep_alive_timeout(KEEP_ALIVE);
    http2.max_concurrent_streams(MAX_STREAMS).adaptive_window(true);
    builder
}

/// The next connection; `None` if there was a failure, which has been waited out.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "TCP_NODELAY");
            }
            Some((stream, place))
        }
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset) => None,
        Err(error) => {
            tracing::warn!(%error, "cannot accept connections");
            tokio::time::sleep(ACCEPT_PAUSE).await;
            None
        }
    }
}
