//! Who is answered.

use crate::fake::{Fake, SESSION_TOKEN};
use crate::server::{Server, TOKEN};

const LIST: &str = "/v1/workspaces";

#[tokio::test]
async fn the_socket_needs_no_token() {
    let server = Server::at_socket(Fake::default());
    let answer = server.ask("GET", LIST, &[("user-agent", "curl/8")], "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(server.log.all(), ["operator curl/8 workspace_list {}"]);
}

#[tokio::test]
async fn the_network_needs_a_token() {
    let server = Server::at_network(Fake::default());
    let host = ("host", "localhost");
    for headers in [
        &[host][..],
        &[host, ("authorization", "Bearer wrong")],
        &[host, ("authorization", "Bearer ")],
        &[host, ("authorization", "Basic dXNlcjpwYXNz")],
        &[host, ("authorization", TOKEN)],
    ] {
        let answer = server.ask("GET", LIST, headers, "").await;
        assert_eq!((answer.status, answer.code()), (401, "unauthorized"), "{headers:?}");
        assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"agentiso\"");
        assert_eq!(answer.header("connection"), "close", "{headers:?}");
    }
    assert!(server.log.all().is_empty(), "nothing reached the backend");
    let answer = server.as_user("GET", LIST, "").await;
    assert_eq!((answer.status, answer.header("connection")), (200, ""));
}

#[tokio::test]
async fn a_sessions_token_is_the_session() {
    for server in [Server::at_socket(Fake::default()), Server::at_network(Fake::default())] {
        let token = format!("Bearer {SESSION_TOKEN}");
        let session = [("host", "localhost"), ("authorization", token.as_str())];
        assert_eq!(server.ask("GET", LIST, &session, "").await.status, 200);
        let named = [&session[..], &[("x-agentiso-client", "helper\u{1b}")]].concat();
        assert_eq!(server.ask("GET", LIST, &named[..2], "").await.status, 200);
        let both = [&session[..], &[("agentiso-session", "another")]].concat();
        let refused = server.ask("GET", LIST, &both, "").await;
        assert_eq!((refused.status, refused.code()), (400, "invalid_argument"));
        assert_eq!(server.log.all(), ["session agent workspace_list {}", "session agent workspace_list {}"]);
    }
}

#[tokio::test]
async fn a_client_of_the_users_can_have_a_session_of_its_own() {
    let server = Server::at_network(Fake::default());
    let token = format!("Bearer {TOKEN}");
    let headers = [
        ("host", "localhost"),
        ("authorization", token.as_str()),
        ("agentiso-session", "a secret of this client"),
        ("x-agentiso-client", "builder"),
    ];
    assert_eq!(server.ask("GET", LIST, &headers, "").await.status, 200);
    let expected = ["known by Secret(\"a secret of this client\")", "session builder workspace_list {}"];
    assert_eq!(server.log.all(), expected);
}

#[tokio::test]
async fn requests_for_other_hosts_and_from_other_origins_are_refused_even_with_the_token() {
    let server = Server::at_network(Fake::default());
    let token = format!("Bearer {TOKEN}");
    let ask = async |path: &str, host: &str, origin: Option<&str>| {
        let origin = origin.map(|origin| ("origin", origin));
        let headers: Vec<_> =
            [("host", host), ("authorization", token.as_str())].into_iter().chain(origin).collect();
        let answer = server.ask("GET", path, &headers, "").await;
        (answer.status, answer.code().to_owned())
    };
    for path in [LIST, "/v1/openapi.json", "/metrics", "/healthz"] {
        for (host, origin) in
            [("evil.example", None), ("localhost", Some("http://evil.example")), ("localhost", Some("null"))]
        {
            let refused = ask(path, host, origin).await;
            assert_eq!(refused, (403, "permission_denied".to_owned()), "{path} {host} {origin:?}");
        }
        for (host, origin) in
            [("localhost:7070", None), ("[::1]:1", None), ("box.example", Some("https://box.example"))]
        {
            assert_eq!(ask(path, host, origin).await.0, 200, "{path} {host} {origin:?}");
        }
    }
}
