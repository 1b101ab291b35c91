//! What workspaces may reach: who sets it, what is inherited, and what the log shows to whom.

use std::collections::BTreeMap;

use agentiso_core::ports::records::WorkspaceRecords;
use agentiso_core::wire::EventKind;
use agentiso_core::{
    Ask, Code, NetworkChange, NetworkEntry, NetworkEvent, NetworkPreset, NetworkProtocol, NetworkRules,
    NetworkSettings, WorkspaceId,
};
use agentiso_engine::Delivered;
use agentiso_testing::fake::Answer;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::world::{World, user};

pub fn entry(workspace: WorkspaceId, event: NetworkEvent, name: &str, rule: &str) -> NetworkEntry {
    NetworkEntry {
        sequence: 0,
        at: Timestamp::now(),
        workspace,
        event,
        protocol: NetworkProtocol::Tcp,
        name: Some(name.to_owned()),
        address: None,
        port: 443,
        rule: rule.to_owned(),
        bytes_sent: 0,
        bytes_received: 0,
        duration_ms: 0,
    }
}

pub const NOT_LISTED: &str = "not in allow_domains or allow_cidrs";

async fn rules(world: &World, name: &str) -> NetworkRules {
    world.records.meta().find_workspace(name).await.unwrap().network.rules
}

/// A world with the presets that are shipped.
async fn with_presets() -> World {
    let preset = |allow_internet, packages: bool| NetworkPreset {
        change: NetworkChange {
            allow_internet: Some(allow_internet),
            allow_domains: packages.then(Vec::new),
            ..NetworkChange::default()
        },
        packages,
    };
    World::with(|settings| {
        settings.network.presets = BTreeMap::from([
            ("off".to_owned(), preset(false, false)),
            ("open".to_owned(), preset(true, false)),
            ("packages".to_owned(), preset(true, true)),
        ]);
    })
    .await
}

#[tokio::test]
async fn rules_change_field_by_field_and_the_answer_has_all_of_them_and_the_address() {
    let world = World::new().await;
    let agent = world.session("agent").await;
    world.create(&agent, "web").await;
    let ip = world.ok(&agent, "workspace_ip", json!({ "workspace_id": "web" })).await;
    assert_eq!(ip["ip"], Value::Null);
    let mut events = world.engine.subscribe(&agent);
    let change = json!({
        "workspace_id": "web", "allow_internet": true, "allow_domains": ["a.example", "*.b.example"],
        "deny_cidrs": ["192.0.2.0/24"], "allow_inter_vm": true, "groups": ["blue"], "allowed_ports": [80],
    });
    let set = world.ok(&agent, "network_policy", change).await;
    assert_eq!(set["network_policy"]["allow_domains"], json!(["a.example", "*.b.example"]));
    let address = set["ip"].as_str().unwrap().to_owned();
    let Delivered::Event(event) = events.next().await else { panic!("missed") };
    assert_eq!(event.kind, EventKind::NetworkChanged);

    let narrowed = json!({ "workspace_id": "web", "allow_domains": ["a.example"], "allow_inter_vm": false });
    let set = world.ok(&agent, "network_policy", narrowed).await;
    let expected = json!({
        "allow_internet": true, "allow_inter_vm": false, "allow_domains": ["a.example"],
        "deny_cidrs": ["192.0.2.0/24"], "groups": ["blue"], "allowed_ports": [80],
    });
    assert_eq!(set["network_policy"], expected);
    assert_eq!(set["ip"], address.as_str(), "it keeps its address");
    let shown = world.ok(&agent, "network_policy", json!({ "workspace_id": "web" })).await;
    assert_eq!(shown["network_policy"], expected);
    let ip = world.ok(&agent, "workspace_ip", json!({ "workspace_id": "web" })).await;
    assert_eq!(ip["ip"], address.as_str());
    let info = world.ok(&agent, "workspace_info", json!({ "workspace_id": "web" })).await;
    assert_eq!((&info["ip"], &info["network"]), (&json!(address), &expected));
}

#[tokio::test]
async fn wrong_rules_are_refused_with_the_reason_and_change_nothing() {
    let world = with_presets().await;
    world.create(&user(), "web").await;
    let allowed = json!({ "workspace_id": "web", "allow_internet": true, "allow_domains": ["a.example"] });
    world.ok(&user(), "network_policy", allowed).await;
    let before = rules(&world, "web").await;
    for (field, value, reason) in [
        ("allow_domains", json!(["b.example", "http://x"]), "allow_domains[1]: 'http://x' is a URL"),
        (
            "allow_cidrs",
            json!(["10.0.0.1/8"]),
            "allow_cidrs[0]: '10.0.0.1/8' is an address within 10.0.0.0/8",
        ),
        ("allow_cidrs", json!(["127.0.0.1"]), "which cannot be opened"),
        ("deny_cidrs", json!(["x"]), "deny_cidrs[0]: 'x' is not an IPv4 address"),
        ("groups", json!(["a b"]), "groups[0]"),
        ("allowed_ports", json!([0]), "allowed_ports[0]"),
        ("preset", json!("opne"), "there is no preset \"opne\""),
    ] {
        let mut change = json!({ "workspace_id": "web", "allow_internet": false });
        change[field] = value;
        let refused = world.refused(&user(), "network_policy", change.clone(), Code::InvalidArgument).await;
        assert!(refused.message().contains(reason), "{refused:?}");
        assert!(refused.remedy().is_some(), "{refused:?}");
        assert_eq!(rules(&world, "web").await, before);
        change.as_object_mut().unwrap().remove("workspace_id");
        let create = json!({ "name": "new", "network": change });
        world.refused(&user(), "workspace_create", create, Code::InvalidArgument).await;
        let fork = json!({ "workspace_id": "web", "network": change });
        world.refused(&user(), "workspace_fork", fork, Code::InvalidArgument).await;
    }
    assert_eq!(world.names().await, ["web"]);
}

#[tokio::test]
async fn a_workspace_starts_with_the_configured_rules_its_own_or_those_of_its_source() {
    let world = World::with(|settings| settings.network.default_rules.allow_internet = true).await;
    let created = world.ok(&user(), "workspace_create", json!({ "name": "open" })).await;
    assert!(created["ip"].is_string());
    assert!(rules(&world, "open").await.allow_internet);
    let created =
        world.ok(&user(), "workspace_create", json!({ "name": "shut", "allow_internet": false })).await;
    assert_eq!(created["ip"], Value::Null);
    assert!(rules(&world, "shut").await.is_off());
    let network = json!({ "allow_domains": ["a.example"], "groups": ["blue"] });
    world.ok(&user(), "workspace_create", json!({ "name": "some", "network": network })).await;
    let some = rules(&world, "some").await;
    assert_eq!(some.allow_domains, Some(vec!["a.example".to_owned()]));

    let fork = json!({ "workspace_id": "some", "new_name": "same" });
    let forked = world.ok(&user(), "workspace_fork", fork).await;
    assert!(forked["ip"].is_string() && forked["workers"][0]["ip"] == forked["ip"]);
    assert_eq!(rules(&world, "same").await, some);
    let fork = json!({ "workspace_id": "some", "new_name": "less", "network": { "allow_internet": false } });
    world.ok(&user(), "workspace_fork", fork).await;
    assert_eq!(rules(&world, "less").await, NetworkRules { allow_internet: false, ..some });
}

#[tokio::test]
async fn the_packages_preset_allows_what_package_managers_of_host_and_workspace_use() {
    let world = with_presets().await;
    world.packages.print("apt http://deb.mirror.example/debian/\nproxy http://10.0.0.5:3128\n");
    let answer = Answer {
        stdout: "pip https://index.example/simple\napt http://10.0.0.6/debian/\n".to_owned(),
        ..Answer::default()
    };
    world.host.answer("indextargets", answer);
    let create = json!({ "name": "web", "network": { "preset": "packages" } });
    world.ok(&user(), "workspace_create", create).await;
    let names = |rules: &NetworkRules| rules.allow_domains.clone().unwrap();
    let web = rules(&world, "web").await;
    assert_eq!(names(&web), ["deb.mirror.example", "index.example"]);
    assert_eq!(web.allow_cidrs, Some(vec!["10.0.0.5".to_owned()]), "a workspace cannot open an address");

    world.create(&user(), "later").await;
    let change = json!({ "workspace_id": "later", "preset": "packages", "deny_domains": ["x.example"] });
    let set = world.ok(&user(), "network_policy", change).await;
    assert_eq!(
        set["package_hosts"],
        json!([
            { "host": "10.0.0.5", "tool": "proxy", "place": "host" },
            { "host": "deb.mirror.example", "tool": "apt", "place": "host" },
            { "host": "index.example", "tool": "pip", "place": "workspace" },
        ])
    );
    assert_eq!(set["network_policy"]["deny_domains"], json!(["x.example"]));
    let off = json!({ "workspace_id": "later", "preset": "off" });
    let set = world.ok(&user(), "network_policy", off).await;
    assert_eq!(set["network_policy"], json!({ "allow_internet": false, "allow_inter_vm": false }));
}

#[tokio::test]
async fn a_preset_that_cannot_ask_the_package_managers_changes_nothing_and_leaves_nothing() {
    let world = with_presets().await;
    let create = json!({ "name": "web", "network": { "preset": "packages" } });
    world.refused(&user(), "workspace_create", create.clone(), Code::ToolFailed).await;
    world.packages.print("");
    world.host.answer("indextargets", Answer { code: 1, ..Answer::default() });
    world.refused(&user(), "workspace_create", create, Code::GuestFailed).await;
    assert_eq!(world.names().await, Vec::<String>::new());
    assert_eq!(world.host.machines(), 0);
    world.create(&user(), "web").await;
    let change = json!({ "workspace_id": "web", "preset": "packages" });
    world.refused(&user(), "network_policy", change, Code::GuestFailed).await;
    assert!(rules(&world, "web").await.is_off());
}

/// A world in which the operator is asked about every destination.
pub async fn where_the_operator_is_asked() -> World {
    World::with(|settings| {
        let default_rules = NetworkRules {
            allow_internet: true,
            allow_domains: Some(Vec::new()),
            ask: Ask::Refuse,
            ..NetworkRules::default()
        };
        settings.network = NetworkSettings { default_rules, ask: true, ..NetworkSettings::default() };
    })
    .await
}

#[tokio::test]
async fn a_session_cannot_widen_its_rules_where_the_operator_is_asked() {
    let world = where_the_operator_is_asked().await;
    let agent = world.session("agent").await;
    world.create(&agent, "web").await;
    for change in [
        json!({ "allow_domains": ["a.example"] }),
        json!({ "allow_cidrs": ["192.0.2.1"] }),
        json!({ "allow_inter_vm": true }),
    ] {
        let mut policy = change.clone();
        policy["workspace_id"] = json!("web");
        let refused = world.refused(&agent, "network_policy", policy.clone(), Code::ApprovalRequired).await;
        assert!(refused.remedy().unwrap().contains("inbox"), "{refused:?}");
        let create = json!({ "name": "new", "network": change });
        world.refused(&agent, "workspace_create", create, Code::ApprovalRequired).await;
        let fork = json!({ "workspace_id": "web", "network": change });
        world.refused(&agent, "workspace_fork", fork, Code::ApprovalRequired).await;
        world.ok(&user(), "network_policy", policy).await;
        let back =
            json!({ "workspace_id": "web", "allow_domains": [], "allow_cidrs": [], "allow_inter_vm": false });
        world.ok(&agent, "network_policy", back).await;
    }
    world.ok(&agent, "network_policy", json!({ "workspace_id": "web", "allow_internet": false })).await;
}

#[tokio::test]
async fn the_log_is_filtered_by_owner_workspace_and_verdict() {
    let world = World::new().await;
    let (mine, other) = (world.session("mine").await, world.session("other").await);
    let (web, db) = (world.create(&mine, "web").await, world.create(&other, "db").await);
    for number in 0..3 {
        let name = format!("{number}.example");
        world.network.append(entry(web, NetworkEvent::Opened, &name, "allow_internet: true"));
        world.network.append(entry(db, NetworkEvent::Refused, &name, NOT_LISTED));
    }
    let seen = async |caller: &_, arguments: Value| {
        let logged = world.ok(caller, "network_log", arguments).await;
        let entries = logged["entries"].as_array().unwrap().iter();
        let numbers: Vec<_> = entries.map(|entry| entry["sequence"].as_u64().unwrap()).collect();
        (numbers, logged["next_after"].as_u64().unwrap())
    };
    assert_eq!(seen(&user(), json!({})).await, (vec![1, 2, 3, 4, 5, 6], 6));
    assert_eq!(seen(&user(), json!({ "limit": 2 })).await, (vec![5, 6], 6));
    assert_eq!(seen(&user(), json!({ "after": 0, "limit": 2 })).await, (vec![1, 2], 2));
    assert_eq!(seen(&user(), json!({ "workspace_id": "db" })).await.0, [2, 4, 6]);
    assert_eq!(seen(&user(), json!({ "refused": true, "limit": 1 })).await.0, [6]);
    assert_eq!(seen(&mine, json!({})).await.0, [1, 3, 5], "a session sees its own only");
    assert_eq!(seen(&mine, json!({ "after": 1 })).await.0, [3, 5]);
    assert_eq!(seen(&mine, json!({ "refused": true })).await.0, Vec::<u64>::new());
    world.network.append(entry(web, NetworkEvent::Alert, "a.example", "secret TOKEN"));
    assert_eq!(seen(&mine, json!({ "refused": true })).await.0, [7], "a misplaced placeholder was refused");
    world.refused(&mine, "network_log", json!({ "workspace_id": "db" }), Code::NotOwner).await;
    for limit in [0, 1001] {
        world.refused(&user(), "network_log", json!({ "limit": limit }), Code::InvalidArgument).await;
    }
    // Following: what others do does not end the wait.
    let wait = json!({ "after": 7, "wait_secs": 60 });
    let (found, ()) = tokio::join!(seen(&mine, wait), async {
        world.network.append(entry(db, NetworkEvent::Opened, "x.example", ""));
        tokio::task::yield_now().await;
        world.network.append(entry(web, NetworkEvent::Opened, "y.example", ""));
    });
    assert_eq!(found, (vec![9], 9));
}

#[tokio::test]
async fn a_command_that_was_refused_a_host_says_which_call_would_allow_it() {
    let world = World::new().await;
    let web = world.create(&user(), "web").await;
    let answer = Answer {
        stderr: "fatal: unable to access: Could not resolve host: b.example\n".to_owned(),
        code: 128,
        ..Answer::default()
    };
    world.host.answer("git", answer);
    let clone = json!({ "workspace_id": "web", "url": "https://b.example/x.git" });
    let refused = world.refused(&user(), "git_clone", clone.clone(), Code::GitFailed).await;
    assert!(refused.remedy().unwrap().contains("the workspace has no network"), "{refused:?}");

    let allow = json!({ "workspace_id": "web", "allow_internet": true, "allow_domains": ["a.example"] });
    world.ok(&user(), "network_policy", allow).await;
    let mut refusal = entry(web, NetworkEvent::Refused, "b.example", NOT_LISTED);
    refusal.at = Timestamp::MAX;
    world.network.append(refusal);
    let refused = world.refused(&user(), "git_clone", clone, Code::GitFailed).await;
    let call = r#"network_policy {"allow_domains":["a.example","b.example"],"workspace_id":"web"}"#;
    assert!(refused.remedy().unwrap().contains(call), "{refused:?}");
    let run = json!({ "workspace_id": "web", "command": "git fetch" });
    let ran = world.ok(&user(), "exec", run).await;
    assert!(ran["hint"].as_str().unwrap().contains(call), "{ran}");
}

#[tokio::test]
async fn the_timeline_has_a_summary_of_what_a_workspace_did_on_the_network() {
    let world = World::new().await;
    let web = world.create(&user(), "web").await;
    for name in ["a.example", "b.example"] {
        world.network.append(entry(web, NetworkEvent::Opened, name, "allow_internet: true"));
    }
    let mut closed = entry(web, NetworkEvent::Closed, "a.example", "allow_internet: true");
    (closed.bytes_sent, closed.bytes_received) = (10, 20);
    world.network.append(closed);
    world.network.append(entry(web, NetworkEvent::Refused, "c.example", NOT_LISTED));
    let summary = async |world: &World| {
        let events = world.timeline().await;
        events.into_iter().find(|event| event["action"] == "network_summary")
    };
    while summary(&world).await.is_none() {
        world.look().await;
        tokio::task::yield_now().await;
    }
    let summary = summary(&world).await.unwrap();
    assert_eq!(summary["changed"], "2 connections, 1 refused, 0 failed");
    assert_eq!(
        (&summary["detail"]["bytes_sent"], &summary["detail"]["bytes_received"]),
        (&json!(10), &json!(20))
    );
    assert_eq!(summary["detail"]["destinations"], json!(["a.example", "b.example", "c.example"]));
}
