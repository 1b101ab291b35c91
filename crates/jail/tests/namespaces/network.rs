//! Networks: none, the host's, and one that is given.

use std::fs::{self, File};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;

use agentiso_jail::{JailError, Network, NetworkNamespace, Spec, Stdio};

use crate::place::{Place, launcher, run, sh, with_pipes};

/// A process that holds a network namespace, and the user namespace that owns it unless this is root's.
struct Holder(process::Child);

impl Holder {
    fn new() -> Self {
        let flags = if rustix::process::geteuid().is_root() { "-n" } else { "-rn" };
        let mut child = process::Command::new("unshare")
            .args([flags, "sh", "-c", "echo; read _"])
            .stdin(process::Stdio::piped())
            .stdout(process::Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Self(child)
    }

    fn open(&self, namespace: &str) -> File {
        File::open(format!("/proc/{}/ns/{namespace}", self.0.id())).unwrap()
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

as_everyone! {
    fn a_given_network_is_entered() {
        let place = Place::new();
        let holder = Holder::new();
        let network = holder.open("net");
        let wanted = format!("net:[{}]", network.metadata().unwrap().ino());
        let user = (!rustix::process::geteuid().is_root()).then(|| holder.open("user").into());
        let launcher = launcher().in_network(NetworkNamespace { network: network.into(), user });
        let spec = Spec { network: Network::Namespace, ..place.spec() };
        let script = sh("readlink /proc/self/ns/net; id -u; touch made; stat -c %u made");
        let output = with_pipes(|stdio| launcher.run(&spec, &script, stdio)).unwrap().finish();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(output.text(), format!("{wanted}\n{own}\n{own}"));
        assert_eq!(fs::metadata(place.workspace().join("made")).unwrap().uid(), own);
    }
}

#[test]
fn a_network_that_is_not_given_is_an_error() {
    let place = Place::new();
    let spec = Spec { network: Network::Namespace, ..place.spec() };
    let error = launcher().run(&spec, &sh("true"), Stdio::null().unwrap()).err().unwrap();
    assert!(matches!(error, JailError::Invalid(_)), "{error:?}");
}

as_everyone! {
    fn on_the_hosts_network_landlock_still_guards_abstract_sockets() {
        let place = Place::new();
        let name = format!("jail-host-{}", process::id());
        let _socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let script = format!(
            "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;
               print connect($s, pack_sockaddr_un(\"\\0{name}\")) ? \"reached \" : $!+0, \" \";
               socket($s, AF_INET, SOCK_STREAM, 0) or die;
               print connect($s, pack_sockaddr_in({}, inet_aton(\"127.0.0.1\"))) ? \"reached\" : $!;'",
            tcp.local_addr().unwrap().port()
        );
        let spec = Spec { network: Network::Host, ..place.spec() };
        assert_eq!(run(&spec, &sh(&script)).text(), format!("{} reached", libc::EPERM));
    }
}
