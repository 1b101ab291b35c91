use agentiso_meta::MetaError;

use crate::builders::{State, memory, take};

#[test]
fn a_pack_is_in_use_while_any_image_has_pages_in_it() {
    let state = State::new();
    let (first, second) = (memory(), memory());
    state
        .meta
        .write(|tx| {
            tx.insert_memory(&first, &[first.id])?;
            tx.insert_memory(&second, &[first.id, second.id, first.id])
        })
        .unwrap();
    let using = |pack| state.meta.read(|state| state.memories_using(pack)).unwrap();
    assert_eq!(state.meta.read(|state| state.packs_of(second.id)).unwrap(), [first.id, second.id]);
    assert_eq!(using(first.id), [first.id, second.id]);

    state.meta.write(|tx| tx.remove_memory(first.id)).unwrap();
    assert_eq!(using(first.id), [second.id], "the pack outlives the image it was written for");
    assert_eq!(state.meta.read(|state| state.packs()).unwrap(), [first.id, second.id]);
    assert_eq!(state.meta.read(|state| state.memories()).unwrap(), std::slice::from_ref(&second));

    state.meta.write(|tx| tx.remove_memory(second.id)).unwrap();
    assert!(using(first.id).is_empty());
    assert!(state.meta.read(|state| state.packs()).unwrap().is_empty());
}

#[test]
fn an_image_cannot_be_removed_while_a_snapshot_refers_to_it() {
    let state = State::new();
    let web = state.add("web").id;
    let memory = memory();
    let kept = state
        .meta
        .write(|tx| {
            tx.insert_memory(&memory, &[])?;
            take(tx, web, "s1", Some(memory.id))
        })
        .unwrap();
    let refused = state.meta.write(|tx| tx.remove_memory(memory.id)).unwrap_err();
    assert!(matches!(refused, MetaError::Needed { what: "memory", .. }), "{refused}");
    assert!(state.meta.read(|state| state.unneeded_memories()).unwrap().is_empty());

    state.meta.write(|tx| tx.remove_snapshot(kept.id)).unwrap();
    assert_eq!(state.meta.read(|state| state.unneeded_memories()).unwrap(), std::slice::from_ref(&memory));
    assert_eq!(state.meta.read(|state| state.memory(memory.id)).unwrap(), memory);
    state.meta.write(|tx| tx.remove_memory(memory.id)).unwrap();
    let gone = state.meta.write(|tx| tx.remove_memory(memory.id)).unwrap_err();
    assert!(matches!(gone, MetaError::Missing { what: "memory", .. }));
}
