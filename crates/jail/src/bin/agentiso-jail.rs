//! The helper of the tests and the benchmark. Their own programs cannot be it: they start threads before `main`.

fn main() {
    agentiso_jail::run_helper_if_requested();
}
