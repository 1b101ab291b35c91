//! TLS to servers: verified against the roots that the host trusts.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long the host's roots are kept before they are read again: the router may run for months.
const KEPT: Duration = Duration::from_secs(3600);
const HANDSHAKE: Duration = Duration::from_secs(30);

/// Whom servers may be certified by.
#[derive(Clone, Debug, Default)]
pub enum Roots {
    /// Whom the host trusts.
    #[default]
    Host,
    /// These alone.
    Fixed(Vec<CertificateDer<'static>>),
}

/// Connects to servers over TLS.
#[derive(Debug)]
pub(crate) struct Trust {
    roots: Roots,
    read: Mutex<Option<(Instant, Arc<ClientConfig>)>>,
}

impl Trust {
    pub(crate) fn new(roots: Roots) -> Self {
        Self { roots, read: Mutex::new(None) }
    }

    /// Opens TLS on a connection. Fails with the reason, in words.
    pub(super) async fn connect(
        &self,
        name: &str,
        protocols: Vec<Vec<u8>>,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, String> {
        let mut config = (*self.config().await?).clone();
        config.alpn_protocols = protocols;
        let server = ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?;
        let connecting = TlsConnector::from(Arc::new(config)).connect(server, stream);
        match tokio::time::timeout(HANDSHAKE, connecting).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(format!("TLS failed: {error}")),
            Err(_) => Err("the server did not answer the TLS handshake".to_owned()),
        }
    }

    async fn config(&self) -> Result<Arc<ClientConfig>, String> {
        {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((when, config)) = read.as_ref().filter(|(when, _)| when.elapsed() < KEPT) {
                let _ = when;
                return Ok(Arc::clone(config));
            }
        }
        let roots = self.roots.clone();
        let store =
            tokio::task::spawn_blocking(move || load(&roots)).await.map_err(|error| error.to_string())?;
        if store.is_empty() {
            return Err("the host has no root certificates; install its package ca-certificates".to_owned());
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| error.to_string())?;
        let config = Arc::new(builder.with_root_certificates(store).with_no_client_auth());
        *self.read.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Instant::now(), Arc::clone(&config)));
        Ok(config)
    }
}

/// The roots that can be used. A single damaged one makes only its own servers unverifiable.
fn load(roots: &Roots) -> RootCertStore {
    let mut store = RootCertStore::empty();
    match roots {
        Roots::Fixed(certificates) => {
            store.add_parsable_certificates(certificates.iter().cloned());
        }
        Roots::Host => {
            let found = rustls_native_certs::load_native_certs();
            for error in &found.errors {
                tracing::warn!(%error, "a root certificate of the host cannot be read");
            }
            store.add_parsable_certificates(found.certs);
        }
    }
    store
}
