//! Module dependencies.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

/// A module and the modules it needs, by path in the module tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Module {
    /// Its path in the module tree.
    pub path: String,
    /// The paths of the modules it needs.
    pub needs: Vec<String>,
}

/// The module name of a file: without directories and extensions, and with `_` for `-`, as in the kernel.
pub fn module_name(path: &str) -> Option<String> {
    let file = path.rsplit('/').next()?;
    let name = [".ko", ".ko.xz", ".ko.gz", ".ko.zst"].iter().find_map(|end| file.strip_suffix(end))?;
    (!name.is_empty()).then(|| name.replace('-', "_"))
}

/// Parses `modules.dep`; invalid lines are left out.
pub fn parse_modules_dep(text: &[u8]) -> Vec<Module> {
    let text = String::from_utf8_lossy(text);
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, needs)| (path.trim(), needs))
        .filter(|(path, _)| is_inside(path) && module_name(path).is_some())
        .map(|(path, needs)| Module {
            path: path.to_owned(),
            needs: needs.split_whitespace().filter(|path| is_inside(path)).map(str::to_owned).collect(),
        })
        .collect()
}

/// Reads `modules.builtin`: the names of modules that are part of the kernel.
pub fn parse_modules_builtin(text: &[u8]) -> HashSet<String> {
    String::from_utf8_lossy(text).lines().filter_map(|line| module_name(line.trim())).collect()
}

/// A module tree.
#[derive(Clone, Debug, Default)]
pub struct ModuleIndex {
    by_name: HashMap<String, Module>,
    builtin: HashSet<String>,
}

impl ModuleIndex {
    /// Reads the index of a module tree, `…/lib/modules/<version>`.
    pub fn read(modules: &Path) -> io::Result<Self> {
        let dep = fs::read(modules.join("modules.dep"))?;
        let builtin = match fs::read(modules.join("modules.builtin")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            other => other?,
        };
        Ok(Self::new(parse_modules_dep(&dep), parse_modules_builtin(&builtin)))
    }

    /// Builds an index from its parts.
    pub fn new(modules: Vec<Module>, builtin: HashSet<String>) -> Self {
        let named = |module: Module| module_name(&module.path).map(|name| (name, module));
        Self { by_name: modules.into_iter().filter_map(named).collect(), builtin }
    }

    /// Whether the kernel has it, built in or as a module.
    pub fn has(&self, name: &str) -> bool {
        let name = name.replace('-', "_");
        self.builtin.contains(&name) || self.by_name.contains_key(&name)
    }

    /// The module files to load for these names, each after its dependencies. Built-in and unknown modules are left out.
    pub fn load_order<'a>(&'a self, names: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        for name in names {
            self.visit(&name.replace('-', "_"), &mut seen, &mut order);
        }
        order
    }

    fn visit<'a>(&'a self, name: &str, seen: &mut HashSet<&'a str>, order: &mut Vec<&'a str>) {
        // An explicit stack of (module, dependencies left to visit), because the file determines the depth.
        let mut stack = Vec::new();
        let push = |name: &str, seen: &mut HashSet<&'a str>, stack: &mut Vec<(&'a Module, usize)>| {
            if let Some(module) = self.by_name.get(name).filter(|_| !self.builtin.contains(name))
                && seen.insert(&module.path)
            {
                stack.push((module, 0));
            }
        };
        push(name, seen, &mut stack);
        while let Some((module, next)) = stack.last_mut() {
            match module.needs.get(*next) {
                Some(needed) => {
                    *next += 1;
                    if let Some(name) = module_name(needed) {
                        push(&name, seen, &mut stack);
                    }
                }
                None => {
                    order.push(module.path.as_str());
                    stack.pop();
                }
            }
        }
    }
}

/// Whether a path of an index stays in the module tree.
fn is_inside(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn index(dep: &str, builtin: &str) -> ModuleIndex {
        ModuleIndex::new(parse_modules_dep(dep.as_bytes()), parse_modules_builtin(builtin.as_bytes()))
    }

    #[test]
    fn everything_comes_after_what_it_needs_and_only_once() {
        let index = index(
            "k/ext4.ko.xz: k/jbd2.ko.xz k/mbcache.ko.xz k/crc16.ko.xz\nk/jbd2.ko.xz: k/crc16.ko.xz\n\
             k/mbcache.ko.xz:\nk/crc16.ko.xz:\nk/virtio-rng.ko:\n",
            "kernel/fs/mbcache.ko\n",
        );
        let order = index.load_order(["ext4", "virtio_rng", "jbd2", "unknown"]);
        assert_eq!(order, ["k/crc16.ko.xz", "k/jbd2.ko.xz", "k/ext4.ko.xz", "k/virtio-rng.ko"]);
        assert!(index.has("mbcache") && index.has("virtio-rng") && index.has("virtio_rng"));
        assert!(!index.has("unknown"));
    }

    #[test]
    fn a_circle_ends() {
        let index = index("a.ko: b.ko\nb.ko: a.ko\n", "");
        assert_eq!(index.load_order(["a"]), ["b.ko", "a.ko"]);
    }

    #[test]
    fn paths_out_of_the_tree_are_left_out() {
        assert_eq!(
            parse_modules_dep(b"../../etc/x.ko:\n/abs/y.ko:\nfine.ko: ../z.ko ok.ko\n"),
            [Module { path: "fine.ko".to_owned(), needs: vec!["ok.ko".to_owned()] }]
        );
    }

    proptest! {
        #[test]
        fn any_index_gives_an_order_in_which_needs_come_first(
            edges in proptest::collection::vec((0usize..12, 0usize..12), 0..40))
        {
            // Only downward edges, so there is no circle and the order must be strict.
            let mut text = String::new();
            for module in 0..12 {
                text.push_str(&format!("m{module}.ko:"));
                for (from, to) in edges.iter().filter(|(from, to)| *from == module && to < from) {
                    let _ = from;
                    text.push_str(&format!(" m{to}.ko"));
                }
                text.push('\n');
            }
            let index = index(&text, "");
            let order = index.load_order(["m11", "m5", "m0"]);
            for (from, to) in edges.iter().filter(|(from, to)| to < from) {
                let at = |module: &usize| order.iter().position(|path| **path == *format!("m{module}.ko"));
                if let Some(later) = at(from) {
                    prop_assert!(at(to).unwrap() < later);
                }
            }
        }

        #[test]
        fn any_text_is_an_index(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            let modules = parse_modules_dep(&text);
            let names: Vec<String> = modules.iter().filter_map(|module| module_name(&module.path)).collect();
            let index = ModuleIndex::new(modules, parse_modules_builtin(&text));
            let _ = index.load_order(names.iter().map(String::as_str));
        }
    }
}
