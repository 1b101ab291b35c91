//! Where policy files are, and how they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentiso_core::{Code, Failure};
use agentiso_policy::command::{CommandPolicies, MAX_FILE_BYTES, PolicyFile, parse_policy};

/// The policy of the system.
const SYSTEM: &str = "/etc/agentiso/policy.toml";

/// The policy files that apply to a command.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PolicyFiles {
    /// That of the vault. It need not exist.
    pub vault: Option<PathBuf>,
    /// That of the user. It need not exist.
    pub user: PathBuf,
    /// That of the system. It need not exist.
    pub system: PathBuf,
}

impl PolicyFiles {
    /// The files of an installation: that of the user is beside the configuration file.
    pub fn of(config_file: &Path) -> Self {
        Self { vault: None, user: config_file.with_file_name("policy.toml"), system: SYSTEM.into() }
    }

    /// The same with the file of a vault.
    #[must_use]
    pub fn with_vault(mut self, file: Option<PathBuf>) -> Self {
        self.vault = file;
        self
    }

    /// Reads the files. `named` is one that must exist, instead of that of the vault.
    pub fn read(&self, named: Option<&Path>) -> Result<CommandPolicies, Failure> {
        let vault = match (named, &self.vault) {
            (Some(named), _) => Some(read_policy(named)?),
            (None, Some(file)) => read_if_present(file)?,
            (None, None) => None,
        };
        let user = if self.user == self.system { None } else { read_if_present(&self.user)? };
        Ok(CommandPolicies::new(vault, user, read_if_present(&self.system)?))
    }
}

/// Reads a policy file that must exist.
pub fn read_policy(path: &Path) -> Result<PolicyFile, Failure> {
    read_if_present(path)?.ok_or_else(|| {
        Failure::new(Code::InvalidArgument, format!("the policy file {} does not exist", path.display()))
            .with_remedy("check the path")
    })
}

fn read_if_present(path: &Path) -> Result<Option<PolicyFile>, Failure> {
    let text = match text_of(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let message = format!("could not read the policy file {}: {error}", path.display());
            return Err(Failure::new(Code::of_io(&error), message)
                .with_remedy("give the path of a readable file of TOML text"));
        }
    };
    Ok(Some(parse_policy(&text, &path.display().to_string())?))
}

/// The text of a file, up to a little more than the parser accepts.
fn text_of(path: &Path) -> io::Result<String> {
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(4);
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    match bytes.len() > MAX_FILE_BYTES {
        // The parser says what is wrong with it; a character may be cut in two at the end.
        true => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        false => String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use agentiso_policy::command::{Action, Command, Scope, classify, decide};
    use tempfile::tempdir;

    use super::*;

    fn decided(files: &PolicyFiles) -> Result<(Action, String), Failure> {
        let policies = files.read(None)?;
        let scope = Scope::new("/workspace");
        let decision = decide(&policies, &classify(&scope, Command::Shell("curl https://example.com")));
        Ok((decision.action, decision.rule))
    }

    #[test]
    fn the_file_of_the_vault_comes_before_that_of_the_user_and_of_the_system() {
        let dir = tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let files = PolicyFiles { vault: Some(file("v")), user: file("u"), system: file("s") };
        assert_eq!(decided(&files).unwrap(), (Action::RequireApproval, "default:networked".to_owned()));
        for (name, action) in [("s", "deny"), ("u", "allow"), ("v", "allow_with_checkpoint")] {
            fs::write(file(name), format!("[defaults]\nnetworked = \"{action}\"\n")).unwrap();
            let (decided, rule) = decided(&files).unwrap();
            assert_eq!(decided.as_str(), action);
            let layer = rule.split(':').next().unwrap_or_default().to_owned();
            assert!(layer.starts_with(name), "{rule}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_an_error_and_not_absent() {
        let dir = tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let files = PolicyFiles { vault: None, user: file("u"), system: file("s") };
        fs::create_dir(file("u")).unwrap();
        decided(&files).unwrap_err();
        fs::remove_dir(file("u")).unwrap();
        fs::write(file("u"), "[defaults]\nnetworked = \"alow\"\n").unwrap();
        assert_eq!(decided(&files).unwrap_err().code(), Code::InvalidConfig);
        assert_eq!(read_policy(&file("none")).unwrap_err().code(), Code::InvalidArgument);
    }
}
