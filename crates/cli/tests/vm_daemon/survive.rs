//! What survives the daemon: machines with their jobs, ports, variables and owners.

use std::net::TcpStream;
use std::path::Path;

use serde_json::json;

use crate::echo::{echo, forward, serve};
use crate::mcp::Mcp;
use crate::place::{Place, kill};

/// Counts for ever, without starting processes, which are slow on an emulated CPU.
const COUNT: &str =
    "exec bash -c 'exec 4<> <(:); i=0; while :; do i=$((i+1)); echo $i; read -t 0.3 -u 4; done'";

#[test]
fn jobs_ports_and_variables_survive_a_killed_daemon() {
    let place = Place::new();
    let mut mcp = place.mcp(&[]);
    let names = ["one", "two", "three", "four"];
    let ids = names.map(|name| mcp.create(name));
    let jobs: Vec<(usize, u64)> = (0..20).map(|index| start_counting(&mut mcp, &ids, index)).collect();
    let offsets: Vec<u64> = jobs.iter().map(|job| progress(&mut mcp, &ids, *job, 0)).collect();
    serve(&place.http(), &ids[0]);
    let port = forward(&place.http(), &ids[0]);
    assert_eq!(echo(port, "before"), "before");
    mcp.call("set_env", json!({"workspace_id": ids[0], "vars": {"WORD": "kept"}}));
    let machine = mcp.call("workspace_info", json!({"workspace_id": ids[3]}))["pid"].as_u64().unwrap();

    // One call is running when the daemon is killed, and one machine dies before the next daemon starts.
    let before = place.daemon().unwrap();
    let waiting = json!({"workspace_id": ids[1], "command": "echo begun > /run/begun; exec sleep 1000"});
    let waiting = mcp.send("tools/call", json!({"name": "exec", "arguments": waiting}));
    mcp.sh(&ids[1], "timeout 60 sh -c 'until test -s /run/begun; do sleep 0.05; done'");
    place.kill_daemon();
    kill(u32::try_from(machine).unwrap());
    let lost = mcp.answer(waiting);
    assert_eq!(lost["result"]["structuredContent"]["error"]["code"], "daemon_unavailable", "{lost}");

    for (job, offset) in jobs.iter().zip(&offsets) {
        progress(&mut mcp, &ids, *job, *offset);
    }
    assert_ne!(place.daemon().unwrap(), before);
    for &(index, job_id) in &jobs {
        is_gapless(&mut mcp, &ids[index], job_id);
    }
    assert_eq!(echo(port, "after"), "after");
    assert_eq!(mcp.sh(&ids[0], "echo $WORD"), "kept");
    let listed = mcp.call("workspace_list", json!({}));
    for (workspace, name) in listed["workspaces"].as_array().unwrap().iter().zip(names) {
        assert_eq!((&workspace["name"], &workspace["owned"]), (&json!(name), &json!(true)));
        let state = if name == "four" { "stopped" } else { "running" };
        assert_eq!(workspace["state"], state, "{name}");
    }
    let dead = mcp.call("workspace_info", json!({"workspace_id": "four"}));
    assert!(dead["stop_reason"].as_str().unwrap().contains("unexpectedly"), "{dead}");
    assert_eq!(machine_dirs(&place), 3, "the directory of the dead machine is removed");
    place
        .session("other")
        .refused("exec", json!({"workspace_id": "one", "command": "true"}))
        .is("not_owner", &[]);
    assert_eq!(mcp.call("workspace_start", json!({"workspace_id": "four"}))["state"], "running");
}

/// The number of machine directories.
fn machine_dirs(place: &Place) -> usize {
    let dirs = |path: &Path| {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect::<Vec<_>>()
    };
    let workspaces = dirs(&place.path().join("workspaces"));
    workspaces.iter().map(|workspace| dirs(workspace).len()).sum()
}

#[test]
fn machines_survive_a_graceful_stop_unless_requested_otherwise() {
    let place = Place::new();
    let mut mcp = place.mcp(&[]);
    let ids = [mcp.create("one"), mcp.create("two")];
    let job = start_counting(&mut mcp, &ids, 0);
    let offset = progress(&mut mcp, &ids, job, 0);
    serve(&place.http(), &ids[1]);
    let port = forward(&place.http(), &ids[1]);
    mcp.call("set_env", json!({"workspace_id": "two", "vars": {"WORD": "kept"}}));
    let machines = place.machines();
    assert_eq!(machines.len(), 2);
    place.run(&["daemon", "stop"]);
    assert_eq!((place.daemon(), place.machines()), (None, machines.clone()));
    TcpStream::connect(("127.0.0.1", port)).unwrap_err();

    progress(&mut mcp, &ids, job, offset);
    is_gapless(&mut mcp, &ids[0], job.1);
    assert_eq!((echo(port, "word"), place.machines()), ("word".to_owned(), machines));
    assert_eq!(mcp.sh("two", "echo $WORD"), "kept");

    mcp.sh("one", "echo written > /root/file");
    place.run(&["daemon", "stop", "--machines"]);
    assert_eq!((place.daemon(), place.machines()), (None, vec![]));
    let info = mcp.call("workspace_info", json!({"workspace_id": "two"}));
    assert_eq!((&info["state"], &info["env_names"]), (&json!("stopped"), &json!([])));
    assert_eq!(info["port_forwards"], json!([{"host_port": port, "guest_port": 7000}]));
    mcp.call("workspace_start", json!({"workspace_id": "one"}));
    assert_eq!(mcp.sh("one", "cat /root/file"), "written");
    assert_eq!(
        mcp.call("exec_background", json!({"action": "list", "workspace_id": "one"}))["jobs"],
        json!([])
    );
}

fn start_counting(mcp: &mut Mcp, ids: &[String], index: usize) -> (usize, u64) {
    // The last workspace is reserved for other checks.
    let index = index % (ids.len() - 1);
    let started = mcp.call("exec_background", json!({"workspace_id": ids[index], "command": COUNT}));
    (index, started["job_id"].as_u64().unwrap())
}

/// Waits until a job has printed something beyond an offset, and returns the new offset.
fn progress(mcp: &mut Mcp, ids: &[String], (index, job_id): (usize, u64), offset: u64) -> u64 {
    let poll = json!({
        "action": "poll", "workspace_id": ids[index], "job_id": job_id, "wait": "output", "stdout_offset": offset
    });
    let polled = mcp.call("exec_background", poll);
    assert_eq!((&polled["running"], &polled["stdout_offset"]), (&json!(true), &json!(offset)));
    let next = polled["next_stdout_offset"].as_u64().unwrap();
    assert!(next > offset, "{polled}");
    next
}

fn is_gapless(mcp: &mut Mcp, workspace: &str, job_id: u64) {
    let poll = json!({"action": "poll", "workspace_id": workspace, "job_id": job_id});
    let polled = mcp.call("exec_background", poll);
    for (index, line) in polled["stdout"].as_str().unwrap().lines().enumerate() {
        assert_eq!(line, (index + 1).to_string());
    }
}
