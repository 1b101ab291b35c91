//! `agentiso`: Linux machines in which mistakes are cheap.

fn main() -> std::process::ExitCode {
    agentiso_cli::main()
}
