//! The recommended pattern, from start to end, in a shell.

use serde_json::Value;

use crate::place::Place;

#[test]
fn the_recommended_pattern() {
    let place = Place::new();
    // 1. A durable project root.
    place.json("vault_create", &["vault", "create", "agent-workspace"]);
    place.json("write", &["--vault", "agent-workspace", "write", "/main.py", "print('one')\n"]);
    // 2. A fork for the task.
    place.json("vault_fork", &["vault", "fork", "agent-workspace", "agent-workspace-task-1"]);
    // 3. A checkpoint before a risky change.
    place.json("checkpoint", &["--vault", "agent-workspace-task-1", "checkpoint", "save", "before-change"]);
    // 4. The task, in the fork.
    let task = "agent-workspace-task-1";
    let (code, envelope) = place.run_in(task, &["--shell", "sed -i s/one/two/ main.py && python3 main.py"]);
    assert_eq!((code, envelope["result"]["stdout"].as_str()), (0, Some("two\n")));
    // 5. What changed.
    assert_eq!(envelope["result"]["changed_files"], serde_json::json!(["/main.py"]));
    let diff = place.json("diff", &["diff", "--from", "agent-workspace", "--to", task, "/main.py"]);
    assert_eq!(diff["diff"][0]["content"], "print('one')");
    // 6. Keep it, and the mistake of the next task is undone.
    let merged = place.json("merge", &["--vault", "agent-workspace", "merge", task, "--remove"]);
    assert_eq!(merged["applied"], true);
    let one_call = |line: &str| -> Value {
        let (code, envelope) = place.run_in("agent-workspace", &["--shell", line]);
        assert_eq!(code, 0, "{envelope}");
        envelope["result"].clone()
    };
    let mistake = one_call("rm -rf ./*");
    let checkpoint = mistake["checkpoint"].as_str().unwrap();
    place.json("checkpoint_restore", &["--vault", "agent-workspace", "checkpoint", "restore", checkpoint]);
    assert_eq!(one_call("python3 main.py")["stdout"], "two\n");
    // All of it in one call.
    let (_, envelope) = place
        .run_in("agent-workspace", &["--fork", "auto", "--checkpoint", "always", "--", "python3", "main.py"]);
    let result = &envelope["result"];
    assert!(result["fork"]["created"] == true && result["checkpoint"].is_string(), "{envelope}");
}
