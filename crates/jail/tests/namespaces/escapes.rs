//! Ways to the host: its files, processes, sockets and descriptors.

use std::fs;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use agentiso_jail::{Bind, End, Stdio, Tmpfs};

use crate::place::{Place, launcher, run, sh, start};

as_everyone! {
    fn files_of_the_host_do_not_exist() {
        let place = Place::new();
        fs::write(place.path().join("secret"), "x").unwrap();
        let secret = place.path().join("secret");
        let script = format!(
            "for path in {} /root /etc/shadow /etc/ssl/private /var/lib /boot /sys/kernel /proc/1/root/etc; do
               [ -e $path ] && echo $path; done; ls /; true",
            secret.display()
        );
        let output = place.run(&script);
        assert_eq!(output.text().split_whitespace().filter(|name| name.starts_with('/')).count(), 0, "{output:?}");
        for name in ["usr", "etc", "tmp", "proc", "dev", "workspace"] {
            assert!(output.text().split_whitespace().any(|found| found == name), "{name}: {output:?}");
        }
    }
}

as_everyone! {
    fn only_the_workspace_and_private_places_can_be_written() {
        let place = Place::new();
        let script = "for dir in / /usr /usr/bin /etc /var /home /dev /proc /proc/sys/kernel /sys /run; do
              (echo x > $dir/written) 2>/dev/null && echo $dir; done
            for dir in /workspace /tmp /home/agent /dev/shm; do echo x > $dir/written || exit 1; done
            (echo x > /proc/sys/kernel/hostname) 2>/dev/null && echo hostname
            (echo x > /etc/passwd) 2>/dev/null && echo passwd; true";
        assert_eq!(place.run(script).text(), "");
        assert_eq!(fs::read_to_string(place.workspace().join("written")).unwrap(), "x\n");
    }
}

as_everyone! {
    fn a_read_only_bind_cannot_be_changed() {
        let place = Place::new();
        let shown = place.subdir("shown");
        fs::write(shown.join("file"), "before").unwrap();
        let spec = place.spec().mount(Bind::readonly(&shown, "/shown"));
        let script = "(echo x > /shown/file) 2>/dev/null; rm -f /shown/file 2>/dev/null; chmod 777 /shown/file 2>/dev/null
            mv /shown/file /shown/other 2>/dev/null; mount -o remount,rw /shown 2>/dev/null; cat /shown/file";
        assert_eq!(run(&spec, &sh(script)).text(), "before");
    }
}

as_everyone! {
    fn processes_of_the_host_are_invisible() {
        let place = Place::new();
        let output = place.run("ls /proc | grep -c '^[0-9]'; cat /proc/1/environ 2>/dev/null; ls /proc/1/root/root 2>/dev/null; kill -0 2 && true; tr '\\0' ' ' < /proc/1/cmdline");
        let mut lines = output.stdout.lines();
        let count: u32 = lines.next().unwrap().parse().unwrap();
        assert!(count <= 5, "{output:?}");
        let rest: Vec<&str> = lines.collect();
        assert_eq!(rest.concat().trim(), "agentiso-jail-helper", "{output:?}");
    }
}

as_everyone! {
    fn sockets_of_the_host_cannot_be_reached() {
        let place = Place::new();
        let name = format!("jail-test-{}", std::process::id());
        let _abstract = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let path = place.path().join("daemon.sock");
        let _by_path = UnixListener::bind(&path).unwrap();
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let script = format!(
            "perl -MSocket -e '
               for my $to (\"\\0{name}\", \"{path}\") {{
                 socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; print connect($s, pack_sockaddr_un($to)) ? \"reached \" : \"refused \";
               }}
               socket(my $s, AF_INET, SOCK_STREAM, 0) or die;
               print connect($s, pack_sockaddr_in({port}, inet_aton(\"127.0.0.1\"))) ? \"reached\" : \"refused\";'",
            path = path.display(),
            port = tcp.local_addr().unwrap().port(),
        );
        assert_eq!(place.run(&script).text(), "refused refused refused");
    }
}

as_everyone! {
    fn loopback_of_its_own_works() {
        let place = Place::new();
        let script = "perl -MIO::Socket::INET -e '
            my $l = IO::Socket::INET->new(Listen => 1, LocalAddr => \"127.0.0.1\") or die \"listen $!\";
            my $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1\", PeerPort => $l->sockport) or die \"connect $!\";
            print \"connected\"'";
        assert_eq!(place.run(script).text(), "connected");
    }
}

as_everyone! {
    fn only_the_standard_streams_are_inherited() {
        let place = Place::new();
        let leaked = fs::File::open("/etc/passwd").unwrap();
        rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
        let output = place.run("exec ls /proc/self/fd");
        // The last one is what ls reads the directory with.
        assert_eq!(output.text().split_whitespace().collect::<Vec<_>>(), ["0", "1", "2", "3"]);
    }
}

as_everyone! {
    fn a_link_in_a_workspace_does_not_move_a_mount() {
        let place = Place::new();
        let victim = place.subdir("victim");
        std::os::unix::fs::symlink(&victim, place.workspace().join("link")).unwrap();
        std::os::unix::fs::symlink("/usr", place.workspace().join("to-usr")).unwrap();
        // As a source: the link could lead anywhere on the host.
        let spec = place.spec().mount(Bind::writable(place.workspace().join("link"), "/x"));
        let error = start(&spec, &sh("true")).err().unwrap();
        assert!(format!("{error}").contains("show"), "{error}");
        // As a target: the mount would cover /usr.
        for target in ["/workspace/to-usr", "/workspace/to-usr/bin"] {
            let spec = place.spec().mount(Tmpfs::new(target));
            assert!(start(&spec, &sh("true")).is_err(), "{target}");
        }
        // A missing mount point is not made in a directory of the caller.
        let spec = place.spec().mount(Tmpfs::new("/workspace/missing"));
        assert!(start(&spec, &sh("true")).is_err());
        assert!(!place.workspace().join("missing").exists());
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    }
}

as_everyone! {
    fn a_mount_on_a_real_directory_of_the_workspace_works() {
        let place = Place::new();
        fs::create_dir(place.workspace().join("cache")).unwrap();
        let spec = place.spec().mount(Tmpfs::new("/workspace/cache"));
        assert_eq!(run(&spec, &sh("echo x > cache/file && cat cache/file")).text(), "x");
        assert_eq!(fs::read_dir(place.workspace().join("cache")).unwrap().count(), 0);
    }
}

as_everyone! {
    fn programs_gain_nothing_by_set_user_id() {
        let place = Place::new();
        let copy = place.workspace().join("id");
        fs::copy("/usr/bin/id", &copy).unwrap();
        crate::place::allow(&copy, 0o6755);
        let script = "./id -u; grep -E 'NoNewPrivs|CapEff|CapPrm|CapBnd|CapAmb|CapInh' /proc/self/status | tr -d '\\t '; mount | grep -v nosuid";
        let output = place.run(script);
        let mut lines = output.stdout.lines();
        let user = rustix::process::geteuid().as_raw().to_string();
        assert_eq!(lines.next(), Some(user.as_str()));
        let expected = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| format!("{name}:0000000000000000"));
        let found: Vec<&str> = lines.by_ref().take(5).collect();
        assert_eq!(found, expected);
        assert_eq!(lines.collect::<Vec<_>>(), ["NoNewPrivs:1"], "every mount is nosuid");
    }
}

as_everyone! {
    fn a_terminal_of_the_caller_cannot_be_typed_into() {
        let place = Place::new();
        let output = place.run("perl -e 'my $c = \"x\"; print ioctl(STDIN, 0x5412, $c) ? \"typed\" : $!+0'; cat /dev/tty 2>&1 | grep -c 'No such device'");
        // EPERM from the filter, before the kernel looks at what standard input is.
        assert_eq!(output.stdout.trim(), "11");
    }
}

#[test]
fn standard_input_reaches_the_command() {
    let place = Place::new();
    let (input, mut writer) = std::io::pipe().unwrap();
    let (mut output, stdout) = std::io::pipe().unwrap();
    let stdio = Stdio { stdin: input.into(), stdout: stdout.into(), stderr: Stdio::null().unwrap().stderr };
    let mut running = launcher().run(&place.spec(), &sh("cat"), stdio).unwrap();
    writer.write_all(b"through").unwrap();
    drop(writer);
    let mut text = String::new();
    std::io::Read::read_to_string(&mut output, &mut text).unwrap();
    assert_eq!((text.as_str(), running.wait().unwrap().end), ("through", End::Code(0)));
}
