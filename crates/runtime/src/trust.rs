//! The certificate authority of a workspace in its guest: where programs find whom to trust.
//!
//! The certificate is added to the bundles of the system, in a block of its own, and to a bundle that variables name for
//! programs with one of their own. Doing it again changes nothing, and it can be taken out again.

use agentiso_core::ports::link::{LinkError, ProcessEvent, WorkspaceLink, WriteOptions};
use agentiso_proto::{ErrorKind, Exec, FileKind};

/// The certificate alone.
const CERTIFICATE: &str = "/etc/agentiso/ca.crt";
/// The certificates of the system, and ours.
const BUNDLE: &str = "/etc/agentiso/ca-bundle.crt";
/// The bundles of Debian and Alpine, Red Hat, Alpine's libraries, and SUSE.
const SYSTEM_BUNDLES: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/ssl/ca-bundle.pem",
];
/// Where the tools of the system look when they make the bundles anew, if the directory is there.
const ANCHORS: &[&str] = &["/usr/local/share/ca-certificates", "/etc/pki/ca-trust/source/anchors"];
const ANCHOR: &str = "agentiso.crt";
const KEYTOOLS: &[&str] = &["/usr/bin/keytool", "/opt/java/openjdk/bin/keytool"];
const KEYTOOL_LIMIT_MS: u64 = 60_000;

const BEGIN: &str = "# agentiso: begin\n";
const END: &str = "# agentiso: end\n";
/// A bundle that is larger is not one.
const MAX_BUNDLE: u64 = 8 << 20;

/// The variables that lead programs with trust of their own to the certificate.
pub(crate) fn variables() -> Vec<(String, String)> {
    let bundle = [
        "SSL_CERT_FILE",      // OpenSSL: Python, Ruby, wget
        "REQUESTS_CA_BUNDLE", // Python's requests
        "PIP_CERT",           // pip
        "CURL_CA_BUNDLE",     // curl
        "GIT_SSL_CAINFO",     // git
        "CARGO_HTTP_CAINFO",  // cargo
        "AWS_CA_BUNDLE",      // AWS tools
    ];
    let mut all: Vec<(String, String)> =
        bundle.iter().map(|&name| (name.to_owned(), BUNDLE.to_owned())).collect();
    all.push(("NODE_EXTRA_CA_CERTS".to_owned(), CERTIFICATE.to_owned()));
    all.push(("DENO_CERT".to_owned(), CERTIFICATE.to_owned()));
    all
}

/// Makes a guest trust a certificate, and no earlier one of ours.
pub(crate) async fn install(guest: &dyn WorkspaceLink, certificate: &str) -> Result<(), LinkError> {
    let known = read(guest, CERTIFICATE).await?;
    if known.as_deref() == Some(certificate) && exists(guest, BUNDLE).await? {
        return Ok(());
    }
    let mut system = String::new();
    for path in SYSTEM_BUNDLES {
        // Several names of one file are one file.
        if !is_file(guest, path).await? {
            continue;
        }
        if let Some(text) = read(guest, path).await? {
            let clean = without_block(&text);
            if clean.len() > system.len() {
                system.clone_from(&clean);
            }
            write(guest, path, &with_block(&clean, certificate)).await?;
        }
    }
    for directory in ANCHORS {
        if exists(guest, directory).await? {
            write(guest, &format!("{directory}/{ANCHOR}"), certificate).await?;
        }
    }
    write(guest, BUNDLE, &with_block(&system, certificate)).await?;
    // Last: it says that all the rest is there.
    write(guest, CERTIFICATE, certificate).await?;
    install_in_java(guest).await
}

/// Takes our certificate out again.
pub(crate) async fn remove(guest: &dyn WorkspaceLink) -> Result<(), LinkError> {
    for path in SYSTEM_BUNDLES {
        if is_file(guest, path).await?
            && let Some(text) = read(guest, path).await?
        {
            write(guest, path, &without_block(&text)).await?;
        }
    }
    let anchors = ANCHORS.iter().map(|directory| format!("{directory}/{ANCHOR}"));
    for path in anchors.chain([BUNDLE.to_owned(), CERTIFICATE.to_owned()]) {
        if exists(guest, &path).await? {
            guest.remove(path.as_bytes(), false).await?;
        }
    }
    Ok(())
}

/// Java has a store of its own, which only its tool can change. Without the tool there is no Java, or one that cannot be
/// changed; then its programs report the certificate.
async fn install_in_java(guest: &dyn WorkspaceLink) -> Result<(), LinkError> {
    for tool in KEYTOOLS {
        if !exists(guest, tool).await? {
            continue;
        }
        let store = ["-cacerts", "-storepass", "changeit", "-alias", "agentiso"];
        // Fails if there is no earlier one.
        run(guest, &[&[*tool, "-delete"][..], &store].concat()).await?;
        run(guest, &[&[*tool, "-importcert", "-noprompt", "-file", CERTIFICATE][..], &store].concat())
            .await?;
    }
    Ok(())
}

async fn run(guest: &dyn WorkspaceLink, words: &[&str]) -> Result<(), LinkError> {
    let argv = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let exec = Exec {
        argv,
        env: Vec::new(),
        workdir: None,
        user: None,
        stdin: false,
        tty: None,
        timeout_ms: Some(KEYTOOL_LIMIT_MS),
    };
    let mut process = match guest.exec(exec).await {
        Err(LinkError::Guest(_)) => return Ok(()),
        started => started?,
    };
    loop {
        match process.next().await {
            Ok(Some(ProcessEvent::Exited(_)) | None) | Err(LinkError::Guest(_)) => return Ok(()),
            Ok(Some(_)) => {}
            Err(error) => return Err(error),
        }
    }
}

/// A bundle with our block at its end.
fn with_block(bundle: &str, certificate: &str) -> String {
    let clean = without_block(bundle);
    let gap = if clean.is_empty() || clean.ends_with('\n') { "" } else { "\n" };
    let end = if certificate.ends_with('\n') { "" } else { "\n" };
    format!("{clean}{gap}{BEGIN}{certificate}{end}{END}")
}

/// A bundle without our block. One that was cut off reaches to the end.
fn without_block(bundle: &str) -> String {
    let Some((before, rest)) = bundle.split_once(BEGIN) else { return bundle.to_owned() };
    let after = rest.split_once(END).map_or("", |(_, after)| after);
    format!("{before}{}", without_block(after))
}

async fn is_file(guest: &dyn WorkspaceLink, path: &str) -> Result<bool, LinkError> {
    Ok(stat(guest, path, false).await?.is_some_and(|kind| kind == FileKind::File))
}

async fn exists(guest: &dyn WorkspaceLink, path: &str) -> Result<bool, LinkError> {
    Ok(stat(guest, path, true).await?.is_some())
}

async fn stat(guest: &dyn WorkspaceLink, path: &str, follow: bool) -> Result<Option<FileKind>, LinkError> {
    match guest.stat(path.as_bytes(), follow).await {
        Ok(found) => Ok(Some(found.kind)),
        Err(LinkError::Guest(error)) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The text of a file; nothing if there is none, or it is no text or too large to be a bundle.
async fn read(guest: &dyn WorkspaceLink, path: &str) -> Result<Option<String>, LinkError> {
    let mut reader = match guest.read_file(path.as_bytes(), 0, Some(MAX_BUNDLE + 1)).await {
        Err(LinkError::Guest(_)) => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    loop {
        match reader.next().await {
            Ok(Some(part)) => bytes.extend_from_slice(&part),
            Ok(None) => break,
            Err(LinkError::Guest(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
        if bytes.len() as u64 > MAX_BUNDLE {
            return Ok(None);
        }
    }
    Ok(String::from_utf8(bytes).ok())
}

async fn write(guest: &dyn WorkspaceLink, path: &str, text: &str) -> Result<(), LinkError> {
    let options = WriteOptions { mode: None, append: false, parents: true };
    let mut writer = guest.write_file(path.as_bytes(), options).await?;
    for part in text.as_bytes().chunks(256 * 1024) {
        writer.write(part).await?;
    }
    writer.finish().await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_is_added_once_and_taken_out_again(bundle in "([a-z ]{0,9}\n){0,5}", first in "[A-Z]{1,9}", second in "[A-Z]{1,9}") {
            let once = with_block(&bundle, &first);
            prop_assert_eq!(&with_block(&once, &first), &once);
            let replaced = with_block(&once, &second);
            prop_assert_eq!(replaced.matches(BEGIN).count(), 1);
            let line = format!("\n{}\n", second);
            prop_assert!(replaced.contains(&line));
            prop_assert_eq!(without_block(&once), bundle);
        }
    }

    #[test]
    fn a_block_that_was_cut_off_is_replaced() {
        assert_eq!(without_block("a\n# agentiso: begin\nhalf"), "a\n");
        assert_eq!(with_block("no end", "C"), "no end\n# agentiso: begin\nC\n# agentiso: end\n");
    }

    #[test]
    fn every_usual_program_has_its_variable() {
        let names: Vec<String> = variables().into_iter().map(|(name, _)| name).collect();
        for name in [
            "SSL_CERT_FILE",
            "REQUESTS_CA_BUNDLE",
            "PIP_CERT",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "CARGO_HTTP_CAINFO",
            "NODE_EXTRA_CA_CERTS",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}
