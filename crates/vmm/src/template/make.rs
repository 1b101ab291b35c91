//! Making templates.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use agentiso_blocking::{in_place, off_thread};
use agentiso_core::ports::{DiskSource, Disks};
use agentiso_proto::{Configure, Exec};

use super::store::{DEVICE, DISK, Partial, RAM, Template, Templates};
use super::{base_key, warm_key};
use crate::VmError;
use crate::hardware::Hardware;
use crate::machine::{GuestKernel, Host, Launch, Machine, RestoreFrom, root_disk};
use crate::qemu::{DiskFile, Memory};
use crate::users::User;

/// Commands that a warm template runs once, so that their files are in the page cache. An image may lack some.
pub(super) const WARM_UP: [&[&str]; 10] = [
    &["/bin/true"],
    &["/bin/sh", "-c", "exit 0"],
    &["/bin/bash", "-c", "/bin/true"],
    &["/bin/uname"],
    &["/bin/echo"],
    &["/bin/cat", "/dev/null"],
    &["/bin/ls", "/"],
    &["/usr/bin/env", "true"],
    &["/usr/bin/git", "--version"],
    &["/usr/bin/python3", "-c", "pass"],
];

/// The disk of an image, for a warm template.
#[derive(Clone, Debug)]
pub struct ImageDisk {
    /// The raw image.
    pub raw: PathBuf,
    /// Identifies its content.
    pub identity: String,
    /// The disk's size.
    pub bytes: u64,
}

/// Makes the base template for some hardware by booting a guest, unless another process has made it.
pub async fn make_base(
    templates: &Templates,
    host: &Host,
    kernel: &GuestKernel,
    hardware: Hardware,
) -> Result<Template, VmError> {
    let key = base_key(host, kernel, &hardware);
    let user = host.user()?;
    let partial = begin(templates, user.as_ref(), &key).await?;
    if let Some(made_meanwhile) = templates.get(&key) {
        return Ok(made_meanwhile);
    }
    let launch = in_place(|| shared_memory(&partial, hardware, user.clone(), DiskFile::Blank, None))?;
    let machine = Machine::boot(host, launch, kernel).await?;
    machine.at_start("its first answer", machine.guest().ping()).await?;
    machine.freeze_into(&partial.dir.join(DEVICE)).await?;
    try_out(&partial, host, hardware, user, DiskFile::Blank).await?;
    publish(partial, vec![RAM, DEVICE], format!("base {hardware:?}"), None).await
}

/// Makes the warm template for an image by cloning the base template, unless another process has made it.
pub async fn make_warm(
    templates: &Templates,
    host: &Host,
    base: (&str, &Template),
    hardware: Hardware,
    image: &ImageDisk,
    disks: &dyn Disks,
) -> Result<Template, VmError> {
    let (base_key, base) = base;
    let key = warm_key(base_key, &image.identity, image.bytes, disks);
    let user = host.user()?;
    let partial = begin(templates, user.as_ref(), &key).await?;
    if let Some(made_meanwhile) = templates.get(&key) {
        return Ok(made_meanwhile);
    }
    let source = DiskSource::Raw(image.raw.clone());
    let disk = in_place(|| layer(disks, &partial.dir.join(DISK), &source, image.bytes, user.as_ref()))?;
    let launch = in_place(|| shared_memory(&partial, hardware, user.clone(), disk, Some(&base.ram())))?;
    let machine = Machine::restore(host, launch, RestoreFrom::template(base.device())).await?;
    machine.announce_disk_size(image.bytes).await?;
    machine.at_start("mounting its image", machine.guest().configure(mount_root())).await?;
    machine.at_start("its first commands", warm_up(&machine)).await?;
    machine.freeze_into(&partial.dir.join(DEVICE)).await?;
    let trial = DiskSource::Layer(partial.dir.join(DISK));
    let trial = in_place(|| layer(disks, &partial.dir.join("trial"), &trial, image.bytes, user.as_ref()))?;
    try_out(&partial, host, hardware, user, trial).await?;
    let description = format!("warm {} {hardware:?}", image.raw.display());
    publish(partial, vec![RAM, DEVICE, DISK], description, Some(image.raw.clone())).await
}

/// Mounts the image's root and sets a host name and machine id of the usual lengths, which a clone only overwrites.
fn mount_root() -> Configure {
    Configure {
        hostname: Some(format!("ws-{:08}", 0)),
        machine_id: Some(format!("{:032}", 0)),
        root: Some(root_disk(true)),
        ..Configure::default()
    }
}

/// Waits for another process that makes the same template, which takes seconds.
async fn begin(templates: &Templates, user: Option<&User>, key: &str) -> Result<Partial, VmError> {
    let (templates, key, owner) = (templates.clone(), key.to_owned(), user.map(User::credentials));
    off_thread(move || templates.begin(&key, owner)).await
}

async fn publish(
    partial: Partial,
    files: Vec<&'static str>,
    description: String,
    image: Option<PathBuf>,
) -> Result<Template, VmError> {
    let published = off_thread(move || partial.publish(&files, description, image)).await;
    published.map_err(VmError::io("publish a template"))
}

#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn shared_memory<'a>(
    partial: &'a Partial,
    hardware: Hardware,
    user: Option<User>,
    disk: DiskFile,
    start_from: Option<&Path>,
) -> Result<Launch<'a>, VmError> {
    let ram = partial.dir.join(RAM);
    let make = || {
        let file = File::options().create_new(true).write(true).open(&ram)?;
        file.set_len(hardware.memory_bytes())?;
        if let Some(earlier) = start_from {
            copy_data(&File::open(earlier)?, &file)?;
        }
        let meta = fs::metadata(&partial.dir)?;
        use std::os::unix::fs::MetadataExt;
        std::os::unix::fs::chown(&ram, Some(meta.uid()), Some(meta.gid()))
    };
    make().map_err(VmError::io("create the template's memory file"))?;
    Ok(Launch {
        dir: &partial.dir,
        hardware,
        user,
        disk,
        memory: Memory::Shared(ram),
        ephemeral: true,
        spare_port: false,
    })
}

fn layer(
    disks: &dyn Disks,
    path: &Path,
    source: &DiskSource,
    bytes: u64,
    user: Option<&User>,
) -> Result<DiskFile, VmError> {
    disks.create(path, source, bytes)?;
    disks.admit(path, user.map(User::owner))?;
    let (below, format) = (disks.below(path)?, disks.qemu_format());
    Ok(DiskFile::File { path: path.to_owned(), format, below, own: None })
}

async fn warm_up(machine: &Machine) -> Result<(), crate::link::LinkError> {
    for argv in WARM_UP {
        let argv = argv.iter().map(|word| word.as_bytes().to_vec()).collect();
        let mut process = machine.guest().exec(Exec { argv, ..Exec::default() }).await?;
        // An image may lack this command.
        while let Ok(Some(_)) = process.next().await {}
    }
    machine.guest().sync().await
}

/// Tests a template by cloning it before it is published.
async fn try_out(
    partial: &Partial,
    host: &Host,
    hardware: Hardware,
    user: Option<User>,
    disk: DiskFile,
) -> Result<(), VmError> {
    let template = partial.as_template();
    in_place(|| remove_sockets(&partial.dir)).map_err(VmError::io("clean the template directory"))?;
    let memory = Memory::Private(template.ram());
    let launch =
        Launch { dir: &partial.dir, hardware, user, disk, memory, ephemeral: true, spare_port: false };
    let machine = Machine::restore(host, launch, RestoreFrom::template(template.device())).await?;
    machine.at_start("being cloned", machine.guest().ready()).await?;
    machine.kill().await;
    Ok(())
}

/// Removes the sockets of the last machine from a directory.
#[expect(clippy::disallowed_methods, reason = "called through `in_place`")]
fn remove_sockets(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Copies a sparse file, keeping its holes.
fn copy_data(from: &File, to: &File) -> io::Result<()> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    let mut buffer = vec![0; 1 << 20];
    let mut position = 0;
    loop {
        let start = match seek(from, SeekFrom::Data(position)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let end = seek(from, SeekFrom::Hole(start))?;
        position = start;
        while position < end {
            let want = usize::try_from(end - position).unwrap_or(usize::MAX).min(buffer.len());
            let got = from.read_at(&mut buffer[..want], position)?;
            if got == 0 {
                return Ok(());
            }
            to.write_all_at(&buffer[..got], position)?;
            position += got as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn whatever_sockets_there_are_make_room_and_files_stay() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name| dir.path().join(name);
        fs::write(path(RAM), "memory").unwrap();
        for there in [vec!["monitor.sock", "console.sock", "agent.sock"], vec!["monitor.sock"], vec![]] {
            for socket in &there {
                std::os::unix::net::UnixListener::bind(path(socket)).unwrap();
            }
            remove_sockets(dir.path()).unwrap();
            let left: Vec<_> =
                fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, [RAM], "{there:?}");
        }
    }

    #[test]
    fn copying_keeps_contents_and_holes() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let from = File::create_new(&a).unwrap();
        from.set_len(64 << 20).unwrap();
        from.write_all_at(&[7; 100_000], 10 << 20).unwrap();
        from.write_all_at(b"end", (64 << 20) - 3).unwrap();
        let to = File::create_new(&b).unwrap();
        to.set_len(64 << 20).unwrap();
        copy_data(&File::open(&a).unwrap(), &to).unwrap();
        assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap());
        assert!(fs::metadata(&b).unwrap().blocks() * 512 < 4 << 20);
    }
}
