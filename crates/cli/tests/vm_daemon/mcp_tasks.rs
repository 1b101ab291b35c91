//! Long calls of a client with task support.

use serde_json::{Value, json};

use crate::http::Http;
use crate::mcp_http::McpHttp;
use crate::place::{Place, until};
use crate::sleeper;

fn client(http: &Http) -> McpHttp {
    McpHttp::newest(http, json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}))
}

fn start(client: &mut McpHttp, command: &str) -> String {
    let arguments = json!({"workspace_id": "web", "command": command, "timeout_secs": 3600});
    let answer = client.request("tools/call", json!({"name": "exec", "arguments": arguments}));
    let task = &answer["result"];
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{answer}");
    task["taskId"].as_str().unwrap().to_owned()
}

fn look(client: &mut McpHttp, task: &str) -> Value {
    let answer = client.request("tasks/get", json!({"taskId": task}));
    assert_eq!(answer["result"]["taskId"], task, "{answer}");
    answer["result"].clone()
}

fn end_of(client: &mut McpHttp, task: &str) -> Value {
    until(|| look(client, task)["status"] != "working");
    look(client, task)
}

#[test]
fn a_long_call_becomes_a_task_that_can_be_polled_and_cancelled() {
    let place = Place::configured("[rate_limit]\nenabled = false\n");
    let (user, session) = (place.http(), place.session("one"));
    let mut mcp = client(&session);
    // With a plain client: on a busy host this might become a task as well.
    session.act("workspace_create", json!({"name": "web"}));

    let waits = |go: &str| format!("until test -e /run/{go}; do sleep 0.05; done; echo went; exit 4");
    let (task, other) = (start(&mut mcp, &waits("one")), start(&mut mcp, &waits("two")));
    assert_eq!(look(&mut mcp, &task)["status"], "working");
    user.sh("web", "touch /run/one");
    let ended = end_of(&mut mcp, &task);
    assert_eq!(ended["status"], "completed", "{ended}");
    let result = &ended["result"]["structuredContent"];
    assert_eq!((&result["stdout"], &result["exit_code"]), (&json!("went\n"), &json!(4)), "{ended}");
    // It can be polled again, and its end did not affect the other.
    assert_eq!(look(&mut mcp, &task)["result"], ended["result"]);
    assert_eq!(look(&mut mcp, &other)["status"], "working");

    // No other client can see or cancel it, even with its id.
    let mut stranger = client(&place.session("two"));
    for method in ["tasks/get", "tasks/cancel"] {
        let answer = stranger.request(method, json!({"taskId": other}));
        assert!(answer["error"]["code"].is_i64(), "{method}: {answer}");
    }
    assert_eq!(look(&mut mcp, &other)["status"], "working");

    // If the call fails, the task has the same error.
    let doomed = start(&mut mcp, &sleeper::command("doomed"));
    let taken_back = start(&mut mcp, &sleeper::command("taken-back"));
    sleeper::runs(&user, "web", "taken-back");
    let cancelled = mcp.request("tasks/cancel", json!({"taskId": taken_back}));
    assert!(cancelled["error"].is_null(), "{cancelled}");
    sleeper::is_gone(&user, "web", "taken-back");
    assert_eq!(end_of(&mut mcp, &taken_back)["status"], "cancelled");
    assert_eq!(look(&mut mcp, &other)["status"], "working");
    user.act("workspace_stop", json!({"workspace_id": "web", "force": true}));
    for task in [&doomed, &other] {
        let ended = end_of(&mut mcp, task);
        assert_eq!(
            (&ended["status"], &ended["result"]["isError"]),
            (&json!("completed"), &json!(true)),
            "{ended}"
        );
        let code = ended["result"]["structuredContent"]["error"]["code"].as_str().unwrap();
        assert_ne!(code, "internal", "{ended}");
    }

    for id in ["", "none", "../x", "01a1e298-8baa-751b-9e02-4f0b168fd871"] {
        for method in ["tasks/get", "tasks/cancel"] {
            let answer = mcp.request(method, json!({"taskId": id}));
            assert!(answer["error"]["code"].is_i64(), "{method} {id}: {answer}");
        }
    }
}

#[test]
fn a_client_without_task_support_gets_the_result_when_the_call_ends() {
    let place = Place::new();
    let session = place.session("one");
    let mut mcp = McpHttp::newest(&session, json!({}));
    mcp.call("workspace_create", json!({"name": "web"}));
    // Longer than the limit for becoming a task.
    let ran = mcp.call("exec", json!({"workspace_id": "web", "command": "sleep 3; echo done"}));
    assert_eq!(ran["stdout"], "done\n");
}

#[test]
fn a_command_that_outlasts_the_client_timeout_continues_as_a_job() {
    let place = Place::configured("[rate_limit]\nenabled = false\n");
    let user = place.http();
    user.act("workspace_create", json!({"name": "web"}));
    let command = "echo begin; cat; until test -e /run/go; do sleep 0.05; done; echo end; exit 4";
    let exec =
        json!({"workspace_id": "web", "command": command, "stdin": "input\n", "background_after_secs": 1});
    let first = user.act("exec", exec.clone());
    let id = first["job_id"].clone();
    assert!(id.is_u64() && first["exit_code"].is_null(), "{first}");
    assert!(first["hint"].as_str().unwrap().contains("call exec again with job_id"), "{first}");
    assert_eq!((&first["stdout"], &first["timed_out"]), (&json!("begin\ninput\n"), &json!(false)), "{first}");

    let mut again = exec;
    again["job_id"] = id.clone();
    let second = user.act("exec", again.clone());
    assert_eq!((&second["job_id"], &second["stdout"]), (&id, &json!("")), "{second}");
    user.sh("web", "touch /run/go");
    again["background_after_secs"] = json!(0);
    let last = user.act("exec", again);
    assert_eq!((&last["exit_code"], &last["stdout"]), (&json!(4), &json!("end\n")), "{last}");
    assert_eq!((&last["stdout_bytes"], &last["job_id"]), (&json!(16), &Value::Null), "{last}");
    let jobs = user.act("exec_list", json!({"workspace_id": "web"}));
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 1, "{jobs}");
}
