//! Failures as HTTP has them.

use std::time::Duration;

use agentiso_core::{Code, Failure};

use crate::fake::{Fake, fails};
use crate::server::Server;

#[tokio::test]
async fn every_code_has_its_status_and_comes_with_message_and_remedy() {
    let server = Server::at_network(Fake::default());
    for code in Code::all() {
        let failure = fails(|| Failure::new(*code, "what failed").with_remedy("what to do"));
        server.fake.reply("workspace_list", failure);
        let answer = server.as_user("GET", "/v1/workspaces", "").await;
        assert_eq!((answer.status, answer.code()), (code.http_status(), code.as_str()), "{answer:?}");
        assert!(answer.status >= 400, "{answer:?}");
        let error = &answer.json["error"];
        assert_eq!((&error["message"], &error["remedy"]), (&"what failed".into(), &"what to do".into()));
        assert_eq!(answer.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn a_failure_that_passes_says_when_to_try_again() {
    let server = Server::at_network(Fake::default());
    let wait = Duration::from_millis(1200);
    let failure = fails(move || Failure::new(Code::RateLimited, "too many").retry_after(wait));
    server.fake.reply("workspace_list", failure);
    let answer = server.as_user("GET", "/v1/workspaces", "").await;
    assert_eq!((answer.status, answer.header("retry-after")), (429, "2"));
}

#[tokio::test]
async fn what_the_framework_refuses_has_our_form_too() {
    let server = Server::at_network(Fake::default());
    for (method, path, body, status) in [
        ("GET", "/v1/nowhere", "", 404),
        ("GET", "/elsewhere", "", 404),
        ("PATCH", "/v1/workspaces", "", 405),
        ("GET", "/v1/workspaces/web/jobs/nine/stream", "", 400),
        ("GET", "/v1/workspaces/web/exec/stream", "", 400),
        ("GET", "/v1/run/stream", "", 400),
        ("POST", "/v1/sessions", "{}", 400),
        ("POST", "/v1/sessions", "nonsense", 400),
        ("POST", "/v1/actions/no_such_action", "{}", 400),
    ] {
        let answer = server.as_user(method, path, body).await;
        assert_eq!(
            (answer.status, answer.code()),
            (status, "invalid_argument"),
            "{method} {path} {answer:?}"
        );
        assert!(!answer.json["error"]["message"].as_str().unwrap().is_empty());
    }
    let near = server.as_user("POST", "/v1/actions/workspace_lst", "{}").await;
    assert!(near.json["error"]["remedy"].as_str().unwrap().contains("workspace_list"), "{near:?}");
    assert!(server.log.all().is_empty(), "nothing reached the backend");
}
