use agentiso_meta::{MetaError, Owner};
use serde_json::json;

use crate::builders::{State, disk, workspace};

#[test]
fn an_operation_is_listed_until_it_is_complete() {
    let state = State::new();
    let web = state.add("web").id;
    let begin = || state.meta.write(|tx| tx.begin("snapshot", Some(web), &json!({ "step": 1 }))).unwrap();
    let id = begin();
    state.meta.write(|tx| tx.set_intent(id, &json!({ "step": 2 }))).unwrap();
    let [found] = state.meta.read(|state| state.operations_on(web)).unwrap().try_into().unwrap();
    assert_eq!((found.id, found.kind.as_str(), &found.intent), (id, "snapshot", &json!({ "step": 2 })));
    assert_eq!(found.owner, Owner::current().unwrap());
    assert!(found.owner.is_alive());

    state.meta.write(|tx| tx.complete(id)).unwrap();
    assert!(state.meta.read(|state| state.operations()).unwrap().is_empty());
    let again = state.meta.write(|tx| tx.complete(id)).unwrap_err();
    assert!(matches!(again, MetaError::Missing { what: "operation", .. }));
    assert!(begin() > id, "ids are not reused");
}

#[test]
fn an_operation_and_its_changes_are_committed_together() {
    let state = State::new();
    state.add("web");
    let id = state.meta.write(|tx| tx.begin("create", None, &json!({}))).unwrap();
    let finish = |name: &str| {
        state.meta.write(|tx| {
            tx.complete(id)?;
            let disk = disk(None);
            tx.insert_disk(&disk)?;
            tx.insert_workspace(&workspace(name, disk.id))
        })
    };
    finish("web").unwrap_err();
    assert_eq!(state.meta.read(|state| state.operations()).unwrap().len(), 1);
    finish("db").unwrap();
    assert!(state.meta.read(|state| state.operations()).unwrap().is_empty());
}

#[test]
fn a_panic_in_a_transaction_rolls_it_back() {
    let state = State::new();
    let panicking = std::panic::AssertUnwindSafe(|| {
        state.meta.write(|tx| -> Result<(), MetaError> {
            tx.begin("create", None, &json!({}))?;
            panic!("a fault of the caller's");
        })
    });
    std::panic::catch_unwind(panicking).unwrap_err();
    assert!(state.meta.read(|state| state.operations()).unwrap().is_empty());
    state.add("web");
}

#[test]
fn an_abandoned_operation_can_be_adopted_once() {
    let state = State::new();
    let id = state.meta.write(|tx| tx.begin("create", None, &json!({}))).unwrap();
    state.meta.write(|tx| tx.abandon(id)).unwrap();
    let [left] = state.meta.read(|state| state.operations()).unwrap().try_into().unwrap();
    assert!(!left.owner.is_alive());
    assert!(state.meta.write(|tx| tx.adopt(&left)).unwrap());
    assert!(!state.meta.write(|tx| tx.adopt(&left)).unwrap(), "it has an owner again");
    state.meta.write(|tx| tx.complete(id)).unwrap();
    let gone = state.meta.write(|tx| tx.abandon(id)).unwrap_err();
    assert!(matches!(gone, MetaError::Missing { what: "operation", .. }));
}
