//! Who sees which events.

use agentiso_core::Isolation;
use agentiso_core::action::{WorkspaceDestroy, WorkspaceRename};
use agentiso_engine::Delivered;
use agentiso_testing::FailAt;

use crate::lab::{Lab, operator};

/// More events than a subscriber's queue holds.
const MANY: usize = 300;

async fn rename(lab: &Lab, from: &str, to: &str) {
    let rename = WorkspaceRename { workspace_id: from.to_owned(), new_name: to.to_owned() };
    lab.act(&operator(), rename).await.unwrap();
}

fn name(delivered: Delivered) -> String {
    match delivered {
        Delivered::Event(event) => event.name,
        Delivered::Missed(missed) => panic!("missed {missed}"),
    }
}

#[tokio::test]
async fn a_slow_session_is_told_only_of_events_of_its_own_that_it_missed() {
    for isolation in [Isolation::Shared, Isolation::Strict] {
        let lab = Lab::with(|settings| settings.isolation = isolation).await;
        let (one, two) = (lab.session("one").await, lab.session("two").await);
        lab.create(&one, "mine").await;
        lab.create(&two, "theirs").await;
        let (mut own, mut all) = (lab.engine.subscribe(&one), lab.engine.subscribe(&operator()));
        for _ in 0..MANY / 2 {
            rename(&lab, "theirs", "theirs-2").await;
            rename(&lab, "theirs-2", "theirs").await;
        }
        rename(&lab, "mine", "mine-2").await;
        assert_eq!(name(own.next().await), "mine-2", "nothing of another session's came first");
        let mut seen = 0;
        let missed = loop {
            match all.next().await {
                Delivered::Event(_) => seen += 1,
                Delivered::Missed(missed) => break missed,
            }
        };
        assert_eq!(seen + missed, MANY as u64 + 1);
    }
}

#[tokio::test]
async fn an_event_whose_owner_cannot_be_read_is_shown_to_the_operator_alone() {
    let lab = Lab::new().await;
    let agent = lab.session("agent").await;
    let (mut own, mut all) = (lab.engine.subscribe(&agent), lab.engine.subscribe(&operator()));
    let mut hidden = 0;
    for nth in 1..16 {
        let workspace = format!("web-{nth}");
        let id = lab.create(&operator(), &workspace).await;
        while name(own.next().await) != workspace {}
        while name(all.next().await) != workspace {}
        lab.records.fail(FailAt::new(nth, false));
        let to = format!("shop-{nth}");
        let rename = WorkspaceRename { workspace_id: workspace.clone(), new_name: to };
        // Whether it succeeds depends on which transaction fails.
        let _ = lab.act(&operator(), rename).await;
        lab.records.succeed();
        // An event that everyone sees, after the one in question.
        let destroy = WorkspaceDestroy { workspace_id: id.to_string() };
        lab.act(&operator(), destroy).await.unwrap();
        let kinds = |mut seen: Vec<Delivered>| {
            seen.retain(|one| matches!(one, Delivered::Event(event) if event.kind.as_str() == "renamed"));
            seen.len()
        };
        let (mut own_seen, mut all_seen) = (Vec::new(), Vec::new());
        for (events, seen) in [(&mut own, &mut own_seen), (&mut all, &mut all_seen)] {
            loop {
                let next = events.next().await;
                let last = matches!(&next, Delivered::Event(event) if event.kind.as_str() == "destroyed");
                seen.push(next);
                if last {
                    break;
                }
            }
        }
        let (own_seen, all_seen) = (kinds(own_seen), kinds(all_seen));
        assert!(own_seen <= all_seen);
        hidden += all_seen - own_seen;
    }
    assert_eq!(hidden, 1, "the read of the owner is one of the transactions");
}
