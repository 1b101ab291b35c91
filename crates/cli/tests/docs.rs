//! Checks that generated reference pages are up to date. `UPDATE_DOCS=1` rewrites them.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use agentiso_config::Config;
use agentiso_core::Code;

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name)
}

fn configuration() -> String {
    format!(
        "# Configuration\n\n\
         agentiso works without a configuration file. `agentiso init` writes the one below, with every key commented\n\
         out. It is looked for in this order:\n\n\
         1. `--config FILE`\n\
         2. `$AGENTISO_CONFIG`\n\
         3. `$AGENTISO_HOME/config.toml`, if `AGENTISO_HOME` is set\n\
         4. `$XDG_CONFIG_HOME/agentiso/config.toml` (`~/.config/agentiso/config.toml`)\n\
         5. `/etc/agentiso/config.toml`\n\n\
         The first that exists is used, alone. A file named by the first two must exist. An unknown key is an error that\n\
         names the line and the key you may have meant.\n\n\
         ```toml\n{}```\n\n\
         ## Where data lives\n\n\
         | what | ordinary user | root | with `AGENTISO_HOME` |\n\
         |---|---|---|---|\n\
         | images, kernel, templates, machines | `$XDG_DATA_HOME/agentiso` (`~/.local/share/agentiso`) | `/var/lib/agentiso` | `$AGENTISO_HOME` |\n\
         | sockets | `$XDG_RUNTIME_DIR/agentiso`, else `run` in the data directory | `/run/agentiso` | `$AGENTISO_HOME/run` |\n\n\
         A second `AGENTISO_HOME` is a separate installation. When agentiso runs as root and QEMU cannot be isolated, `vm.user` must\n\
         be able to enter the data directory and every directory above it; `agentiso check` names one that is closed.\n",
        Config::commented()
    )
}

#[test]
fn the_configuration_page_is_up_to_date() {
    let path = page("configuration.md");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, configuration()).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap();
    assert_eq!(
        written,
        configuration(),
        "run the tests once with UPDATE_DOCS=1 to rewrite {}",
        path.display()
    );
}

#[test]
fn the_errors_page_lists_every_code_once() {
    let written = fs::read_to_string(page("errors.md")).unwrap();
    let listed: Vec<&str> = written
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split('`').next())
        .filter(|word| word.parse::<u8>().is_err())
        .collect();
    let codes: Vec<&str> = Code::all().iter().map(|code| code.as_str()).collect();
    assert_eq!(listed, codes);
}
