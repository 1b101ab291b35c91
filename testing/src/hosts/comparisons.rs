//! Comparing points.

use agentiso_core::ports::host::{ChangeKind, CompareRequest, Point, TextDiff};
use agentiso_core::{Code, SnapshotId};
use uuid::Uuid;

use super::HostLab;
use super::lab::refused;

/// Checks comparisons of two points.
///
/// # Panics
///
/// If the host breaks a promise.
pub async fn comparisons(lab: &HostLab) {
    let id = lab.create("compared").await.id;
    lab.sh(id, "mkdir /root/dir; echo old > /root/dir/changed; echo gone > /root/dir/removed").await;
    let before = lab.snapshot(id, "before", false).await.snapshot.id;
    lab.sh(
        id,
        "echo new > /root/dir/changed; rm /root/dir/removed; echo x > /root/dir/added; echo y > /etc/outside",
    )
    .await;

    let points = CompareRequest {
        before: Point::Snapshot(before),
        after: Point::Now(id),
        under: Some("/root/dir".to_owned()),
    };
    let changes = lab.host.compare(&points).await.expect("a comparison");
    let seen: Vec<(String, &str)> = changes
        .entries
        .iter()
        .map(|change| (String::from_utf8_lossy(&change.path).into_owned(), kind(&change.kind)))
        .collect();
    let expected =
        [("/root/dir/added", "added"), ("/root/dir/changed", "modified"), ("/root/dir/removed", "removed")];
    assert_eq!(seen, expected.map(|(path, kind)| (path.to_owned(), kind)));
    assert_eq!((changes.totals.added, changes.totals.modified, changes.totals.removed), (1, 1, 1));

    let whole = CompareRequest { under: None, ..points.clone() };
    let changes = lab.host.compare(&whole).await.expect("a comparison");
    assert!(changes.entries.iter().any(|change| change.path == b"/etc/outside"));
    let same = CompareRequest { after: Point::Snapshot(before), ..whole.clone() };
    assert!(lab.host.compare(&same).await.expect("a comparison").entries.is_empty());

    let text = lab.host.compare_file(&whole, "/root/dir/changed").await.expect("a difference");
    let TextDiff::Text { unified, truncated: false } = text else { panic!("{text:?}") };
    assert!(unified.contains("-old\n") && unified.contains("+new\n"), "{unified}");
    assert_eq!(lab.host.compare_file(&whole, "/etc/passwd").await.expect("a difference"), TextDiff::Same);
    refused(lab.host.compare_file(&whole, "/no/such/file").await, Code::InvalidArgument);
    let nobodys = CompareRequest { before: Point::Snapshot(SnapshotId::from_uuid(Uuid::now_v7())), ..whole };
    refused(lab.host.compare(&nobodys).await, Code::SnapshotNotFound);
    assert_eq!(lab.sh(id, "cat /root/dir/changed").await, "new\n", "a comparison changes nothing");
    lab.remove(id).await;
    lab.require_nothing().await;
}

fn kind(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Modified { .. } => "modified",
        ChangeKind::Renamed { .. } => "renamed",
        ChangeKind::Unreadable { .. } => "unreadable",
    }
}
