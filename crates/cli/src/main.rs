//! `agentiso`: Linux machines for AI agents, in which mistakes are cheap.

fn main() -> std::process::ExitCode {
    agentiso_cli::main()
}
