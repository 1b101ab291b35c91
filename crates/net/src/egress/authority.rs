//! The certificate authority of a workspace, and the certificates it makes for the hosts that are decrypted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use agentiso_core::{Code, Explain, Secret, WorkspaceId};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use zeroize::Zeroizing;

use super::setup::AuthorityKey;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Guests that were suspended may have a clock that is behind.
const BACKDATED: Duration = Duration::from_secs(365 * 24 * 3600);
const AUTHORITY_LIFETIME: Duration = Duration::from_secs(3650 * 24 * 3600);
const LEAF_LIFETIME: Duration = Duration::from_secs(90 * 24 * 3600);
/// A certificate that is older than this is made anew.
const LEAF_REUSE: Duration = DAY;
/// Certificates that are kept for one workspace.
const MAX_LEAVES: usize = 256;

/// The authority or one of its certificates cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("could not make a certificate: {0}")]
pub struct AuthorityError(String);

impl Explain for AuthorityError {
    fn code(&self) -> Code {
        Code::Internal
    }

    fn remedy(&self) -> Option<String> {
        None
    }
}

impl From<rcgen::Error> for AuthorityError {
    fn from(error: rcgen::Error) -> Self {
        Self(error.to_string())
    }
}

/// Makes a certificate authority for a workspace. Its key stays on the host; its certificate goes into the guest.
pub fn create_authority(workspace: WorkspaceId) -> Result<AuthorityKey, AuthorityError> {
    let key = KeyPair::generate()?;
    let certificate = authority_params(workspace).self_signed(&key)?;
    Ok(AuthorityKey { certificate: certificate.pem(), key: Secret::new(key.serialize_pem()) })
}

/// The same for the same workspace, so that only the key has to be kept.
fn authority_params(workspace: WorkspaceId) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "agentiso");
    params.distinguished_name.push(DnType::CommonName, format!("agentiso workspace {workspace}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_lifetime(&mut params, AUTHORITY_LIFETIME);
    params
}

fn set_lifetime(params: &mut CertificateParams, lifetime: Duration) {
    let now = SystemTime::now();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + lifetime).into();
}

/// The authority of an attached workspace.
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    leaves: Mutex<HashMap<String, Leaf>>,
}

#[derive(Clone)]
struct Leaf {
    key: Arc<CertifiedKey>,
    made: Instant,
}

impl Authority {
    pub(super) fn open(workspace: WorkspaceId, key: &AuthorityKey) -> Result<Self, AuthorityError> {
        let key = KeyPair::from_pem(key.key.expose())?;
        Ok(Self { issuer: Issuer::new(authority_params(workspace), key), leaves: Mutex::default() })
    }

    /// A certificate for a host, made now or within the last day.
    pub(super) fn leaf(&self, host: &str) -> Result<Arc<CertifiedKey>, AuthorityError> {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(leaf) = leaves.get(host).filter(|leaf| leaf.made.elapsed() < LEAF_REUSE) {
            return Ok(Arc::clone(&leaf.key));
        }
        let key = Arc::new(self.make(host)?);
        if leaves.len() >= MAX_LEAVES {
            let oldest = leaves.iter().min_by_key(|(_, leaf)| leaf.made).map(|(host, _)| host.clone());
            oldest.and_then(|host| leaves.remove(&host));
        }
        leaves.insert(host.to_owned(), Leaf { key: Arc::clone(&key), made: Instant::now() });
        Ok(key)
    }

    fn make(&self, host: &str) -> Result<CertifiedKey, AuthorityError> {
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        // The name is in the alternative names; a common name may have at most 64 characters.
        params.distinguished_name.push(DnType::OrganizationName, "agentiso");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        set_lifetime(&mut params, LEAF_LIFETIME);
        let key = KeyPair::generate()?;
        let certificate: CertificateDer<'static> = params.signed_by(&key, &self.issuer)?.der().clone();
        let der = Zeroizing::new(key.serialize_der());
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.as_slice()));
        let signing = rustls::crypto::ring::sign::any_ecdsa_type(&private)
            .map_err(|error| AuthorityError(error.to_string()))?;
        Ok(CertifiedKey::new(vec![certificate], signing))
    }
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Authority(***)")
    }
}

/// One certificate for one connection: which one was decided when its client hello was read.
#[derive(Debug)]
pub(super) struct OneLeaf(pub(super) Arc<CertifiedKey>);

impl ResolvesServerCert for OneLeaf {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> WorkspaceId {
        WorkspaceId::from_uuid(uuid::Uuid::nil())
    }

    #[test]
    fn certificates_are_kept_within_bounds() {
        let authority = Authority::open(workspace(), &create_authority(workspace()).unwrap()).unwrap();
        let first = authority.leaf("a.example").unwrap();
        assert!(Arc::ptr_eq(&first, &authority.leaf("a.example").unwrap()), "made once");
        for number in 0..MAX_LEAVES + 3 {
            authority.leaf(&format!("{number}.example")).unwrap();
        }
        assert_eq!(authority.leaves.lock().unwrap().len(), MAX_LEAVES);
        assert!(!Arc::ptr_eq(&first, &authority.leaf("a.example").unwrap()), "the oldest made room");
    }

    #[test]
    fn the_key_is_not_shown() {
        let key = create_authority(workspace()).unwrap();
        assert!(key.key.expose().contains("PRIVATE KEY") && !format!("{key:?}").contains("PRIVATE KEY"));
        assert!(!serde_json::to_string(&key).unwrap().contains("PRIVATE KEY"));
    }
}
