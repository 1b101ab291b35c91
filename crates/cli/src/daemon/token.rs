//! The token of those who come over the network.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use agentiso_api::http::Token;
use agentiso_core::{Code, Failure};

/// The least a token must have to be worth anything.
const SHORTEST: usize = 32;

/// Reads the token, or makes one that nobody else can read.
pub fn token(path: &Path) -> Result<Token, Failure> {
    let trouble =
        |error: io::Error| Failure::new(Code::of_io(&error), format!("{}: {error}", path.display()));
    let refuse = |why: &str| {
        Err(Failure::new(Code::InvalidConfig, format!("{}: {why}", path.display()))
            .with_remedy("make it 32 random characters or more, readable by its owner alone: chmod 600"))
    };
    match fs::metadata(path) {
        Ok(metadata) if metadata.mode() & 0o077 != 0 => refuse("others can read the token"),
        Ok(_) => {
            let text = fs::read_to_string(path).map_err(trouble)?;
            match text.trim() {
                short if short.len() < SHORTEST => refuse("the token is too short"),
                token => Ok(Token::new(token.to_owned())),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(path).map_err(trouble),
        Err(error) => Err(trouble(error)),
    }
}

fn make(path: &Path) -> io::Result<Token> {
    let mut bytes = [0; 32];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    let token = bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    writeln!(file, "{token}")?;
    Ok(Token::new(token))
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
