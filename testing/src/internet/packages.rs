//! A package index: a Debian repository with one package, and a Python index with one wheel.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};

/// The name of the package, in both indexes.
const NAME: &str = "greeting";

/// Creates the indexes `apt/` (flat, not signed) and `simple/`.
pub(super) fn create(directory: &Path) {
    create_debian(directory);
    create_python(directory);
}

fn create_debian(directory: &Path) {
    let (apt, source) = (directory.join("apt"), directory.join("source"));
    write(&source.join("DEBIAN/control"), control().as_bytes());
    write(&source.join("usr/share/greeting/hello"), b"hello\n");
    std::fs::create_dir_all(&apt).expect("a directory");
    let package = apt.join("greeting.deb");
    let built = Command::new("dpkg-deb")
        .args(["--root-owner-group", "--build"])
        .args([&source, &package])
        .output()
        .expect("dpkg-deb is needed");
    assert!(built.status.success(), "dpkg-deb: {}", String::from_utf8_lossy(&built.stderr));
    let bytes = std::fs::read(&package).expect("the package");
    let index = format!(
        "{}Filename: ./greeting.deb\nSize: {}\nSHA256: {}\n\n",
        control(),
        bytes.len(),
        hex(&Sha256::digest(&bytes))
    );
    write(&apt.join("Packages"), index.as_bytes());
}

fn control() -> String {
    format!(
        "Package: {NAME}\nVersion: 1.0\nArchitecture: all\nMaintainer: Test <test@web.example>\nDescription: says hello\n"
    )
}

fn create_python(directory: &Path) {
    let wheel = "greeting-1.0-py3-none-any.whl";
    let info = "greeting-1.0.dist-info";
    let files = [
        ("greeting.py".to_owned(), "HELLO = 'hello'\n"),
        (format!("{info}/METADATA"), "Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n"),
        (format!("{info}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (format!("{info}/RECORD"), ""),
    ];
    let simple = directory.join("simple");
    write(&simple.join(NAME).join(wheel), &archive(&files));
    write(&simple.join("index.html"), format!("<a href=\"{NAME}/\">{NAME}</a>").as_bytes());
    write(&simple.join(NAME).join("index.html"), format!("<a href=\"{wheel}\">{wheel}</a>").as_bytes());
}

/// A zip archive of small files, not compressed.
fn archive(files: &[(String, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut directory = Vec::new();
    for (name, text) in files {
        let offset = bytes.len() as u32;
        let size = text.len() as u32;
        let common = [
            &[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0][..],
            &crc32fast::hash(text.as_bytes()).to_le_bytes(),
            &size.to_le_bytes(),
            &size.to_le_bytes(),
            &(name.len() as u16).to_le_bytes(),
            &[0, 0],
        ]
        .concat();
        bytes.extend([b"PK\x03\x04", &common[..], name.as_bytes(), text.as_bytes()].concat());
        let place = [&[0; 10][..], &offset.to_le_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &common[..], &place, name.as_bytes()].concat());
    }
    let count = (files.len() as u16).to_le_bytes();
    let start = (bytes.len() as u32).to_le_bytes();
    let length = (directory.len() as u32).to_le_bytes();
    let end = [b"PK\x05\x06", &[0; 4][..], &count, &count, &length, &start, &[0, 0]].concat();
    [bytes, directory, end].concat()
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
    std::fs::write(path, bytes).expect("a file of the index");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
