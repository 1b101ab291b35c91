//! QEMU's command line, as a pure function of the machine.
//!
//! A memory image can only be restored with the same devices in the same order, so one function writes the list for
//! booting, for making templates and for restoring.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Qemu;
use crate::hardware::{Accel, Hardware, LinkKind};

/// The version of the list of devices. Memory images made with another version cannot be restored.
pub const LAYOUT: u32 = 2;

/// The size of the translation buffer without KVM, in MiB. QEMU never frees the default of 1 GiB.
const TRANSLATION_CACHE_MB: u32 = 64;

/// Size of [`DiskFile::Blank`].
const BLANK_BYTES: u64 = 1 << 43;

/// Where guest memory lives.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Memory {
    /// In QEMU's own anonymous memory.
    Anonymous,
    /// In a file that QEMU writes to: for making a template.
    Shared(PathBuf),
    /// Copied on write from a file that does not change: for cloning a template.
    Private(PathBuf),
}

impl Memory {
    /// The file that it is copied from on write.
    pub fn base(&self) -> Option<&Path> {
        match self {
            Self::Private(base) => Some(base),
            Self::Anonymous | Self::Shared(_) => None,
        }
    }
}

/// How the guest starts.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BootSource {
    /// From a kernel.
    Kernel(Boot),
    /// From a device state that is given over the monitor.
    Incoming,
}

/// A kernel to boot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Boot {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs.
    pub initrd: PathBuf,
    /// The rate of the host's time stamp counter, for guests that cannot calibrate it.
    pub tsc_khz: Option<u64>,
}

/// The disk of a machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum DiskFile {
    /// A file.
    File {
        /// The file.
        path: PathBuf,
        /// Its format, as QEMU calls it.
        format: &'static str,
        /// Its backing files, nearest first.
        below: Vec<PathBuf>,
        /// The machine's private disk directory, if the disk may be replaced while it runs.
        own: Option<OwnDisks>,
    },
    /// Only zeros, and larger than any real disk: for making a template. A clone assumes that size until it is told its
    /// own, so a real disk never seems too small.
    Blank,
}

/// A directory with the disks of one machine. Its QEMU can open disks that are added later.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OwnDisks {
    /// The directory.
    pub dir: PathBuf,
    /// The paths at which QEMU sees it.
    pub at: Vec<PathBuf>,
}

/// The inputs of a command line.
#[derive(Clone, Debug)]
pub struct CommandLine<'a> {
    /// The program.
    pub qemu: &'a Qemu,
    /// The machine's hardware.
    pub hardware: Hardware,
    /// Where its memory lives.
    pub memory: Memory,
    /// How it starts.
    pub boot: BootSource,
    /// Its disk.
    pub disk: DiskFile,
    /// Listening socket of the monitor.
    pub monitor_fd: i32,
    /// Listening socket of the console. The machine starts when it is connected.
    pub console_fd: i32,
    /// The devices of the link to the agent, as pairs of flag and value.
    pub link: Vec<(&'static str, String)>,
    /// Listening socket of a second serial port, for measuring the transport.
    pub spare_fd: Option<i32>,
}

impl CommandLine<'_> {
    /// The arguments.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut line = Line::default();
        self.machine(&mut line);
        self.memory(&mut line);
        self.boot(&mut line);
        self.devices(&mut line);
        line.0
    }

    fn machine(&self, line: &mut Line) {
        line.option("-M", "microvm");
        line.0.extend(["-bios".into(), self.qemu.firmware.clone().into_os_string()]);
        match self.hardware.accel {
            Accel::Kvm => {
                line.option("-accel", "kvm");
            }
            Accel::Tcg => {
                line.option("-accel", &format!("tcg,thread=multi,tb-size={TRANSLATION_CACHE_MB}"));
            }
        }
        line.option("-cpu", processor(self.hardware.accel));
        line.option("-smp", &self.hardware.vcpus.to_string());
        line.option("-m", &self.hardware.memory_mb.to_string());
        line.option("-display", "none");
        line.option("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
        line.flags(["-nodefaults", "-no-user-config", "-no-reboot"]);
        // A state saved from a running machine does not contain this section, so a restoring QEMU must not expect it.
        line.option("-global", "migration.send-configuration=off");
    }

    fn memory(&self, line: &mut Line) {
        let size = format!("id=ram,size={}M", self.hardware.memory_mb);
        match &self.memory {
            Memory::Anonymous => line.option("-object", &format!("memory-backend-ram,{size}")),
            Memory::Shared(file) => {
                line.path_option("-object", &format!("memory-backend-file,{size},share=on,mem-path="), file);
            }
            Memory::Private(file) => {
                // The file belongs to several machines and is read-only to all of them.
                let open = if self.qemu.opens_memory_read_only() { ",readonly=on,rom=off" } else { "" };
                let options = format!("memory-backend-file,{size},share=off{open},mem-path=");
                line.path_option("-object", &options, file);
            }
        }
        line.option("-machine", "memory-backend=ram");
    }

    fn boot(&self, line: &mut Line) {
        match &self.boot {
            BootSource::Incoming => line.option("-incoming", "defer"),
            BootSource::Kernel(boot) => {
                line.0.extend(["-kernel".into(), boot.kernel.clone().into_os_string()]);
                line.0.extend(["-initrd".into(), boot.initrd.clone().into_os_string()]);
                let mut words = kernel_words(&self.hardware);
                if let Some(khz) = boot.tsc_khz {
                    words.push_str(&format!(" tsc_early_khz={khz}"));
                }
                line.option("-append", &words);
            }
        }
    }

    fn devices(&self, line: &mut Line) {
        let listener = |fd| format!("fd={fd},server=on,wait=off");
        line.option("-chardev", &format!("socket,id=monitor,{}", listener(self.monitor_fd)));
        line.option("-mon", "chardev=monitor,mode=control");
        // Wait for the connection: output before that is lost, and a kernel may panic at its first instruction.
        line.option("-chardev", &format!("socket,id=console,fd={},server=on,wait=on", self.console_fd));
        line.option("-serial", "chardev:console");
        for (flag, value) in &self.link {
            line.option(flag, value);
        }
        if let Some(fd) = self.spare_fd {
            line.option("-chardev", &format!("socket,id=spare,{}", listener(fd)));
            line.option("-device", "virtserialport,chardev=spare,name=spare");
        }
        match &self.disk {
            DiskFile::File { path, format, .. } => {
                // Without flushes, data may be lost if the host crashes, but not if QEMU does: it is in the page cache.
                // A full disk pauses the guest; any other error is reported to it.
                let node = node_name(path);
                let drive = format!(
                    "if=none,id=root,node-name={node},format={format},cache=unsafe,discard=unmap,werror=enospc,\
                     rerror=report,file="
                );
                line.path_option("-drive", &drive, path);
            }
            DiskFile::Blank => {
                line.option(
                    "-drive",
                    &format!("if=none,id=root,driver=null-co,read-zeroes=on,size={BLANK_BYTES}"),
                );
            }
        }
        line.option("-device", "virtio-blk-device,drive=root");
        line.option("-netdev", "hubport,id=net,hubid=0");
        // A clone has its own address, so the template's need not be announced.
        line.option("-device", "virtio-net-device,netdev=net,guest_announce=off");
        line.option("-object", "rng-random,id=entropy,filename=/dev/urandom");
        line.option("-device", "virtio-rng-device,rng=entropy");
    }
}

/// QEMU's node name of a disk.
pub fn node_name(disk: &Path) -> String {
    /// The longest node name.
    const LONGEST: usize = 31;
    let digest = blake3::hash(disk.file_stem().unwrap_or_default().as_encoded_bytes()).to_hex();
    format!("d{}", &digest[..LONGEST - 1])
}

/// The processor a guest sees.
///
/// QEMU's translator executes `rep movsb` one byte at a time. A guest that is not told that it is fast copies and clears
/// memory in other ways, three to seven times faster.
pub(crate) fn processor(accel: Accel) -> &'static str {
    match accel {
        Accel::Kvm => "host",
        Accel::Tcg => "max,-erms,-fsrm,-la57,-smap",
    }
}

/// The kernel command line, except for values that are measured at boot.
///
/// A guest has one tenant, who is root in it: security modules and scheduling statistics only slow it down.
pub(crate) fn kernel_words(hardware: &Hardware) -> String {
    let mut words = "console=ttyS0 quiet loglevel=4 reboot=t panic=-1 random.trust_cpu=on 8250.nr_uarts=1 \
                     i8042.noaux i8042.nokbd rcupdate.rcu_expedited=1 psi=0 audit=0 nowatchdog \
                     lsm=landlock"
        .to_owned();
    if hardware.accel == Accel::Tcg {
        // A microvm cannot calibrate the time stamp counter, and mitigations have no effect on translated code.
        // Translated code is cached by address: with address space randomisation each start of a program would
        // translate all of it again, which takes 20 ms for `true`.
        words.push_str(" tsc=reliable no_timer_check mitigations=off norandmaps");
    }
    if hardware.link == LinkKind::Vsock {
        words.push_str(" agentiso.link=vsock");
    }
    words
}

#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn option(&mut self, name: &str, value: &str) {
        self.0.extend([name.into(), value.into()]);
    }

    fn flags<const N: usize>(&mut self, flags: [&str; N]) {
        self.0.extend(flags.map(OsString::from));
    }

    /// An option whose value ends with a path; QEMU reads `,,` as one comma.
    fn path_option(&mut self, name: &str, before: &str, path: &Path) {
        let mut value = OsString::from(before);
        let mut first = true;
        for part in path.as_os_str().as_encoded_bytes().split(|&byte| byte == b',') {
            if !first {
                value.push(",,");
            }
            first = false;
            value.push(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(part));
        }
        self.0.extend([name.into(), value]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qemu(release: (u32, u32)) -> Qemu {
        let path = PathBuf::from("/usr/bin/qemu-system-x86_64");
        Qemu { path, version: "x".into(), release, firmware: "/fw/qboot.rom".into(), identity: "i".into() }
    }

    fn line(qemu: &Qemu, accel: Accel, memory: Memory, boot: BootSource) -> String {
        let hardware = Hardware { accel, link: LinkKind::Serial, vcpus: 1, memory_mb: 256 };
        let disk =
            DiskFile::File { path: "/m/a,b.qcow2".into(), format: "qcow2", below: Vec::new(), own: None };
        let link = vec![("-device", "virtio-serial-device".to_owned())];
        let (monitor_fd, console_fd) = (10, 11);
        let command =
            CommandLine { qemu, hardware, memory, boot, disk, monitor_fd, console_fd, link, spare_fd: None };
        let arguments = command.arguments();
        arguments.iter().map(|part| part.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    fn devices(line: &str) -> Vec<&str> {
        let words: Vec<&str> = line.split(' ').collect();
        words.windows(2).filter(|pair| pair[0] == "-device").map(|pair| pair[1]).collect()
    }

    #[test]
    fn booting_making_and_restoring_have_the_same_devices() {
        let qemu = qemu((7, 2));
        let boot =
            BootSource::Kernel(Boot { kernel: "/k".into(), initrd: "/i".into(), tsc_khz: Some(2_300_000) });
        let cold = line(&qemu, Accel::Tcg, Memory::Anonymous, boot);
        let clone = line(&qemu, Accel::Tcg, Memory::Private("/t/ram".into()), BootSource::Incoming);
        assert_eq!(devices(&cold), devices(&clone));
        assert_eq!(devices(&cold).len(), 4);
        assert!(cold.contains("tsc_early_khz=2300000"));
        assert!(clone.contains("-incoming defer") && !clone.contains("-kernel"));
    }

    #[test]
    fn commas_in_paths_are_escaped() {
        let text = line(&qemu((7, 2)), Accel::Kvm, Memory::Anonymous, BootSource::Incoming);
        assert!(text.contains("file=/m/a,,b.qcow2"), "{text}");
        assert!(text.contains("-accel kvm -cpu host"), "{text}");
    }

    #[test]
    fn a_template_is_opened_read_only_where_qemu_can() {
        let memory = || Memory::Private("/t/ram".into());
        assert!(!line(&qemu((7, 2)), Accel::Tcg, memory(), BootSource::Incoming).contains("readonly"));
        assert!(
            line(&qemu((10, 0)), Accel::Tcg, memory(), BootSource::Incoming).contains("readonly=on,rom=off")
        );
    }

    #[test]
    fn every_machine_runs_in_the_sandbox() {
        let text = line(&qemu((7, 2)), Accel::Tcg, Memory::Anonymous, BootSource::Incoming);
        assert!(
            text.contains("-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
        );
    }
}
