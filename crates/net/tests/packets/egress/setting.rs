//! A workspace behind the proxy, with a name server and a public web.

use std::net::Ipv4Addr;
use std::sync::Arc;

use agentiso_core::{Egress, NetworkRules, Secret};
use agentiso_net::egress::{AuthorityKey, GrantedSecret, ProxySetup, Roots, create_authority};
use agentiso_net::{Limits, LogEntry, LogEvent, Router};
use rustls::pki_types::CertificateDer;
use tokio::io::DuplexStream;
use tokio_rustls::client::TlsStream;

use crate::support::web::{self, Pki};
use crate::support::*;

pub const API: &str = "api.example.com";
pub const OTHER: &str = "other.example.com";
pub const SAME: &str = "same.example.com";
pub const PLACEHOLDER: &str = "aiso_0123456789abcdef0123456789abcdef";
pub const VALUE: &str = "sk-the-real-value-42";

/// `API` and `SAME` are on `PUBLIC`, `OTHER` on `OTHER_PUBLIC`.
pub struct Setting {
    pub net: Net,
    pub pki: Pki,
    pub streams: Streams,
    authority: AuthorityKey,
    _names: Nameserver,
}

pub fn proxied() -> NetworkRules {
    NetworkRules { egress: Egress::Proxy, ..online() }
}

pub fn secret() -> GrantedSecret {
    GrantedSecret {
        name: "TOKEN".to_owned(),
        placeholder: PLACEHOLDER.to_owned(),
        value: Secret::new(VALUE.to_owned()),
        hosts: strings(&[API]),
        headers: Vec::new(),
    }
}

impl Setting {
    /// A workspace that has resolved these names.
    pub async fn new(rules: NetworkRules, names: &[&str]) -> Self {
        Self::with_limits(rules, names, Limits::default()).await
    }

    pub async fn with_limits(rules: NetworkRules, names: &[&str], limits: Limits) -> Self {
        let zone = vec![
            (API, vec![a(API, 60, PUBLIC)]),
            (SAME, vec![a(SAME, 60, PUBLIC)]),
            (OTHER, vec![a(OTHER, 60, OTHER_PUBLIC)]),
        ];
        let nameserver = Nameserver::start(zone).await;
        let (pki, uplink) = (Pki::new(), Arc::new(MappedUplink::default()));
        let roots = Roots::Fixed(vec![pki.root.clone()]);
        let router = Router::trusting(settings(vec![nameserver.address]), Arc::clone(&uplink) as _, roots);
        let net = Net::with_router_and_uplink(router, uplink);
        let guest = net.guest_with(2, rules, limits, 65_520);
        let streams = Streams::new(guest, names).await;
        let authority = create_authority(workspace(2)).unwrap();
        let setting = Self { net, pki, streams, authority, _names: nameserver };
        setting.grant(Vec::new());
        setting
    }

    /// Gives the workspace its authority and these secrets.
    pub fn grant(&self, secrets: Vec<GrantedSecret>) {
        let setup = ProxySetup { authority: Some(self.authority.clone()), secrets };
        self.net.router.set_proxy(workspace(2), &setup).unwrap();
    }

    /// What the guest trusts if a connection is decrypted.
    pub fn own_root(&self) -> CertificateDer<'static> {
        web::from_pem(&self.authority.certificate)
    }

    pub async fn connect(&self, to: Ipv4Addr, port: u16) -> DuplexStream {
        self.streams.connect(to, port).await.unwrap()
    }

    /// TLS that is decrypted on the way.
    pub async fn intercepted(&self, name: &str, protocols: &[&str]) -> TlsStream<DuplexStream> {
        let stream = self.connect(PUBLIC, 443).await;
        web::tls(stream, name, self.own_root(), protocols).await.unwrap()
    }

    /// A web server with TLS on `PUBLIC`.
    pub async fn serve_tls(&self, name: &str, protocols: &[&str]) -> web::Web {
        let web = web::Web::default();
        web.tls(self.net.uplink.listen(PUBLIC, 443).await, self.pki.server(name, protocols));
        web
    }

    /// A web server without TLS on `PUBLIC`.
    pub async fn serve_plain(&self) -> web::Web {
        let web = web::Web::default();
        web.plain(self.net.uplink.listen(PUBLIC, 80).await);
        web
    }

    /// Everything that was logged so far, as text.
    pub fn everything_logged(&self) -> String {
        serde_json::to_string(&self.net.router.log(0, usize::MAX)).unwrap()
    }

    pub async fn refused(&self) -> LogEntry {
        self.net.logged(LogEvent::Refused).await
    }
}
