//! Builds the guest agent and hands its path to the crate, so that `agentiso` is one file.
//!
//! The agent must be static and is tuned by a profile of its own, neither of which an ordinary dependency can be,
//! so it is built by a cargo of its own in a target directory of its own.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    for input in
        ["guest/src", "guest/Cargo.toml", "crates/proto/src", "crates/proto/Cargo.toml", "Cargo.toml"]
    {
        println!("cargo::rerun-if-changed={}", root.join(input).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    let target_dir = out.join("guest");
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
    let agent = target_dir.join(TARGET).join("guest/agentiso-guest");
    println!("cargo::rustc-env=AGENTISO_GUEST_AGENT={}", agent.display());
}
