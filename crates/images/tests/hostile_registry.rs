//! A hostile registry: on loopback, over plain HTTP, with responses written byte by byte.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers may panic")]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agentiso_core::progress::Silent;
use agentiso_core::{Code, Explain, chain};
use agentiso_images::source::{SourceError, pull};
use sha2::Digest as _;

/// More than any response may have, including what the kernel buffers between two sockets.
const FAR_TOO_MUCH: u64 = 64 << 20;
const LIMIT: u64 = 1 << 20;

/// The registry's response to a path.
#[derive(Clone)]
enum Answer {
    /// A status, headers and a body with its length.
    Plain(u16, Vec<(&'static str, String)>, Vec<u8>),
    /// A chunked body that starts with these bytes and never ends.
    Endless(u16, Vec<u8>),
    /// Headers that announce more than is sent.
    Promises(u64),
}

struct Registry {
    address: String,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    asked: Arc<Mutex<Vec<String>>>,
    sent: Arc<AtomicU64>,
}

impl Registry {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let registry = Self {
            address: listener.local_addr().unwrap().to_string(),
            answers: Arc::default(),
            asked: Arc::default(),
            sent: Arc::default(),
        };
        let (answers, asked, sent) =
            (registry.answers.clone(), registry.asked.clone(), registry.sent.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (answers, asked, sent) = (answers.clone(), asked.clone(), sent.clone());
                std::thread::spawn(move || serve(stream.unwrap(), &answers, &asked, &sent));
            }
        });
        registry
    }

    fn answer(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    fn manifest(&self, reference: &str, json: &serde_json::Value) {
        let path = format!("/v2/team/app/manifests/{reference}");
        self.answer(&path, Answer::Plain(200, Vec::new(), json.to_string().into_bytes()));
    }

    fn blob(&self, digest: &str, answer: Answer) {
        self.answer(&format!("/v2/team/app/blobs/{digest}"), answer);
    }

    fn pull(&self) -> SourceError {
        let scratch = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let reference = format!("{}/team/app:1", self.address);
        let pulled = runtime.block_on(pull(&reference, scratch.path(), None, LIMIT, &Silent));
        let error = pulled.expect_err("it was accepted");
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "something was left behind");
        error
    }

    fn is_rejected_for(&self, why: &str) {
        let error = self.pull();
        assert_eq!(error.code(), Code::ImageRejected, "{}", chain(&error));
        assert!(chain(&error).contains(why), "{why}: {}", chain(&error));
        let sent = self.sent.load(Ordering::Relaxed);
        assert!(sent < FAR_TOO_MUCH, "{sent} bytes were read");
    }
}

fn serve(
    mut stream: TcpStream,
    answers: &Mutex<HashMap<String, Answer>>,
    asked: &Mutex<Vec<String>>,
    sent: &AtomicU64,
) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    let Some(Ok(first)) = lines.next() else { return };
    while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
    let path = first.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
    asked.lock().unwrap().push(path.clone());
    let found = answers.lock().unwrap().get(&path).cloned();
    let answer = found.unwrap_or(Answer::Plain(404, Vec::new(), Vec::new()));
    // The client disconnects when it has read enough.
    let _ = write(&mut stream, &answer, sent);
}

fn write(stream: &mut TcpStream, answer: &Answer, sent: &AtomicU64) -> std::io::Result<()> {
    match answer {
        Answer::Plain(status, headers, body) => {
            let mut head =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n", body.len());
            for (name, value) in headers {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
            stream.write_all(format!("{head}\r\n").as_bytes())?;
            stream.write_all(body)
        }
        Answer::Promises(length) => {
            let head = format!("HTTP/1.1 200 X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{{");
            stream.write_all(head.as_bytes())
        }
        Answer::Endless(status, start) => {
            let head =
                format!("HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n");
            stream.write_all(head.as_bytes())?;
            let mut body = start.clone();
            body.resize(64 << 10, b' ');
            while sent.load(Ordering::Relaxed) < FAR_TOO_MUCH {
                stream.write_all(format!("{:x}\r\n", body.len()).as_bytes())?;
                stream.write_all(&body)?;
                stream.write_all(b"\r\n")?;
                sent.fetch_add(body.len() as u64, Ordering::Relaxed);
            }
            Ok(())
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    let hex: String = sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

fn descriptor(digest: &str, size: u64) -> serde_json::Value {
    serde_json::json!({ "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size })
}

fn manifest(config: &serde_json::Value, layers: &[serde_json::Value]) -> serde_json::Value {
    serde_json::json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config, "layers": layers,
    })
}

fn index(of: &serde_json::Value) -> serde_json::Value {
    serde_json::json!({ "schemaVersion": 2, "manifests": [of] })
}

const NO_BLOB: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

#[test]
fn an_endless_manifest_is_rejected() {
    let registry = Registry::start();
    registry.answer("/v2/team/app/manifests/1", Answer::Endless(200, b"{".to_vec()));
    registry.is_rejected_for("manifest has more than 8388608 bytes");
    registry.answer("/v2/team/app/manifests/1", Answer::Promises(1 << 40));
    registry.is_rejected_for("manifest has more than 8388608 bytes");
}

#[test]
fn an_endless_token_is_rejected() {
    let registry = Registry::start();
    let realm = format!("Bearer realm=\"http://{}/token\",service=\"x\"", registry.address);
    let answer = Answer::Plain(401, vec![("www-authenticate", realm)], Vec::new());
    registry.answer("/v2/team/app/manifests/1", answer);
    registry.answer("/token", Answer::Endless(200, br#"{"token":"x"#.to_vec()));
    registry.is_rejected_for("token has more than 262144 bytes");
}

#[test]
fn credentials_are_not_sent_elsewhere_in_clear_text() {
    let registry = Registry::start();
    let realm = "Bearer realm=\"http://auth.invalid/token\"".to_owned();
    let answer = Answer::Plain(401, vec![("www-authenticate", realm)], Vec::new());
    registry.answer("/v2/team/app/manifests/1", answer);
    registry.is_rejected_for("must begin with https");
}

#[test]
fn only_the_start_of_an_endless_error_is_read_and_quoted() {
    let registry = Registry::start();
    registry.answer("/v2/team/app/manifests/1", Answer::Endless(500, b"\x1b[31mbroken".to_vec()));
    let error = registry.pull();
    assert_eq!(error.code(), Code::FetchFailed);
    assert!(error.to_string().contains("500") && error.to_string().contains("\\u{1b}[31mbroken"), "{error}");
    assert!(error.to_string().len() < 1000, "{error}");
    assert!(registry.sent.load(Ordering::Relaxed) < FAR_TOO_MUCH);
}

#[test]
fn a_manifest_must_match_the_size_and_digest_in_its_index() {
    let inner = manifest(&descriptor(NO_BLOB, 0), &[]).to_string();
    let registry = Registry::start();
    let digest = sha256(inner.as_bytes());
    let path = format!("/v2/team/app/manifests/{digest}");
    registry.manifest("1", &index(&descriptor(&digest, inner.len() as u64 - 1)));
    registry.answer(&path, Answer::Plain(200, Vec::new(), inner.clone().into_bytes()));
    registry.is_rejected_for(&format!("more than {} bytes", inner.len() - 1));
    registry.manifest("1", &index(&descriptor(&digest, inner.len() as u64 + 1)));
    registry.is_rejected_for("shorter than its index says");
    registry.manifest("1", &index(&descriptor(&digest, inner.len() as u64)));
    registry.answer(&path, Answer::Plain(200, Vec::new(), inner.replace('2', "3").into_bytes()));
    registry.is_rejected_for("does not match the digest");
    registry.manifest("1", &index(&descriptor("sha256:../../../etc", 10)));
    registry.is_rejected_for("manifest cannot be understood");
}

#[test]
fn endlessly_nested_indexes_are_rejected() {
    let registry = Registry::start();
    let mut below = manifest(&descriptor(NO_BLOB, 0), &[]);
    for _ in 0..6 {
        let text = below.to_string();
        let digest = sha256(text.as_bytes());
        registry.manifest(&digest, &below);
        below = index(&descriptor(&digest, text.len() as u64));
    }
    registry.manifest("1", &below);
    registry.is_rejected_for("nested too deeply");
}

#[test]
fn impossible_sizes_are_rejected_before_anything_is_fetched() {
    let registry = Registry::start();
    let small = descriptor(NO_BLOB, 2);
    let cases = [
        (manifest(&descriptor(NO_BLOB, 1 << 40), &[]), "configuration is far too large"),
        (manifest(&small, &[descriptor(NO_BLOB, LIMIT + 1)]), "more than 1048576 bytes"),
        (
            manifest(&small, &[descriptor(NO_BLOB, u64::MAX), descriptor(NO_BLOB, 2)]),
            "more than 1048576 bytes",
        ),
        (manifest(&small, &vec![descriptor(NO_BLOB, 0); 1001]), "more than 1000 layers"),
    ];
    for (manifest, why) in cases {
        registry.manifest("1", &manifest);
        registry.is_rejected_for(why);
    }
    let asked = registry.asked.lock().unwrap();
    assert!(asked.iter().all(|path| path == "/v2/team/app/manifests/1"), "{asked:?}");
}

#[test]
fn blobs_must_match_their_size_and_digest() {
    let registry = Registry::start();
    let config = b"{}".to_vec();
    let layer = vec![7; 1000];
    let (config_digest, layer_digest) = (sha256(&config), sha256(&layer));
    let whole = manifest(&descriptor(&config_digest, 2), &[descriptor(&layer_digest, 1000)]);
    registry.manifest("1", &whole);

    registry.blob(&config_digest, Answer::Endless(200, config.clone()));
    registry.is_rejected_for("configuration is longer than the 2 bytes promised");
    registry.blob(&config_digest, Answer::Plain(200, Vec::new(), config));

    registry.blob(&layer_digest, Answer::Endless(200, layer.clone()));
    registry.is_rejected_for("layer 1 of 1 is longer than the 1000 bytes promised");
    registry.blob(&layer_digest, Answer::Promises(1 << 50));
    registry.is_rejected_for("layer 1 of 1 is longer than the 1000 bytes promised");
    registry.blob(&layer_digest, Answer::Plain(200, Vec::new(), layer[..999].to_vec()));
    registry.is_rejected_for("layer 1 of 1 is 1 bytes shorter than promised");
    registry.blob(&layer_digest, Answer::Plain(200, Vec::new(), vec![8; 1000]));
    registry.is_rejected_for("layer 1 of 1 does not match the digest");
    // A response that is shorter than announced is a broken connection, not an invalid image.
    registry.blob(&layer_digest, Answer::Promises(1000));
    assert_eq!(registry.pull().code(), Code::FetchFailed);
}
