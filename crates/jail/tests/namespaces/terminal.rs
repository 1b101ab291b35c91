//! Commands with a controlling terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;

use agentiso_jail::{End, Stdio};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use crate::place::{Place, launcher, sh};

as_everyone! {
    fn a_terminal_becomes_the_controlling_one() {
        let place = Place::new();
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let open = || OwnedFd::from(File::options().read(true).write(true).open(&name).unwrap());
        let mut command = sh("test -t 0 && echo through the terminal > /dev/tty");
        command.terminal = true;
        let stdio = Stdio { stdin: open(), stdout: open(), stderr: open() };
        let mut running = launcher().run(&place.spec(), &command, stdio).unwrap();
        assert_eq!(running.wait().unwrap().end, End::Code(0));
        let mut buffer = [0; 100];
        let length = File::from(master).read(&mut buffer).unwrap();
        assert_eq!(std::str::from_utf8(&buffer[..length]).unwrap().trim_end(), "through the terminal");
    }
}
