//! A repository, served by git's own program.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::AsyncWriteExt;

use super::web::{body, status};

/// One commit with one file.
const HISTORY: &str = "\
blob
mark :1
data 6
hello

commit refs/heads/main
committer Test <test@web.example> 1700000000 +0000
data 8
Initial

M 100644 :1 README

";

/// Creates the repository `project.git`, which everybody may push to.
pub(super) fn create(directory: &Path) {
    let repository = directory.join("git/project.git");
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&repository).args(arguments).stdout(Stdio::null());
        command
    };
    let run = |arguments: &[&str]| {
        assert!(git(arguments).status().expect("git is needed").success(), "git {arguments:?}");
    };
    std::fs::create_dir_all(&repository).expect("a directory");
    run(&["init", "--quiet", "--bare", "--initial-branch=main"]);
    run(&["config", "http.receivepack", "true"]);
    let mut import = git(&["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().expect("git is needed");
    import.stdin.take().expect("its input").write_all(HISTORY.as_bytes()).expect("git reads");
    assert!(import.wait().expect("git ends").success(), "git fast-import");
}

/// Answers a request by running `git http-backend`.
pub(super) async fn answer(root: &Path, request: hyper::Request<Incoming>) -> hyper::Response<Full<Bytes>> {
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut command = tokio::process::Command::new("git");
    command
        .arg("http-backend")
        .env("GIT_PROJECT_ROOT", root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("GIT_CONFIG_COUNT", "1")
        .env("GIT_CONFIG_KEY_0", "safe.directory")
        .env("GIT_CONFIG_VALUE_0", "*")
        .env("REQUEST_METHOD", request.method().as_str())
        .env("PATH_INFO", request.uri().path())
        .env("QUERY_STRING", request.uri().query().unwrap_or_default())
        .env("CONTENT_TYPE", header("content-type"))
        .env("HTTP_CONTENT_ENCODING", header("content-encoding"))
        .env("GIT_PROTOCOL", header("git-protocol"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let Ok(sent) = request.into_body().collect().await else { return status(StatusCode::BAD_REQUEST) };
    let sent = sent.to_bytes();
    command.env("CONTENT_LENGTH", sent.len().to_string());
    let mut child = command.spawn().expect("git is needed");
    let mut stdin = child.stdin.take().expect("its input");
    let (_, output) = tokio::join!(
        async move {
            let _ = stdin.write_all(&sent).await;
        },
        child.wait_with_output()
    );
    let output = output.expect("git ends").stdout;
    let Some(end) = output.windows(4).position(|window| window == b"\r\n\r\n") else {
        return status(StatusCode::INTERNAL_SERVER_ERROR);
    };
    let mut response = body(output[end + 4..].to_vec());
    for line in String::from_utf8_lossy(&output[..end]).lines() {
        let Some((name, value)) = line.split_once(": ") else { continue };
        if name == "Status" {
            let code = value.split(' ').next().and_then(|code| code.parse().ok());
            *response.status_mut() = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        } else if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_str(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}
