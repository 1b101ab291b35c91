//! Long calls: progress, cancellation, disconnected clients, tasks.

use std::time::Duration;

use agentiso_api::mcp::{Server, ToolSet, serve_streams};
use rmcp::ClientLifecycleMode;
use rmcp::model::{CallToolResponse, CancelTaskParams, DetailedTask, GetTaskParams, TaskPayload, TaskStatus};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::time::sleep;

use crate::client::{Client, Connected, call, connect, connected, newest};
use crate::fake::{Fake, Reply};

fn exec() -> Value {
    json!({"workspace_id": "a", "command": "sleep 1000"})
}

fn hanging() -> Fake {
    let fake = Fake::default();
    fake.reply("exec", Reply::Hangs).reply("file_read", Reply::Hangs);
    fake
}

#[tokio::test]
async fn progress_is_reported_and_always_increases() {
    for mode in [ClientLifecycleMode::Initialize, newest()] {
        let fake = Fake::default();
        fake.reply("workspace_create", Reply::Reports);
        let client = Client::default();
        let connected = connect(client.clone(), fake, ToolSet::Standard, mode).await;
        connected.call_tool(call("workspace_create", json!({}))).await.unwrap();
        let told = client.progress();
        let last = told.last().expect("at least the end is reported");
        assert_eq!((last.progress, last.total), (102.0, Some(102.0)));
        assert_eq!(last.message.as_deref(), Some("unpacking: 100 files"));
        assert!(told.windows(2).all(|pair| pair[0].progress < pair[1].progress));
    }
}

#[tokio::test]
async fn a_panic_fails_the_call_and_not_the_connection() {
    let fake = Fake::default();
    fake.reply("exec", Reply::Panics);
    let client = connected(fake.clone()).await;
    let result = client.call_tool(call("exec", exec())).await.unwrap();
    assert_eq!(result.structured_content.unwrap()["error"]["code"], "internal");
    assert_eq!(client.call_tool(call("server_status", json!({}))).await.unwrap().is_error, Some(false));
}

#[tokio::test]
async fn a_call_carries_the_name_of_the_client() {
    for mode in [ClientLifecycleMode::Initialize, newest()] {
        let fake = Fake::default();
        let client = connect(Client::default(), fake.clone(), ToolSet::Standard, mode).await;
        client.call_tool(call("exec", exec())).await.unwrap();
        assert_eq!(fake.client(), "a test 1");
    }
}

#[tokio::test]
async fn reading_a_resource_carries_the_name_of_the_client() {
    let fake = Fake::default();
    for mode in [ClientLifecycleMode::Initialize, newest()] {
        let client = connect(Client::default(), fake.clone(), ToolSet::Standard, mode).await;
        client.list_all_resources().await.unwrap();
        assert_eq!(fake.client(), "a test 1");
    }
}

#[tokio::test]
async fn a_cancelled_call_is_dropped() {
    for mode in [ClientLifecycleMode::Initialize, newest()] {
        let fake = hanging();
        let client = connect(Client::default(), fake.clone(), ToolSet::Standard, mode).await;
        let pending = tokio::spawn({
            let peer = client.peer().clone();
            async move { peer.call_tool_once(call("exec", exec())).await }
        });
        fake.begun().await;
        pending.abort();
        fake.dropped().await;
        let answered = client.call_tool(call("server_status", json!({}))).await.unwrap();
        assert_eq!(answered.is_error, Some(false), "the connection still works");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_disconnected_client_is_dropped() {
    let fake = hanging();
    let client = connected(fake.clone()).await;
    let pending = tokio::spawn({
        let peer = client.peer().clone();
        async move { peer.call_tool_once(call("exec", exec())).await }
    });
    fake.begun().await;
    client.cancel().await.unwrap();
    fake.dropped().await;
    assert!(pending.await.unwrap().is_err());
}

#[tokio::test]
async fn a_client_that_never_reads_blocks_only_itself() {
    let fake = Fake::default();
    let (mut near, far) = tokio::io::duplex(256);
    let (read, write) = tokio::io::split(far);
    let mute = tokio::spawn(serve_streams(Server::new(fake.clone(), ToolSet::Full), read, write));
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "mute", "version": "1"}}});
    near.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
    let other = connected(fake).await;
    for _ in 0..100 {
        assert_eq!(other.call_tool(call("exec", exec())).await.unwrap().is_error, Some(false));
    }
    assert!(!mute.is_finished());
    drop(near);
    mute.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn lines_that_are_not_messages_are_skipped() {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (read, write) = tokio::io::split(far);
    tokio::spawn(serve_streams(Server::new(Fake::default(), ToolSet::Full), read, write));
    let (read, mut write) = tokio::io::split(near);
    let mut lines = BufReader::new(read).lines();
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "odd", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    write.write_all(format!("{hello}\n{ready}\n").as_bytes()).await.unwrap();
    lines.next_line().await.unwrap().unwrap();
    let ping = json!({"jsonrpc": "2.0", "id": "after", "method": "ping"});
    write.write_all(format!("{{\nnonsense\n[1]\n\u{0}\n{ping}\n").as_bytes()).await.unwrap();
    loop {
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        if answer["id"] == "after" {
            assert_eq!(answer["result"], json!({}));
            return;
        }
        assert!(answer["error"]["code"].is_number(), "{answer}");
    }
}

#[tokio::test]
async fn disconnecting_without_a_message_is_not_an_error() {
    let (near, far) = tokio::io::duplex(256);
    let (read, write) = tokio::io::split(far);
    drop(near);
    serve_streams(Server::new(Fake::default(), ToolSet::Full), read, write).await.unwrap();
}

async fn with_tasks(fake: &Fake) -> Connected {
    connect(Client::with_tasks(), fake.clone(), ToolSet::Standard, newest()).await
}

async fn task_of(client: &Connected, id: &str) -> DetailedTask {
    client.peer().get_task(GetTaskParams::new(id)).await.unwrap().task
}

/// Polls a task until it has ended.
async fn end_of(client: &Connected, id: &str) -> DetailedTask {
    loop {
        let task = task_of(client, id).await;
        if task.status() != TaskStatus::Working {
            return task;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn started(client: &Connected) -> String {
    match client.peer().call_tool_once(call("exec", exec())).await.unwrap() {
        CallToolResponse::Task(created) => created.task.task_id,
        other => panic!("no task but {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_call_becomes_a_task_for_a_client_with_task_support() {
    let fake = hanging();
    let client = with_tasks(&fake).await;
    let id = started(&client).await;
    assert_eq!(task_of(&client, &id).await.status(), TaskStatus::Working);
    fake.release();
    let TaskPayload::Completed { result } = end_of(&client, &id).await.payload else {
        panic!("it did not end")
    };
    assert_eq!(result["structuredContent"]["stdout"], "some text");
    assert_eq!(fake.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cancelling_a_task_drops_its_call() {
    let fake = hanging();
    let client = with_tasks(&fake).await;
    let id = started(&client).await;
    client.peer().cancel_task(CancelTaskParams::new(id.clone())).await.unwrap();
    fake.dropped().await;
    assert_eq!(end_of(&client, &id).await.status(), TaskStatus::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_disconnected_client_are_dropped() {
    let fake = hanging();
    let client = with_tasks(&fake).await;
    started(&client).await;
    client.cancel().await.unwrap();
    fake.dropped().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_call_never_becomes_a_task() {
    let client = with_tasks(&Fake::default()).await;
    let response = client.peer().call_tool_once(call("exec", exec())).await.unwrap();
    assert!(matches!(response, CallToolResponse::Complete(_)));
}

#[tokio::test(start_paused = true)]
async fn a_client_without_task_support_waits() {
    let fake = hanging();
    let client = connected(fake.clone()).await;
    let pending = tokio::spawn({
        let peer = client.peer().clone();
        async move { peer.call_tool_once(call("exec", exec())).await }
    });
    fake.begun().await;
    sleep(Duration::from_secs(100)).await;
    fake.release();
    assert!(matches!(pending.await.unwrap().unwrap(), CallToolResponse::Complete(_)));
}

/// A client that writes raw messages.
struct Raw {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    write: WriteHalf<DuplexStream>,
}

impl Raw {
    async fn connect(fake: &Fake) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(far);
        tokio::spawn(serve_streams(Server::new(fake.clone(), ToolSet::Standard), read, write));
        let (read, write) = tokio::io::split(near);
        let mut raw = Self { lines: BufReader::new(read).lines(), write };
        raw.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a test", "version": "1"}}}))
            .await;
        raw.write
            .write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
            .await
            .unwrap();
        raw
    }

    async fn ask(&mut self, message: &Value) -> Value {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn exec_returns_before_a_client_without_progress_times_out() {
    for (arguments, expected) in [
        (exec(), json!(45)),
        (json!({"workspace_id": "a", "command": "b", "background_after_secs": 0}), json!(0)),
    ] {
        let fake = Fake::default();
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "exec", "arguments": arguments}});
        Raw::connect(&fake).await.ask(&call).await;
        assert_eq!(fake.calls()[0].1["background_after_secs"], expected);
    }
    let fake = Fake::default();
    let client = connected(fake.clone()).await;
    // This client sends a progress token with every call.
    client.call_tool(call("exec", exec())).await.unwrap();
    let mut expected = exec();
    expected["background_after_secs"] = json!(240);
    expected["max_output_bytes"] = json!(30_000);
    assert_eq!(fake.calls(), [("exec", expected)]);
}

/// Some clients show their model only the structured content of a result, others only its text, so both contain the
/// hint.
#[tokio::test]
async fn hints_are_in_structured_content_and_text_and_name_only_shown_tools() {
    let outcome = |job: Value, hint: &str| {
        json!({"exit_code": null, "stdout": "a\n", "stderr": "", "timed_out": job.is_null(), "signal": null,
            "duration_ms": 45_000, "stdout_bytes": 2, "stderr_bytes": 0, "truncated": false, "job_id": job,
            "hint": hint})
    };
    let up = "raise timeout_secs, or run it with exec_background";
    let wait = "the command continues as background job 3; call exec again with job_id 3 to wait for it";
    for (set, outcome, expected) in [
        (ToolSet::Standard, outcome(Value::Null, up), up),
        (ToolSet::Core, outcome(Value::Null, up), "raise timeout_secs"),
        (ToolSet::Core, outcome(json!(3), wait), wait),
    ] {
        let fake = Fake::default();
        fake.reply("exec", Reply::Outcome(outcome));
        let client = connect(Client::default(), fake, set, ClientLifecycleMode::Initialize).await;
        let result = client.call_tool(call("exec", exec())).await.unwrap();
        assert_eq!(result.structured_content.unwrap()["hint"], expected);
        let text = &result.content[0].as_text().unwrap().text;
        assert!(text.ends_with(&format!("\n[hint: {expected}]")), "{text}");
    }
}

#[tokio::test]
async fn waiting_for_a_job_ends_before_the_client_times_out() {
    let wait =
        |seconds: Value| json!({"workspace_id": "a", "job_id": 1, "wait": "exit", "wait_secs": seconds});
    for (asked, silent, informed) in [
        (json!(20), json!(20), json!(20)),
        (json!(100), json!(45), json!(100)),
        (json!(3600), json!(45), json!(240)),
        // Excessive values are rejected, not shortened.
        (json!(9999), json!(9999), json!(9999)),
    ] {
        let fake = Fake::default();
        let params = json!({"name": "exec_poll", "arguments": wait(asked.clone())});
        let call_it = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params});
        Raw::connect(&fake).await.ask(&call_it).await;
        assert_eq!(fake.calls()[0].1["wait_secs"], silent, "{asked}");
        let client = connected(fake.clone()).await;
        client.call_tool(call("exec_poll", wait(asked.clone()))).await.unwrap();
        assert_eq!(fake.calls()[0].1["wait_secs"], informed, "{asked}");
    }
}

#[tokio::test]
async fn a_request_with_invalid_parameters_is_not_an_unknown_method() {
    let fake = Fake::default();
    let mut raw = Raw::connect(&fake).await;
    for (method, params, code) in [
        ("tools/call", json!({"arguments": {}}), -32602),
        ("tools/call", json!({"name": 7}), -32602),
        ("tools/call", json!({"name": "exec", "arguments": []}), -32602),
        ("resources/read", json!({}), -32602),
        ("tools/fall", json!({}), -32601),
        ("prompts/get", json!({"name": 7}), -32602),
        ("completion/complete", json!({}), -32601),
    ] {
        let answer = raw.ask(&json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params})).await;
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
    assert_eq!(fake.calls(), []);
}
