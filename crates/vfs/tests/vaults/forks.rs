//! Forks and lineage.

use agentiso_core::Code;
use agentiso_vfs::{ForkNames, ForkVault, SaveCheckpoint, StateRef};

use crate::support::*;

#[test]
fn a_fork_has_everything_and_is_independent() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    let fork = place.fork("v", "x");
    assert_eq!(fork, place.vaults.info("x").unwrap());
    assert_eq!(fork.parent.unwrap().name.unwrap(), "v");
    place.write("x", "f", "fork");
    place.write("v", "g", "parent");
    assert_eq!(place.texts("x"), map(&[("/f", "fork")]));
    assert_eq!(place.texts("v"), map(&[("/f", "1"), ("/g", "parent")]));
}

#[test]
fn a_thousand_forks_are_one_transaction() {
    let place = Place::with_vault();
    place.write("v", "f", "1");
    let bytes = |place: &Place| place.vaults.stats(None).unwrap().store.pack_bytes;
    let before = bytes(&place);
    let request =
        ForkVault { names: ForkNames::Automatic(1000), ..ForkVault::new("v", "x".parse().unwrap()) };
    let forks = place.vaults.fork(&request).unwrap();
    assert_eq!(
        (forks.len(), forks[0].name.as_str(), forks[999].name.as_str()),
        (1000, "v-fork-1", "v-fork-1000")
    );
    assert_eq!(bytes(&place), before);
    assert_eq!(place.vaults.info("v").unwrap().forks, 1000);
    let taken = ForkVault {
        names: ForkNames::Given(vec!["new".parse().unwrap(), "v-fork-7".parse().unwrap()]),
        ..request
    };
    assert_eq!(code(place.vaults.fork(&taken)), Code::VaultExists);
    assert_eq!(code(place.vaults.info("new")), Code::VaultNotFound);
}

#[test]
fn forks_of_earlier_states_begin_there() {
    let place = Place::with_vault();
    for text in ["1", "2", "3"] {
        place.write("v", "f", text);
        let name = Some(format!("c{text}"));
        place.vaults.save_checkpoint("v", &SaveCheckpoint { name, ..SaveCheckpoint::default() }).unwrap();
    }
    let tree = place.vaults.checkpoint("v", "c1").unwrap().tree;
    let states = [
        ("a", StateRef::Checkpoint("c2".to_owned()), "2"),
        ("b", StateRef::Revision(1), "1"),
        ("c", StateRef::Tree(tree), "1"),
    ];
    for (name, state, text) in states {
        let request = ForkVault { state, ..ForkVault::new("v", name.parse().unwrap()) };
        let fork = place.vaults.fork(&request).unwrap().remove(0);
        assert_eq!((place.read(name, "f").as_str(), fork.totals.files), (text, 1));
    }
    let empty = ForkVault { state: StateRef::Revision(0), ..ForkVault::new("v", "d".parse().unwrap()) };
    assert_eq!(place.vaults.fork(&empty).unwrap()[0].totals.files, 0);
    let none = ForkVault { state: StateRef::Revision(9), ..ForkVault::new("v", "e".parse().unwrap()) };
    assert_eq!(code(place.vaults.fork(&none)), Code::VersionNotFound);
    assert_eq!(place.vaults.log("a", &path("f"), 9).unwrap().len(), 2);
}

#[test]
fn lineage_shows_ancestors_and_forks() {
    let place = Place::with_vault();
    place.fork("v", "a");
    place.fork("a", "b");
    place.fork("a", "c");
    let line = place.vaults.lineage("b").unwrap();
    let names: Vec<_> = line.ancestors.into_iter().map(|parent| parent.name).collect();
    assert_eq!(names, [Some("a".to_owned()), Some("v".to_owned())]);
    let forks: Vec<_> =
        place.vaults.lineage("a").unwrap().forks.into_iter().map(|fork| fork.name.unwrap()).collect();
    assert_eq!(forks, ["b", "c"]);
    let removed = place.vaults.remove("a", Default::default()).unwrap();
    assert!(removed.is_kept_for_forks);
    assert_eq!(place.vaults.lineage("b").unwrap().ancestors[0].name, None);
    for name in ["b", "c"] {
        place.vaults.remove(name, Default::default()).unwrap();
    }
    assert!(place.vaults.lineage("v").unwrap().forks.is_empty(), "nothing needs its history any more");
}
