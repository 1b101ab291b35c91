//! `modules.dep` for a module tree that was unpacked, not installed, and so has none.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::elf::modinfo_depends;
use crate::initramfs::module_name;
use crate::unpack;

/// No module unpacks to more.
const MODULE_MAX: u64 = 256 << 20;

/// Writes `modules.dep` if there is none.
pub(super) fn complete(modules: &Path) -> io::Result<()> {
    let dep = modules.join("modules.dep");
    if dep.exists() {
        return Ok(());
    }
    let mut paths = Vec::new();
    find_modules(modules, Path::new(""), &mut paths)?;
    let mut by_name: HashMap<String, &PathBuf> = HashMap::new();
    let mut needs: BTreeMap<&PathBuf, Vec<String>> = BTreeMap::new();
    for path in &paths {
        let Some(name) = path.to_str().and_then(module_name) else { continue };
        by_name.insert(name, path);
        let bytes = unpack::bytes(&fs::read(modules.join(path))?, MODULE_MAX)?;
        let depends = modinfo_depends(&bytes).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()))
        })?;
        needs.insert(path, depends);
    }
    let mut text = Vec::new();
    for (path, depends) in &needs {
        write!(text, "{}:", path.display())?;
        // What is built into the kernel has no file and needs none.
        for needed in depends.iter().filter_map(|name| by_name.get(&name.replace('-', "_"))) {
            write!(text, " {}", needed.display())?;
        }
        writeln!(text)?;
    }
    fs::write(dep, text)
}

fn find_modules(root: &Path, below: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            find_modules(root, &path, found)?;
        } else if kind.is_file() && path.to_str().and_then(module_name).is_some() {
            found.push(path);
        }
    }
    Ok(())
}
