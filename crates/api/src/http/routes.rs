//! Which route is which action.

use axum::http::Method;

/// A route of the REST interface.
pub(super) struct Route {
    pub method: Method,
    /// Names in braces are parameters of the action.
    pub path: &'static str,
    pub action: &'static str,
}

macro_rules! routes {
    ($($method:ident $path:literal $action:literal;)*) => {
        &[$(Route { method: Method::$method, path: $path, action: $action }),*]
    };
}

/// All routes.
pub(super) static ROUTES: &[Route] = routes! {
    GET "/v1/status" "server_status";
    GET "/v1/stats" "workspace_stats";
    GET "/v1/timeline" "timeline";
    GET "/v1/sessions" "session_list";
    POST "/v1/adopt" "workspace_adopt";
    GET "/v1/images" "image_list";
    GET "/v1/images/{name}" "image_info";
    DELETE "/v1/images/{name}" "image_remove";
    POST "/v1/images/pull" "image_pull";
    POST "/v1/images/import" "image_import";
    POST "/v1/images/build" "image_build";
    POST "/v1/images/commit" "image_commit";
    GET "/v1/workspaces" "workspace_list";
    POST "/v1/workspaces" "workspace_create";
    POST "/v1/workspaces/import" "workspace_import";
    GET "/v1/workspaces/{workspace_id}" "workspace_info";
    PATCH "/v1/workspaces/{workspace_id}" "workspace_update";
    DELETE "/v1/workspaces/{workspace_id}" "workspace_destroy";
    POST "/v1/workspaces/{workspace_id}/start" "workspace_start";
    POST "/v1/workspaces/{workspace_id}/stop" "workspace_stop";
    POST "/v1/workspaces/{workspace_id}/suspend" "workspace_suspend";
    POST "/v1/workspaces/{workspace_id}/resume" "workspace_resume";
    POST "/v1/workspaces/{workspace_id}/rename" "workspace_rename";
    POST "/v1/workspaces/{workspace_id}/grow" "workspace_grow";
    POST "/v1/workspaces/{workspace_id}/fork" "workspace_fork";
    POST "/v1/workspaces/{workspace_id}/export" "workspace_export";
    POST "/v1/workspaces/{workspace_id}/grant" "workspace_grant";
    GET "/v1/workspaces/{workspace_id}/logs" "workspace_logs";
    GET "/v1/workspaces/{workspace_id}/ip" "workspace_ip";
    GET "/v1/workspaces/{workspace_id}/timeline" "timeline";
    POST "/v1/workspaces/{workspace_id}/exec" "exec";
    GET "/v1/workspaces/{workspace_id}/jobs" "exec_list";
    POST "/v1/workspaces/{workspace_id}/jobs" "exec_start";
    GET "/v1/workspaces/{workspace_id}/jobs/{job_id}" "exec_poll";
    POST "/v1/workspaces/{workspace_id}/jobs/{job_id}/kill" "exec_kill";
    POST "/v1/workspaces/{workspace_id}/jobs/{job_id}/stdin" "exec_write";
    PUT "/v1/workspaces/{workspace_id}/env" "set_env";
    GET "/v1/workspaces/{workspace_id}/files/content" "file_read";
    PUT "/v1/workspaces/{workspace_id}/files/content" "file_write";
    POST "/v1/workspaces/{workspace_id}/files/edit" "file_edit";
    GET "/v1/workspaces/{workspace_id}/files/list" "file_list";
    GET "/v1/workspaces/{workspace_id}/files/stat" "file_stat";
    POST "/v1/workspaces/{workspace_id}/files/move" "file_move";
    POST "/v1/workspaces/{workspace_id}/files/mkdir" "file_mkdir";
    DELETE "/v1/workspaces/{workspace_id}/files" "file_delete";
    GET "/v1/workspaces/{workspace_id}/files/glob" "file_glob";
    GET "/v1/workspaces/{workspace_id}/files/grep" "file_grep";
    POST "/v1/workspaces/{workspace_id}/files/transfer" "file_transfer";
    GET "/v1/workspaces/{workspace_id}/snapshots" "snapshot_list";
    POST "/v1/workspaces/{workspace_id}/snapshots" "snapshot_create";
    DELETE "/v1/workspaces/{workspace_id}/snapshots/{snapshot_name}" "snapshot_delete";
    POST "/v1/workspaces/{workspace_id}/snapshots/{snapshot_name}/restore" "snapshot_restore";
    GET "/v1/workspaces/{workspace_id}/snapshots/{snapshot_name}/diff" "snapshot_diff";
    GET "/v1/workspaces/{workspace_id}/forwards" "port_forward_list";
    POST "/v1/workspaces/{workspace_id}/forwards" "port_forward_add";
    DELETE "/v1/workspaces/{workspace_id}/forwards/{guest_port}" "port_forward_remove";
    PUT "/v1/workspaces/{workspace_id}/network" "network_policy";
    POST "/v1/workspaces/{workspace_id}/git/clone" "git_clone";
    GET "/v1/workspaces/{workspace_id}/git/status" "git_status";
    POST "/v1/workspaces/{workspace_id}/git/commit" "git_commit";
    POST "/v1/workspaces/{workspace_id}/git/push" "git_push";
    GET "/v1/workspaces/{workspace_id}/git/diff" "git_diff";
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;

    #[test]
    fn every_action_has_a_route_and_every_parameter_of_a_path_is_one_of_its_action() {
        for entry in catalogue::ALL {
            assert!(ROUTES.iter().any(|route| route.action == entry.about.name), "{}", entry.about.name);
        }
        for route in ROUTES {
            let entry = catalogue::find(route.action).unwrap_or_else(|| panic!("no action {}", route.action));
            let schema = entry.input_schema().to_value();
            for part in route.path.split('/').filter_map(|part| part.strip_prefix('{')) {
                let name = part.trim_end_matches('}');
                assert!(schema["properties"].get(name).is_some(), "{} has no {name}", route.action);
            }
        }
    }
}
