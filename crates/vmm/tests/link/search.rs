//! Finding files in the guest, and lines in them.

use agentiso_proto::{FileKind, Find, FoundEntry, Grep, GrepMatch, GrepSummary, Kind, Request, Response};
use agentiso_vmm::link::{Found, Grepped, LinkError};

use super::{acquainted, acquainted_with_older, assert_violation};

fn find() -> Find {
    Find { root: b"/r".to_vec(), glob: "**".to_owned(), max: 2, hidden: false }
}

fn grep() -> Grep {
    Grep { root: b"/r".to_vec(), pattern: "p".to_owned(), max_matches: 2, ..Grep::default() }
}

fn entry(path: &str) -> FoundEntry {
    FoundEntry { path: path.into(), kind: FileKind::File, size: 1, mode: 0o644, modified_ns: 2 }
}

fn line(path: &str) -> GrepMatch {
    GrepMatch {
        path: path.into(),
        line_number: 1,
        line: b"l".to_vec(),
        before: Vec::new(),
        after: Vec::new(),
    }
}

#[tokio::test]
async fn matches_arrive_in_batches_with_a_summary() {
    let (guest, mut script) = acquainted().await;
    let (found, ()) = tokio::join!(guest.find(find()), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Find(find()));
        script.respond(stream, &Response::Found(vec![entry("a")])).await.unwrap();
        script.respond(stream, &Response::Found(vec![entry("b/c")])).await.unwrap();
        script.finish(stream, &Response::FindDone { truncated: true }).await.unwrap();
    });
    assert_eq!(found.unwrap(), Found { entries: vec![entry("a"), entry("b/c")], truncated: true });
    let (grepped, ()) = tokio::join!(guest.grep(grep()), async {
        let (stream, request) = script.request().await.unwrap();
        assert_eq!(request, Request::Grep(grep()));
        script.respond(stream, &Response::Matches(vec![line("a"), line("")])).await.unwrap();
        let summary = GrepSummary { files_searched: 3, files_too_large: 4, truncated: false };
        script.finish(stream, &Response::GrepDone(summary)).await.unwrap();
    });
    let expected = Grepped {
        matches: vec![line("a"), line("")],
        files_searched: 3,
        files_too_large: 4,
        truncated: false,
    };
    assert_eq!(grepped.unwrap(), expected);
}

#[tokio::test]
async fn unsafe_paths_and_too_many_matches_are_violations() {
    for path in ["/etc/passwd", "../x", "a/../../x", "a//b", "a\0", "."] {
        let (guest, mut script) = acquainted().await;
        let (found, ()) = tokio::join!(guest.find(find()), async {
            let (stream, _) = script.request().await.unwrap();
            script.respond(stream, &Response::Found(vec![entry(path)])).await.unwrap();
        });
        assert_violation(&found.unwrap_err());
    }
    let long = GrepMatch { line: vec![0; 2049], ..line("a") };
    let wide = GrepMatch { after: vec![Vec::new(); 51], ..line("a") };
    for matches in [vec![line("../x")], vec![line("a"); 3], vec![long], vec![wide]] {
        let (guest, mut script) = acquainted().await;
        let (grepped, ()) = tokio::join!(guest.grep(grep()), async {
            let (stream, _) = script.request().await.unwrap();
            script.respond(stream, &Response::Matches(matches)).await.unwrap();
        });
        assert_violation(&grepped.unwrap_err());
    }
    let (guest, mut script) = acquainted().await;
    let (found, ()) = tokio::join!(guest.find(find()), async {
        let (stream, _) = script.request().await.unwrap();
        script.respond(stream, &Response::Found(vec![entry("a"), entry("b"), entry("c")])).await.unwrap();
    });
    assert_violation(&found.unwrap_err());
}

#[tokio::test]
async fn a_search_whose_caller_is_gone_is_cancelled() {
    let (guest, mut script) = acquainted().await;
    let searching = tokio::spawn({
        let guest = guest.clone();
        async move { guest.grep(grep()).await }
    });
    let (stream, _) = script.request().await.unwrap();
    searching.abort();
    assert_eq!(script.expect(Kind::Cancel).await.unwrap().stream, stream);
}

#[tokio::test]
async fn no_search_request_is_sent_to_an_older_agent() {
    let (guest, _script) = acquainted_with_older().await;
    assert!(matches!(guest.find(find()).await, Err(LinkError::OldAgent { .. })));
    assert!(matches!(guest.grep(grep()).await, Err(LinkError::OldAgent { .. })));
}
