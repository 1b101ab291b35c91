//! Serving HTTP on a listener: as `axum::serve` does, but a client that does not send the headers of its request in
//! time is disconnected, so that half requests cannot take all places.

use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a client may take to send the headers of its next request. Idle connections are closed after it too.
pub(super) const HEADERS: Duration = Duration::from_secs(15);

/// Serves until `end`, and then until every request that has begun is answered.
pub(super) async fn serve<L: Listener>(
    mut listener: L,
    app: Router,
    headers: Duration,
    end: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(headers);
    let (ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            (stream, _) = listener.accept() => {
                let service = TowerToHyperService::new(app.clone());
                let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
                let mut ended = ended.clone();
                connections.spawn(async move {
                    let mut connection = std::pin::pin!(connection);
                    let result = tokio::select! {
                        result = connection.as_mut() => result,
                        _ = ended.changed() => {
                            connection.as_mut().graceful_shutdown();
                            connection.await
                        }
                    };
                    if let Err(error) = result {
                        tracing::debug!(%error, "a connection ended with an error");
                    }
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            () = &mut end => break,
        }
    }
    drop(listener);
    drop(ending);
    while connections.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;

    use super::super::limited::Limited;
    use super::*;

    #[tokio::test]
    async fn half_requests_give_their_places_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", get(|| async { "here" }));
        let (end, ended) = oneshot::channel::<()>();
        let serving = tokio::spawn(serve(Limited::new(listener, 2), app, Duration::from_millis(50), async {
            let _ = ended.await;
        }));
        let mut half = Vec::new();
        for _ in 0..2 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
            half.push(stream);
        }
        let mut whole = TcpStream::connect(address).await.unwrap();
        whole.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        whole.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("here"), "{answer}");
        end.send(()).unwrap();
        serving.await.unwrap();
    }
}
