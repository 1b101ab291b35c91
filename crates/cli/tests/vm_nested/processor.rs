//! A host whose CPU model has changed.

use std::fs;

use serde_json::json;

use crate::host::Host;

/// The number of templates, for this and other CPUs.
fn templates(host: &Host) -> usize {
    fs::read_dir(host.path().join("templates")).expect("templates").count()
}

#[test]
fn on_another_cpu_templates_are_recreated_and_memory_is_rejected() {
    let host = Host::new("", "");
    host.create("one");
    host.run(&["exec", "one", "--", "sh", "-c", "echo then > /root/when"]);
    host.run(&["snapshot", "create", "one", "then", "--memory"]);
    host.run(&["exec", "one", "--", "sh", "-c", "echo now > /root/when"]);
    host.run(&["stop", "one"]);
    let before = templates(&host);

    let host = host.on_another_processor();
    for words in [&["snapshot", "restore", "one", "then"][..], &["fork", "one", "then", "--name", "fork"]] {
        let refusal = host.refusal(words);
        assert_eq!(refusal.code, "snapshot_incompatible", "{refusal:?}");
        assert!(refusal.message.contains("another processor"), "{refusal:?}");
    }
    assert_eq!(host.info("one")["state"], "stopped");
    host.create("two");
    assert!(templates(&host) > before, "the others were not used");
    host.run(&["start", "one"]);
    assert_eq!(host.sh("one", "cat /root/when"), "now");
    host.run(&["snapshot", "restore", "one", "then", "--disk-only"]);
    assert_eq!(host.sh("one", "cat /root/when"), "then");
    let made = templates(&host);
    host.run(&["rm", "two", "--force"]);

    let host = host.with_all_again();
    assert_eq!(host.run(&["snapshot", "restore", "one", "then"])["memory_restored"], json!(true));
    host.create("two");
    assert_eq!(templates(&host), made, "the earlier ones are still valid");
}
