//! Files, logs, connections and diffs of workspaces as MCP resources.

use std::sync::Arc;

use agentiso_core::progress::Silent;
use agentiso_core::{Code, Failure};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rmcp::ErrorData;
use rmcp::model::{ListResourcesResult, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::{Map, Value, json};

use super::results::resource_error;
use crate::brief::quoted;
use crate::{Answer, Backend, Call};

const ALL: &str = "agentiso://workspaces";
const ONE: &str = "agentiso://workspace/";

/// Characters to percent-encode in a resource URI.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The caller and the backend of a read.
pub(super) struct Caller<'a, B> {
    pub(super) backend: &'a B,
    pub(super) client: String,
}

impl<B: Backend> Caller<'_, B> {
    async fn call(&self, action: &'static str, arguments: Value) -> Result<Answer, Failure> {
        let arguments = match arguments {
            Value::Object(arguments) => arguments,
            _ => Map::new(),
        };
        self.backend.call_for(&self.client, Call { action, arguments, progress: Arc::new(Silent) }).await
    }
}

/// A parsed resource URI.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Address {
    Workspaces,
    File { workspace: String, path: String },
    Logs { workspace: String },
    Network { workspace: String },
    Diff { workspace: String, snapshot: String },
}

impl Address {
    fn parse(uri: &str) -> Option<Self> {
        if uri == ALL {
            return Some(Self::Workspaces);
        }
        let (workspace, rest) = uri.strip_prefix(ONE)?.split_once('/')?;
        let workspace = decoded(workspace)?;
        if rest == "logs" {
            return Some(Self::Logs { workspace });
        }
        if rest == "network" {
            return Some(Self::Network { workspace });
        }
        if let Some(snapshot) = rest.strip_prefix("diff/") {
            return decoded(snapshot).map(|snapshot| Self::Diff { workspace, snapshot });
        }
        let path = decoded(rest.strip_prefix("file")?)?;
        path.starts_with('/').then_some(Self::File { workspace, path })
    }
}

fn decoded(part: &str) -> Option<String> {
    let decoded = percent_decode_str(part).decode_utf8().ok()?;
    (!decoded.is_empty()).then(|| decoded.into_owned())
}

/// Lists the resources that every client can start with: the list of workspaces, and the logs of each.
pub(super) async fn list<B: Backend>(caller: &Caller<'_, B>) -> Result<ListResourcesResult, ErrorData> {
    let answer =
        caller.call("workspace_list", json!({})).await.map_err(|failure| resource_error(&failure))?;
    let mut resources = vec![
        Resource::new(ALL, "workspaces").with_title("All workspaces").with_mime_type("application/json"),
    ];
    for workspace in answer.structured["workspaces"].as_array().into_iter().flatten() {
        let name = |key: &str| workspace[key].as_str().unwrap_or_default();
        let id = utf8_percent_encode(name("workspace_id"), ESCAPED);
        resources.push(
            Resource::new(format!("{ONE}{id}/logs"), format!("{} logs", name("name")))
                .with_title(format!("Console of {}", name("name")))
                .with_mime_type("text/plain"),
        );
    }
    Ok(ListResourcesResult::with_all_items(resources))
}

/// Lists the resource templates.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(ALL, "workspaces")
            .with_title("All workspaces")
            .with_description("All workspaces, as workspace_list shows them.")
            .with_mime_type("application/json"),
        ResourceTemplate::new(format!("{ONE}{{ws}}/file{{+path}}"), "file")
            .with_title("A file in a workspace")
            .with_description(
                "A file by its absolute path, up to 1 MiB. A binary file is returned as a blob.",
            ),
        ResourceTemplate::new(format!("{ONE}{{ws}}/logs"), "logs")
            .with_title("Console of a workspace")
            .with_description("The last lines of the serial console and of QEMU's messages.")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(format!("{ONE}{{ws}}/network"), "network")
            .with_title("Network connections of a workspace")
            .with_description("The last connections and refused attempts, with the rule that decided.")
            .with_mime_type("text/plain"),
        ResourceTemplate::new(format!("{ONE}{{ws}}/diff/{{snapshot}}"), "diff")
            .with_title("What changed since a snapshot")
            .with_description(
                "Which files were added, removed, modified or renamed since a snapshot was taken.",
            )
            .with_mime_type("text/plain"),
    ]
}

/// Reads a resource.
pub(super) async fn read<B: Backend>(
    caller: &Caller<'_, B>,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let Some(address) = Address::parse(uri) else {
        let data = json!({"uri": quoted(uri)});
        return Err(ErrorData::resource_not_found("unknown resource", Some(data)));
    };
    let contents = match address {
        Address::Workspaces => caller.call("workspace_list", json!({})).await.map(|answer| {
            ResourceContents::text(answer.structured.to_string(), uri).with_mime_type("application/json")
        }),
        Address::File { workspace, path } => file(caller, uri, &workspace, &path).await,
        Address::Logs { workspace } => caller
            .call("workspace_logs", json!({"workspace_id": workspace}))
            .await
            .map(|answer| ResourceContents::text(answer.text, uri)),
        Address::Network { workspace } => caller
            .call("network_log", json!({"workspace_id": workspace}))
            .await
            .map(|answer| ResourceContents::text(answer.text, uri)),
        Address::Diff { workspace, snapshot } => {
            let arguments = json!({"workspace_id": workspace, "snapshot_name": snapshot});
            caller
                .call("snapshot_diff", arguments)
                .await
                .map(|answer| ResourceContents::text(answer.text, uri))
        }
    };
    match contents {
        Ok(contents) => Ok(ReadResourceResult::new(vec![contents])),
        Err(failure) => Err(resource_error(&failure)),
    }
}

/// Reads a file, as text if it is valid text.
async fn file<B: Backend>(
    caller: &Caller<'_, B>,
    uri: &str,
    workspace: &str,
    path: &str,
) -> Result<ResourceContents, Failure> {
    let content = |answer: &Answer| answer.structured["content"].as_str().unwrap_or_default().to_owned();
    let mut arguments = json!({"workspace_id": workspace, "path": path});
    match caller.call("file_read", arguments.clone()).await {
        Ok(answer) => Ok(ResourceContents::text(content(&answer), uri)),
        Err(failure) if failure.code() == Code::FileNotText => {
            arguments["encoding"] = json!("base64");
            let answer = caller.call("file_read", arguments).await?;
            Ok(ResourceContents::blob(content(&answer), uri).with_mime_type("application/octet-stream"))
        }
        Err(failure) => Err(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resource_uris_are_parsed() {
        let workspace = || "dev".to_owned();
        assert_eq!(Address::parse("agentiso://workspaces"), Some(Address::Workspaces));
        assert_eq!(
            Address::parse("agentiso://workspace/dev/file/etc/a%20b"),
            Some(Address::File { workspace: workspace(), path: "/etc/a b".to_owned() })
        );
        assert_eq!(
            Address::parse("agentiso://workspace/dev/logs"),
            Some(Address::Logs { workspace: workspace() })
        );
        assert_eq!(
            Address::parse("agentiso://workspace/dev/network"),
            Some(Address::Network { workspace: workspace() })
        );
        assert_eq!(
            Address::parse("agentiso://workspace/dev/diff/clean"),
            Some(Address::Diff { workspace: workspace(), snapshot: "clean".to_owned() })
        );
    }

    #[test]
    fn invalid_resource_uris_are_rejected() {
        for uri in [
            "",
            "file:///etc/passwd",
            "agentiso://workspaces/",
            "agentiso://workspace/",
            "agentiso://workspace//logs",
            "agentiso://workspace/dev",
            "agentiso://workspace/dev/file",
            "agentiso://workspace/dev/filed",
            "agentiso://workspace/dev/diff/",
            "agentiso://workspace/dev/file/%ff",
            "agentiso://workspace/dev/logs/more",
        ] {
            assert_eq!(Address::parse(uri), None, "{uri}");
        }
    }
}
