//! Every revision of the protocol, over a pair of streams.

use agentiso_api::mcp::ToolSet;
use agentiso_core::Code;
use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, ContentBlock, ErrorCode, GetPromptRequestParams, ProtocolVersion,
    ReadResourceRequestParams, Reference, ResourceContents,
};
use rmcp::{ClientLifecycleMode, ServiceError};
use serde_json::{Value, json};

use crate::client::{Client, call, connect, connected, newest};
use crate::fake::{Fake, Reply};

#[tokio::test]
async fn an_old_client_can_initialize_and_list_tools_resources_and_prompts() {
    let client = connected(Fake::default()).await;
    let info = client.peer_info().unwrap();
    assert_eq!(info.protocol_version, ProtocolVersion::V_2025_06_18);
    assert_eq!(info.server_info.as_ref().unwrap().name, "agentiso");
    assert!(info.instructions.as_ref().unwrap().contains("workspace_create"));
    assert!(client.list_all_tools().await.unwrap().iter().any(|tool| tool.name == "snapshot"));
    assert_eq!(client.list_all_resource_templates().await.unwrap().len(), 5);
    assert!(info.capabilities.prompts.is_some());
    assert!(
        client.list_all_prompts().await.unwrap().iter().any(|prompt| prompt.name == "compare_approaches")
    );
}

#[tokio::test]
async fn a_prompt_is_filled_in_and_invalid_arguments_are_rejected() {
    for lifecycle in [ClientLifecycleMode::Initialize, newest()] {
        let client = connect(Client::default(), Fake::default(), ToolSet::Core, lifecycle).await;
        let Value::Object(given) = json!({"task": "build it"}) else { panic!("an object") };
        let asked = GetPromptRequestParams::new("try_safely").with_arguments(given);
        let prompt = client.get_prompt(asked).await.unwrap();
        let ContentBlock::Text(text) = &prompt.messages[0].content else { panic!("no text: {prompt:?}") };
        assert!(text.text.contains("build it") && text.text.contains("workspace_create"), "{}", text.text);
        for name in ["try_safely", "nothing", "compare_approaches"] {
            let Err(ServiceError::McpError(error)) =
                client.get_prompt(GetPromptRequestParams::new(name)).await
            else {
                panic!("{name} was filled in");
            };
            assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{name}");
        }
    }
}

#[tokio::test]
async fn requests_for_features_that_are_not_offered_fail() {
    let client = connected(Fake::default()).await;
    let info = client.peer_info().unwrap();
    assert!(info.capabilities.completions.is_none() && info.capabilities.logging.is_none());
    let argument = ArgumentInfo::new("task", "");
    let asked = CompleteRequestParams::new(Reference::for_prompt("try_safely"), argument);
    let Err(ServiceError::McpError(error)) = client.complete(asked).await else {
        panic!("completed without offering it");
    };
    assert_eq!(error.code, ErrorCode::METHOD_NOT_FOUND);
}

#[tokio::test]
async fn static_lists_have_cache_hints() {
    let client = connect(Client::default(), Fake::default(), ToolSet::Core, newest()).await;
    let (tools, prompts, templates) = (
        client.list_tools(None).await.unwrap(),
        client.list_prompts(None).await.unwrap(),
        client.list_resource_templates(None).await.unwrap(),
    );
    assert!(tools.ttl_ms > Some(0) && prompts.ttl_ms > Some(0) && templates.ttl_ms > Some(0));
}

#[tokio::test]
async fn the_newest_revision_needs_no_handshake() {
    let fake = Fake::default();
    let client = connect(Client::default(), fake.clone(), ToolSet::Core, newest()).await;
    assert_eq!(client.peer_info().unwrap().protocol_version, ProtocolVersion::V_2026_07_28);
    assert_eq!(client.list_all_tools().await.unwrap().len(), 8);
    let result =
        client.call_tool(call("exec", json!({"workspace_id": "a", "command": "true"}))).await.unwrap();
    assert_eq!(result.is_error, Some(false));
    let passed_on = json!({"workspace_id": "a", "command": "true", "max_output_bytes": 30_000,
        "background_after_secs": 240});
    assert_eq!(fake.calls(), [("exec", passed_on)]);
}

#[tokio::test]
async fn every_listed_tool_has_a_title_a_description_schemas_and_all_hints() {
    let mode = ClientLifecycleMode::Initialize;
    let client = connect(Client::default(), Fake::default(), ToolSet::Full, mode).await;
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.len() > 50);
    for tool in tools {
        let hints = tool.annotations.as_ref().unwrap();
        for hint in
            [hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint]
        {
            assert!(hint.is_some(), "{}", tool.name);
        }
        assert!(tool.title.is_some() && tool.output_schema.is_some(), "{}", tool.name);
        assert!(
            tool.description.as_ref().unwrap().len() > 40 || tool.name.contains("_remove"),
            "{}",
            tool.name
        );
        for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{} {name}", tool.name);
        }
    }
}

#[tokio::test]
async fn an_outcome_has_structured_content_and_text() {
    let fake = Fake::default();
    fake.reply("exec_start", Reply::Outcome(json!({"job_id": 3, "status": "started"})));
    let client = connected(fake).await;
    let result =
        client.call_tool(call("exec_start", json!({"workspace_id": "a", "command": "b"}))).await.unwrap();
    assert_eq!(result.structured_content, Some(json!({"job_id": 3, "status": "started"})));
    assert_eq!(result.content[0].as_text().unwrap().text, "job 3 started");
}

#[tokio::test]
async fn a_failure_is_a_result_with_code_cause_and_remedy() {
    let fake = Fake::default();
    fake.reply(
        "exec",
        Reply::Fails(Code::WorkspaceNotRunning, "dev is stopped", "start it with workspace_start"),
    );
    let client = connected(fake).await;
    let result =
        client.call_tool(call("exec", json!({"workspace_id": "dev", "command": "b"}))).await.unwrap();
    assert_eq!(result.is_error, Some(true));
    assert_eq!(
        result.content[0].as_text().unwrap().text,
        "workspace_not_running: dev is stopped\nstart it with workspace_start"
    );
    assert_eq!(
        result.structured_content.unwrap()["error"],
        json!({"code": "workspace_not_running", "message": "dev is stopped", "remedy": "start it with workspace_start"})
    );
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_with_a_suggestion() {
    let client = connected(Fake::default()).await;
    let Err(ServiceError::McpError(error)) = client.call_tool(call("workspace_creat", json!({}))).await
    else {
        panic!("an unknown tool was called");
    };
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert_eq!(error.message, "unknown tool \"workspace_creat\"; did you mean workspace_create?");
}

#[tokio::test]
async fn files_logs_and_diffs_are_resources() {
    let fake = Fake::default();
    let client = connected(fake.clone()).await;
    let listed = client.list_all_resources().await.unwrap();
    let uris: Vec<&str> = listed.iter().map(|resource| resource.uri.as_str()).collect();
    assert_eq!(uris, ["agentiso://workspaces", "agentiso://workspace/some%20text/logs"]);
    fake.calls();
    for (uri, action, arguments) in [
        ("agentiso://workspaces", "workspace_list", json!({})),
        ("agentiso://workspace/dev/logs", "workspace_logs", json!({"workspace_id": "dev"})),
        (
            "agentiso://workspace/dev/file/etc/hosts",
            "file_read",
            json!({"workspace_id": "dev", "path": "/etc/hosts"}),
        ),
        (
            "agentiso://workspace/dev/diff/clean",
            "snapshot_diff",
            json!({"workspace_id": "dev", "snapshot_name": "clean"}),
        ),
    ] {
        let read = client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
        assert_eq!(read.contents.len(), 1, "{uri}");
        assert_eq!(fake.calls(), [(action, arguments)], "{uri}");
    }
}

#[tokio::test]
async fn a_binary_file_is_a_blob() {
    let fake = Fake::default();
    fake.reply("file_read", Reply::IsBinary);
    let client = connected(fake.clone()).await;
    let uri = "agentiso://workspace/dev/file/bin/true";
    let read = client.read_resource(ReadResourceRequestParams::new(uri)).await.unwrap();
    assert!(
        matches!(&read.contents[0], ResourceContents::BlobResourceContents { blob, .. } if blob == "some text")
    );
    assert_eq!(fake.calls()[1].1["encoding"], "base64");
}

#[tokio::test]
async fn a_resource_that_cannot_be_read_is_an_error_with_its_code() {
    let fake = Fake::default();
    fake.reply("file_read", Reply::Fails(Code::FileNotFound, "there is no /x", "look with file_list"));
    fake.reply("workspace_logs", Reply::Fails(Code::DaemonUnavailable, "the daemon is gone", "start it"));
    let client = connected(fake).await;
    for (uri, code) in [
        ("agentiso://workspace/dev/file/x", ErrorCode::RESOURCE_NOT_FOUND),
        ("agentiso://workspace/dev/logs", ErrorCode::INTERNAL_ERROR),
        ("file:///etc/passwd", ErrorCode::RESOURCE_NOT_FOUND),
    ] {
        let Err(ServiceError::McpError(error)) =
            client.read_resource(ReadResourceRequestParams::new(uri)).await
        else {
            panic!("{uri} was read");
        };
        assert_eq!(error.code, code, "{uri}");
    }
}
