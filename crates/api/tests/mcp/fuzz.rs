//! Arbitrary arguments: a tool call is either valid or rejected with a reason.

use std::cell::Cell;

use agentiso_api::catalogue;
use agentiso_api::mcp::ToolSet;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use rmcp::ClientLifecycleMode;
use rmcp::model::Tool;
use serde_json::{Map, Value, json};

use crate::client::{Client, call, connect};
use crate::fake::{Fake, fitting};

/// Text that has broken other programs.
fn hostile() -> impl Strategy<Value = String> {
    prop_oneof![
        select(vec![
            "",
            " ",
            "../../etc/passwd",
            "'; DROP TABLE workspaces; --",
            "$(reboot)",
            "a\0b",
            "\u{202e}gnp.exe",
            "{\"a\":1}",
            "[[[[[[",
            "-1",
            "1e400",
            "true",
            "18446744073709551616",
            "null",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
        (1usize..20_000).prop_map(|length| "x".repeat(length)),
    ]
}

/// Any JSON value.
fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        hostile().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..6).prop_map(|fields| json!(fields)),
        ]
    })
}

/// What to do with each parameter of a tool.
#[derive(Clone, Debug)]
enum Fate {
    Fits,
    Absent,
    Replaced(Value),
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![4 => Just(Fate::Fits), 3 => Just(Fate::Absent), 1 => anything().prop_map(Fate::Replaced)]
}

#[derive(Clone, Debug)]
struct Case {
    tool: Index,
    fates: Vec<Fate>,
    word: Index,
    unknown: Vec<(String, Value)>,
}

fn case() -> impl Strategy<Value = Case> {
    let unknown = prop_oneof![3 => Just(Vec::new()), 1 => vec((hostile(), anything()), 1..3)];
    (any::<Index>(), vec(fate(), 24), any::<Index>(), unknown).prop_map(|(tool, fates, word, unknown)| Case {
        tool,
        fates,
        word,
        unknown,
    })
}

fn arguments(tool: &Tool, case: &Case) -> Map<String, Value> {
    let properties = tool.input_schema["properties"].as_object().unwrap();
    let mut arguments = Map::new();
    for ((name, schema), fate) in properties.iter().zip(&case.fates) {
        match fate {
            Fate::Fits => {
                let value = match schema["enum"].as_array() {
                    Some(words) => case.word.get(words).clone(),
                    None => fitting(schema),
                };
                arguments.insert(name.clone(), value);
            }
            Fate::Absent => {}
            Fate::Replaced(value) => {
                arguments.insert(name.clone(), value.clone());
            }
        }
    }
    arguments.extend(case.unknown.clone());
    arguments
}

#[test]
fn arbitrary_arguments_are_valid_or_rejected_by_name() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let fake = Fake::default();
    let mode = ClientLifecycleMode::Initialize;
    let client = runtime.block_on(connect(Client::default(), fake.clone(), ToolSet::Full, mode));
    let tools = runtime.block_on(client.list_all_tools()).unwrap();
    let config = Config { cases: 1500, failure_persistence: None, ..Config::default() };
    let (called, refused) = (Cell::new(0), Cell::new(0));
    let outcome = TestRunner::new(config).run(&case(), |case| {
        let tool = case.tool.get(&tools);
        let given = Value::Object(arguments(tool, &case));
        let result = runtime.block_on(client.call_tool(call(&tool.name, given))).unwrap();
        match (result.is_error, fake.calls().as_slice()) {
            (Some(false), [(action, Value::Object(arguments))]) => {
                prop_assert_eq!(catalogue::find(action).unwrap().check(arguments), Ok(()));
                called.set(called.get() + 1);
            }
            (Some(true), []) => {
                let error = result.structured_content.unwrap()["error"].clone();
                prop_assert_eq!(&error["code"], "invalid_argument");
                prop_assert!(error["message"].as_str().unwrap().len() < 400, "{}", error);
                refused.set(refused.get() + 1);
            }
            other => prop_assert!(false, "{} {:?}", tool.name, other),
        }
        Ok(())
    });
    outcome.unwrap();
    let (called, refused) = (called.get(), refused.get());
    assert!(called > 100 && refused > 100, "{called} called, {refused} refused");
}

#[tokio::test]
async fn every_single_action_tool_accepts_all_its_parameters_together() {
    let mode = ClientLifecycleMode::Initialize;
    let client = connect(Client::default(), Fake::default(), ToolSet::Full, mode).await;
    for tool in client.list_all_tools().await.unwrap() {
        if tool.input_schema["properties"].get("action").is_none() {
            let all = fitting(&Value::Object(tool.input_schema.as_ref().clone()));
            let result = client.call_tool(call(&tool.name, all)).await.unwrap();
            assert_eq!(result.is_error, Some(false), "{}: {:?}", tool.name, result.content);
        }
    }
}
