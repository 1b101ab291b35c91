//! `avfs meta`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;

use agentiso_core::{Code, Failure};
use agentiso_vfs::FileOp;
use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use crate::avfs::context::{Context, path};
use crate::avfs::shown;

/// Flags of `meta`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  avfs --vault work meta /data.csv source https://example.com\n  \
                  avfs --vault work meta /data.csv\n  avfs --vault work meta /data.csv --import '{\"rows\":\"12\"}'")]
pub struct Meta {
    /// The file
    pub path: OsString,
    /// The key
    pub key: Option<String>,
    /// Its new value
    #[arg(requires = "key")]
    pub value: Option<String>,
    /// Remove the key
    #[arg(short, long, requires = "key", conflicts_with = "value")]
    pub delete: bool,
    /// Print everything as JSON
    #[arg(long, conflicts_with = "key")]
    pub export: bool,
    /// Set everything in a JSON object of texts
    #[arg(long, value_name = "JSON", conflicts_with_all = ["key", "export"])]
    pub import: Option<String>,
}

/// Metadata of a file.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MetaShown {
    path: String,
    metadata: BTreeMap<String, String>,
}

/// A changed or shown value.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MetaChanged {
    path: String,
    key: String,
    /// The value; null if it is not set.
    value: Option<String>,
    /// `set`, `get` or `deleted`.
    action: String,
}

/// Imported metadata.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MetaImported {
    path: String,
    /// How many values were set.
    imported: usize,
    /// Always `imported`.
    action: String,
}

/// Sets, shows and removes metadata.
pub fn meta(context: &Context, flags: Meta) -> Result<u8, Failure> {
    let at = path(&flags.path)?;
    let vaults = context.vaults()?;
    let vault = context.vault()?;
    if let Some(json) = &flags.import {
        let values: BTreeMap<String, String> = serde_json::from_str(json).map_err(|error| {
            Failure::new(
                Code::InvalidArgument,
                format!("the metadata is not a JSON object of texts: {error}"),
            )
        })?;
        let set = |(key, value): (&String, &String)| FileOp::SetMetadata {
            path: at.clone(),
            key: key.clone(),
            value: value.clone(),
        };
        let ops: Vec<FileOp> = values.iter().map(set).collect();
        vaults.change(&vault, &ops)?;
        let imported =
            MetaImported { path: shown::path(&at), imported: values.len(), action: "imported".to_owned() };
        context.shown.result(&imported, |out| writeln!(out, "Set {} values", imported.imported))?;
        return Ok(0);
    }
    let Some(key) = flags.key else {
        let view = context.view()?;
        view.stat(&at, false)?;
        let all = MetaShown { path: shown::path(&at), metadata: view.metadata(&at) };
        let as_json = flags.export;
        context.shown.result(&all, |out| match as_json {
            true => writeln!(out, "{}", serde_json::json!(all.metadata)),
            false => all.metadata.iter().try_for_each(|(key, value)| writeln!(out, "{key}\t{value}")),
        })?;
        return Ok(0);
    };
    let (value, action) = match (flags.value, flags.delete) {
        (_, true) => {
            vaults.change(&vault, &[FileOp::RemoveMetadata { path: at.clone(), key: key.clone() }])?;
            (None, "deleted")
        }
        (Some(value), false) => {
            let op = FileOp::SetMetadata { path: at.clone(), key: key.clone(), value: value.clone() };
            vaults.change(&vault, &[op])?;
            (Some(value), "set")
        }
        (None, false) => {
            let view = context.view()?;
            view.stat(&at, false)?;
            (view.metadata(&at).remove(&key), "get")
        }
    };
    let changed = MetaChanged { path: shown::path(&at), key, value, action: action.to_owned() };
    context.shown.result(&changed, |out| match (&changed.value, action) {
        (Some(value), "get") => writeln!(out, "{value}"),
        (Some(value), _) => writeln!(out, "{}: {} is {value}", changed.path, changed.key),
        (None, _) => writeln!(out, "{}: {} is not set", changed.path, changed.key),
    })?;
    Ok(0)
}
