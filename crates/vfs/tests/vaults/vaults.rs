//! Vaults as a whole.

use agentiso_core::{Code, Explain};
use agentiso_vfs::{AuditQuery, CreateVault, FileOp, NewContent, Quotas, RemoveOptions, Vaults, VfsError};
use jiff::{SignedDuration, Timestamp};

use crate::support::*;

#[test]
fn vaults_are_found_by_name_and_by_id() {
    let place = Place::new();
    let made = place.create("projects");
    place.create("two");
    let names: Vec<_> = place.vaults.list().unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["projects", "two"]);
    assert_eq!(place.vaults.info(&made.id.to_string()).unwrap(), place.vaults.info("projects").unwrap());
    assert_eq!(code(place.vaults.create(&CreateVault::new("projects".parse().unwrap()))), Code::VaultExists);
    let error = place.vaults.info("project").unwrap_err();
    assert_eq!(error.code(), Code::VaultNotFound);
    assert_eq!(error.remedy().unwrap(), "did you mean \"projects\"?");
}

#[test]
fn a_renamed_vault_keeps_its_id_and_its_files() {
    let place = Place::with_vault();
    place.write("v", "a", "text");
    place.create("taken");
    assert_eq!(code(place.vaults.rename("v", &"taken".parse().unwrap())), Code::VaultExists);
    let before = place.vaults.info("v").unwrap();
    let after = place.vaults.rename("v", &"w".parse().unwrap()).unwrap();
    assert_eq!((after.id, after.name.as_str()), (before.id, "w"));
    assert_eq!(place.read("w", "a"), "text");
    assert_eq!(code(place.vaults.info("v")), Code::VaultNotFound);
}

#[test]
fn a_removed_vault_is_gone_and_its_name_is_free() {
    let place = Place::with_vault();
    place.write("v", "a", "text");
    let removed = place.vaults.remove("v", RemoveOptions::default()).unwrap();
    assert!(!removed.is_kept_for_forks);
    assert_eq!(code(place.vaults.remove("v", RemoveOptions::default())), Code::VaultNotFound);
    place.create("v");
    assert!(place.texts("v").is_empty());
}

#[test]
fn expired_vaults_are_removed_when_somebody_opens_the_directory() {
    let place = Place::with_vault();
    place.create("stays");
    let now = Timestamp::now();
    place.vaults.set_expiry("v", Some(now - SignedDuration::from_secs(1))).unwrap();
    place.vaults.set_expiry("stays", Some(now + SignedDuration::from_hours(1))).unwrap();
    let vaults = place.reopened();
    let names: Vec<_> = vaults.list().unwrap().into_iter().map(|info| info.name).collect();
    assert_eq!(names, ["stays"]);
    let page = vaults.audit(&AuditQuery { vault: Some("v".to_owned()), ..AuditQuery::default() }).unwrap();
    assert_eq!(page.entries.first().unwrap().operation, "vault_expire");
}

fn quotas(max_bytes: u64, max_files: u64, max_file_bytes: u64) -> Quotas {
    Quotas { max_bytes: Some(max_bytes), max_files: Some(max_files), max_file_bytes: Some(max_file_bytes) }
}

#[test]
fn quotas_count_what_the_working_tree_has() {
    let place = Place::with_vault();
    place.vaults.set_quotas("v", quotas(100, 3, 60)).unwrap();
    place.write("v", "a", &"x".repeat(60));
    // A replaced file counts once: its former content is history.
    place.write("v", "a", &"y".repeat(55));
    place.write("v", "a", &"z".repeat(60));
    assert_eq!(code(write(&place.vaults, "b", 41)), Code::QuotaExceeded);
    assert_eq!(code(write(&place.vaults, "a", 61)), Code::QuotaExceeded);
    place.write("v", "b", &"x".repeat(40));
    let status = place.vaults.quotas("v").unwrap();
    assert_eq!((status.totals.bytes, status.totals.files), (100, 2));
    assert_eq!((status.bytes_percent(), status.files_percent().map(f64::round)), (Some(100.0), Some(67.0)));
    place.remove("v", "b");
    place.write("v", "b", "");
    place.write("v", "c", "");
    assert_eq!(code(write(&place.vaults, "d", 0)), Code::QuotaExceeded);
    assert_eq!(place.texts("v").len(), 3);
}

fn write(vaults: &Vaults, at: &str, size: usize) -> Result<agentiso_vfs::Changed, VfsError> {
    vaults.change("v", &[FileOp::write(&path(at), vec![b'x'; size])])
}

#[test]
fn a_vault_above_its_quota_may_shrink() {
    let place = Place::with_vault();
    place.write("v", "a", &"x".repeat(80));
    place.write("v", "b", &"x".repeat(80));
    place.vaults.set_quotas("v", quotas(50, 1, 10)).unwrap();
    place.write("v", "a", &"x".repeat(70));
    assert_eq!(code(write(&place.vaults, "a", 71)), Code::QuotaExceeded);
    place.remove("v", "b");
    let fork = place.fork("v", "f");
    assert_eq!(fork.quotas, quotas(50, 1, 10), "a fork has the limits of its parent");
}

#[test]
fn copies_and_imports_are_checked_too() {
    let place = Place::with_vault();
    place.write("v", "a/b", &"x".repeat(60));
    place.vaults.set_quotas("v", quotas(100, 10, 60)).unwrap();
    let copy = FileOp::Copy { from: path("a"), to: path("c"), recursive: true, replace: false };
    assert_eq!(code(place.vaults.change("v", &[copy])), Code::QuotaExceeded);
    std::fs::create_dir(place.path("in")).unwrap();
    std::fs::write(place.path("in/f"), "x".repeat(50)).unwrap();
    let imported = place.vaults.import("v", &place.path("in"), &path("d"), &Default::default());
    assert_eq!(code(imported), Code::QuotaExceeded);
    assert_eq!(place.texts("v").len(), 1);
}

#[test]
fn every_operation_leaves_an_audit_entry() {
    let place = Place::with_vault();
    place.write("v", "a", "1");
    place.fork("v", "f");
    place.vaults.audit_append(Some("v"), "proxy_exec_denied", None, Some("{\"command\":\"x\"}")).unwrap();
    let query = |vault: Option<&str>, limit| AuditQuery {
        vault: vault.map(str::to_owned),
        limit,
        ..AuditQuery::default()
    };
    let words = |page: agentiso_vfs::AuditPage| -> Vec<String> {
        page.entries.into_iter().map(|entry| entry.operation).collect()
    };
    assert_eq!(
        words(place.vaults.audit(&query(None, 9)).unwrap()),
        ["proxy_exec_denied", "vault_fork", "change", "vault_create"]
    );
    assert_eq!(words(place.vaults.audit(&query(Some("f"), 9)).unwrap()), ["vault_fork"]);
    let page = place.vaults.audit(&query(Some("v"), 1)).unwrap();
    assert_eq!((page.total, page.entries.len()), (3, 1));
    assert_eq!(code(place.vaults.audit(&query(Some("unknown"), 1))), Code::VaultNotFound);
    assert_eq!(place.vaults.audit_clear(Some("v"), None).unwrap(), 3);
    assert_eq!(words(place.vaults.audit(&query(None, 9)).unwrap()), ["audit_clear", "vault_fork"]);
    assert_eq!(code(place.vaults.audit_append(None, "a\nb", None, None)), Code::InvalidArgument);
}

#[test]
fn the_records_of_a_newer_program_are_refused() {
    let place = Place::new();
    let connection = rusqlite::Connection::open(place.path("home/vaults.db")).unwrap();
    connection.pragma_update(None, "user_version", 99).unwrap();
    let opened = Vaults::open(&place.path("home"), Default::default());
    assert_eq!(code(opened), Code::ToolTooOld);
}

#[test]
fn damaged_records_are_an_error_and_not_an_empty_list() {
    let place = Place::with_vault();
    let home = place.path("home");
    drop(place.vaults);
    for name in ["vaults.db-wal", "vaults.db-shm"] {
        let _ = std::fs::remove_file(home.join(name));
    }
    std::fs::write(home.join("vaults.db"), vec![7; 8192]).unwrap();
    assert_eq!(code(Vaults::open(&home, Default::default())), Code::DataDamaged);
}

#[test]
fn content_can_be_stored_before_the_change() {
    let place = Place::with_vault();
    let big = vec![b'b'; 3 << 20];
    let staged = place.vaults.stage(big.as_slice()).unwrap();
    let content = NewContent::Staged(staged);
    let operation = FileOp::Write { path: path("big"), content, mode: Some(0o600), if_absent: true };
    place.vaults.change("v", std::slice::from_ref(&operation)).unwrap();
    let view = place.vaults.view("v", &Default::default()).unwrap();
    assert_eq!(view.stat(&path("big"), true).unwrap().size, 3 << 20);
    assert_eq!(view.read(&path("big"), Some(1..4), 100).unwrap().bytes, b"bbb");
    assert_eq!(code(view.read(&path("big"), None, 100)), Code::FileTooLarge);
    assert_eq!(code(place.vaults.change("v", &[operation])), Code::FileExists);
}
