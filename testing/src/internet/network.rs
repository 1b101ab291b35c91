//! The namespaces, connected, with their servers.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::arrivals::Arrivals;
use super::certificates::Certificates;
use super::namespace::{Namespace, Running};
use super::places::{HOST, HOST_PRIVATE, NAMESERVER, RESOLVER, ROUTER, SERVERS};
use super::web::Site;
use super::{datagrams, git, names, packages, web};

/// A host and an internet.
pub struct Internet {
    // In the order in which they end: the servers before the namespaces they hold.
    _servers: Running,
    _services: Running,
    host: Namespace,
    outside: Namespace,
    arrivals: Arrivals,
    services: Arrivals,
    directory: tempfile::TempDir,
}

impl Internet {
    /// Connects two namespaces and starts the servers.
    ///
    /// # Panics
    ///
    /// If that is not possible: we are not root, or `ip`, `git` or `dpkg-deb` is missing.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path();
        git::create(path);
        packages::create(path);
        let certificates = Certificates::new();
        write(&path.join("authority.pem"), &certificates.authority);
        write(&path.join("resolv.conf"), &format!("nameserver {NAMESERVER}\noptions timeout:1\n"));

        let (host, outside) = (Namespace::new(), Namespace::new());
        connect(&host, &outside);
        let (arrivals, services) = (Arrivals::default(), Arrivals::default());
        let serve = |namespace: &Namespace, seen: &Arrivals, is_outside: bool| {
            let (seen, certificates, path) = (seen.clone(), certificates.clone(), path.to_owned());
            namespace.serve(move |ready| async move {
                let watched = seen.watch();
                let (repositories, packages) = (path.clone(), path);
                let site = Site { arrivals: seen.clone(), certificates, repositories, packages };
                web::serve(Rc::new(site)).await;
                if is_outside {
                    for address in SERVERS {
                        datagrams::serve(address, &seen).await;
                    }
                    for address in [NAMESERVER, RESOLVER] {
                        names::serve(address, &seen).await;
                    }
                }
                let _ = ready.send(());
                watched.await;
            })
        };
        let (servers, local) = (serve(&outside, &arrivals, true), serve(&host, &services, false));
        Self { _servers: servers, _services: local, host, outside, arrivals, services, directory }
    }

    /// The namespace in which the daemon or router under test runs.
    pub fn host(&self) -> &Namespace {
        &self.host
    }

    /// The namespace of the servers.
    pub fn outside(&self) -> &Namespace {
        &self.outside
    }

    /// What arrived at the servers.
    pub fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// What arrived at the services of the host, and every packet in its namespace. No guest may reach these services.
    pub fn host_arrivals(&self) -> &Arrivals {
        &self.services
    }

    /// The file with the certificate authority of the servers.
    pub fn authority(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// The file that names the host's resolver.
    pub fn resolv_conf(&self) -> PathBuf {
        self.directory.path().join("resolv.conf")
    }

    /// A command that runs a program in the host's namespace, with its resolver in `/etc/resolv.conf`, as a user.
    pub fn command(&self, user: u32, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", self.host.path().display()));
        command.args(["unshare", "--mount", "sh", "-c"]);
        command.arg("mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"").arg(self.resolv_conf());
        if user != 0 {
            let ids = [format!("--reuid={user}"), format!("--regid={user}")];
            command.arg("setpriv").args(ids).args(["--clear-groups", "--"]);
        }
        command.arg(program);
        command
    }
}

impl Default for Internet {
    fn default() -> Self {
        Self::new()
    }
}

fn connect(host: &Namespace, outside: &Namespace) {
    let other = outside.path();
    host.ip(&format!("link add uplink type veth peer name uplink netns {}", other.display()));
    host.ip(&format!("address add {HOST}/24 dev uplink"));
    host.ip(&format!("address add {HOST_PRIVATE}/32 dev lo"));
    outside.ip(&format!("address add {ROUTER}/24 dev uplink"));
    host.ip("link set uplink up");
    outside.ip("link set uplink up");
    for address in SERVERS {
        outside.ip(&format!("address add {address}/32 dev lo"));
    }
    host.ip(&format!("route add default via {ROUTER}"));
    // IPv6 works on the wire, so that a guest's packets would be seen.
    host.ip("address add 2001:db8::1/64 dev uplink nodad");
    outside.ip("address add 2001:db8::2/64 dev uplink nodad");
    host.ip("route add default via 2001:db8::2");
    // The packets of a router that forwards unchecked would be seen as well.
    host.set("net.ipv4.ping_group_range", "0 2147483647");
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file of the fixture");
}
