//! Filling an image with files, inside a virtual machine.
//!
//! The guest sets owners, device nodes and attributes as root, nothing is mounted on the host, and a hostile archive can
//! only attack the guest. If anything fails the machine is killed and the caller discards the image.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::ports::{EntryKind, RootfsEntry, RootfsSink, Timestamp};
use agentiso_core::progress::Progress;
use agentiso_core::{Code, Failure, WorkspaceId};
use agentiso_images::source::{ImportLimits, RootfsSource, Summary};
use agentiso_proto::{Configure, TreeEntry, TreeKind, TreeOptions};
use agentiso_vmm::link::{LinkError, TreeWriter};
use agentiso_vmm::qemu::{DiskFile, Memory};
use agentiso_vmm::{Launch, Machine, RestoreFrom, User, root_disk};
use tokio::runtime::Handle;
use uuid::Uuid;

use crate::Installation;

/// Memory of the machine that fills images: much of what it writes is in its page cache first.
const MEMORY_MB: u32 = 512;
/// Writing back what is in the page cache may take a while on a slow disk.
const STOP_LIMIT: Duration = Duration::from_secs(300);
/// Where the agent puts a disk that it does not enter.
const TARGET: &str = "/newroot";
const CONTENT_BYTES: usize = 256 * 1024;

impl Installation {
    /// Writes all entries of `source` to the blank file system at `rootfs`.
    pub(crate) async fn fill(
        &self,
        rootfs: &Path,
        source: Box<dyn RootfsSource>,
        limits: ImportLimits,
        progress: &Arc<dyn Progress>,
    ) -> Result<Summary, Failure> {
        let host = self.host()?;
        let kernel = self.prepare_kernel(progress).await?;
        let hardware = self.hardware(&host, &kernel, 1, MEMORY_MB).await;
        let template = self.base_template(&host, &kernel, hardware, progress).await?;
        let id = WorkspaceId::from_uuid(Uuid::now_v7());
        let dir = self.machine_dir(id, &host)?;
        let _handed_over =
            HandedOver::to(rootfs, dir.user()).map_err(|error| self.io("hand over the image", error))?;
        let launch = Launch {
            dir: dir.path(),
            hardware,
            user: dir.user().cloned(),
            disk: DiskFile::File { path: rootfs.to_owned(), format: "raw", below: Vec::new(), own: None },
            memory: Memory::Private(template.ram()),
            ephemeral: true,
            spare_port: false,
        };
        let machine = Machine::restore(&host, launch, RestoreFrom::template(template.device())).await?;
        let configure = Configure { root: Some(root_disk(false)), ..Configure::default() };
        machine.at_start("mounting the new image", machine.guest().configure(configure)).await?;
        let written = tokio::select! {
            written = stream(&machine, source, limits, progress) => written,
            crash = machine.crashed() => Err(crash.into()),
        };
        let summary = written?;
        machine.during("writing the image back", STOP_LIMIT, machine.guest().sync()).await?;
        if !machine.stop(STOP_LIMIT).await {
            return Err(Failure::new(
                Code::Timeout,
                "the machine that fills the image did not write it back in time",
            )
            .with_remedy("try again when the disk is less busy"));
        }
        Ok(summary)
    }
}

async fn stream(
    machine: &Machine,
    source: Box<dyn RootfsSource>,
    limits: ImportLimits,
    progress: &Arc<dyn Progress>,
) -> Result<Summary, Failure> {
    let options = TreeOptions { owners: true };
    let writer = match machine.guest().receive_tree(TARGET.as_bytes(), options).await {
        Ok(writer) => writer,
        Err(error) => return Err(machine.explain(error).await.into()),
    };
    let sink = GuestSink { writer, handle: Handle::current(), buffer: vec![0; CONTENT_BYTES], failed: None };
    let progress = progress.clone();
    let (sink, streamed) = off_thread(move || {
        let (mut source, mut sink) = (source, sink);
        let streamed = source.stream(&mut sink, progress.as_ref(), limits);
        (sink, streamed)
    })
    .await;
    match (streamed, sink.failed) {
        // The source only saw a failed write; the guest's error says why.
        (_, Some(error)) => Err(machine.explain(error).await.into()),
        (Err(error), None) => Err(error.into()),
        (Ok(summary), None) => match sink.writer.finish().await {
            Ok(_) => Ok(summary),
            Err(error) => Err(machine.explain(error).await.into()),
        },
    }
}

/// Sends entries to the agent. Used on a blocking thread, which waits for the guest.
struct GuestSink {
    writer: TreeWriter,
    handle: Handle,
    buffer: Vec<u8>,
    failed: Option<LinkError>,
}

impl RootfsSink for GuestSink {
    fn entry(&mut self, entry: &RootfsEntry, content: &mut dyn Read) -> io::Result<()> {
        let Self { writer, handle, buffer, failed } = self;
        let mut tell = |told: Result<(), LinkError>| {
            told.map_err(|error| {
                let said = io::Error::other(error.clone());
                *failed = Some(error);
                said
            })
        };
        tell(handle.block_on(writer.entry(&tree_entry(entry))))?;
        let EntryKind::File { size } = entry.kind else { return Ok(()) };
        let mut left = size;
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
            content.read_exact(&mut buffer[..want])?;
            tell(handle.block_on(writer.content(&buffer[..want])))?;
            left -= want as u64;
        }
        Ok(())
    }
}

fn tree_entry(entry: &RootfsEntry) -> TreeEntry {
    let kind = match &entry.kind {
        EntryKind::Directory => TreeKind::Directory,
        EntryKind::File { size } => TreeKind::File { size: *size },
        EntryKind::Symlink { target } => TreeKind::Symlink { target: target.clone() },
        EntryKind::Hardlink { target } => TreeKind::Hardlink { target: target.clone() },
        EntryKind::CharDevice { major, minor } => {
            TreeKind::Device { block: false, major: *major, minor: *minor }
        }
        EntryKind::BlockDevice { major, minor } => {
            TreeKind::Device { block: true, major: *major, minor: *minor }
        }
        EntryKind::Fifo => TreeKind::Fifo,
        EntryKind::Removed => TreeKind::Removed,
        EntryKind::Emptied => TreeKind::Emptied,
    };
    let Timestamp { seconds, nanos } = entry.mtime;
    TreeEntry {
        path: entry.path.clone(),
        kind,
        mode: entry.mode,
        uid: entry.uid,
        gid: entry.gid,
        modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)),
        xattrs: entry.xattrs.clone(),
    }
}

/// A file that belongs to QEMU's user until this is dropped.
struct HandedOver<'a>(Option<&'a Path>);

impl<'a> HandedOver<'a> {
    fn to(file: &'a Path, user: Option<&User>) -> io::Result<Self> {
        let Some((uid, gid)) = user.map(User::owner) else { return Ok(Self(None)) };
        #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
        in_place(|| std::os::unix::fs::chown(file, Some(uid), Some(gid)))?;
        Ok(Self(Some(file)))
    }
}

impl Drop for HandedOver<'_> {
    fn drop(&mut self) {
        if let Some(file) = self.0 {
            let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            // An image that still belongs to the other user can be read, and nobody writes to it any more.
            #[expect(clippy::disallowed_methods, reason = "run `in_place`")]
            let _ = in_place(|| std::os::unix::fs::chown(file, Some(uid), Some(gid)));
        }
    }
}
