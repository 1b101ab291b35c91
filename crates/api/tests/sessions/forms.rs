//! What the schema of an action allows is never refused for its form: values are generated from every schema and go
//! through parsing, admission and the action's own checks, in an engine without machines.

mod schema;
pub mod values;

use agentiso_api::catalogue;
use agentiso_core::Code;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::house::{House, SNAPSHOT};

/// Values for every action.
const CASES: u32 = 16;

/// Parameters whose values must exist, or must be within the limits that the operator configured, for a call to get as
/// far as the action's own checks.
fn usable(mut arguments: Value, workspace: &str) -> Value {
    let replaced = [
        ("workspace_id", json!(workspace)),
        ("snapshot_name", json!(SNAPSHOT)),
        ("other", json!("now")),
        ("vcpus", json!(2)),
        ("memory_mb", json!(256)),
        ("disk_gb", json!(10)),
        ("host_port", json!(null)),
        // A range must have no bits behind its prefix and must not be closed for ever; a preset must be configured.
        ("allow_cidrs", json!(["10.0.0.0/8"])),
        ("deny_cidrs", json!(["192.0.2.1"])),
        ("preset", json!("off")),
        // Rules on requests need the proxy, and paths of one reading.
        ("egress", json!("proxy")),
        ("http_rules", json!([{ "action": "allow", "host": "a.example", "paths": ["/v1/*"] }])),
        ("network", json!({ "allow_internet": false })),
        ("wait_secs", json!(0)),
    ];
    for (name, value) in replaced {
        if let Some(given) = arguments.get_mut(name) {
            *given = value;
        }
    }
    arguments
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_its_schema_allows_is_never_refused_for_its_form() {
    let house = House::configured("[vm]\nstart_on_use = false").await;
    let agent = house.session("agent").await;
    let mut runner = TestRunner::new(Config::default());
    let mut refused = Vec::new();
    for entry in catalogue::ALL {
        let schema = entry.input_schema();
        for case in 0..CASES {
            let generated = values::of(schema).new_tree(&mut runner).unwrap().current();
            assert_eq!(schema::violation(schema, &generated), None, "{}: {generated}", entry.about.name);
            let name = format!("ws-{}-{case}", entry.about.name.replace('_', "-"));
            let id = house.workspace(&name, agent.session).id;
            let arguments = usable(generated, &name);
            let answered = house.call(&agent, entry.about.name, arguments.clone()).await;
            if let Err(failure) = answered
                && matches!(failure.code(), Code::InvalidArgument | Code::Internal)
            {
                refused.push(format!("{} {arguments}: {failure}", entry.about.name));
            }
            // What it may have stored must not add up to a quota.
            if house.exists(id) {
                house
                    .call(&agent, "workspace_destroy", json!({ "workspace_id": id.to_string() }))
                    .await
                    .unwrap();
            }
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
}

#[test]
fn every_parameter_of_every_action_has_a_type_or_a_list_of_values() {
    for entry in catalogue::ALL {
        for (name, property) in entry.input_schema()["properties"].as_object().into_iter().flatten() {
            assert!(property["type"].is_string(), "{} {name}: {property}", entry.about.name);
            assert!(property["description"].is_string(), "{} {name}: {property}", entry.about.name);
        }
    }
}
