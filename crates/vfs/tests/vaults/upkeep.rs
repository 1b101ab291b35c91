//! Garbage collection, checks, repairs and maintenance.

use std::fs;
use std::path::PathBuf;

use agentiso_core::Code;
use agentiso_vfs::{
    BeginUse, FsckRequest, GcRequest, MaintainRequest, PruneKeep, PruneRequest, SaveCheckpoint, SearchQuery,
    StateRef, VaultFsck,
};

use crate::support::*;

const THOROUGH: GcRequest = GcRequest { dry_run: false, thorough: true };

fn prune_all(place: &Place) {
    let request = PruneRequest { keep: PruneKeep::Newest(0), path: None, dry_run: false };
    place.vaults.prune("v", &request).unwrap();
}

#[test]
fn everything_that_a_record_names_survives_a_collection() {
    let place = Place::with_vault();
    for text in ["1", "2", "3"] {
        place.write("v", "f", text);
    }
    place
        .vaults
        .save_checkpoint("v", &SaveCheckpoint { name: Some("c".into()), ..Default::default() })
        .unwrap();
    place.fork("v", "x");
    place.write("x", "f", "fork");
    let run = place.vaults.begin_use("x", &BeginUse::default()).unwrap();
    place.write("x", "f", "later");
    place.vaults.gc(&THOROUGH, no_more).unwrap();
    let vaults = place.reopened();
    for (state, text) in [(StateRef::Revision(1), "1"), (StateRef::Revision(2), "2"), (StateRef::Now, "3")] {
        assert_eq!(place.texts_of("v", &state), map(&[("/f", text)]));
    }
    assert_eq!(texts(&vaults, run.base()), map(&[("/f", "fork")]));
    assert!(vaults.fsck(&FsckRequest::default()).unwrap().is_clean());
    place.vaults.end_use(run).unwrap();
}

#[test]
fn what_nothing_names_is_found_and_removed() {
    let place = Place::with_vault();
    for number in 0..5 {
        place.write("v", "f", &format!("{number}").repeat(1000));
    }
    let dry = GcRequest { dry_run: true, ..THOROUGH };
    assert_eq!(place.vaults.gc(&dry, no_more).unwrap().garbage_objects, 0);
    place.vaults.rebuild_search().unwrap();
    let view = place.vaults.view("v", &StateRef::Revision(1)).unwrap();
    place.vaults.search(&view, &SearchQuery::new("none")).unwrap();
    drop(view);
    prune_all(&place);
    let found = place.vaults.gc(&dry, no_more).unwrap();
    assert!(found.garbage_objects >= 8 && found.garbage_bytes > 0, "{found:?}");
    let done = place.vaults.gc(&THOROUGH, no_more).unwrap();
    assert_eq!((done.garbage_objects, done.forgotten_texts), (found.garbage_objects, 1));
    assert_eq!(place.vaults.gc(&dry, no_more).unwrap().garbage_objects, 0);
    assert_eq!(place.read("v", "f"), "4".repeat(1000));
}

#[test]
fn roots_of_others_are_kept() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    let tree = place.vaults.info("v").unwrap().tree;
    place.write("v", "f", "2");
    prune_all(&place);
    place.vaults.gc(&THOROUGH, || Ok(vec![agentiso_vfs::Root::Tree(tree)])).unwrap();
    assert_eq!(texts(&place.vaults, tree), map(&[("/f", "1")]));
    place.vaults.gc(&THOROUGH, no_more).unwrap();
    assert!(agentiso_store::directory(place.reopened().store(), tree).is_err());
}

#[test]
fn a_view_is_kept_while_it_is_open() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    let view = place.vaults.view("v", &StateRef::Now).unwrap();
    place.write("v", "f", "2");
    prune_all(&place);
    place.vaults.gc(&THOROUGH, no_more).unwrap();
    assert_eq!(view.read(&path("f"), None, 9).unwrap().bytes, b"1");
}

/// Destroys the bytes of stored objects that contain a text.
fn destroy(place: &Place, text: &[u8]) {
    let mut destroyed = 0;
    for pack in fs::read_dir(place.path("home/store/packs")).unwrap() {
        let path: PathBuf = pack.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let places: Vec<usize> = (0..bytes.len().saturating_sub(text.len()))
            .filter(|at| bytes.get(*at..at + text.len()) == Some(text))
            .collect();
        for at in &places {
            bytes[at + text.len() - 1] ^= 0xff;
        }
        if !places.is_empty() {
            destroyed += places.len();
            fs::write(&path, bytes).unwrap();
        }
    }
    assert!(destroyed > 0, "nothing stored has it");
}

fn check(place: &Place, repair: bool, source: Option<PathBuf>) -> VaultFsck {
    place.reopened().fsck(&FsckRequest { repair, source }).unwrap()
}

#[test]
fn a_damaged_file_is_named_and_repaired_from_the_host() {
    let place = Place::with_vault();
    fs::create_dir(place.path("in")).unwrap();
    fs::write(place.path("in/f"), "precious").unwrap();
    place.vaults.import("v", &place.path("in"), &path("d"), &Default::default()).unwrap();
    assert!(check(&place, false, None).is_clean());
    destroy(&place, b"precious");
    let found = check(&place, false, None);
    assert!(!found.is_clean());
    let row = found.lost.iter().find(|row| row.what == "vault \"v\"").unwrap();
    assert_eq!((row.paths.clone(), row.is_structural), (vec![path("d/f")], false));
    let vaults = place.reopened();
    let view = vaults.view("v", &StateRef::Now).unwrap();
    assert_eq!(code(view.read(&path("d/f"), None, 99)), Code::DataDamaged);
    let found = check(&place, true, Some(place.path("in")));
    assert!(found.lost.is_empty() && found.is_clean(), "{found:?}");
    assert_eq!(read(&place.reopened(), "v", "d/f"), "precious");
}

#[test]
fn a_vault_whose_directories_are_lost_gets_its_newest_whole_state() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    place.write("v", "f", "2");
    place.write("v", "unmistakable-name-of-a-file", "3");
    destroy(&place, b"unmistakable-name-of-a-file");
    assert_eq!(
        code(place.reopened().view("v", &StateRef::Now).and_then(|view| view.list(&path("")))),
        Code::DataDamaged
    );
    let found = check(&place, false, None);
    assert!(found.lost.iter().any(|row| row.what == "vault \"v\"" && row.is_structural));
    let found = check(&place, true, None);
    assert!(found.is_clean() && !found.actions.is_empty(), "{found:?}");
    let vaults = place.reopened();
    assert_eq!(read(&vaults, "v", "f"), "2");
    vaults.gc(&THOROUGH, no_more).unwrap();
    assert!(check(&place, false, None).is_clean());
}

#[test]
fn maintenance_applies_retention_and_makes_everything_smaller() {
    let place = Place::with_vault();
    for number in 0..40 {
        place.write("v", "f", &format!("{number} ").repeat(500));
    }
    let retention = agentiso_vfs::Retention { revisions: Some(3), ..Default::default() };
    place.vaults.set_retention("v", retention).unwrap();
    let done = place.vaults.maintain(&MaintainRequest::default(), no_more).unwrap();
    assert_eq!((done.revisions, done.after.revisions, done.before.revisions), (37, 3, 40));
    assert!(done.after.disk_bytes() < done.before.disk_bytes(), "{done:?}");
    assert_eq!(place.vaults.log("v", &path("f"), 99).unwrap().len(), 4);
    let again = MaintainRequest { keep: Some(PruneKeep::Newest(1)), ..MaintainRequest::default() };
    assert_eq!(place.vaults.maintain(&again, no_more).unwrap().after.revisions, 1);
    assert!(check(&place, false, None).is_clean());
}

#[test]
fn stats_count_one_vault_or_all() {
    let place = Place::with_vault();
    place.write("v", "a/f", "12345");
    place.fork("v", "x");
    place.write("x", "g", "1");
    let all = place.vaults.stats(None).unwrap();
    assert_eq!((all.vaults, all.totals.files, all.totals.bytes, all.revisions), (2, 3, 11, 2));
    let one = place.vaults.stats(Some("x")).unwrap();
    assert_eq!((one.vaults, one.totals.files, one.totals.directories, one.revisions), (1, 2, 1, 1));
    assert!(one.record_bytes > 0 && one.store.packs > 0);
    assert_eq!(code(place.vaults.stats(Some("none"))), Code::VaultNotFound);
}
