//! Changes single keys of a configuration file and leaves the rest as it is.

/// Returns the text with the given keys of one section set. Comments and other keys are unchanged.
pub fn with_keys(text: &str, section: &str, keys: &[(&str, &str)]) -> String {
    let header = format!("[{section}]");
    let set: String = keys.iter().map(|(key, value)| format!("{key} = \"{value}\"\n")).collect();
    let (mut edited, mut inside, mut found) = (String::new(), false, false);
    for line in text.lines() {
        let code = line.split('#').next().unwrap_or_default().trim();
        if code.starts_with('[') {
            inside = code == header;
        }
        let is_set = |(key, _): &(&str, &str)| {
            code.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
        };
        if inside && keys.iter().any(is_set) {
            continue;
        }
        edited.push_str(line);
        edited.push('\n');
        if inside && code == header {
            edited.push_str(&set);
            found = true;
        }
    }
    if !found {
        edited.push_str(&format!("\n{header}\n{set}"));
    }
    edited
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Config, DiskBackend, parse};

    const ZFS: &[(&str, &str)] = &[("backend", "zfs"), ("zfs_dataset", "tank/agentiso")];

    #[test]
    fn only_the_given_keys_change() {
        let files = [
            String::new(),
            Config::commented(),
            "[vm]\naccel = \"tcg\" # why\n".to_owned(),
            "[disks] # mine\nbackend = \"qcow2\"\n# a note\n\n[vm]\naccel = \"tcg\"\n".to_owned(),
            "[disks]\nzfs_dataset=\"old/one\"\n[pool]\nsize = 1".to_owned(),
        ];
        for file in files {
            let mut expected = parse(&file, Path::new("c")).unwrap();
            expected.disks.backend = DiskBackend::Zfs;
            expected.disks.zfs_dataset = Some("tank/agentiso".to_owned());
            let edited = with_keys(&file, "disks", ZFS);
            assert_eq!(parse(&edited, Path::new("c")).unwrap(), expected, "{edited}");
            let comments = |text: &str| text.matches('#').count();
            assert_eq!(comments(&edited), comments(&file));
            assert_eq!(
                with_keys(&edited, "disks", ZFS),
                edited,
                "setting the same keys again changes nothing"
            );
        }
    }
}
