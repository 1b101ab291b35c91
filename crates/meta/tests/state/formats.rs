//! The database file: its format, its mode, and how corruption is handled.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

use agentiso_core::action::SnapshotKind;
use agentiso_core::{Code, Explain, SnapshotId};
use agentiso_meta::{By, EventFilter, Meta, MetaError, Snapshot, Variable, WorkspaceState};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use crate::builders::{State, session};

/// A database of format 1 as originally written. Must never be changed.
const FORMAT_1: &str = include_str!("../samples/state-1.sql");

/// A database of format 7, with a suspended workspace. Never to be changed.
const FORMAT_7: &str = include_str!("../samples/state-7.sql");

fn database(sql: &str) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (dir, path)
}

/// The statements of a schema without comments, which SQLite keeps and newer versions may have reworded.
fn schema(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    let sql =
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY name";
    let mut statement = connection.prepare(sql).unwrap();
    let statements = statement.query_map([], |row| row.get::<_, String>(0)).unwrap().map(Result::unwrap);
    let is_comment = |line: &&str| line.trim_start().starts_with("--");
    statements.map(|sql| sql.lines().filter(|line| !is_comment(line)).collect()).collect()
}

#[test]
fn a_database_of_format_1_can_be_opened() {
    let (_dir, path) = database(FORMAT_1);
    let meta = Meta::open(&path).unwrap();
    meta.verify().unwrap();
    meta.read(|state| {
        let [source, fork]: [_; 2] = state.workspaces()?.try_into().unwrap();
        let [first, second]: [_; 2] = state.snapshots(source.id)?.try_into().unwrap();
        assert_eq!((source.name.as_str(), fork.name.as_str()), ("source", "fork"));
        assert_eq!(source.state, WorkspaceState::Running { machine: json!({ "pid": 321 }) });
        assert_eq!(fork.state, WorkspaceState::Stopped { reason: Some("crashed".to_owned()) });
        assert_eq!(source.created.to_string(), "2026-01-02T03:04:05.678901Z");
        assert_eq!(
            (source.resources.vcpus, source.resources.memory_mb, source.resources.disk_gb),
            (2, 512, 10)
        );
        assert_eq!(source.position, Some(second.id));
        assert_eq!(second.parent, Some(first.id));
        assert_eq!((first.name.as_str(), first.description.as_str()), ("s1", "clean"));
        let lineage = fork.lineage.as_ref().unwrap();
        assert_eq!((lineage.workspace, lineage.snapshot, lineage.depth), (source.id, Some(first.id), 1));
        assert_eq!(state.chain(source.disk)?.len(), 3);
        let memory = state.memory(second.memory.unwrap())?;
        assert_eq!((memory.base.as_str(), memory.pages, memory.about), ("base-1", 99, json!({ "v": 1 })));
        assert_eq!(state.packs_of(memory.id)?, [memory.id]);
        assert_eq!(state.pool_counts()?, [("shape-1".to_owned(), 1)]);
        let [operation]: [_; 1] = state.operations()?.try_into().unwrap();
        assert_eq!((operation.kind.as_str(), operation.workspace), ("fork", Some(fork.id)));
        assert_eq!((operation.owner.pid, operation.owner.started), (321, 654));
        Ok(())
    })
    .unwrap();
}

/// All rows of the tables of format 1.
fn rows(path: &Path) -> Vec<String> {
    let connection = Connection::open(path).unwrap();
    const SNAPSHOTS: &str = "id, workspace, name, description, parent, created, disk, memory";
    const WORKSPACES: &str = "id, name, image, image_identity, vcpus, memory_mb, disk_gb, created, state, stop_reason,
        machine, disk, position, source_workspace, source_name, source_snapshot, forked_at, depth, from_pool, tier";
    ["disks", "workspaces", "memories", "memory_packs", "snapshots", "pool", "operations"]
        .into_iter()
        .flat_map(|table| {
            let columns = match table {
                "snapshots" => SNAPSHOTS,
                "workspaces" => WORKSPACES,
                _ => "*",
            };
            let mut statement = connection.prepare(&format!("SELECT {columns} FROM {table}")).unwrap();
            let columns = statement.column_count();
            let row = |row: &rusqlite::Row<'_>| {
                let values: Vec<_> = (0..columns).map(|column| row.get_ref_unwrap(column)).collect();
                Ok(format!("{table}: {values:?}"))
            };
            statement.query_map([], row).unwrap().map(Result::unwrap).collect::<Vec<_>>()
        })
        .collect()
}

fn format_of(path: &Path) -> i64 {
    Connection::open(path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

#[test]
fn a_migrated_database_of_format_1_keeps_its_rows_and_has_all_features() {
    let (_dir, path) = database(FORMAT_1);
    let before = rows(&path);
    assert_eq!(before.len(), 13);
    let meta = Meta::open(&path).unwrap();
    assert_eq!((rows(&path), format_of(&path)), (before, 12));

    let [source, fork]: [_; 2] = meta.read(|state| state.workspaces()).unwrap().try_into().unwrap();
    assert_eq!(meta.read(|state| state.settings(source.id)).unwrap().last_used, source.created);
    // It is not known who set the variables of its machine.
    let before = Variable { name: Variable::ANY.to_owned(), by_operator: false, waiting: false };
    assert_eq!(meta.read(|state| state.variables(source.id)).unwrap(), [before]);
    let session = session();
    meta.write(|tx| {
        tx.insert_session(&session)?;
        tx.set_owner(fork.id, Some(session.id))
    })
    .unwrap();
    let meta = Meta::open(&path).unwrap();
    assert_eq!(meta.read(|state| state.owned_by(session.id)).unwrap(), [fork]);
    assert_eq!(meta.read(|state| state.usage(None)).unwrap().workspaces, 2);
    meta.verify().unwrap();
}

#[test]
fn snapshots_of_suspended_workspaces_get_a_kind_and_free_their_names_for_users() {
    let (_dir, path) = database(FORMAT_7);
    let meta = Meta::open(&path).unwrap();
    meta.verify().unwrap();
    assert_eq!(format_of(&path), 12);
    let source = meta.read(|state| state.find_workspace("source")).unwrap();
    let snapshots = meta.read(|state| state.snapshots(source.id)).unwrap();
    let found: Vec<_> = snapshots.iter().map(|one| (one.kind, one.name.as_str())).collect();
    let first = "suspend-01900000-0000-7000-8000-0000000000e1";
    let second = "suspend-01900000-0000-7000-8000-0000000000e2";
    assert_eq!(
        found,
        [
            (SnapshotKind::User, "s1"),
            (SnapshotKind::User, "s2"),
            (SnapshotKind::Suspend, first),
            (SnapshotKind::Suspend, second),
            (SnapshotKind::User, "suspended-by-hand"),
            (SnapshotKind::User, "suspend"),
        ]
    );
    let suspended = meta.read(|state| state.settings(source.id)).unwrap().suspended;
    assert_eq!(suspended, Some(snapshots[3].id));
    // The records beside the disks say so too, as soon as they are written.
    let stale = meta.read(|state| state.stale_records()).unwrap();
    assert!(stale.iter().any(|record| record.workspace == source.id));
    let users = Snapshot {
        id: SnapshotId::from_uuid(Uuid::now_v7()),
        name: "suspended".parse().unwrap(),
        ..snapshots[0].clone()
    };
    meta.write(|tx| tx.insert_snapshot(&users)).unwrap();
}

#[test]
fn workspaces_whose_names_look_like_ids_are_renamed_everywhere() {
    let (_dir, path) = database(FORMAT_1);
    let victim = "01900000-0000-7000-8000-00000000a001";
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch(include_str!("../../src/0002.sql")).unwrap();
    let spoil = format!(
        "PRAGMA user_version = 2;
         UPDATE workspaces SET name = '{victim}' WHERE name = 'source';
         UPDATE workspaces SET source_name = 'deadbeef' WHERE name = 'fork';
         INSERT INTO timeline (at, workspace, workspace_name, client, action, detail, duration_us, outcome)
         VALUES (0, NULL, '{victim}', '', 'exec', '{{}}', 0, 'ok'), (0, NULL, 'fork', '', 'exec', '{{}}', 0, 'ok');"
    );
    connection.execute_batch(&spoil).unwrap();
    drop(connection);

    let meta = Meta::open(&path).unwrap();
    meta.verify().unwrap();
    let [source, fork]: [_; 2] = meta.read(|state| state.workspaces()).unwrap().try_into().unwrap();
    assert_eq!(source.name.as_str(), format!("named-{victim}"));
    assert_eq!((fork.name.as_str(), fork.lineage.unwrap().name.as_str()), ("fork", "named-deadbeef"));
    let filter = EventFilter { workspace: None, before: None, by: By::Anyone, without: &[], limit: 10 };
    let events = meta.read(|state| state.events(filter)).unwrap();
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.done.action.as_str(), event.done.workspace_name.as_ref().unwrap().as_str()))
        .collect();
    let new = source.name.as_str();
    assert_eq!(told, [("workspace_rename", new), ("exec", "fork"), ("exec", new)]);
    assert_eq!(events[0].done.workspace, Some(source.id));
}

#[test]
fn a_workspace_that_is_renamed_gets_a_free_name() {
    let (_dir, path) = database(FORMAT_1);
    let spoil = "UPDATE workspaces SET name = 'deadbeef' WHERE name = 'source';
         UPDATE workspaces SET name = 'named-deadbeef' WHERE name = 'fork'";
    Connection::open(&path).unwrap().execute_batch(spoil).unwrap();
    let meta = Meta::open(&path).unwrap();
    let names = meta.read(|state| state.workspaces()).unwrap().into_iter().map(|one| one.name.to_string());
    assert_eq!(names.collect::<Vec<_>>(), ["named-deadbeef-2", "named-deadbeef"]);
}

#[test]
fn a_failed_migration_changes_nothing() {
    let (_dir, path) = database(FORMAT_1);
    // The last table of the new format cannot be created, so the earlier ones must be rolled back.
    let spoil = "CREATE TABLE timeline (x)";
    Connection::open(&path).unwrap().execute_batch(spoil).unwrap();
    let before = (rows(&path), schema(&path));
    Meta::open(&path).unwrap_err();
    assert_eq!((rows(&path), schema(&path)), before);
    assert_eq!(format_of(&path), 1);

    Connection::open(&path).unwrap().execute_batch("DROP TABLE timeline").unwrap();
    Meta::open(&path).unwrap().verify().unwrap();
}

#[test]
fn concurrent_opens_of_an_old_database_all_find_it_migrated() {
    for _ in 0..5 {
        let (_dir, path) = database(FORMAT_1);
        let start = Barrier::new(4);
        let open = || {
            start.wait();
            Meta::open(&path)?.read(|state| state.all_settings())
        };
        std::thread::scope(|scope| {
            for thread in [(); 4].map(|()| scope.spawn(open)) {
                assert_eq!(thread.join().unwrap().unwrap().len(), 2);
            }
        });
    }
}

#[test]
fn constraints_reject_values_that_are_never_written() {
    let state = State::new();
    let (web, session) = (state.add("web").id, state.add_session().id);
    let connection = Connection::open(state.meta.path()).unwrap();
    connection.pragma_update(None, "foreign_keys", true).unwrap();
    let nobody = "01900000-0000-7000-8000-000000000000";
    for (bad, why) in [
        (format!("INSERT INTO sessions VALUES ('{nobody}', 'ftp', '', zeroblob(32), 0, 0)"), "CHECK"),
        (format!("INSERT INTO sessions VALUES ('{nobody}', 'mcp', '', zeroblob(31), 0, 0)"), "CHECK"),
        (format!("INSERT INTO sessions VALUES ('{session}', 'mcp', '', zeroblob(32), 0, 0)"), "UNIQUE"),
        ("UPDATE sessions SET client = printf('%.129c', 'x')".to_owned(), "CHECK"),
        ("UPDATE sessions SET last_active = 'now'".to_owned(), "cannot store TEXT"),
        (format!("INSERT INTO settings (workspace, last_used) VALUES ('{nobody}', 0)"), "FOREIGN KEY"),
        (
            format!("INSERT INTO settings (workspace, owner, last_used) VALUES ('{web}', '{nobody}', 0)"),
            "FOREIGN KEY",
        ),
        (
            format!("INSERT INTO settings (workspace, suspended, last_used) VALUES ('{web}', '{nobody}', 0)"),
            "FOREIGN KEY",
        ),
        (
            format!("INSERT INTO settings (workspace, idle_stop_secs, last_used) VALUES ('{web}', -1, 0)"),
            "CHECK",
        ),
        (format!("INSERT INTO forwards VALUES (8080, '{nobody}', 80, 0, NULL)"), "FOREIGN KEY"),
        (format!("INSERT INTO forwards VALUES (65536, '{web}', 80, 0, NULL)"), "CHECK"),
        (
            format!("INSERT INTO forwards VALUES (8080, '{web}', 80, 0, NULL), (8080, '{web}', 81, 0, NULL)"),
            "UNIQUE",
        ),
        (format!("INSERT INTO idempotency VALUES ('{nobody}', 'k', zeroblob(32), NULL, 0)"), "FOREIGN KEY"),
        (format!("INSERT INTO idempotency VALUES ('{session}', 'k', zeroblob(1), NULL, 0)"), "CHECK"),
        (
            "INSERT INTO timeline (at, client, action, detail, duration_us, outcome)
          VALUES (0, '', '', printf('%.4097c', 'x'), 0, 'ok')"
                .to_owned(),
            "CHECK",
        ),
    ] {
        let refused = connection.execute_batch(&bad).unwrap_err();
        assert!(refused.to_string().contains(why), "{bad}: {refused}");
    }
    state.meta.verify().unwrap();
}

#[test]
fn invalid_rows_about_clients_and_events_are_corruption() {
    for spoil in [
        "UPDATE sessions SET id = 'nobody'",
        "PRAGMA ignore_check_constraints = ON; UPDATE sessions SET kind = 'ftp'",
        "PRAGMA ignore_check_constraints = ON; UPDATE sessions SET token_hash = x'00'",
        "UPDATE settings SET labels = '[]'",
        "UPDATE settings SET labels = '{\"Team\":\"\"}'",
        "UPDATE settings SET expires_at = 9223372036854775807",
        "PRAGMA ignore_check_constraints = ON; UPDATE forwards SET host_port = 70000",
        "UPDATE idempotency SET outcome = '{'",
        "UPDATE timeline SET detail = '{'",
    ] {
        let state = State::new();
        let (web, session) = (state.add("web").id, state.add_session().id);
        Connection::open(state.meta.path())
            .unwrap()
            .execute_batch(&format!(
                "PRAGMA foreign_keys = OFF;
                 INSERT INTO settings (workspace, last_used) VALUES ('{web}', 0);
                 INSERT INTO forwards VALUES (8080, '{web}', 80, 0, NULL);
                 INSERT INTO idempotency VALUES ('{session}', 'k', zeroblob(32), NULL, 0);
                 INSERT INTO timeline (at, client, action, detail, duration_us, outcome)
                 VALUES (0, '', '', '{{}}', 0, 'ok');"
            ))
            .unwrap();
        state.meta.verify().unwrap();
        let connection = Connection::open(state.meta.path()).unwrap();
        connection.execute_batch(&format!("PRAGMA foreign_keys = OFF; {spoil}")).unwrap();
        assert_eq!(state.meta.verify().unwrap_err().code(), Code::DataDamaged, "{spoil}");
    }
}

#[test]
fn a_migrated_database_has_the_schema_of_a_new_one() {
    let (_dir, old) = database(FORMAT_1);
    drop(Meta::open(&old).unwrap());
    let new = State::new();
    assert_eq!(schema(&old), schema(new.meta.path()));
}

#[test]
fn a_database_of_a_newer_format_is_not_changed() {
    let (_dir, path) = database("CREATE TABLE future (x); PRAGMA user_version = 99");
    let before = fs::read(&path).unwrap();
    let refused = Meta::open(&path).unwrap_err();
    assert!(matches!(refused, MetaError::TooNew { found: 99, known: 12, .. }), "{refused}");
    assert!(refused.remedy().unwrap().contains("newer agentiso"));
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_file_that_is_not_a_database_is_corruption() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.db");
    fs::write(&path, "this was never a database, and it is long enough to look at".repeat(100)).unwrap();
    let refused = Meta::open(&path).unwrap_err();
    assert_eq!(refused.code(), Code::DataDamaged);
    assert!(refused.to_string().starts_with(&format!("{} is damaged: ", path.display())), "{refused}");
    assert!(refused.remedy().is_some());

    let (_dir, path) = database("PRAGMA user_version = -5");
    assert_eq!(Meta::open(&path).unwrap_err().code(), Code::DataDamaged);
}

#[test]
fn a_database_with_a_damaged_page_is_corruption() {
    let (_dir, path) = database(FORMAT_1);
    drop(Meta::open(&path).unwrap());
    let empty_log = "PRAGMA wal_checkpoint(TRUNCATE)";
    Connection::open(&path).unwrap().query_row(empty_log, [], |_| Ok(())).unwrap();
    let root = "SELECT rootpage FROM sqlite_schema WHERE name = 'workspaces'";
    let page: u32 = Connection::open(&path).unwrap().query_row(root, [], |row| row.get(0)).unwrap();
    let start = (page as usize - 1) * 4096;
    let mut bytes = fs::read(&path).unwrap();
    bytes[start..start + 4096].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    let meta = Meta::open(&path).unwrap();
    assert_eq!(meta.read(|state| state.workspaces()).unwrap_err().code(), Code::DataDamaged);
    assert_eq!(meta.verify().unwrap_err().code(), Code::DataDamaged);
}

#[test]
fn an_invalid_row_is_corruption() {
    for spoil in [
        "UPDATE workspaces SET name = '../' || id",
        "UPDATE workspaces SET machine = '{' WHERE machine IS NOT NULL",
        "UPDATE workspaces SET vcpus = -1",
        "UPDATE workspaces SET created = 9223372036854775807",
        "PRAGMA foreign_keys = OFF; UPDATE workspaces SET id = 'nobody' WHERE name = 'fork'",
    ] {
        let (_dir, path) = database(FORMAT_1);
        Connection::open(&path).unwrap().execute_batch(spoil).unwrap();
        let meta = Meta::open(&path).unwrap();
        let refused = meta.read(|state| state.workspaces()).unwrap_err();
        assert_eq!(refused.code(), Code::DataDamaged, "{spoil}: {refused}");
        assert_eq!(meta.verify().unwrap_err().code(), Code::DataDamaged, "{spoil}");
    }
}

#[test]
fn the_consistency_check_finds_contradictions() {
    for (spoil, complaint) in [
        ("DELETE FROM disks WHERE id LIKE '%d1'", "missing"),
        ("UPDATE disks SET frozen = 1", "writes to a frozen disk"),
        ("UPDATE disks SET frozen = 0", "still changes"),
        ("UPDATE pool SET disk = (SELECT disk FROM workspaces LIMIT 1)", "to the pool"),
    ] {
        let (_dir, path) = database(FORMAT_1);
        Connection::open(&path)
            .unwrap()
            .execute_batch(&format!("PRAGMA foreign_keys = OFF; {spoil}"))
            .unwrap();
        let found = Meta::open(&path).unwrap().verify().unwrap_err();
        assert!(found.to_string().contains(complaint), "{spoil}: {found}");
    }
}

#[test]
fn the_wal_of_many_short_commands_is_truncated_occasionally() {
    let state = State::new();
    let log = state.dir.path().join("state.db-wal");
    let id = state.add("web").id;
    let machine = json!({ "about": "x".repeat(40_000) });
    let sizes: Vec<u64> = (0..100)
        .map(|_| {
            state.reopen().write(|tx| tx.set_running(id, &machine)).unwrap();
            fs::metadata(&log).unwrap().len()
        })
        .collect();
    assert!(sizes.iter().max().unwrap() < &(3 << 20), "{sizes:?}");
    assert!(
        sizes.windows(2).filter(|pair| pair[1] < pair[0]).count() < 5,
        "it must not be truncated each time"
    );
    assert_eq!(state.get(id).machine(), Some(&machine));
}

#[test]
fn only_its_user_can_read_the_database() {
    let state = State::new();
    state.add("web");
    let modes: Vec<_> = fs::read_dir(state.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o600; 3], "the database, its log and its index");
}

#[test]
fn a_missing_directory_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Meta::open(&dir.path().join("nowhere/state.db")).unwrap_err();
    assert_eq!(refused.code(), Code::Io);
    assert!(refused.to_string().contains("nowhere"), "{refused}");
}
