//! `agentiso info`.

use std::io::{self, Write};

use agentiso_config::paths::Paths;
use agentiso_core::action::{Forward, WorkspaceDetails, WorkspaceInfo};
use agentiso_core::{Failure, WorkspaceId};

use super::labels_in_words;
use crate::args;
use crate::commands::Daemon;
use crate::output::Output;
use crate::ui::{Stream, bytes, vcpus};

/// Shows one workspace.
pub async fn info(here: &Paths, args::One { workspace }: args::One, output: Output) -> Result<u8, Failure> {
    let request = WorkspaceInfo { workspace_id: workspace };
    let details = Daemon::reach(here, output).await?.ask("Still looking", &request).await?;
    output.result(&details, |out| describe(out, &details))?;
    Ok(0)
}

fn describe(out: &mut Stream, details: &WorkspaceDetails) -> io::Result<()> {
    let brief = &details.brief;
    let mut line = |name: &str, text: &str| writeln!(out, "{name:<10} {text}");
    let reason = details.stop_reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    line("name", &brief.name)?;
    line("id", &with_short(&brief.workspace_id))?;
    line("state", &format!("{}{reason}", brief.state))?;
    line("image", &brief.base_image)?;
    let size = brief.resources;
    let size =
        format!("{}, {} MiB of memory, {} GiB of disk", vcpus(size.vcpus), size.memory_mb, size.disk_gb);
    line("size", &size)?;
    line("used", &format!("{} of disk", bytes(details.disk_used_bytes)))?;
    line("created", &brief.created_at)?;
    line("last used", &details.last_used_at)?;
    line("tier", details.tier.as_str())?;
    let optional = [
        ("from", brief.source.clone()),
        ("accel", details.accel.map(|accel| accel.to_string())),
        ("process", details.pid.map(|pid| pid.to_string())),
        ("limits", details.pid.map(|_| limits(details))),
        ("expires", details.expires_at.clone()),
        ("idle stop", details.idle_stop_secs.map(|seconds| format!("after {seconds} s"))),
        ("restart", details.restart.then(|| "with the host, unless it was stopped explicitly".to_owned())),
        (
            "next start",
            details
                .next_resources
                .map(|next| format!("{}, {} MiB of memory", vcpus(next.vcpus), next.memory_mb)),
        ),
        ("labels", (!brief.labels.is_empty()).then(|| labels_in_words(&brief.labels))),
        ("variables", joined(details.env_names.iter().cloned())),
        ("snapshots", joined(details.snapshots.iter().map(|snapshot| snapshot.name.clone()))),
        ("ports", joined(details.port_forwards.iter().map(Forward::in_words))),
    ];
    for (name, text) in optional {
        if let Some(text) = text {
            line(name, &text)?;
        }
    }
    Ok(())
}

fn limits(details: &WorkspaceDetails) -> String {
    match &details.limits {
        Some(limits) => limits.in_words(),
        None => "none; 'agentiso check' shows why".to_owned(),
    }
}

fn joined(words: impl Iterator<Item = String>) -> Option<String> {
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn with_short(id: &str) -> String {
    match id.parse() {
        Ok(uuid) => format!("{id} ({} for short)", WorkspaceId::from_uuid(uuid).short()),
        Err(_) => id.to_owned(),
    }
}
