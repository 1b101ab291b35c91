//! The public part of the host's `/etc`, and accounts of the sandbox's own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::root::{Entry, errno};
use super::{Step, StepFailed, tree};
use crate::kernel::mounts::Protection;
use crate::spec::{Network, Spec};

/// Configuration that programs need and that is the same for everyone. Files with accounts, keys and tokens are not here.
const SHOWN: [&str; 42] = [
    "ImageMagick-6",
    "alternatives",
    "bash.bashrc",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "default/locale",
    "ethertypes",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "lsb-release",
    "magic",
    "magic.mime",
    "maven",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "papersize",
    "perl",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "protocols",
    "python3",
    "rpc",
    "services",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];
/// Configuration of the host's network, for sandboxes that use it.
const OF_NETWORK: [&str; 2] = ["hosts", "resolv.conf"];

/// Everything in `/etc`.
pub(super) fn entries(spec: &Spec) -> Result<Vec<Entry>, StepFailed> {
    let mut entries = vec![
        file("passwd", passwd(spec)),
        file("group", group()),
        file("hostname", format!("{}\n", spec.hostname)),
    ];
    let mut shown: Vec<&str> = SHOWN.to_vec();
    if spec.network == Network::Off {
        entries.push(file("hosts", format!("127.0.0.1 localhost {0}\n::1 localhost {0}\n", spec.hostname)));
    } else {
        shown.extend(OF_NETWORK);
    }
    for name in shown {
        let at = Path::new("/etc").join(name);
        entries.extend(public(&at).map_err(errno).step(|| format!("show {}", at.display()))?);
    }
    Ok(entries)
}

/// A file or directory of the host's `/etc`. A link into `/usr` stays a link; another shows what it leads to.
fn public(at: &Path) -> io::Result<Option<Entry>> {
    let real = match at.canonicalize() {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => {
            return Ok(None);
        }
        real => real?,
    };
    let is_link = fs::symlink_metadata(at)?.is_symlink();
    if is_link && real.starts_with("/usr") {
        return Ok(Some(Entry::Link { at: at.to_owned(), to: real }));
    }
    let (mount, is_dir) = tree(&real, Protection::READONLY)?;
    Ok(Some(Entry::Tree { at: at.to_owned(), mount, is_dir }))
}

fn file(name: &str, content: String) -> Entry {
    Entry::File { at: PathBuf::from("/etc").join(name), content }
}

fn passwd(spec: &Spec) -> String {
    let user = rustix::process::geteuid().as_raw();
    let group = rustix::process::getegid().as_raw();
    let home = spec.home.display();
    let root_home = if user == 0 { home.to_string() } else { "/".to_owned() };
    let mut text =
        format!("root:x:0:0:root:{root_home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n");
    if user != 0 && user != 65534 {
        text.push_str(&format!("agent:x:{user}:{group}:agent:{home}:/bin/sh\n"));
    }
    text
}

fn group() -> String {
    let group = rustix::process::getegid().as_raw();
    let mut text = "root:x:0:\nnogroup:x:65534:\n".to_owned();
    if group != 0 && group != 65534 {
        text.push_str(&format!("agent:x:{group}:\n"));
    }
    text
}
