//! Rules on methods and paths, and what they need: decryption.

use agentiso_core::{HttpAction, HttpRule, NetworkRules};
use agentiso_net::LogEvent;
use agentiso_net::egress::ProxySetup;
use agentiso_policy::egress::Policy;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::setting::*;
use crate::support::web::{self, get, http1, http2, read};
use crate::support::*;

fn rules() -> NetworkRules {
    let rule = |action, methods: &[&str], paths: &[&str]| HttpRule {
        host: API.to_owned(),
        methods: strings(methods),
        paths: strings(paths),
        action,
    };
    NetworkRules {
        http_rules: vec![
            rule(HttpAction::Deny, &[], &["/v1/admin"]),
            rule(HttpAction::Allow, &["GET"], &["/v1"]),
        ],
        ..proxied()
    }
}

fn request(method: &str, target: &str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(target).header("host", API).body(Full::default()).unwrap()
}

#[tokio::test]
async fn requests_over_tls_are_checked_one_by_one() {
    let setting = Setting::new(rules(), &[API]).await;
    let web = setting.serve_tls(API, &["http/1.1"]).await;
    let mut client = http1(setting.intercepted(API, &["http/1.1"]).await).await;
    for (method, path, status, rule) in [
        ("GET", "/v1/x", 200, ""),
        ("POST", "/v1/x", 403, "http_rules: no rule allows this request"),
        ("GET", "/v1/admin/users", 403, "http_rules[0]: deny api.example.com /v1/admin"),
        ("GET", "/v1/%61dmin", 403, "http_rules[0]"),
        ("GET", "/v1/../v2", 403, "can be read in different ways"),
        ("TRACE", "/v1", 403, "TRACE is not passed on"),
        ("GET", "/v1", 200, ""),
    ] {
        let answer = read(client.send_request(request(method, path)).await.unwrap()).await;
        assert_eq!(answer.0, status, "{method} {path}: {}", answer.1);
        assert!(answer.1.contains(rule), "{method} {path}: {}", answer.1);
        client.ready().await.unwrap();
    }
    assert_eq!(web.asked().len(), 2);
    let (status, text) = read(client.send_request(get("/v1", SAME, ("a", "b"))).await.unwrap()).await;
    assert_eq!(status, 421, "a request for another host than the connection's: {text}");
}

#[tokio::test]
async fn http2_is_spoken_on_both_sides_with_many_streams() {
    let setting = Setting::new(rules(), &[API]).await;
    let web = setting.serve_tls(API, &["h2", "http/1.1"]).await;
    let stream = setting.intercepted(API, &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let client = http2(stream).await;
    let mut sent = tokio::task::JoinSet::new();
    for number in 0..300 {
        let mut client = client.clone();
        sent.spawn(async move {
            let path = if number % 3 == 0 { "/v1/admin" } else { "/v1/x" };
            let request = Request::get(format!("https://{API}{path}")).body(Full::default()).unwrap();
            client.ready().await.unwrap();
            read(client.send_request(request).await.unwrap()).await.0
        });
    }
    let statuses = sent.join_all().await;
    assert_eq!(statuses.iter().filter(|&&status| status == 200).count(), 200);
    assert_eq!(statuses.iter().filter(|&&status| status == 403).count(), 100);
    assert_eq!(web.asked().len(), 200);
}

#[tokio::test]
async fn a_server_that_speaks_only_http1_decides_for_both_sides() {
    let setting = Setting::new(rules(), &[API]).await;
    let _web = setting.serve_tls(API, &["http/1.1"]).await;
    let stream = setting.intercepted(API, &["h2", "http/1.1"]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[tokio::test]
async fn a_server_that_the_host_does_not_trust_is_not_used() {
    let setting = Setting::new(rules(), &[API]).await;
    let web = web::Web::default();
    let stranger = web::Pki::new();
    web.tls(setting.net.uplink.listen(PUBLIC, 443).await, stranger.server(API, &[]));
    let mut client = http1(setting.intercepted(API, &[]).await).await;
    let (status, text) = read(client.send_request(request("GET", "/v1")).await.unwrap()).await;
    assert_eq!(status, 502);
    assert!(text.contains("invalid peer certificate"), "{text}");
    let failed = setting.net.logged(LogEvent::Failed).await;
    assert!(failed.rule.contains("invalid peer certificate"), "{}", failed.rule);
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn a_server_with_the_certificate_of_another_host_is_not_used() {
    let setting = Setting::new(rules(), &[API]).await;
    let web = setting.serve_tls(OTHER, &[]).await;
    let mut client = http1(setting.intercepted(API, &[]).await).await;
    let answer = read(client.send_request(request("GET", "/v1")).await.unwrap()).await;
    assert_eq!(answer.0, 502, "{}", answer.1);
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn without_an_authority_nothing_is_decrypted_and_nothing_passes() {
    let setting = Setting::new(rules(), &[API]).await;
    setting.net.router.set_proxy(workspace(2), &ProxySetup::default()).unwrap();
    let web = setting.serve_tls(API, &[]).await;
    let stream = setting.connect(PUBLIC, 443).await;
    let error = web::tls(stream, API, setting.pki.root.clone(), &[]).await.unwrap_err();
    assert!(error.to_string().contains("InternalError"), "{error}");
    assert!(setting.net.logged(LogEvent::Failed).await.rule.contains("no certificate authority"));
    assert!(web.asked().is_empty());
}

/// A server that switches to a protocol in which it sends everything back.
async fn websocket_server(setting: &Setting) {
    let listener = setting.net.uplink.listen(PUBLIC, 443).await;
    let acceptor = setting.pki.server(API, &["http/1.1"]);
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.contains("upgrade: websocket") && head.contains("connection: upgrade"), "{head}");
        let answer = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n";
        stream.write_all(answer.as_bytes()).await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(stream);
        let _ = tokio::io::copy(&mut reader, &mut writer).await;
    });
}

#[tokio::test]
async fn websockets_pass_and_are_cut_when_the_rules_change() {
    let setting = Setting::new(rules(), &[API]).await;
    websocket_server(&setting).await;
    let mut client = http1(setting.intercepted(API, &["http/1.1"]).await).await;
    let asks = Request::get("/v1/socket").header("host", API);
    let asks = asks.header("connection", "Upgrade").header("upgrade", "websocket").body(Full::default());
    let response = client.send_request(asks.unwrap()).await.unwrap();
    assert_eq!(response.status(), 101);
    let mut socket = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    let frame: Vec<u8> = (0..200_000u32).map(|number| number as u8).collect();
    let (mut reader, mut writer) = tokio::io::split(&mut socket);
    let mut echoed = vec![0; frame.len()];
    let (sent, read) = tokio::join!(writer.write_all(&frame), reader.read_exact(&mut echoed));
    sent.unwrap();
    read.unwrap();
    assert!(echoed == frame);

    let mut narrowed = rules();
    narrowed.http_rules[0].paths.push("/v1/socket".to_owned());
    let policy = Policy::check(&narrowed).unwrap();
    setting.net.router.set_policies(vec![(workspace(2), policy)]).unwrap();
    assert_eq!(setting.net.logged(LogEvent::Cut).await.name.as_deref(), Some(API));
    assert!(matches!(reader.read(&mut [0; 1]).await, Ok(0) | Err(_)));
}

#[tokio::test]
async fn a_connection_that_passed_is_cut_when_a_rule_wants_to_see_its_requests() {
    let setting = Setting::new(proxied(), &[API]).await;
    let _web = setting.serve_tls(API, &[]).await;
    let stream = setting.connect(PUBLIC, 443).await;
    let mut tls = web::tls(stream, API, setting.pki.root.clone(), &[]).await.unwrap();
    let policy = Policy::check(&rules()).unwrap();
    setting.net.router.set_policies(vec![(workspace(2), policy)]).unwrap();
    setting.net.logged(LogEvent::Cut).await;
    assert!(matches!(tls.read(&mut [0; 1]).await, Ok(0) | Err(_)));
}
