//! The MCP endpoint of the daemon with the fixtures of the official conformance suite, for `scripts/test-clients`.
//!
//! The endpoint, its lists and its errors are those of the product; only the fixture tools, resources and prompts, which
//! exist nowhere else, are answered here. Nothing behind it does any work.

#![allow(clippy::print_stdout, reason = "says where it listens")]

use std::time::Duration;

use agentiso_api::mcp::{Allowed, Endpoint, Server, ToolSet};
use agentiso_api::{Answer, Backend, Bodies, Call};
use agentiso_core::{Code, Failure};
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use axum::routing::any;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Resource, ResourceContents, ResourceTemplate, Role,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};

/// A red pixel, and a sound of no length.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Does nothing.
#[derive(Clone)]
struct Nothing;

impl Backend for Nothing {
    async fn call(&self, call: Call) -> Result<Answer, Failure> {
        match call.action {
            "workspace_list" => Ok(Answer {
                structured: json!({"workspaces": [], "count": 0}),
                text: "no workspaces".to_owned(),
            }),
            other => Err(Failure::new(Code::Unsupported, format!("{other} does nothing here"))),
        }
    }
}

/// The product's server, and the fixtures.
#[derive(Clone)]
struct Fixtures(Server<Nothing>);

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn fixture_tools() -> Vec<Tool> {
    let tool = |name: &'static str, schema: Value| Tool::new(name, "A fixture.", object(schema));
    let plain = || json!({"type": "object", "properties": {}});
    let mut tools: Vec<Tool> = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_logging_tool",
        "test_streaming_elicitation",
        "test_missing_capability",
    ]
    .map(|name| tool(name, plain()))
    .into();
    tools.push(tool(
        "json_schema_2020_12_tool",
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": false,
        }),
    ));
    tools.push(tool(
        "test_x_mcp_header",
        json!({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}),
    ));
    tools
}

fn fixture_content(name: &str) -> Option<Vec<ContentBlock>> {
    let embedded = |uri: &str, kind: &str, text: &str| {
        ContentBlock::resource(ResourceContents::text(text, uri).with_mime_type(kind))
    };
    Some(match name {
        "test_image_content" => vec![ContentBlock::image(PNG, "image/png")],
        "test_audio_content" => vec![ContentBlock::audio(WAV, "audio/wav")],
        "test_embedded_resource" => {
            vec![embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
        }
        "test_multiple_content_types" => vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(PNG, "image/png"),
            embedded("test://mixed-content-resource", "application/json", r#"{"test":"data","value":123}"#),
        ],
        "test_simple_text"
        | "test_tool_with_progress"
        | "test_logging_tool"
        | "test_streaming_elicitation"
        | "json_schema_2020_12_tool"
        | "test_x_mcp_header" => {
            vec![ContentBlock::text("This is a simple text response for testing.")]
        }
        _ => return None,
    })
}

fn fixture_prompts() -> Vec<Prompt> {
    [
        ("test_simple_prompt", &[][..]),
        ("test_prompt_with_arguments", &["arg1", "arg2"]),
        ("test_prompt_with_embedded_resource", &["resourceUri"]),
        ("test_prompt_with_image", &[]),
    ]
    .map(|(name, arguments)| {
        let arguments = arguments.iter().map(|name| PromptArgument::new(*name).with_required(true));
        Prompt::new(name, Some("A fixture."), Some(arguments.collect()))
    })
    .into()
}

fn fixture_prompt(name: &str, arguments: &Map<String, Value>) -> Option<Vec<ContentBlock>> {
    let given = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    Some(match name {
        "test_simple_prompt" => vec![ContentBlock::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (given("arg1"), given("arg2"));
            vec![ContentBlock::text(format!("Prompt with arguments: arg1='{first}', arg2='{second}'"))]
        }
        "test_prompt_with_embedded_resource" => vec![
            ContentBlock::resource(
                ResourceContents::text("Embedded resource content for testing.", given("resourceUri"))
                    .with_mime_type("text/plain"),
            ),
            ContentBlock::text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => {
            vec![ContentBlock::image(PNG, "image/png"), ContentBlock::text("Please analyze the image above.")]
        }
        _ => return None,
    })
}

fn fixture_resource(uri: &str) -> Option<ResourceContents> {
    Some(match uri {
        "test://static-text" => {
            ResourceContents::text("This is the content of the static text resource.", uri)
                .with_mime_type("text/plain")
        }
        "test://static-binary" => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
        _ => {
            let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(text.to_string(), uri).with_mime_type("application/json")
        }
    })
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        self.0.get_info()
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        fixture_tools().into_iter().find(|tool| tool.name == name).or_else(|| self.0.get_tool(name))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut listed = self.0.list_tools(request, context).await?;
        listed.tools.extend(fixture_tools());
        Ok(listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == "test_error_handling" {
            let text = "This tool intentionally returns an error for testing";
            return Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into());
        }
        if request.name == "test_missing_capability"
            && context.client_capabilities().is_none_or(|client| client.sampling.is_none())
        {
            let mut required = ClientCapabilities::default();
            required.sampling = Some(Default::default());
            return Err(ErrorData::missing_required_client_capability(required));
        }
        if request.name == "test_tool_with_progress"
            && let Some(token) = context.meta.get_progress_token()
        {
            for progress in [0.0, 50.0, 100.0] {
                let told = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
                let _ = context.peer.notify_progress(told).await;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        match fixture_content(&request.name) {
            Some(content) => Ok(CallToolResult::success(content).into()),
            None => self.0.call_tool(request, context).await,
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let mut listed = self.0.list_prompts(request, context).await?;
        listed.prompts.extend(fixture_prompts());
        Ok(listed)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match fixture_prompt(&request.name, &request.arguments.clone().unwrap_or_default()) {
            Some(content) => {
                let messages = content.into_iter().map(|content| PromptMessage::new(Role::User, content));
                Ok(GetPromptResult::new(messages.collect()).into())
            }
            None => self.0.get_prompt(request, context).await,
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut listed = self.0.list_resources(request, context).await?;
        listed
            .resources
            .push(Resource::new("test://static-text", "static text").with_mime_type("text/plain"));
        listed
            .resources
            .push(Resource::new("test://static-binary", "static binary").with_mime_type("image/png"));
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut listed = self.0.list_resource_templates(request, context).await?;
        listed.resource_templates.push(ResourceTemplate::new("test://template/{id}/data", "template"));
        Ok(listed)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match fixture_resource(&request.uri) {
            Some(contents) => Ok(ReadResourceResult::new(vec![contents]).into()),
            None => self.0.read_resource(request, context).await,
        }
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let (endpoint, bodies) = (Endpoint::new(Allowed::default()), Bodies::default());
    let server = Fixtures(Server::new(Nothing, ToolSet::Standard));
    let answer = move |request: Request<Body>| {
        let (endpoint, bodies, server) = (endpoint.clone(), bodies.clone(), server.clone());
        async move { endpoint.answer(server, &bodies, request).await }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    axum::serve(listener, Router::new().route("/mcp", any(answer))).await
}
