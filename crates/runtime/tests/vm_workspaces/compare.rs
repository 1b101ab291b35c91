//! Comparisons between snapshots and workspaces of real machines.

use agentiso_core::{Code, Failure};
use agentiso_runtime::diff::{Change, ChangeKind, TextDiff};
use agentiso_runtime::workspaces::{CompareRequest, Point};

use crate::common::Home;

/// Points of the workspace `m`, or of the workspace before a colon.
fn request(home: &Home, before: &str, after: &str, under: &str) -> Result<CompareRequest, Failure> {
    let point = |name: &str| {
        let (workspace, name) = name.split_once(':').unwrap_or(("m", name));
        match name {
            "now" => Ok(Point::Now(home.id(workspace))),
            name => home.snapshot_id(workspace, name).map(Point::Snapshot),
        }
    };
    Ok(CompareRequest { before: point(before)?, after: point(after)?, under: Some(under.to_owned()) })
}

/// Each change as a letter and a path.
async fn changes(home: &Home, before: &str, after: &str) -> Vec<String> {
    let found = home.workspaces.compare(&request(home, before, after, "/root").unwrap()).await;
    let found = found.unwrap_or_else(|failure| panic!("{failure:?}"));
    found.entries.iter().map(line).collect()
}

fn line(change: &Change) -> String {
    let path = String::from_utf8_lossy(&change.path);
    match &change.kind {
        ChangeKind::Added => format!("A {path}"),
        ChangeKind::Removed => format!("D {path}"),
        ChangeKind::Modified { aspects } => format!("M {path} {aspects:?}"),
        ChangeKind::Renamed { from, .. } => format!("R {} {path}", String::from_utf8_lossy(from)),
        ChangeKind::Unreadable { .. } => format!("? {path}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_change_is_found_between_snapshots_machines_and_forks() {
    let home = Home::new().await;
    home.create("m").await;
    home.sh("m", "cd /root; echo one > kept; echo two > changed; echo three > gone; echo four > moved; mkdir d; touch d/x")
        .await;
    home.snapshot("m", "a", false).await;
    assert_eq!(changes(&home, "a", "now").await, Vec::<String>::new());
    home.sh(
        "m",
        "cd /root; echo TWO > changed; rm gone; mv moved away; chmod 700 kept; touch new; chown 7 d/x",
    )
    .await;
    let expected = [
        "R /root/moved /root/away",
        "M /root/changed {Content}",
        "M /root/d/x {Owner}",
        "D /root/gone",
        "M /root/kept {Mode}",
        "A /root/new",
    ];
    let mut expected: Vec<String> = expected.map(str::to_owned).to_vec();
    expected.sort();
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    // Of a running machine, a snapshot with memory, a fork, and a stopped machine.
    assert_eq!(sorted(changes(&home, "a", "now").await), expected);
    home.snapshot("m", "b", true).await;
    assert_eq!(sorted(changes(&home, "a", "b").await), expected);
    home.fork("m", "f", 1).await;
    home.sh("f", "rm /root/new").await;
    assert_eq!(changes(&home, "b", "f:now").await, ["D /root/new"]);
    home.stop("m").await;
    assert_eq!(changes(&home, "b", "now").await, Vec::<String>::new());
    // Reversed, additions are removals.
    assert!(changes(&home, "b", "a").await.contains(&"A /root/gone".to_owned()));

    let text =
        home.workspaces.compare_file(&request(&home, "a", "b", "/").unwrap(), "/root/changed").await.unwrap();
    let TextDiff::Text { unified, .. } = text else { panic!("{text:?}") };
    assert!(unified.contains("-two\n+TWO\n"), "{unified}");
    let missing = home
        .workspaces
        .compare_file(&request(&home, "a", "b", "/").unwrap(), "/root/nowhere")
        .await
        .unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);
    assert_eq!(request(&home, "a", "c", "/root").unwrap_err().code(), Code::SnapshotNotFound);
}
