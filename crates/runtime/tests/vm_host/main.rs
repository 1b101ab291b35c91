//! The workspaces of an installation do what every host and every link must do, on real machines.
#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made fails the test")]

mod place;

use agentiso_testing::{hosts, links};

use crate::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn workspaces_are_created_changed_and_removed() {
    let place = Place::new().await;
    hosts::lifecycle(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ends_of_machines_are_noted() {
    let place = Place::new().await;
    hosts::ends(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_disks_are_restored() {
    let place = Place::new().await;
    hosts::snapshots(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_of_memory_are_restored() {
    let place = Place::new().await;
    hosts::memory(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forks_are_distinct_and_independent() {
    let place = Place::new().await;
    hosts::forks(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_about_the_network_stay_with_their_workspace() {
    let place = Place::new().await;
    hosts::network(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn points_are_compared() {
    let place = Place::new().await;
    hosts::comparisons(&place.lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_do_what_every_link_does() {
    let place = Place::new().await;
    let id = place.lab.create("linked").await.id;
    links::conformance(&*place.lab.link(id).await, place.lab.echo_server).await;
    place.lab.remove(id).await;
}
