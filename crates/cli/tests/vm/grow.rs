//! Growing disks.

use crate::place::Place;

/// The size of the guest's file system and of the host's disk, in GiB.
fn sizes(place: &Place, workspace: &str) -> (String, u64) {
    let inside = place.sh(workspace, "df -B1G --output=size / | tail -1").trim().to_owned();
    (inside, place.json(&["info", workspace])["resources"]["disk_gb"].as_u64().unwrap())
}

#[test]
fn a_disk_grows_while_running_and_shrinks_when_an_earlier_snapshot_is_restored() {
    let place = Place::with("web");
    let (small, large) = (("10".to_owned(), 10), ("12".to_owned(), 12));
    assert_eq!(sizes(&place, "web"), small);
    place.sh("web", "echo small > /root/when; sleep 1000 > /dev/null & echo $! > /run/pid");
    place.json(&["snapshot", "create", "web", "small", "--memory"]);

    let grown = place.json(&["grow", "web", "12"]);
    assert_eq!(grown["note"], "its disk has 12 GiB and had 10");
    assert_eq!(sizes(&place, "web"), large);
    // Nothing was restarted, and the space beyond the former end is usable.
    place.sh("web", "kill -0 $(cat /run/pid); echo large > /root/when; fallocate -l 10500M /root/big");
    place.json(&["grow", "web", "12"]);
    place.json(&["snapshot", "create", "web", "large"]);
    place.json(&["fork", "web", "--name", "fork"]);
    assert_eq!(sizes(&place, "fork"), large);

    place.json(&["stop", "web"]);
    place.json(&["start", "web"]);
    assert_eq!(
        (sizes(&place, "web"), place.sh("web", "cat /root/when")),
        (large.clone(), "large".to_owned())
    );

    place.json(&["snapshot", "restore", "web", "small"]);
    assert_eq!(
        (sizes(&place, "web"), place.sh("web", "cat /root/when")),
        (small.clone(), "small".to_owned())
    );
    place.sh("web", "kill -0 $(cat /run/pid)");
    place.json(&["fork", "web", "large", "--name", "from-large"]);
    assert_eq!(sizes(&place, "from-large"), large);
    place.json(&["fork", "fork", "--name", "of-fork"]);
    assert_eq!(sizes(&place, "of-fork"), large);

    // The smaller disk is removed from below a larger one.
    place.json(&["rm", "--force", "fork", "from-large", "of-fork"]);
    place.json(&["snapshot", "restore", "web", "large"]);
    place.json(&["snapshot", "rm", "web", "small"]);
    place.json(&["stop", "web"]);
    place.json(&["start", "web"]);
    assert_eq!(sizes(&place, "web"), large);
    assert_eq!(place.sh("web", "cat /root/when; stat -c %s /root/big"), "large\n11010048000");
}
