//! Sessions, metrics and the daemon's end.

use agentiso_client::Client;

use crate::fake::{Fake, SESSION_TOKEN};
use crate::server::Server;

fn in_session(server: &Server) -> Client {
    server.client().with_token(SESSION_TOKEN.to_owned())
}

#[tokio::test]
async fn only_the_user_can_start_a_session() {
    let server = Server::at_socket(Fake::default());
    let begun = server.client().start_session(true).await.unwrap();
    assert_eq!(begun.token.expose(), SESSION_TOKEN);
    assert_eq!(server.log.all(), ["begin Mcp tests/1"]);
    let refused = in_session(&server).start_session(true).await.unwrap_err();
    assert_eq!(refused.code(), agentiso_core::Code::PermissionDenied);
    assert_eq!(server.log.all().len(), 1);
}

#[tokio::test]
async fn a_session_is_ended_by_itself_alone() {
    let server = Server::at_socket(Fake::default());
    server.client().end_session().await.unwrap();
    assert!(server.log.all().is_empty(), "the user has no session");
    in_session(&server).end_session().await.unwrap();
    assert_eq!(server.log.all(), ["session ended"]);
}

#[tokio::test]
async fn a_client_is_present_until_it_is_gone_and_kept_if_the_daemon_ends() {
    let server = Server::at_socket(Fake::default());
    let client = in_session(&server);
    let staying = tokio::spawn(async move { client.stay_present().await });
    server.log.wait_for("present").await;
    staying.abort();
    server.log.wait_for("absent").await;
    assert!(!server.log.all().contains(&"kept".to_owned()));
    let server = Server::at_socket(Fake::default());
    let client = in_session(&server);
    let staying = tokio::spawn(async move { client.stay_present().await });
    server.log.wait_for("present").await;
    server.end.send(true).unwrap();
    staying.await.unwrap().unwrap();
    assert!(server.log.all().contains(&"kept".to_owned()), "{:?}", server.log.all());
    let refused = server.client().stay_present().await.unwrap_err();
    assert_eq!(refused.code(), agentiso_core::Code::InvalidArgument);
}

#[tokio::test]
async fn only_the_user_can_end_the_daemon() {
    let mut server = Server::at_socket(Fake::default());
    let refused = in_session(&server).shut_down(true).await.unwrap_err();
    assert_eq!(refused.code(), agentiso_core::Code::PermissionDenied);
    assert!(server.shutdown.try_recv().is_err());
    server.client().shut_down(true).await.unwrap();
    assert_eq!(server.shutdown.try_recv(), Ok(true));
    server.client().shut_down(false).await.unwrap();
    assert_eq!(server.shutdown.try_recv(), Ok(false));
}

#[tokio::test]
async fn metrics_are_not_for_sessions_that_are_isolated() {
    let token = format!("Bearer {SESSION_TOKEN}");
    let session = [("authorization", token.as_str())];
    for (isolated, status) in [(false, 200), (true, 403)] {
        let server = Server::at_socket(Fake { isolated, ..Fake::default() });
        assert_eq!(server.ask("GET", "/metrics", &session, "").await.status, status);
        let answer = server.ask("GET", "/metrics", &[], "").await;
        assert_eq!((answer.status, answer.text.as_str()), (200, "agentiso_workspaces 1\n"));
        assert!(answer.header("content-type").starts_with("text/plain; version=0.0.4"));
        let answer = server.ask("GET", "/healthz", &[], "").await;
        assert_eq!((answer.status, &answer.json["status"]), (200, &"ok".into()));
    }
}
