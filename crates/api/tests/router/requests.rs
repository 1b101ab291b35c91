//! From a request to an action.

use agentiso_core::wire::body_limit;
use axum::body::{Body, Bytes};
use axum::http::Request;
use serde_json::{Value, json};

use crate::fake::{Fake, Reply};
use crate::server::{Server, TOKEN};

#[tokio::test]
async fn parameters_come_from_path_query_and_body() {
    let server = Server::at_network(Fake::default());
    for (method, path, body, action, arguments) in [
        ("GET", "/v1/workspaces?labels=a=b", "", "workspace_list", json!({ "labels": { "a": "b" } })),
        ("GET", "/v1/workspaces/my%20ws", "", "workspace_info", json!({ "workspace_id": "my ws" })),
        ("POST", "/v1/workspaces", "{\"vcpus\":2}", "workspace_create", json!({ "vcpus": 2 })),
        ("POST", "/v1/workspaces", "", "workspace_create", json!({})),
        ("POST", "/v1/actions/exec_kill", "{\"job_id\":7}", "exec_kill", json!({ "job_id": 7 })),
    ] {
        let answer = server.as_user(method, path, body).await;
        assert_eq!(answer.status, 200, "{method} {path} {answer:?}");
        let last = server.log.all().pop().unwrap();
        let rest =
            last.strip_prefix(&format!("operator unknown {action} ")).unwrap_or_else(|| panic!("{last}"));
        assert_eq!(serde_json::from_str::<Value>(rest).unwrap(), arguments, "{method} {path}");
    }
}

#[tokio::test]
async fn bodies_that_are_not_an_object_are_refused() {
    let server = Server::at_network(Fake::default());
    for body in ["[]", "7", "null", "{", "nonsense", "{}{}"] {
        let answer = server.as_user("POST", "/v1/workspaces", body).await;
        assert_eq!((answer.status, answer.code()), (400, "invalid_argument"), "{body}");
    }
    let twice = server.as_user("POST", "/v1/workspaces/web/exec", "{\"workspace_id\":\"other\"}").await;
    assert_eq!((twice.status, twice.code()), (400, "invalid_argument"), "{twice:?}");
    assert!(server.log.all().is_empty(), "nothing reached the backend");
}

#[tokio::test]
async fn a_body_that_is_longer_than_its_action_allows_is_refused_whether_it_is_announced_or_not() {
    let server = Server::at_network(Fake::default());
    let long = body_limit("exec_kill") + 1;
    let answer = server.as_user("POST", "/v1/actions/exec_kill", &" ".repeat(long)).await;
    assert_eq!((answer.status, answer.code()), (413, "file_too_large"));
    let request = |length: Option<usize>, body: Body| {
        let request = Request::post("/v1/actions/exec_kill").header("host", "localhost");
        let request = request.header("authorization", format!("Bearer {TOKEN}"));
        let request =
            length.iter().fold(request, |request, length| request.header("content-length", *length));
        request.body(body).unwrap()
    };
    // Refused before a byte of it has come.
    let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    assert_eq!(server.send(request(Some(long), never)).await.status(), 413);
    let pieces = (0..=long / 1000).map(|_| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; 1000])));
    let unannounced = Body::from_stream(futures_util::stream::iter(pieces));
    assert_eq!(server.send(request(None, unannounced)).await.status(), 413);
    assert!(server.log.all().is_empty(), "nothing reached the backend");
}

#[tokio::test]
async fn a_request_whose_client_is_gone_is_cancelled() {
    let server = Server::at_socket(Fake::default());
    server.fake.reply("workspace_list", Reply::Hangs);
    let request = Request::get("/v1/workspaces").body(Body::empty()).unwrap();
    tokio::select! {
        _ = server.send(request) => panic!("it hangs"),
        () = server.log.wait_for("call hangs") => {}
    }
    server.log.wait_for("call dropped").await;
}
