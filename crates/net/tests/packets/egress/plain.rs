//! HTTP without TLS: every request is looked at.

use agentiso_core::NetworkRules;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::setting::*;
use crate::support::web::{Web, get, http1, http2, read};
use crate::support::*;

/// Sends bytes and reads all that comes back until the connection ends.
async fn exchange(setting: &Setting, bytes: &[u8]) -> String {
    let mut stream = setting.connect(PUBLIC, 80).await;
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.unwrap().unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn every_request_on_a_connection_is_checked() {
    let setting = Setting::new(proxied(), &[API, OTHER]).await;
    let web = setting.serve_plain().await;
    let mut client = http1(setting.connect(PUBLIC, 80).await).await;
    let first = read(client.send_request(get("/a?b=c", API, ("x-kept", "1"))).await.unwrap()).await;
    assert_eq!(first, (200, "served 1".to_owned()));
    let (status, text) = read(client.send_request(get("/", OTHER, ("a", "b"))).await.unwrap()).await;
    assert_eq!(status, 421);
    assert!(
        text.contains("rule: egress proxy: other.example.com was not resolved to this address"),
        "{text}"
    );
    assert!(text.contains("to change this: connect to an address"), "{text}");
    let third = read(client.send_request(get("/", API, ("a", "b"))).await.unwrap()).await;
    assert_eq!(third, (200, "served 2".to_owned()), "the connection goes on");
    let asked = web.asked();
    assert_eq!(asked[0].line, "GET /a?b=c");
    assert_eq!(
        (asked[0].headers["host"].as_bytes(), asked[0].headers["x-kept"].as_bytes()),
        (API.as_bytes(), &b"1"[..])
    );
    assert_eq!(setting.refused().await.name.as_deref(), Some(OTHER));
}

#[tokio::test]
async fn every_stream_of_http2_is_checked() {
    let setting = Setting::new(proxied(), &[API, OTHER]).await;
    let web = Web::default();
    web.plain2(setting.net.uplink.listen(PUBLIC, 80).await);
    let client = http2(setting.connect(PUBLIC, 80).await).await;
    let request = |host: &str| {
        hyper::Request::get(format!("http://{host}/x")).body(http_body_util::Full::default()).unwrap()
    };
    let send = |host: &'static str| {
        let (mut client, request) = (client.clone(), request(host));
        async move { read(client.send_request(request).await.unwrap()).await.0 }
    };
    assert_eq!(tokio::join!(send(API), send(OTHER), send(API)), (200, 421, 200));
    assert_eq!(web.asked().len(), 2);
}

#[tokio::test]
async fn a_host_that_the_rules_refuse_is_answered_with_the_rule_and_the_remedy() {
    let rules = NetworkRules { deny_domains: strings(&[SAME]), ..proxied() };
    let setting = Setting::new(rules, &[API]).await;
    let _web = setting.serve_plain().await;
    let mut client = http1(setting.connect(PUBLIC, 80).await).await;
    for host in ["10.0.0.1", "93.184.216.34", "a b", "*.example.com"] {
        let request = hyper::Request::get("/").header("host", host).body(http_body_util::Full::default());
        let (status, text) = read(client.send_request(request.unwrap()).await.unwrap()).await;
        assert!(matches!(status, 400 | 403), "{host}: {status} {text}");
        client.ready().await.unwrap();
    }
    assert!(setting.everything_logged().contains("egress proxy: the connection names no host"));
}

#[tokio::test]
async fn requests_that_name_their_host_twice_or_never_are_refused() {
    let setting = Setting::new(proxied(), &[API, OTHER]).await;
    let web = setting.serve_plain().await;
    for (request, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", "it has no Host header"),
        (
            "GET / HTTP/1.1\r\nHost: api.example.com\r\nHost: other.example.com\r\n\r\n",
            "it has two Host headers",
        ),
        ("GET http://other.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", "name different hosts"),
        ("GET http://u@api.example.com/ HTTP/1.1\r\nHost: u@api.example.com\r\n\r\n", "a user name"),
        (
            "CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n",
            "CONNECT is not passed on",
        ),
    ] {
        let answer = exchange(&setting, request.as_bytes()).await;
        assert!(answer.contains(expected), "{request:?}: {answer}");
    }
    assert!(web.asked().is_empty());
    let absolute =
        "GET http://api.example.com/x HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n";
    assert!(exchange(&setting, absolute.as_bytes()).await.contains("served 1"));
    assert_eq!(web.asked()[0].line, "GET /x", "the server gets the path alone");
}

#[tokio::test]
async fn a_request_cannot_be_smuggled_behind_another() {
    let setting = Setting::new(proxied(), &[API, OTHER]).await;
    let web = setting.serve_plain().await;
    let hidden = "GET /hidden HTTP/1.1\r\nHost: other.example.com\r\n\r\n";
    for head in [
        // Who believes the length sees a body; who believes the encoding sees a second request.
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", hidden.len() + 5),
        "Content-Length: 0\r\nContent-Length: 60\r\n\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n\r\n".to_owned(),
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n".to_owned(),
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n".to_owned(),
        "Content-Length: +0\r\n\r\n".to_owned(),
        "X: y\n\tTransfer-Encoding: chunked\r\n\r\n".to_owned(),
    ] {
        let request = format!("POST /first HTTP/1.1\r\nHost: api.example.com\r\n{head}{hidden}");
        let answer = exchange(&setting, request.as_bytes()).await;
        let asked = web.asked();
        assert!(asked.iter().all(|one| one.line == "POST /first"), "{head:?}: {asked:?}");
        for one in &asked {
            let both =
                one.headers.contains_key("content-length") && one.headers.contains_key("transfer-encoding");
            assert!(!both, "{head:?}: the server gets one framing: {one:?}");
        }
        assert!(answer.starts_with("HTTP/1.1 "), "{head:?}: {answer}");
    }
    let upgrade = "GET / HTTP/1.1\r\nHost: api.example.com\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\
                   Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n";
    assert!(exchange(&setting, upgrade.as_bytes()).await.contains("200 OK"));
    let last = web.asked().pop().unwrap();
    assert!(!last.headers.contains_key("upgrade") && !last.headers.contains_key("http2-settings"));
}

#[tokio::test]
async fn huge_heads_are_refused_within_bounds() {
    let setting = Setting::new(proxied(), &[API]).await;
    let web = setting.serve_plain().await;
    let long = format!("GET / HTTP/1.1\r\nHost: {API}\r\nX: {}\r\n\r\n", "a".repeat(200_000));
    assert!(exchange(&setting, long.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let many = format!("GET / HTTP/1.1\r\nHost: {API}\r\n{}\r\n", "X: y\r\n".repeat(1000));
    assert!(exchange(&setting, many.as_bytes()).await.starts_with("HTTP/1.1 431"));
    let line = format!("GET /{} HTTP/1.1\r\nHost: {API}\r\n\r\n", "a".repeat(200_000));
    let answer = exchange(&setting, line.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 414") || answer.starts_with("HTTP/1.1 431"), "{answer}");
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn a_body_and_its_trailers_arrive() {
    let setting = Setting::new(proxied(), &[API]).await;
    let web = setting.serve_plain().await;
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {API}\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\nConnection: close\r\n\r\n\
         5\r\nhello\r\n0\r\nx-sum: 7\r\n\r\n"
    );
    assert!(exchange(&setting, request.as_bytes()).await.contains("served 1"));
    assert_eq!(&web.asked()[0].body[..], b"hello");
    assert_eq!(web.asked()[0].headers["trailer"], "x-sum");
}
