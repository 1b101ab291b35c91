//! The machine's variables.

use agentiso_proto::{Request, Response, Secret};
use agentiso_vmm::link::LinkError;

use super::{acquainted, acquainted_with_older, assert_violation};

fn secret(value: &str) -> Secret {
    Secret::from(value.to_owned())
}

#[tokio::test]
async fn variables_are_set_removed_and_listed() {
    let (guest, mut script) = acquainted().await;
    let changes = vec![("A".to_owned(), Some("v".to_owned())), ("B".to_owned(), None)];
    let (set, ()) = tokio::join!(guest.set_env(changes), async {
        let (stream, request) = script.request().await.unwrap();
        let changes = vec![("A".to_owned(), Some(secret("v"))), ("B".to_owned(), None)];
        assert_eq!(request, Request::SetEnv { changes });
        script.finish(stream, &Response::EnvSet { variables: 1 }).await.unwrap();
    });
    assert_eq!(set.unwrap(), 1);
    let (listed, ()) = tokio::join!(guest.env(), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::GetEnv);
        script.finish(stream, &Response::Env(vec![("A".to_owned(), secret("v"))])).await.unwrap();
    });
    assert_eq!(listed.unwrap(), [("A".to_owned(), "v".to_owned())]);
}

#[tokio::test]
async fn impossible_variables_are_a_violation_and_no_error_reveals_a_value() {
    for name in ["", "A B", "PATH", "A\x1b"] {
        let (guest, mut script) = acquainted().await;
        let (listed, ()) = tokio::join!(guest.env(), async {
            let (stream, _) = script.request().await.unwrap();
            script.finish(stream, &Response::Env(vec![(name.to_owned(), secret("hunter2"))])).await.unwrap();
        });
        assert_violation(&listed.unwrap_err());
    }
    let (guest, mut script) = acquainted().await;
    let (synced, ()) = tokio::join!(guest.sync(), async {
        let (stream, _) = script.request().await.unwrap();
        let misplaced = Response::Env(vec![("A".to_owned(), secret("hunter2"))]);
        script.finish(stream, &misplaced).await.unwrap();
    });
    let error = synced.unwrap_err();
    assert_violation(&error);
    assert!(!format!("{error} {error:?}").contains("hunter2"));
}

#[tokio::test]
async fn no_variables_are_sent_to_an_older_agent() {
    let (guest, _script) = acquainted_with_older().await;
    for error in [guest.set_env(Vec::new()).await.unwrap_err(), guest.env().await.unwrap_err()] {
        assert!(matches!(error, LinkError::OldAgent { .. }), "{error:?}");
    }
}
