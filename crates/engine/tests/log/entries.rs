//! When entries of the timeline are written.

use agentiso_core::action::{WorkspaceInfo, WorkspaceRename, WorkspaceStop};
use agentiso_core::ports::records::WorkspaceRecords;
use agentiso_core::{Code, WorkspaceId};
use agentiso_testing::FailAt;
use agentiso_testing::fake::HostCall;

use crate::lab::{Lab, operator};

fn stop() -> WorkspaceStop {
    WorkspaceStop { workspace_id: "web".to_owned(), force: false, timeout_secs: None }
}

#[tokio::test]
async fn the_entry_of_a_change_is_stored_before_and_completed_before_the_answer() {
    let lab = Lab::new().await;
    lab.create(&operator(), "web").await;
    let hang = lab.host.faults().hang(HostCall::Stop);
    let user = operator();
    let stopping = lab.act(&user, stop());
    let look = async {
        hang.reached().await;
        let entry = lab.entries("workspace_stop").await.remove(0);
        assert_eq!((entry.outcome.as_str(), entry.workspace_name.as_deref()), ("running", Some("web")));
        hang.release();
    };
    let (stopped, ()) = tokio::join!(stopping, look);
    stopped.unwrap();
    let entry = lab.entries("workspace_stop").await.remove(0);
    assert_eq!((entry.outcome.as_str(), entry.changed.as_deref()), ("ok", Some("stopped")));
}

#[tokio::test]
async fn a_change_whose_client_disconnects_is_recorded_as_it_ended() {
    let lab = Lab::new().await;
    lab.create(&operator(), "web").await;
    let hang = lab.host.faults().hang(HostCall::Stop);
    let user = operator();
    tokio::select! {
        _ = lab.act(&user, stop()) => panic!("it was to hang"),
        () = hang.reached() => {}
    }
    assert_eq!(lab.entries("workspace_stop").await[0].outcome, "running");
    hang.release();
    lab.until("workspace_stop", "ok").await;
}

#[tokio::test]
async fn a_command_whose_client_disconnects_is_recorded_as_cancelled() {
    let lab = Lab::new().await;
    lab.create(&operator(), "web").await;
    let running = async {
        while lab.host.requested().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let user = operator();
    tokio::select! {
        _ = lab.exec(&user, "web", "sleep 1000") => panic!("it was to run on"),
        () = running => {}
    }
    lab.until("exec", "cancelled").await;
}

#[tokio::test]
async fn what_a_killed_daemon_left_running_is_marked_by_the_next_one_and_nothing_else_is() {
    let mut lab = Lab::new().await;
    lab.create(&operator(), "web").await;
    let hang = lab.host.faults().hang(HostCall::Stop);
    let user = operator();
    tokio::select! {
        _ = lab.act(&user, stop()) => panic!("it was to hang"),
        () = hang.reached() => {}
    }
    lab.reopen().await;
    lab.until("workspace_stop", "interrupted").await;
    assert_eq!(lab.entries("workspace_create").await[0].outcome, "ok");
    hang.release();
}

#[tokio::test]
async fn whatever_write_fails_nothing_is_changed_without_an_entry() {
    let (mut refused, mut done) = (0, 0);
    for nth in 1..12 {
        let lab = Lab::new().await;
        let id = lab.create(&operator(), "web").await;
        // What was queued so far is written.
        lab.entries("workspace_create").await;
        let rename = WorkspaceRename { workspace_id: "web".to_owned(), new_name: "shop".to_owned() };
        lab.records.fail(FailAt::new(nth, true));
        let renamed = lab.act(&operator(), rename).await;
        lab.records.succeed();
        match name(&lab, id).await.as_str() {
            "web" => {
                assert!(renamed.is_err(), "transaction {nth}");
                refused += 1;
            }
            "shop" => {
                // Its end is written again and again until it is there.
                let outcome = renamed.err().map_or("ok", |failure| failure.code().as_str());
                lab.until("workspace_rename", outcome).await;
                done += 1;
            }
            other => panic!("it is called {other}"),
        }
    }
    assert!(refused > 2 && done > 0, "{refused} refused, {done} done");
}

async fn name(lab: &Lab, id: WorkspaceId) -> String {
    WorkspaceRecords::workspace(&**lab.records.meta(), id).await.unwrap().name.to_string()
}

#[tokio::test]
async fn every_look_and_every_refusal_is_recorded_however_many_there_are() {
    let lab = Lab::new().await;
    let (one, other) = (lab.session("one").await, lab.session("other").await);
    lab.create(&one, "web").await;
    let looks = 600;
    for _ in 0..looks {
        let info = WorkspaceInfo { workspace_id: "web".to_owned() };
        lab.act(&one, info.clone()).await.unwrap();
        assert_eq!(lab.act(&other, info).await.unwrap_err().code(), Code::NotOwner);
    }
    let entries = lab.entries("workspace_info").await;
    let count = |outcome: &str| entries.iter().filter(|entry| entry.outcome == outcome).count();
    // The newest thousand: half of them each, and the timeline's own are among them.
    assert!(entries.len() >= 990, "{}", entries.len());
    assert!(count("ok").abs_diff(count("not_owner")) <= 1);
}
