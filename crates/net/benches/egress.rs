//! Throughput of TLS through the router: without the proxy, passed on by it, and decrypted by it:
//! `cargo bench -p agentiso-net --bench egress`.
//!
//! Guest and server are in the same process, so their own encryption is part of every figure; compare the figures of one
//! run with each other.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a program for developers")]

#[path = "../tests/packets/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the tests use the rest")]
mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use agentiso_core::{Egress, HttpAction, HttpRule, NetworkRules};
use agentiso_net::egress::{ProxySetup, Roots, create_authority};
use agentiso_net::{Limits, Router};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use support::web::{Pki, from_pem, tls};
use support::*;

const NAME: &str = "api.example.com";
const TRANSFER: usize = 256 << 20;
const CHUNK: usize = 256 << 10;

fn main() {
    // Test runners list the tests of every target; this one has none.
    if std::env::args().any(|word| word == "--list") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let proxied = NetworkRules { egress: Egress::Proxy, ..online() };
    let rule = HttpRule {
        host: NAME.to_owned(),
        methods: Vec::new(),
        paths: vec!["/".to_owned()],
        action: HttpAction::Allow,
    };
    let decrypted = NetworkRules { http_rules: vec![rule], ..proxied.clone() };
    runtime.block_on(async {
        println!("without the proxy  {}", rate(download(online(), false).await));
        println!("passed on          {}", rate(download(proxied, false).await));
        println!("decrypted          {}", rate(download(decrypted, true).await));
    });
}

fn rate(elapsed: Duration) -> String {
    format!("{:6.2} Gbit/s", TRANSFER as f64 * 8.0 / elapsed.as_secs_f64() / 1e9)
}

/// How long a body takes from a server over TLS to the guest.
async fn download(rules: NetworkRules, is_decrypted: bool) -> Duration {
    let names = Nameserver::start(vec![(NAME, vec![a(NAME, 60, PUBLIC)])]).await;
    let (pki, uplink) = (Pki::new(), Arc::new(MappedUplink::default()));
    let roots = Roots::Fixed(vec![pki.root.clone()]);
    let router = Router::trusting(settings(vec![names.address]), Arc::clone(&uplink) as _, roots);
    let net = Net::with_router_and_uplink(router, uplink);
    let limits = Limits { bytes_per_second: 0, packets_per_second: 0, ..Limits::default() };
    let streams = Streams::new(net.guest_with(2, rules, limits, 65_520), &[NAME]).await;
    let authority = create_authority(workspace(2)).unwrap();
    let root = if is_decrypted { from_pem(&authority.certificate) } else { pki.root.clone() };
    let setup = ProxySetup { authority: Some(authority), secrets: Vec::new() };
    net.router.set_proxy(workspace(2), &setup).unwrap();

    let (listener, acceptor) = (net.uplink.listen(PUBLIC, 443).await, pki.server(NAME, &["http/1.1"]));
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        while stream.read_u8().await.unwrap() != b'\n' {}
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {TRANSFER}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = vec![7; CHUNK];
        for _ in 0..TRANSFER / CHUNK {
            stream.write_all(&chunk).await.unwrap();
        }
        stream.flush().await.unwrap();
        // Until the guest has everything.
        let _ = stream.read_u8().await;
    });
    let stream = streams.connect(PUBLIC, 443).await.unwrap();
    let mut stream = tls(stream, NAME, root, &["http/1.1"]).await.unwrap();
    let started = Instant::now();
    stream.write_all(format!("GET / HTTP/1.1\r\nHost: {NAME}\r\n\r\n").as_bytes()).await.unwrap();
    let (mut buffer, mut left) = (vec![0; CHUNK], TRANSFER);
    while left > 0 {
        // The head is a few bytes of all this.
        left = left.saturating_sub(stream.read(&mut buffer).await.unwrap());
    }
    started.elapsed()
}
