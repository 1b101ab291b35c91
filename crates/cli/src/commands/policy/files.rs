//! Where policy files are, and how they are read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use agentiso_config::paths::Paths;
use agentiso_core::{Code, Failure};
use agentiso_policy::command::{CommandPolicies, MAX_FILE_BYTES, PolicyFile, parse_policy};

/// The policy of the system.
const SYSTEM: &str = "/etc/agentiso/policy.toml";

/// The policies for a command: `named`, that of the user beside the configuration file, and that of the system.
pub fn policies(here: &Paths, named: Option<&Path>) -> Result<CommandPolicies, Failure> {
    let named = named.map(read).transpose()?;
    let of_user = here.config_file.with_file_name("policy.toml");
    let of_system = Path::new(SYSTEM);
    let user = if of_user == of_system { None } else { read_if_present(&of_user)? };
    Ok(CommandPolicies::new(named, user, read_if_present(of_system)?))
}

/// Reads a policy file that must exist.
pub fn read(path: &Path) -> Result<PolicyFile, Failure> {
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
