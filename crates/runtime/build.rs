//! Builds the guest agent and hands its path to the crate, so that `agentiso` is one file.
//!
//! The agent must be static and is tuned by a profile of its own, neither of which an ordinary dependency can be,
//! so it is built by a cargo of its own. That cargo's target directory is shared by all profiles and features of the
//! outer build: the agent, whose optimisation takes long, is built once and not once for each of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    for input in
        ["guest/src", "guest/Cargo.toml", "crates/proto/src", "crates/proto/Cargo.toml", "Cargo.toml"]
    {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let target_dir = shared_directory(&out).join("guest-agent");
    let status = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .current_dir(&root)
        .args(["build", "--package", "agentiso-guest", "--bin", "agentiso-guest", "--profile", "guest"])
        .args(["--target", TARGET, "--target-dir"])
        .arg(&target_dir)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        // Flags and wrappers meant for the outer build, such as coverage or clippy, must not reach the agent.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status();
    match status {
        Ok(status) if status.success() => {}
        other => {
            println!("cargo::error=the guest agent could not be built: {other:?}");
            return;
        }
    }
    let built = target_dir.join(TARGET).join("guest/agentiso-guest");
    // A copy of its own: another profile's build may replace the shared file while this crate is being compiled.
    let agent = out.join("agentiso-guest");
    if let Err(error) = copy_if_changed(&built, &agent) {
        println!("cargo::error=the guest agent could not be copied to {}: {error}", agent.display());
        return;
    }
    println!("cargo::rustc-env=AGENTISO_GUEST_AGENT={}", agent.display());
}

/// The outer build's target directory, which cargo marks, or `out` itself if no directory above it is marked.
fn shared_directory(out: &Path) -> &Path {
    out.ancestors().find(|directory| directory.join("CACHEDIR.TAG").is_file()).unwrap_or(out)
}

/// An unchanged agent keeps its time, so that nothing is compiled again for it.
fn copy_if_changed(from: &Path, to: &Path) -> io::Result<()> {
    let bytes = fs::read(from)?;
    if fs::read(to).is_ok_and(|present| present == bytes) {
        return Ok(());
    }
    let partial = to.with_extension("partial");
    fs::write(&partial, bytes)?;
    fs::rename(partial, to)
}
