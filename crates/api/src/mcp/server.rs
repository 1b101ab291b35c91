//! The server.

use agentiso_core::nearest;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, GetTaskParams, GetTaskResult, Implementation,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, Tool, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::TaskManager;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::time::sleep;

use super::arguments::{self, Request};
use super::instructions::INSTRUCTIONS;
use super::table::ToolSet;
use super::{progress, resources, results, tasks, tools};
use crate::{Backend, Call};

/// Speaks the Model Context Protocol for a backend, in all its revisions. It keeps nothing about a client but the
/// tasks it was told of; clones share those.
#[derive(Clone)]
pub struct Server<B> {
    backend: B,
    set: ToolSet,
    tasks: TaskManager,
}

impl<B: Backend> Server<B> {
    /// A server that lists the tools of a set.
    pub fn new(backend: B, set: ToolSet) -> Self {
        Self { backend, set, tasks: TaskManager::new() }
    }

    /// The same server, with the same tasks, for another caller.
    #[must_use]
    pub fn with_backend(&self, backend: B) -> Self {
        Self { backend, set: self.set, tasks: self.tasks.clone() }
    }

    /// Ends all tasks, and with them their work.
    pub fn end_tasks(&self) {
        self.tasks.shutdown();
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> resources::Caller<'_, B> {
        resources::Caller { backend: &self.backend, client: client_of(context) }
    }

    /// Carries a call out. It ends early when the client takes it back, which ends the work too.
    async fn carry_out(
        &self,
        request: Request,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let may_become_task = tasks::may_become_one(&request, &self.tasks, &context);
        let time_to_live = tasks::time_to_live(&request);
        let token = context.meta.get_progress_token();
        let (progress, mut reports) = progress::channel();
        let call = Call { action: request.entry.about.name, arguments: request.arguments, progress };
        let mut work = tasks::work(self.backend.clone(), client_of(&context), call);
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
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::of_set(self.set)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::find(name).map(tools::Tool::listed)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = tools::find(&request.name) else { return Err(unknown_tool(&request.name)) };
        match arguments::read(tool.spec, request.arguments.unwrap_or_default()) {
            Ok(request) => self.carry_out(request, context).await,
            Err(failure) => Ok(results::of(Err(failure)).into()),
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
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
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
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(Vec::new()))
    }
}

/// What a client calls itself, as far as it fits into a line.
fn client_of(context: &RequestContext<RoleServer>) -> String {
    let name = context.client_info().map(|client| format!("{} {}", client.name, client.version));
    name.unwrap_or_default().chars().filter(|letter| !letter.is_control()).take(100).collect()
}

/// Nobody reads it: who takes a call back does not wait for its answer.
fn taken_back() -> ErrorData {
    ErrorData::internal_error("the client took the call back", None)
}

fn unknown_tool(name: &str) -> ErrorData {
    let meant = nearest(name, tools::all().iter().map(|tool| tool.spec.name))
        .map(|near| format!("; did you mean {near}?"))
        .unwrap_or_default();
    let name: String = name.chars().take(64).collect();
    ErrorData::invalid_params(format!("there is no tool {name:?}{meant}"), None)
}
