//! The certificate authority of the test internet.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::places::{NAMES, SERVERS};

/// What the servers prove themselves with.
#[derive(Clone)]
pub(super) struct Certificates {
    /// The authority, as a client needs it.
    pub(super) authority: String,
    pub(super) server: Arc<ServerConfig>,
}

impl Certificates {
    /// An authority, and one certificate for every name and address.
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named("Test internet");
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("a certificate");
        let issuer = Issuer::new(params, key);

        let names = NAMES.iter().map(|(name, ..)| (*name).to_owned());
        let names = names.chain(SERVERS.iter().map(ToString::to_string)).collect::<Vec<_>>();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = named("Test server");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der())),
            )
            .expect("a certificate and its key");
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { authority: authority.pem(), server: Arc::new(server) }
    }
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}
