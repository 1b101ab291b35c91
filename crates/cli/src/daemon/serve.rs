//! Serving HTTP on a listener: as `axum::serve` does, but a client that does not send the headers of its request in
//! time, or does not read its answer, is disconnected, so that half requests cannot take all places and answers nobody
//! reads cannot take all memory.

use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::limited::Limited;
use super::stall::Unstalled;

/// How patient a door is.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    /// How long a client may take to send the headers of its next request. Idle connections are closed after it too.
    pub headers: Duration,
    /// For how long a client may read nothing of its answer. Streams in both directions have no such limit: nothing more
    /// is held for them while they wait.
    pub answer: Duration,
}

/// Serves until `end`, and then until every request that has begun is answered.
pub(super) async fn serve<L: Listener>(
    mut listener: Limited<L>,
    app: Router,
    patience: Patience,
    end: impl Future<Output = ()>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(patience.headers);
    let (ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut end = std::pin::pin!(end);
    loop {
        tokio::select! {
            stream = listener.accept() => {
                let newcomer = stream.newcomer();
                let stream = Unstalled::new(stream, patience.answer);
                let patient = stream.patient();
                let (app, admission) =
                    (TowerToHyperService::new(app.clone()), newcomer.as_ref().map(|one| one.admission.clone()));
                let service = service_fn(move |mut request: Request<Incoming>| {
                    if let Some(admission) = &admission {
                        request.extensions_mut().insert(admission.clone());
                    }
                    app.call(request)
                });
                let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
                let mut ended = ended.clone();
                connections.spawn(async move {
                    let mut connection = std::pin::pin!(connection);
                    let sent_away = async {
                        match &newcomer {
                            Some(newcomer) => newcomer.sent_away().await,
                            None => std::future::pending().await,
                        }
                    };
                    let result = tokio::select! {
                        result = connection.as_mut() => result,
                        _ = ended.changed() => {
                            connection.as_mut().graceful_shutdown();
                            connection.await
                        }
                        () = sent_away => return,
                    };
                    // What is left of it now is a stream in both directions.
                    patient.set();
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
    use std::sync::{Arc, Mutex};

    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn half_requests_give_their_places_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new().route("/", get(|| async { "here" }));
        let (end, ended) = oneshot::channel::<()>();
        let patience = Patience { headers: Duration::from_millis(50), answer: Duration::from_secs(60) };
        let serving = tokio::spawn(serve(Limited::new(listener, 2), app, patience, async {
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

    #[tokio::test]
    async fn an_answer_nobody_reads_is_not_held() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (held, let_go) = oneshot::channel::<()>();
        let held = Arc::new(Mutex::new(Some(held)));
        // It is dropped with the answer.
        let answer = move || {
            let held = held.lock().unwrap().take();
            let pieces = futures_util::stream::repeat_with(move || {
                let _held = &held;
                Ok::<_, std::io::Error>(vec![b'x'; 64 << 10])
            });
            async move { axum::body::Body::from_stream(pieces) }
        };
        let app = Router::new().route("/", get(answer));
        let patience = Patience { headers: Duration::from_secs(60), answer: Duration::from_millis(50) };
        let serving = tokio::spawn(serve(Limited::new(listener, 2), app, patience, std::future::pending()));
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        let_go.await.unwrap_err();
        serving.abort();
    }
}
