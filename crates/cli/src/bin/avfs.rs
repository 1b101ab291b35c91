//! `avfs`: versioned files for AI agents, and a policy boundary in front of every command.

fn main() -> std::process::ExitCode {
    agentiso_cli::avfs::main()
}
