//! The token of those who come over the network.
#![expect(clippy::disallowed_methods, reason = "before the daemon serves")]

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use agentiso_api::http::Token;
use agentiso_core::{Code, Failure};
use agentiso_engine::new_token;

/// The least a token must have to be worth anything.
const SHORTEST: usize = 32;

/// Reads the token, or creates one that only the user can read.
pub fn token(path: &Path) -> Result<Token, Failure> {
    let refuse = |why: &str| {
        Err(Failure::new(Code::InvalidConfig, format!("{}: {why}", path.display()))
            .with_remedy("use at least 32 random characters, readable only by the owner: chmod 600"))
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => refuse("others can read the token"),
        Ok(_) => {
            let text = fs::read_to_string(path).map_err(|error| trouble(path, &error))?;
            match text.trim() {
                short if short.len() < SHORTEST => refuse("the token is too short"),
                token => Ok(Token::new(token.to_owned())),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path),
        Err(error) => Err(trouble(path, &error)),
    }
}

fn make(path: &Path) -> Result<Token, Failure> {
    let token = new_token()?;
    let written = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| writeln!(file, "{token}"));
    written.map_err(|error| trouble(path, &error))?;
    Ok(Token::new(token))
}

fn trouble(path: &Path, error: &io::Error) -> Failure {
    Failure::new(Code::of_io(error), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_and_one_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        token(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let made = fs::read_to_string(&path).unwrap();
        token(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), made);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(token(&path).unwrap_err().code(), Code::InvalidConfig);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "short").unwrap();
        assert_eq!(token(&path).unwrap_err().code(), Code::InvalidConfig);
    }
}
