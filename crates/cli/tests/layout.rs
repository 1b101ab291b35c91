//! Checks the source tree: dependencies between crates, and the length of files.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate and the crates of this workspace it may depend on. Explain a new dependency in ARCHITECTURE.md.
const ARROWS: &[(&str, &[&str])] = &[
    ("crates/blocking", &[]),
    ("crates/core", &["proto"]),
    ("crates/client", &["core"]),
    ("crates/proto", &[]),
    ("crates/config", &["core"]),
    ("crates/diff", &["core"]),
    ("crates/disks", &["core"]),
    ("crates/images", &["blocking", "core"]),
    ("crates/jail", &["core"]),
    ("crates/meta", &["blocking", "core"]),
    ("crates/mounts", &["core", "store"]),
    ("crates/net", &["core", "policy"]),
    ("crates/notes", &["core", "store"]),
    ("crates/policy", &["core"]),
    ("crates/proxy", &["core", "jail", "meta", "mounts", "policy", "store", "vfs"]),
    ("crates/secrets", &["core"]),
    ("crates/store", &["core"]),
    ("crates/vfs", &["core", "store"]),
    ("crates/vmm", &["blocking", "core", "proto"]),
    (
        "crates/runtime",
        &[
            "blocking", "config", "core", "diff", "disks", "images", "meta", "net", "policy", "proto",
            "secrets", "vmm",
        ],
    ),
    ("crates/bench", &["config", "core", "net", "policy", "proto", "runtime", "vmm"]),
    ("crates/engine", &["blocking", "core", "policy"]),
    ("crates/api", &["core", "engine"]),
    (
        "crates/cli",
        &["api", "bench", "client", "config", "core", "engine", "policy", "proxy", "runtime", "vfs"],
    ),
    ("guest", &["proto"]),
];

const MAX_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The workspace crates in a manifest's `[dependencies]`. Dev and build dependencies do not count.
fn uses(manifest: &str) -> BTreeSet<String> {
    let manifest: toml::Table = manifest.parse().unwrap();
    let dependencies = manifest.get("dependencies").and_then(|table| table.as_table());
    dependencies
        .into_iter()
        .flat_map(|table| table.keys())
        .filter_map(|name| name.strip_prefix("agentiso-"))
        .map(str::to_owned)
        .collect()
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
        if is_test {
            continue;
        } else if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// All source files that ship: `crates/*/src` and `guest/src`.
fn shipped_sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (dir, _) in ARROWS {
        sources(&root().join(dir).join("src"), &mut found);
    }
    found
}

/// The part of a file above its test module.
fn without_tests(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod ").next().unwrap_or(text)
}

/// The lines at which a function with a body begins.
fn function_bodies(text: &str) -> Vec<usize> {
    let is_function = |line: &str| {
        let words = line.split_whitespace();
        let mut words =
            words.skip_while(|word| word.starts_with("pub") || matches!(*word, "const" | "async" | "unsafe"));
        words.next() == Some("fn")
    };
    let code = without_tests(text).lines().enumerate();
    code.filter(|(_, line)| is_function(line)).map(|(index, _)| index + 1).collect()
}

#[test]
fn every_crate_is_listed() {
    let mapped: BTreeSet<PathBuf> = ARROWS.iter().map(|(dir, _)| root().join(dir)).collect();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let dir = entry.unwrap().path();
        assert!(mapped.contains(&dir), "{} is missing in ARROWS", dir.display());
    }
}

#[test]
fn crates_depend_only_on_permitted_crates() {
    for (dir, allowed) in ARROWS {
        let used = uses(&read(&root().join(dir).join("Cargo.toml")));
        let allowed: BTreeSet<String> = allowed.iter().map(|&name| name.to_owned()).collect();
        let strangers: Vec<_> = used.difference(&allowed).collect();
        assert!(strangers.is_empty(), "{dir} must not depend on {strangers:?}");
    }
}

/// The roots of async code, each of which denies calls that wait (see clippy.toml). In `images` only the registry client
/// is async; in `cli` only the daemon serves several clients at once; `bench` measures and serves nobody.
const ASYNC_ROOTS: &[&str] = &[
    "crates/api/src/lib.rs",
    "crates/cli/src/daemon/mod.rs",
    "crates/client/src/lib.rs",
    "crates/engine/src/lib.rs",
    "crates/images/src/source/registry/mod.rs",
    "crates/meta/src/lib.rs",
    "crates/net/src/lib.rs",
    "crates/runtime/src/lib.rs",
    "crates/vmm/src/lib.rs",
];

#[test]
fn async_code_denies_calls_that_wait() {
    for root_file in ASYNC_ROOTS {
        let text = read(&root().join(root_file));
        assert!(text.contains("deny(clippy::disallowed_methods)"), "{root_file} does not deny them");
    }
    for (dir, _) in ARROWS.iter().filter(|(dir, _)| !matches!(*dir, "crates/bench" | "crates/blocking")) {
        let manifest: toml::Table = read(&root().join(dir).join("Cargo.toml")).parse().unwrap();
        let is_async = manifest["dependencies"].as_table().unwrap().contains_key("tokio");
        let is_listed = ASYNC_ROOTS.iter().any(|file| file.starts_with(&format!("{dir}/")));
        assert!(!is_async || is_listed, "{dir} uses tokio and is not in ASYNC_ROOTS");
    }
    let listed = read(&root().join("clippy.toml"));
    for call in ["std::fs::read", "std::process::Command::output", "std::thread::sleep"] {
        assert!(listed.contains(&format!("\"{call}\"")), "clippy.toml does not list {call}");
    }
}

#[test]
fn the_architecture_page_names_every_crate() {
    let page = read(&root().join("ARCHITECTURE.md"));
    for (dir, _) in ARROWS {
        assert!(page.contains(&format!("`{dir}`")), "ARCHITECTURE.md does not name `{dir}`");
    }
}

#[test]
fn no_file_is_too_long_to_read() {
    for path in shipped_sources() {
        let lines = read(&path).lines().count();
        assert!(lines <= MAX_LINES, "{} has {lines} lines, more than {MAX_LINES}", path.display());
    }
}

#[test]
fn crate_roots_contain_only_declarations() {
    for (dir, _) in ARROWS {
        let path = root().join(dir).join("src/lib.rs");
        if path.exists() {
            let bodies = function_bodies(&read(&path));
            assert!(bodies.is_empty(), "{} has functions at lines {bodies:?}", path.display());
        }
    }
}

#[test]
fn the_checks_detect_violations() {
    assert_eq!(
        uses(
            "[dependencies]\nagentiso-core.workspace = true\nserde = \"1\"\n[dev-dependencies]\nagentiso-vmm = \"1\"\n"
        ),
        BTreeSet::from(["core".to_owned()])
    );
    assert_eq!(
        function_bodies("//! fn in words\npub mod a;\n\npub(crate) const fn b() {}\n  async fn c() {\n"),
        [4, 5]
    );
    assert!(function_bodies("mod a;\n#[cfg(test)]\nmod tests {\n  fn c() {}\n}\n").is_empty());
}
