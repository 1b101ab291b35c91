//! Which host a connection is for.

use agentiso_core::{Egress, NetworkRules};
use agentiso_net::{Limits, LogEvent};
use agentiso_policy::egress::Policy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::setting::*;
use crate::support::web::{self, get, http1, read};
use crate::support::*;

async fn alert(setting: &Setting, name: &str) -> String {
    let stream = setting.connect(PUBLIC, 443).await;
    web::tls(stream, name, setting.own_root(), &[]).await.unwrap_err().to_string()
}

#[tokio::test]
async fn tls_to_a_resolved_name_passes_untouched() {
    let setting = Setting::new(proxied(), &[API]).await;
    let web = setting.serve_tls(API, &["http/1.1"]).await;
    let stream = setting.connect(PUBLIC, 443).await;
    let tls = web::tls(stream, API, setting.pki.root.clone(), &["http/1.1"]).await;
    let mut client = http1(tls.unwrap()).await;
    let answer = read(client.send_request(get("/", API, ("a", "b"))).await.unwrap()).await;
    assert_eq!(answer, (200, "served 1".to_owned()));
    drop(client);
    assert_eq!(web.asked().len(), 1);
    let closed = setting.net.logged(LogEvent::Closed).await;
    assert_eq!(closed.name.as_deref(), Some(API));
    assert!(closed.bytes_sent > 100 && closed.bytes_received > 100);
}

#[tokio::test]
async fn a_server_name_that_was_not_resolved_to_the_address_is_refused_with_an_alert() {
    let setting = Setting::new(proxied(), &[API, OTHER]).await;
    let web = setting.serve_tls(OTHER, &[]).await;
    let error = alert(&setting, OTHER).await;
    assert!(error.contains("UnrecognisedName"), "{error}");
    let entry = setting.refused().await;
    assert_eq!(entry.name.as_deref(), Some(OTHER));
    assert_eq!(entry.rule, "egress proxy: other.example.com was not resolved to this address");
    assert_eq!((entry.address, entry.port), (Some(PUBLIC), 443));
    assert!(web.asked().is_empty());
}

#[tokio::test]
async fn a_server_name_that_the_rules_refuse_is_refused_though_its_address_is_open() {
    let rules = NetworkRules { allow_domains: Some(strings(&[API, SAME])), ..proxied() };
    let setting = Setting::new(rules.clone(), &[API, SAME]).await;
    let narrowed = NetworkRules { allow_domains: Some(strings(&[API])), ..rules };
    let policy = Policy::check(&narrowed).unwrap();
    setting.net.router.set_policies(vec![(workspace(2), policy)]).unwrap();
    let _web = setting.serve_tls(SAME, &[]).await;
    let error = alert(&setting, SAME).await;
    assert!(error.contains("AccessDenied"), "{error}");
    assert_eq!(setting.refused().await.rule, "not in allow_domains or allow_cidrs");
}

#[tokio::test]
async fn tls_without_a_name_and_other_protocols_are_refused_at_once() {
    let setting = Setting::new(proxied(), &[API]).await;
    let listener = setting.net.uplink.listen(PUBLIC, 443).await;
    let mut stream = setting.connect(PUBLIC, 443).await;
    let (mut server, _) = listener.accept().await.unwrap();
    // A client hello without extensions.
    let mut hello = vec![3, 3];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0x13, 1, 1, 0]);
    let message = [&[1, 0, 0, hello.len() as u8][..], &hello].concat();
    stream.write_all(&[&[22, 3, 1, 0, message.len() as u8][..], &message].concat()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 112], "an alert: unrecognised name");
    assert_eq!(setting.refused().await.rule, "egress proxy: the connection names no host");
    assert_eq!(server.read(&mut [0; 1]).await.unwrap_or(0), 0, "the server got nothing");

    let mut stream = setting.connect(PUBLIC, 443).await;
    stream.write_all(b"\x00\x01binary").await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert!(setting.everything_logged().contains("egress proxy: neither TLS nor HTTP"));

    let ssh = setting.net.uplink.listen(PUBLIC, 22).await;
    let mut stream = setting.connect(PUBLIC, 22).await;
    let (mut server, _) = ssh.accept().await.unwrap();
    server.write_all(b"SSH-2.0-server\r\n").await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0, "the guest gets nothing of it");
    assert!(setting.everything_logged().contains("egress proxy: the server speaks first"));
}

#[tokio::test]
async fn an_address_in_allow_cidrs_is_open_to_every_protocol() {
    let rules = NetworkRules { allow_cidrs: Some(strings(&["93.184.216.0/24"])), ..proxied() };
    let setting = Setting::new(rules, &[]).await;
    let ssh = setting.net.uplink.listen(PUBLIC, 22).await;
    let mut stream = setting.connect(PUBLIC, 22).await;
    let (mut server, _) = ssh.accept().await.unwrap();
    server.write_all(b"SSH-2.0-server\r\n").await.unwrap();
    let mut greeting = [0; 16];
    stream.read_exact(&mut greeting).await.unwrap();
    stream.write_all(b"SSH-2.0-client\r\n").await.unwrap();
    server.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"SSH-2.0-client\r\n");

    let _web = setting.serve_plain().await;
    let mut client = http1(setting.connect(PUBLIC, 80).await).await;
    let answer = read(client.send_request(get("/", "93.184.216.34", ("a", "b"))).await.unwrap()).await;
    assert_eq!(answer.0, 200, "an address as host, in an allowed range");
}

#[tokio::test]
async fn a_guest_that_says_nothing_is_refused_after_a_while() {
    let limits = Limits { first_bytes_seconds: 1, ..Limits::default() };
    let setting = Setting::with_limits(proxied(), &[API], limits).await;
    let _listener = setting.net.uplink.listen(PUBLIC, 80).await;
    let mut stream = setting.connect(PUBLIC, 80).await;
    stream.write_all(b"GET /slow").await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    assert_eq!(setting.refused().await.rule, "egress proxy: no request arrived");
}

#[tokio::test]
async fn a_hello_in_many_packets_is_read() {
    let setting = Setting::new(proxied(), &[API]).await;
    let _web = setting.serve_tls(API, &[]).await;
    let (near, far) = tokio::io::duplex(1 << 16);
    let stream = setting.connect(PUBLIC, 443).await;
    tokio::spawn(async move {
        let (mut from_client, mut to_client) = tokio::io::split(far);
        let (mut from_guest, mut to_guest) = tokio::io::split(stream);
        let up = async {
            let mut byte = [0];
            while from_client.read(&mut byte).await.unwrap_or(0) > 0 {
                to_guest.write_all(&byte).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::join!(up, tokio::io::copy(&mut from_guest, &mut to_client)).1.unwrap();
    });
    web::tls(near, API, setting.pki.root.clone(), &[]).await.unwrap();
}

#[tokio::test]
async fn connections_that_need_the_proxy_are_cut_when_it_is_turned_on() {
    let setting = Setting::new(NetworkRules { egress: Egress::Direct, ..proxied() }, &[API]).await;
    let listener = setting.net.uplink.listen(PUBLIC, 80).await;
    let mut stream = setting.connect(PUBLIC, 80).await;
    let (mut server, _) = listener.accept().await.unwrap();
    stream.write_all(b"any").await.unwrap();
    server.read_exact(&mut [0; 3]).await.unwrap();
    let policy = Policy::check(&proxied()).unwrap();
    setting.net.router.set_policies(vec![(workspace(2), policy)]).unwrap();
    setting.net.logged(LogEvent::Cut).await;
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
}
