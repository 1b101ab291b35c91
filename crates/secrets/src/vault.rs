//! The store: read when it is first needed, written as a whole with every change.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agentiso_core::{WorkspaceId, in_clear};
use zeroize::Zeroizing;

use crate::contents::{Authority, Contents, StoredSecret};
use crate::{VaultError, key, seal};

/// Secrets of one installation.
const MAX_SECRETS: usize = 1024;
/// The beginning of every placeholder, so that a person recognises one.
const PREFIX: &str = "agentiso_secret_";

/// The secrets of an installation, and what workspaces may use of them. Blocks: for use off the async threads.
#[derive(Debug)]
pub struct Vault {
    dir: PathBuf,
    known: Mutex<Option<Contents>>,
}

impl Vault {
    /// The secrets in a directory. Nothing is read or created yet.
    pub fn at(dir: PathBuf) -> Self {
        Self { dir, known: Mutex::new(None) }
    }

    /// Stores a secret; says whether it replaced one. Workspaces that may use it get the new value.
    pub fn set(&self, name: &str, secret: StoredSecret) -> Result<bool, VaultError> {
        self.change(|contents| {
            if contents.secrets.len() >= MAX_SECRETS && !contents.secrets.contains_key(name) {
                return Err(VaultError::TooMany(MAX_SECRETS));
            }
            Ok(contents.secrets.insert(name.to_owned(), secret).is_some())
        })
    }

    /// All secrets, with the number of workspaces that may use each.
    pub fn list(&self) -> Result<BTreeMap<String, (StoredSecret, usize)>, VaultError> {
        self.look(|contents| {
            let uses = |name: &String| {
                contents
                    .workspaces
                    .values()
                    .filter(|workspace| workspace.placeholders.contains_key(name))
                    .count()
            };
            let all = contents.secrets.iter();
            all.map(|(name, secret)| (name.clone(), (secret.clone(), uses(name)))).collect()
        })
    }

    /// Removes a secret, also from the workspaces that may use it. Returns those, or nothing if there is no such secret.
    pub fn remove(&self, name: &str) -> Result<Option<Vec<WorkspaceId>>, VaultError> {
        if !self.look(|contents| contents.secrets.contains_key(name))? {
            return Ok(None);
        }
        self.change(|contents| {
            contents.secrets.remove(name);
            let workspaces = contents.workspaces.iter_mut();
            let used = workspaces.filter_map(|(id, one)| one.placeholders.remove(name).map(|_| *id));
            Ok(Some(used.collect()))
        })
    }

    /// The workspaces that may use a secret.
    pub fn users(&self, name: &str) -> Result<Vec<WorkspaceId>, VaultError> {
        self.look(|contents| {
            let uses = contents.workspaces.iter().filter(|(_, one)| one.placeholders.contains_key(name));
            uses.map(|(id, _)| *id).collect()
        })
    }

    /// Sets which secrets a workspace may use. A secret that it could use already keeps its placeholder.
    pub fn grant(&self, id: WorkspaceId, names: &[String]) -> Result<(), VaultError> {
        self.change(|contents| {
            if let Some(unknown) = names.iter().find(|name| !contents.secrets.contains_key(*name)) {
                return Err(VaultError::NotFound((*unknown).clone()));
            }
            let workspace = contents.workspaces.entry(id).or_default();
            workspace.placeholders.retain(|name, _| names.contains(name));
            for name in names {
                if !workspace.placeholders.contains_key(name) {
                    workspace.placeholders.insert(name.clone(), placeholder()?);
                }
            }
            Ok(())
        })
    }

    /// The secrets that a workspace may use, with their placeholders.
    pub fn granted(&self, id: WorkspaceId) -> Result<Vec<(String, String, StoredSecret)>, VaultError> {
        self.look(|contents| {
            let placeholders = contents.workspaces.get(&id).map(|one| &one.placeholders);
            let secret = |(name, placeholder): (&String, &String)| {
                Some((name.clone(), placeholder.clone(), contents.secrets.get(name)?.clone()))
            };
            placeholders.into_iter().flatten().filter_map(secret).collect()
        })
    }

    /// The authority of a workspace, if it has one.
    pub fn authority(&self, id: WorkspaceId) -> Result<Option<Authority>, VaultError> {
        self.look(|contents| contents.workspaces.get(&id)?.authority.clone())
    }

    /// Keeps an authority for a workspace that has none; returns the one it has then.
    pub fn keep_authority(&self, id: WorkspaceId, authority: Authority) -> Result<Authority, VaultError> {
        self.change(|contents| {
            Ok(contents.workspaces.entry(id).or_default().authority.get_or_insert(authority).clone())
        })
    }

    /// Forgets the authority of a workspace that no longer needs one.
    pub fn drop_authority(&self, id: WorkspaceId) -> Result<(), VaultError> {
        self.change(|contents| {
            if let Some(workspace) = contents.workspaces.get_mut(&id) {
                workspace.authority = None;
            }
            Ok(())
        })
    }

    /// Forgets a workspace that was removed.
    pub fn forget(&self, id: WorkspaceId) -> Result<(), VaultError> {
        if self.look(|contents| !contents.workspaces.contains_key(&id))? {
            return Ok(());
        }
        self.change(|contents| {
            contents.workspaces.remove(&id);
            Ok(())
        })
    }

    fn look<T>(&self, look: impl FnOnce(&Contents) -> T) -> Result<T, VaultError> {
        let mut known = self.lock();
        Ok(look(self.load(&mut known)?))
    }

    /// Changes everything or, if it fails, nothing.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Contents) -> Result<T, VaultError>,
    ) -> Result<T, VaultError> {
        let mut known = self.lock();
        let mut contents = self.load(&mut known)?.clone();
        let result = change(&mut contents)?;
        self.store(&contents)?;
        *known = Some(contents);
        Ok(result)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Contents>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn load<'a>(&self, known: &'a mut Option<Contents>) -> Result<&'a Contents, VaultError> {
        let contents = match known.take() {
            Some(contents) => contents,
            None => self.read()?,
        };
        Ok(known.insert(contents))
    }

    fn read(&self) -> Result<Contents, VaultError> {
        let path = self.sealed();
        let sealed = match std::fs::read(&path) {
            Ok(sealed) => sealed,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Contents::default()),
            Err(source) => return Err(VaultError::Io { what: "read", path, source }),
        };
        let key = key::read(&self.key())?.ok_or_else(|| VaultError::KeyGone(self.key()))?;
        let clear = seal::open(&key, &sealed).ok_or_else(|| VaultError::Damaged(path.clone()))?;
        serde_json::from_slice(&clear).map_err(|_| VaultError::Damaged(path))
    }

    fn store(&self, contents: &Contents) -> Result<(), VaultError> {
        let failed = |path: &Path, source| VaultError::Io { what: "write", path: path.to_owned(), source };
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700).create(&self.dir).map_err(|error| failed(&self.dir, error))?;
        let key = match key::read(&self.key())? {
            Some(key) => key,
            // Never a new key over old secrets: what is sealed would be lost.
            None if self.sealed().exists() => return Err(VaultError::KeyGone(self.key())),
            None => key::create(&self.key())?,
        };
        let clear = in_clear(|| serde_json::to_vec(contents)).map(Zeroizing::new);
        let clear = clear.map_err(|error| failed(&self.sealed(), error.into()))?;
        let sealed = seal::seal(&key, &clear)?;
        let partial = self.dir.join("sealed.new");
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&partial);
        let mut file = file.map_err(|error| failed(&partial, error))?;
        file.write_all(&sealed).and_then(|()| file.sync_all()).map_err(|error| failed(&partial, error))?;
        std::fs::rename(&partial, self.sealed()).map_err(|error| failed(&self.sealed(), error))
    }

    fn key(&self) -> PathBuf {
        self.dir.join("key")
    }

    fn sealed(&self) -> PathBuf {
        self.dir.join("sealed")
    }
}

/// A placeholder that nobody can guess.
fn placeholder() -> Result<String, VaultError> {
    let mut bytes = [0; 16];
    key::random(&mut bytes)?;
    Ok(bytes.iter().fold(PREFIX.to_owned(), |text, byte| format!("{text}{byte:02x}")))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use agentiso_core::{Code, Explain, Secret};

    use super::*;

    const VALUE: &str = "sk-real-value";

    fn workspace(number: u128) -> WorkspaceId {
        WorkspaceId::from_uuid(uuid::Uuid::from_u128(number))
    }

    fn secret() -> StoredSecret {
        StoredSecret {
            value: Secret::new(VALUE.to_owned()),
            hosts: vec!["api.example.com".to_owned()],
            headers: Vec::new(),
        }
    }

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn secrets_survive_and_are_nowhere_in_clear() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("secrets");
        assert!(Vault::at(home.clone()).list().unwrap().is_empty());
        assert!(!home.exists(), "looking creates nothing");
        assert!(!Vault::at(home.clone()).set("TOKEN", secret()).unwrap());
        assert!(Vault::at(home.clone()).set("TOKEN", secret()).unwrap(), "replaced");
        Vault::at(home.clone()).grant(workspace(1), &names(&["TOKEN"])).unwrap();

        let granted = Vault::at(home.clone()).granted(workspace(1)).unwrap();
        assert_eq!((granted[0].0.as_str(), &granted[0].2), ("TOKEN", &secret()));
        assert!(granted[0].1.starts_with(PREFIX) && granted[0].1.len() == PREFIX.len() + 32);
        assert!(!format!("{granted:?}").contains(VALUE));
        for entry in std::fs::read_dir(&home).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{path:?}");
            let bytes = std::fs::read(&path).unwrap();
            for clear in [VALUE, "TOKEN", "api.example.com"] {
                assert!(!bytes.windows(clear.len()).any(|part| part == clear.as_bytes()), "{path:?}");
            }
        }
    }

    #[test]
    fn each_workspace_has_its_own_placeholders_and_keeps_them() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::at(dir.path().join("secrets"));
        vault.set("A", secret()).unwrap();
        vault.set("B", secret()).unwrap();
        vault.grant(workspace(1), &names(&["A"])).unwrap();
        vault.grant(workspace(2), &names(&["A"])).unwrap();
        let of = |number| vault.granted(workspace(number)).unwrap();
        let first = of(1)[0].1.clone();
        assert_ne!(first, of(2)[0].1);
        vault.grant(workspace(1), &names(&["A", "B"])).unwrap();
        assert_eq!(of(1)[0].1, first, "kept");
        assert!(of(3).is_empty(), "another workspace, such as a fork, has none");

        let error = vault.grant(workspace(1), &names(&["A", "C"])).unwrap_err();
        assert_eq!(error.code(), Code::SecretNotFound);
        assert_eq!(of(1).len(), 2, "nothing changed");
        assert_eq!(vault.remove("A").unwrap(), Some(vec![workspace(1), workspace(2)]));
        assert_eq!(vault.remove("A").unwrap(), None);
        assert_eq!((of(1).len(), of(2).len()), (1, 0));
        vault.forget(workspace(1)).unwrap();
        assert!(of(1).is_empty());
    }

    #[test]
    fn damage_is_noticed_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("secrets");
        Vault::at(home.clone()).set("TOKEN", secret()).unwrap();
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(home.join("key"), open).unwrap();
        let error = Vault::at(home.clone()).list().unwrap_err();
        assert!(matches!(error, VaultError::Key { .. }) && error.remedy().unwrap().contains("chmod 600"));

        std::fs::remove_file(home.join("key")).unwrap();
        let before = std::fs::read(home.join("sealed")).unwrap();
        for _ in 0..2 {
            let error = Vault::at(home.clone()).set("OTHER", secret()).unwrap_err();
            assert!(matches!(error, VaultError::KeyGone(_)), "{error}");
        }
        assert_eq!(std::fs::read(home.join("sealed")).unwrap(), before);
        key::create(&home.join("key")).unwrap();
        let error = Vault::at(home.clone()).list().unwrap_err();
        assert!(matches!(error, VaultError::Damaged(_)) && error.code() == Code::DataDamaged);
        assert!(!home.join("key.new").exists());
    }

    #[test]
    fn an_authority_is_kept_once() {
        let dir = tempfile::tempdir().unwrap();
        let vault = Vault::at(dir.path().join("secrets"));
        let authority =
            |text: &str| Authority { certificate: text.to_owned(), key: Secret::new(text.to_owned()) };
        assert_eq!(vault.authority(workspace(1)).unwrap(), None);
        vault.keep_authority(workspace(1), authority("first")).unwrap();
        assert_eq!(vault.keep_authority(workspace(1), authority("second")).unwrap(), authority("first"));
        vault.drop_authority(workspace(1)).unwrap();
        assert_eq!(vault.authority(workspace(1)).unwrap(), None);
    }
}
