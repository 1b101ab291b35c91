//! The MCP server.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestMethod,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::time::sleep;

use super::arguments::{self, Request};
use super::selection::Selection;
use super::{instructions, patience, progress, prompts, resources, results, tasks, tools};
use crate::{Backend, Call};

/// Serves a backend over all revisions of the Model Context Protocol. The only state it keeps about clients are their
/// tasks, which clones share.
#[derive(Clone)]
pub struct Server<B> {
    backend: B,
    selection: Arc<Selection>,
    tasks: TaskManager,
}

impl<B: Backend> Server<B> {
    /// Creates a server that lists the tools of a selection. Its texts name no other tools.
    pub fn new(backend: B, selection: impl Into<Selection>) -> Self {
        Self { backend, selection: Arc::new(selection.into()), tasks: TaskManager::new() }
    }

    /// Creates a server with the same tasks for another caller.
    #[must_use]
    pub fn with_backend(&self, backend: B) -> Self {
        Self { backend, selection: Arc::clone(&self.selection), tasks: self.tasks.clone() }
    }

    /// Cancels all tasks.
    pub fn end_tasks(&self) {
        self.tasks.shutdown();
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> resources::Caller<'_, B> {
        resources::Caller { backend: &self.backend, client: client_of(context) }
    }

    /// Runs a call. If the client cancels it, the work is cancelled too.
    async fn carry_out(
        &self,
        mut request: Request,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let may_become_task = tasks::may_become_one(&request, &self.tasks, &context);
        let time_to_live = tasks::time_to_live(&request);
        let token = context.meta.get_progress_token();
        if !may_become_task {
            patience::limit(&mut request, token.is_some());
        }
        let (progress, mut reports) = progress::channel();
        let call = Call { action: request.entry.about.name, arguments: request.arguments, progress };
        let mut work =
            tasks::work(self.backend.clone(), client_of(&context), call, Arc::clone(&self.selection));
        tokio::select! {
            biased;
            () = context.ct.cancelled() => return Err(taken_back()),
            result = &mut work => {
                reports.tell_the_last(&context.peer, token.as_ref()).await;
                return Ok(result.into());
            }
            never = reports.tell(&context.peer, token.as_ref()) => match never {},
            () = sleep(tasks::PATIENCE), if may_become_task => {}
        }
        Ok(tasks::go_on(&self.tasks, time_to_live, work, reports))
    }
}

impl<B: Backend> ServerHandler for Server<B> {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_resources()
            .enable_prompts()
            .enable_tasks()
            .build();
        let mut implementation = Implementation::new("agentiso", env!("CARGO_PKG_VERSION"));
        implementation.title = Some("agentiso".to_owned());
        ServerConfig::new(capabilities)
            .with_server_info(implementation)
            .with_instructions(instructions::of(&self.selection))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let list = ListToolsResult::with_all_items(tools::of_selection(&self.selection));
        Ok(match takes_cache_hints(&context) {
            true => list.with_ttl_ms(LASTS_MS).with_cache_scope(CacheScope::Private),
            false => list,
        })
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(tools::Tool::listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else {
            return Err(unknown_tool(&request.name, &self.selection));
        };
        match arguments::read(tool.spec, request.arguments.unwrap_or_default()) {
            Ok(request) => self.carry_out(request, context).await,
            Err(failure) => Ok(results::of(Err(failure), &self.selection).into()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let caller = self.caller(&context);
        tokio::select! {
            () = context.ct.cancelled() => Err(taken_back()),
            listed = resources::list(&caller) => listed,
        }
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let list = ListResourceTemplatesResult::with_all_items(resources::templates());
        Ok(match takes_cache_hints(&context) {
            true => list.with_ttl_ms(LASTS_MS).with_cache_scope(CacheScope::Private),
            false => list,
        })
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = self.caller(&context);
        tokio::select! {
            () = context.ct.cancelled() => Err(taken_back()),
            read = resources::read(&caller, &request.uri) => read.map(Into::into),
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let list = ListPromptsResult::with_all_items(prompts::of(&self.selection));
        Ok(match takes_cache_hints(&context) {
            true => list.with_ttl_ms(LASTS_MS).with_cache_scope(CacheScope::Private),
            false => list,
        })
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let given = request.arguments.unwrap_or_default();
        prompts::get(&request.name, &given, &self.selection).map(Into::into)
    }

    /// Rejects completion requests, which the library would answer although they are not offered.
    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    /// Handles requests that the library could not parse.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(64).collect();
        if METHODS.contains(&method.as_str()) {
            return Err(ErrorData::invalid_params(format!("invalid parameters for {method}"), None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {method:?}"), None))
    }
}

/// The supported methods. A request to one of them that cannot be parsed has invalid parameters; others are unknown.
const METHODS: &[&str] = &[
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
];

/// Cache lifetime of lists that change only with the version of this program.
const LASTS_MS: u64 = 3_600_000;

/// Whether the client's protocol revision has cache hints.
fn takes_cache_hints(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The client's name for itself, shortened to fit in a line.
fn client_of(context: &RequestContext<RoleServer>) -> String {
    let name = context.client_info().map(|client| format!("{} {}", client.name, client.version));
    name.unwrap_or_default().chars().filter(|letter| !letter.is_control()).take(100).collect()
}

/// The response to a cancelled call. Clients do not wait for it.
fn taken_back() -> ErrorData {
    ErrorData::internal_error("the client cancelled the call", None)
}

fn unknown_tool(name: &str, selection: &Selection) -> ErrorData {
    let meant =
        tools::meant(name, selection).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    let name: String = name.chars().take(64).collect();
    ErrorData::invalid_params(format!("unknown tool {name:?}{meant}"), None)
}
