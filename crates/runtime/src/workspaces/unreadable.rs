//! Files and databases that cannot be read: nothing is treated as missing, and nothing is lost.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use agentiso_core::DiskId;
use agentiso_meta::Gate;
use serde_json::json;
use uuid::Uuid;

use super::adopt::tests::{World, copy_database, remove_database, restore_database, try_open};
use super::record::Record;

/// Makes everything at and below a path unreadable, even for root: looking at it fails with ELOOP.
fn make_unreadable(path: &Path) {
    fs::rename(path, path.with_extension("away")).unwrap();
    symlink(path, path).unwrap();
}

fn make_readable(path: &Path) {
    fs::remove_file(path).unwrap();
    fs::rename(path.with_extension("away"), path).unwrap();
}

#[tokio::test]
async fn a_record_that_cannot_be_read_keeps_an_older_database_from_moving_disks() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.snapshot(&web, "first");
    let copy = world.home().join("copy");
    copy_database(&world, &copy);
    world.snapshot(&web, "second");
    let (rows, files) = (world.rows(), world.files(""));

    restore_database(&world, &copy);
    let record = Record::path(&world.home().join("disks"), web.id);
    make_unreadable(&record);
    let failure = try_open(world.home()).await.err().expect("it cannot know what is newer");
    assert!(failure.message().contains("could not read the record"), "{failure}");
    assert!(world.files("lost").is_empty());

    make_readable(&record);
    world.reopen().await;
    assert_eq!((world.rows(), world.files("")), (rows, files));
}

#[tokio::test]
async fn a_memory_that_cannot_be_looked_at_is_not_recovered_as_missing() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.snapshot(&web, "first");
    let rows = world.rows();
    remove_database(world.home());
    world.reopen().await;

    let memory = world.home().join("lost/memory");
    make_unreadable(&memory);
    let tried = world.workspaces.recover_lost(true).unwrap();
    let [one] = &tried.workspaces[..] else { panic!("{tried:?}") };
    assert!(one.problem.as_ref().unwrap().contains("look for the memory of a snapshot"), "{one:?}");
    assert_eq!((one.now.as_ref(), world.rows().as_str()), (None, ""));

    make_readable(&memory);
    let done = world.workspaces.recover_lost(true).unwrap();
    assert!(done.workspaces[0].problem.is_none() && done.workspaces[0].without_memory.is_empty(), "{done:?}");
    assert_eq!(world.rows(), rows);
}

#[tokio::test]
async fn a_damaged_disk_that_a_machine_may_have_written_to_is_kept() {
    let mut world = World::new().await;
    let web = world.add("web");
    let fresh = DiskId::from_uuid(Uuid::now_v7());
    // The host crashed after the switch: the machine is gone and the header of its disk was never written.
    fs::write(world.workspaces.installation.disk_path(fresh), "what the guest wrote").unwrap();
    let switch = json!({ "workspace": web.id, "from": web.disk, "to": fresh });
    let intent = json!({ "disks": [fresh], "switch": switch });
    let left = world.workspaces.meta.write(|tx| {
        let operation = tx.begin("snapshot", Some(web.id), &intent)?;
        tx.abandon(operation)
    });
    left.unwrap();

    world.reopen().await;
    let workspace = world.workspaces.meta.read(|read| read.workspace(web.id)).unwrap();
    assert_eq!(workspace.disk, web.disk);
    let lost = world.home().join(format!("lost/disks/{fresh}.qcow2"));
    assert_eq!(fs::read_to_string(lost).unwrap(), "what the guest wrote");
}

#[tokio::test]
async fn a_database_that_cannot_be_read_does_not_cost_a_workspace_its_lock() {
    let mut world = World::new().await;
    let web = world.add("web");
    world.guard(Gate::new(|| false));
    world.workspaces.freeze_for_merging(web.id).await.unwrap_err();
    let lock = world.workspaces.installation.paths.workspaces_dir().join(format!("{}.lock", web.id));
    assert!(lock.exists(), "two processes could lock the workspace at the same time");
}

#[tokio::test]
async fn a_database_that_cannot_be_looked_at_keeps_every_image() {
    let world = World::new().await;
    let image = "debian".parse().unwrap();
    let installation = &world.workspaces.installation;
    installation.require_unused_image(&image).unwrap();
    make_unreadable(&installation.paths.state_file());
    let failure = installation.require_unused_image(&image).unwrap_err();
    assert!(failure.message().contains("look for the database"), "{failure}");
}
