//! Answers that must say what is the case.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use agentiso_core::Code;
use agentiso_core::action::{PortForward, PortForwardList, WorkspaceCreate, WorkspaceFork, WorkspaceInfo};
use agentiso_core::ports::records::WorkspaceRecords;
use agentiso_engine::Shutdown;
use agentiso_testing::fake::HostCall;

use crate::lab::{Lab, operator};

#[tokio::test]
async fn a_created_workspace_expires_when_its_answer_says() {
    let lab = Lab::new().await;
    let create =
        WorkspaceCreate { name: Some("web".to_owned()), ttl_secs: Some(60), ..WorkspaceCreate::default() };
    let hang = lab.host.faults().hang(HostCall::Create);
    let user = operator();
    let slow_host = async {
        hang.reached().await;
        lab.clock.advance(Duration::from_secs(30));
        hang.release();
    };
    let (created, ()) = tokio::join!(lab.act(&user, create), slow_host);
    let created = created.unwrap();
    let id = created.workspace_id.parse().unwrap();
    let stored = WorkspaceRecords::settings(&**lab.records.meta(), id).await.unwrap();
    assert_eq!(created.expires_at.unwrap(), stored.expires_at.unwrap().to_string());
}

#[tokio::test]
async fn a_fork_that_fails_says_why() {
    let lab = Lab::new().await;
    lab.create(&operator(), "web").await;
    for (count, code) in [(1, Code::DiskFull), (3, Code::OutOfMemory)] {
        lab.host.faults().fail(HostCall::ForkOne, code);
        let fork =
            WorkspaceFork { workspace_id: "web".to_owned(), count: Some(count), ..WorkspaceFork::default() };
        let failure = lab.act(&operator(), fork).await.unwrap_err();
        assert_eq!(failure.code(), code, "{failure}");
        lab.host.faults().clear(HostCall::ForkOne);
    }
}

fn forward() -> PortForward {
    PortForward { workspace_id: "web".to_owned(), guest_port: 80, host_port: None, to: None }
}

async fn shown(lab: &Lab) -> (Vec<u16>, Vec<u16>) {
    let workspace_id = "web".to_owned();
    let listed = lab.act(&operator(), PortForwardList { workspace_id: workspace_id.clone() }).await.unwrap();
    let info = lab.act(&operator(), WorkspaceInfo { workspace_id }).await.unwrap();
    let ports = |forwards: Vec<agentiso_core::action::Forward>| {
        forwards.into_iter().map(|forward| forward.host_port).collect()
    };
    (ports(listed.forwards), ports(info.port_forwards))
}

#[tokio::test]
async fn a_forward_is_reported_only_while_its_port_is_listened_on() {
    let mut lab = Lab::new().await;
    lab.create(&operator(), "web").await;
    let port = lab.act(&operator(), forward()).await.unwrap().host_port;
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert_eq!(shown(&lab).await, (vec![port], vec![port]));
    // Another program takes the port while no daemon runs.
    lab.engine.shut_down(Shutdown::LeaveMachines).await;
    let taken = loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(taken) => break taken,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    lab.reopen().await;
    assert_eq!(shown(&lab).await, (vec![], vec![]));
    assert_eq!(lab.act(&operator(), forward()).await.unwrap_err().code(), Code::PortUnavailable);
    drop(taken);
    assert_eq!(lab.act(&operator(), forward()).await.unwrap().host_port, port);
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    assert_eq!(shown(&lab).await, (vec![port], vec![port]));
}
