//! Standing on something further down.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentiso_core::ports::{DiskError, DiskSource, Freezing, partial_name};

use super::Lab;

const SIZE: u64 = 3 << 30;
/// The last bytes one table of a qcow2 file maps and the first of the next.
const SEAM: u64 = (512 << 20) - (64 << 10);

pub(super) fn all(lab: Lab<'_>) {
    for layers in [1, 3, 12] {
        let dir = lab.dir.join(layers.to_string());
        fs::create_dir(&dir).expect("a directory");
        let lab = Lab { dir: &dir, ..lab };
        let chain = Chain::make(lab, layers);
        a_disk_stays_where_it_stands_already(lab, &chain);
        it_reads_the_same_on_any_ancestor(lab, &chain);
        it_reads_the_same_alone_on_the_image(lab, &chain);
        if layers > 1 {
            an_open_view_outlives_collapse_and_removal(lab, &chain);
            only_an_ancestor_will_do(lab, &chain);
        }
    }
}

/// Disks frozen one after the other, each with a mark of its own.
struct Chain {
    image: DiskSource,
    frozen: Vec<PathBuf>,
    top: PathBuf,
}

impl Chain {
    fn make(lab: Lab<'_>, layers: usize) -> Self {
        let image = lab.dir.join("base.img");
        fs::write(&image, vec![7; 1_000_448]).expect("a raw image");
        let image = DiskSource::Raw(image);
        let mut active = lab.create("layer-0", &image, SIZE);
        let mut frozen = Vec::new();
        mark(lab, &active, 0);
        for layer in 1..layers {
            let (old, new) = lab.freeze(&active, &format!("layer-{layer}"), SIZE);
            frozen.push(old);
            active = new;
            mark(lab, &active, layer);
        }
        Self { image, frozen, top: active }
    }

    /// Checks that the topmost disk has the marks of all.
    fn check(&self, lab: Lab<'_>) {
        let view = lab.disks.open(&self.top).expect("a disk that opens");
        for layer in 0..=self.frozen.len() {
            for (offset, text) in marks(layer) {
                let mut found = vec![0; text.len()];
                view.read_at(offset, &mut found).expect("a mark");
                assert_eq!(String::from_utf8_lossy(&found), text);
            }
        }
        let mut zeros = vec![1; 64 << 10];
        view.read_at(128 << 10, &mut zeros).expect("zeros");
        assert!(zeros.iter().all(|&byte| byte == 0), "what was made zeros is not");
        assert_eq!(lab.read(&self.top, 200 << 10, 5), [7; 5]);
    }

    fn stands_on_something(&self, lab: Lab<'_>) -> bool {
        lab.disks.freezing() == Freezing::Overlay
    }
}

fn marks(layer: usize) -> [(u64, String); 3] {
    let at = layer as u64 * 1000;
    [at, SEAM + (64 << 10) - 500 + at, (1 << 30) + layer as u64 * (300 << 10)]
        .map(|at| (at, format!("mark of {layer}")))
}

fn mark(lab: Lab<'_>, disk: &Path, layer: usize) {
    for (offset, text) in marks(layer) {
        lab.scribe.write(disk, offset, text.as_bytes());
    }
    if layer == 0 {
        lab.scribe.zero(disk, 128 << 10, 64 << 10);
    }
}

fn a_disk_stays_where_it_stands_already(lab: Lab<'_>, chain: &Chain) {
    let inode = fs::metadata(&chain.top).expect("the disk").ino();
    let onto = lab.disks.parent(&chain.top).expect("a parent").unwrap_or_else(|| chain.image.clone());
    lab.disks.collapse(&chain.top, &onto).expect("nothing to do");
    assert_eq!(fs::metadata(&chain.top).expect("the disk").ino(), inode);
    chain.check(lab);
}

fn it_reads_the_same_on_any_ancestor(lab: Lab<'_>, chain: &Chain) {
    for ancestor in chain.frozen.iter().rev() {
        let partial = lab.dir.join(partial_name(chain.top.file_name().expect("a name")));
        if chain.stands_on_something(lab) && ancestor != &chain.frozen[chain.frozen.len() - 1] {
            fs::write(&partial, b"left by somebody who was killed").expect("a partial file");
            chain.check(lab);
        }
        if chain.stands_on_something(lab) {
            fs::set_permissions(&chain.top, fs::Permissions::from_mode(0o640)).expect("permissions");
        }
        lab.disks.collapse(&chain.top, &DiskSource::Layer(ancestor.clone())).expect("a collapsed disk");
        assert!(!partial.exists());
        if chain.stands_on_something(lab) {
            assert_eq!(fs::metadata(&chain.top).expect("the disk").permissions().mode() & 0o777, 0o640);
            let parent = DiskSource::Layer(ancestor.canonicalize().expect("a path"));
            assert_eq!(lab.disks.parent(&chain.top).expect("a parent"), Some(parent));
        }
        chain.check(lab);
    }
}

fn it_reads_the_same_alone_on_the_image(lab: Lab<'_>, chain: &Chain) {
    let referenced = lab.referenced_bytes(&chain.top);
    lab.disks.collapse(&chain.top, &chain.image).expect("a collapsed disk");
    if chain.stands_on_something(lab) {
        let image = DiskSource::Raw(chain.image.path().canonicalize().expect("a path"));
        assert_eq!(lab.disks.parent(&chain.top).expect("a parent"), Some(image));
    }
    assert_eq!(lab.referenced_bytes(&chain.top), referenced);
    chain.check(lab);
    // It goes on living: more is written to it, and it is frozen again.
    mark(lab, &chain.top, 0);
    chain.check(lab);
}

fn an_open_view_outlives_collapse_and_removal(lab: Lab<'_>, chain: &Chain) {
    let (frozen, active) = lab.freeze(&chain.top, "late", SIZE);
    lab.scribe.write(&active, 0, b"late");
    let view = lab.disks.open(&active).expect("a disk that opens");
    lab.disks.collapse(&active, &chain.image).expect("a collapsed disk");
    if frozen != chain.top {
        fs::remove_file(&frozen).expect("the frozen disk removed");
    }
    let mut mark = [0; 4];
    view.read_at(0, &mut mark).expect("a mark");
    assert_eq!(mark, *b"late");
    assert_eq!(lab.read(&active, 0, 4), b"late");
}

fn only_an_ancestor_will_do(lab: Lab<'_>, chain: &Chain) {
    let stranger = lab.create("stranger", &chain.image, SIZE);
    let names = lab.names();
    for onto in [stranger, lab.path("missing")] {
        let refused = lab.disks.collapse(&chain.top, &DiskSource::Layer(onto));
        match lab.disks.freezing() {
            Freezing::Overlay => {
                assert!(matches!(refused, Err(DiskError::NotAnAncestor { .. })), "{refused:?}")
            }
            Freezing::Copy => refused.expect("nothing to do"),
        }
    }
    assert_eq!(lab.names(), names);
}
