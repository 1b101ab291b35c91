//! The variables of a machine.

use agentiso_core::ports::link::{ErrorKind, Exec, WorkspaceLink};

use super::words::{line, refused, run, shell};

pub(super) async fn all(link: &dyn WorkspaceLink) {
    let set = |name: &str, value: Option<&str>| (name.to_owned(), value.map(str::to_owned));
    assert!(link.env().await.expect("variables").is_empty());
    assert_eq!(link.set_env(vec![set("B", Some("two")), set("A", Some("one"))]).await.expect("variables"), 2);
    let known = [("A", "one"), ("B", "two")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(link.env().await.expect("variables"), known);
    assert_eq!(shell(link, "printenv A; printenv B").await, "one\ntwo\n");

    let own = Exec { env: vec![(b"A".to_vec(), b"own".to_vec())], ..line("printenv A; printenv B") };
    assert_eq!(run(link, own).await.expect("a command").stdout, "own\ntwo\n", "a command's own comes first");

    for bad in ["PATH", "LD_PRELOAD", "1A", "A B", ""] {
        refused(link.set_env(vec![set("C", Some("new")), set(bad, Some("x"))]).await, ErrorKind::Invalid);
    }
    assert_eq!(link.env().await.expect("variables"), known, "what was refused changed nothing");

    assert_eq!(link.set_env(vec![set("A", None), set("NONE", None)]).await.expect("variables"), 1);
    assert_eq!(link.set_env(vec![set("B", None)]).await.expect("variables"), 0);
}
