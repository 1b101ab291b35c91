//! Secrets: the guest sends a placeholder, and the server of the right host gets the value.

use agentiso_net::LogEvent;
use agentiso_net::control::{Request as Control, Response as Answer};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::setting::*;
use crate::support::web::{get, http1, http2, read};
use crate::support::*;

fn bearer() -> String {
    format!("Bearer {PLACEHOLDER}")
}

/// No log entry has the value in it.
fn assert_hidden(setting: &Setting, texts: &[&str]) {
    let log = setting.everything_logged();
    for text in texts.iter().copied().chain([log.as_str()]) {
        assert!(!text.contains(VALUE), "the value is shown: {text}");
    }
}

#[tokio::test]
async fn the_server_gets_the_value_and_the_guest_never_does() {
    let setting = Setting::new(proxied(), &[API]).await;
    setting.grant(vec![secret()]);
    let web = setting.serve_tls(API, &["http/1.1"]).await;
    let mut client = http1(setting.intercepted(API, &["http/1.1"]).await).await;
    let response = client.send_request(get("/", API, ("authorization", &bearer()))).await.unwrap();
    assert_eq!(response.headers()["x-echo"], PLACEHOLDER, "what the server repeats is hidden again");
    let shown = format!("{response:?}");
    assert_eq!(read(response).await.0, 200);
    assert_eq!(web.asked()[0].headers["authorization"], format!("Bearer {VALUE}").as_str());

    let basic = format!("Basic {}", STANDARD.encode(format!("git:{PLACEHOLDER}")));
    read(client.send_request(get("/", API, ("authorization", &basic))).await.unwrap()).await;
    let expected = format!("Basic {}", STANDARD.encode(format!("git:{VALUE}")));
    assert_eq!(web.asked()[1].headers["authorization"], expected.as_str());
    assert_hidden(&setting, &[&shown]);
}

#[tokio::test]
async fn it_works_over_http2() {
    let setting = Setting::new(proxied(), &[API]).await;
    setting.grant(vec![secret()]);
    let web = setting.serve_tls(API, &["h2"]).await;
    let mut client = http2(setting.intercepted(API, &["h2"]).await).await;
    let request = Request::get(format!("https://{API}/")).header("x-api-key", PLACEHOLDER);
    let response = client.send_request(request.body(Full::default()).unwrap()).await.unwrap();
    assert_eq!(read(response).await.0, 200);
    assert_eq!(web.asked()[0].headers["x-api-key"], VALUE);
}

#[tokio::test]
async fn a_placeholder_anywhere_else_is_refused_and_reported() {
    let setting = Setting::new(proxied(), &[API]).await;
    setting.grant(vec![secret()]);
    let web = setting.serve_tls(API, &["http/1.1"]).await;
    let in_path = Request::get(format!("/{PLACEHOLDER}")).header("host", API).body(Full::default());
    let in_query = Request::get(format!("/?key={PLACEHOLDER}")).header("host", API).body(Full::default());
    let in_body =
        Request::post("/").header("host", API).body(Full::new(Bytes::from(format!("x{PLACEHOLDER}"))));
    for request in [in_path, in_query, in_body] {
        let mut client = http1(setting.intercepted(API, &["http/1.1"]).await).await;
        let (status, text) = read(client.send_request(request.unwrap()).await.unwrap()).await;
        assert_eq!(status, 403);
        assert!(
            text.contains("rule: secret TOKEN: its placeholder was sent where it may not be used"),
            "{text}"
        );
        assert!(text.contains("only in a header, over https"), "{text}");
        assert_hidden(&setting, &[&text]);
    }
    assert!(web.asked().is_empty());
    let alert = setting.net.logged(LogEvent::Alert).await;
    assert_eq!((alert.name.as_deref(), alert.port), (Some(API), 443));
    assert!(alert.rule.starts_with("secret TOKEN"));
}

#[tokio::test]
async fn a_placeholder_for_another_host_is_refused() {
    let setting = Setting::new(proxied(), &[API, SAME]).await;
    let other = agentiso_net::egress::GrantedSecret {
        name: "OTHER".to_owned(),
        placeholder: "aiso_ffffffffffffffffffffffffffffffff".to_owned(),
        hosts: strings(&[SAME]),
        ..secret()
    };
    setting.grant(vec![secret(), other]);
    let web = setting.serve_tls(SAME, &["http/1.1"]).await;
    let mut client = http1(setting.intercepted(SAME, &["http/1.1"]).await).await;
    let (status, _) =
        read(client.send_request(get("/", SAME, ("authorization", &bearer()))).await.unwrap()).await;
    assert_eq!(status, 403);
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn without_tls_no_secret_is_sent_even_to_its_own_host() {
    let setting = Setting::new(proxied(), &[API]).await;
    setting.grant(vec![secret()]);
    let web = setting.serve_plain().await;
    let mut client = http1(setting.connect(PUBLIC, 80).await).await;
    let (status, _) =
        read(client.send_request(get("/", API, ("authorization", &bearer()))).await.unwrap()).await;
    assert_eq!(status, 403);
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn a_placeholder_that_is_split_over_packets_and_chunks_is_found() {
    let setting = Setting::new(proxied(), &[API]).await;
    setting.grant(vec![secret()]);
    let web = setting.serve_tls(API, &["http/1.1"]).await;
    let mut stream = setting.intercepted(API, &["http/1.1"]).await;
    let (first, second) = PLACEHOLDER.split_at(9);
    for part in [
        format!("GET / HTTP/1.1\r\nHost: {API}\r\nAuthorization: Bearer {first}"),
        format!("{second}\r\nConnection: close\r\n\r\n"),
    ] {
        stream.write_all(part.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
    }
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    assert!(answer.contains("200 OK"), "{answer}");
    assert_eq!(web.asked()[0].headers["authorization"], format!("Bearer {VALUE}").as_str());

    let mut stream = setting.intercepted(API, &["http/1.1"]).await;
    let head = format!("POST / HTTP/1.1\r\nHost: {API}\r\nTransfer-Encoding: chunked\r\n\r\n");
    let chunk = |part: &str| format!("{:x}\r\n{part}\r\n", part.len());
    for part in [head, chunk(first), chunk(second), "0\r\n\r\n".to_owned()] {
        // The proxy may end the connection before it has read everything.
        let _ = stream.write_all(part.as_bytes()).await;
        let _ = stream.flush().await;
    }
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 403");
    assert_eq!(web.asked().len(), 1, "the second request did not arrive whole");
}

#[tokio::test]
async fn a_secret_that_is_taken_back_is_not_inserted_any_more() {
    let setting = Setting::new(proxied(), &[API]).await;
    setting.grant(vec![secret()]);
    let web = setting.serve_tls(API, &["http/1.1"]).await;
    let mut client = http1(setting.intercepted(API, &["http/1.1"]).await).await;
    read(client.send_request(get("/", API, ("authorization", &bearer()))).await.unwrap()).await;
    setting.grant(Vec::new());
    client.ready().await.unwrap();
    read(client.send_request(get("/", API, ("authorization", &bearer()))).await.unwrap()).await;
    assert_eq!(web.asked()[1].headers["authorization"], bearer().as_str());
}

#[tokio::test]
async fn a_setup_that_is_wrong_changes_nothing_and_does_not_show_the_value() {
    let setting = Setting::new(proxied(), &[API]).await;
    let refused = |change: fn(&mut agentiso_net::egress::GrantedSecret)| {
        let mut wrong = secret();
        change(&mut wrong);
        let setup = agentiso_net::egress::ProxySetup { authority: None, secrets: vec![wrong] };
        let error = setting.net.router.set_proxy(workspace(2), &setup).unwrap_err();
        assert!(!format!("{error:?} {error}").contains(VALUE));
        error.to_string()
    };
    assert!(refused(|secret| secret.hosts.clear()).contains("no host"));
    assert!(refused(|secret| secret.hosts = strings(&["https://a.example"])).contains("is a URL"));
    assert!(refused(|secret| secret.placeholder = "short".to_owned()).contains("placeholder"));
    assert!(refused(|secret| secret.headers = strings(&["a b"])).contains("not the name of a header"));
    assert!(refused(|secret| secret.value = agentiso_core::Secret::new("a\nb".to_owned())).contains("value"));
    let stranger = setting.net.router.set_proxy(workspace(9), &agentiso_net::egress::ProxySetup::default());
    assert!(stranger.unwrap_err().to_string().contains("not attached"));
}

#[tokio::test]
async fn what_is_printed_of_a_setup_has_no_value_in_it() {
    let setup = agentiso_net::egress::ProxySetup { authority: None, secrets: vec![secret()] };
    let request = Control::SetProxy { workspace: workspace(2), proxy: Box::new(setup) };
    assert!(!format!("{request:?}").contains(VALUE));
    assert!(!serde_json::to_string(&request).unwrap().contains(VALUE));
    assert_eq!(serde_json::to_string(&Answer::Done).unwrap(), r#"{"response":"done"}"#);
}
