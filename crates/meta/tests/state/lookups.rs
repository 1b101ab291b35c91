use agentiso_core::{Code, Explain, WorkspaceId};
use agentiso_meta::MetaError;
use uuid::Uuid;

use crate::builders::State;

fn with_id(state: &State, name: &str, id: u128) -> WorkspaceId {
    state.add_with(name, |workspace| workspace.id = WorkspaceId::from_uuid(Uuid::from_u128(id))).id
}

#[test]
fn a_workspace_is_found_by_name_by_id_and_by_the_first_digits_of_its_short_id() {
    let state = State::new();
    let id = with_id(&state, "web", 0x0199_0000_0000_7000_8000_0000_beef_1234);
    with_id(&state, "db", 0x0199_0000_0000_7000_8000_0000_cafe_1234);
    let whole = id.to_string();
    let simple = id.machine_id();
    for asked in ["web", whole.as_str(), &whole.to_uppercase(), &simple, "beef12", "BEEF12", "beef1234"] {
        assert_eq!(state.find(asked).unwrap().id, id, "{asked}");
    }
}

#[test]
fn a_name_that_is_a_prefix_of_an_id_is_only_a_name() {
    let state = State::new();
    with_id(&state, "web", 0xbeef_1234);
    assert_eq!(state.find("beef").unwrap_err().code(), Code::WorkspaceNotFound);
    let named = with_id(&state, "beef", 0xcafe_1234);
    assert_eq!(state.find("beef").unwrap().id, named);
}

#[test]
fn ambiguous_digits_find_nothing() {
    let state = State::new();
    with_id(&state, "web", 0xbeef_1234);
    with_id(&state, "db", 0xbeef_1278);
    let refused = state.find("beef12").unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.to_string(), "\"beef12\" could be any of the workspaces db, web");
    assert_eq!(state.find("beef127").unwrap().name.as_str(), "db");
}

#[test]
fn too_few_digits_and_patterns_find_nothing() {
    let state = State::new();
    let id = with_id(&state, "web", 0xbeef_1234);
    for asked in ["bee", "beef1", "", "%", "______", "beef12%", "ef1234", &id.to_string()[..20]] {
        assert_eq!(state.find(asked).unwrap_err().code(), Code::WorkspaceNotFound, "{asked}");
    }
}

#[test]
fn a_mistyped_name_gets_a_suggestion() {
    let state = State::new();
    let web = state.add("frontend").id;
    state.add("database");
    let refused = state.find("fronted").unwrap_err();
    assert_eq!(refused.to_string(), "there is no workspace \"fronted\"");
    assert_eq!(refused.remedy().unwrap(), "did you mean \"frontend\"?");
    assert!(state.find("qqq").unwrap_err().remedy().unwrap().contains("workspace_list"));

    state.snap(web, "before-upgrade");
    let find = |asked: &str| state.meta.read(|state| state.find_snapshot(web, asked)).unwrap_err();
    assert!(matches!(find("before-upgrad"), MetaError::SnapshotNotFound { nearest: Some(name), .. }
        if name == "before-upgrade"));
    assert!(find("qqq").remedy().unwrap().contains("snapshot_list"));
}
