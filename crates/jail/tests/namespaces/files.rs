//! Mounts: overlays, roots, memory, owners.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use agentiso_jail::{Bind, FileCapabilities, JailError, Overlay, Root, ShownUser, Spec, Tmpfs};

use crate::place::{Place, run, sh, start};

fn overlay(place: &Place, lowers: usize) -> Overlay {
    let lowers: Vec<PathBuf> = (0..lowers)
        .map(|number| {
            let dir = place.subdir(&format!("lower{number}"));
            fs::write(dir.join(format!("from{number}")), number.to_string()).unwrap();
            fs::write(dir.join("top"), number.to_string()).unwrap();
            dir
        })
        .collect();
    Overlay {
        lowers,
        upper: Some(place.subdir("upper")),
        work: Some(place.subdir("work")),
        target: "/workspace".into(),
        readonly: false,
    }
}

as_everyone! {
    fn an_overlay_keeps_changes_in_its_upper_directory() {
        let place = Place::new();
        let overlay = overlay(&place, 2);
        let lower = overlay.lowers[0].clone();
        let spec = Spec::new().mount(overlay);
        let script = "cat top from1; echo new > made; echo changed > top; rm from1; mkdir dir; mv made dir/; ls -A; stat -c %u top dir";
        let output = run(&spec, &sh(script));
        let user = rustix::process::geteuid().as_raw();
        let expected = format!("01dir\nfrom0\ntop\n{user}\n{user}");
        assert_eq!(output.text(), expected, "{output:?}");
        let upper = place.path().join("upper");
        assert_eq!(fs::read_to_string(upper.join("dir/made")).unwrap(), "new\n");
        assert_eq!(fs::read_to_string(lower.join("top")).unwrap(), "0");
        let whiteout = fs::symlink_metadata(upper.join("from1")).unwrap();
        assert_eq!((whiteout.rdev(), whiteout.mode() & libc::S_IFMT), (0, libc::S_IFCHR));
        // When the command has ended the mount is gone, so the layers can be used again.
        let again = Spec::new().mount(self::overlay(&place, 2));
        assert_eq!(run(&again, &sh("cat dir/made")).text(), "new");
    }
}

as_everyone! {
    fn an_overlay_that_is_not_flushed_can_be_used_again_either_way() {
        let place = Place::new();
        let mut spec = Spec::new().mount(overlay(&place, 1));
        for (round, volatile) in [true, true, false, true].into_iter().enumerate() {
            spec.volatile_overlays = volatile;
            let script = format!("echo {round} >> rounds; grep -c 'workspace overlay.*volatile' /proc/mounts; cat rounds");
            let rounds: String = (0..=round).map(|round| format!("\n{round}")).collect();
            assert_eq!(run(&spec, &sh(&script)).text(), format!("{}{rounds}", u8::from(volatile)));
        }
    }
}

as_everyone! {
    fn an_overlay_can_be_read_only_and_have_many_layers() {
        let place = Place::new();
        let upper = place.subdir("upper");
        fs::write(upper.join("top"), "upper").unwrap();
        let overlay = Overlay { readonly: true, ..overlay(&place, 40) };
        let spec = Spec::new().mount(overlay);
        let output = run(&spec, &sh("cat top from39; (echo x > y) 2>/dev/null || echo refused"));
        assert_eq!(output.text(), "upper39refused");
        let one = Overlay { lowers: vec![upper], upper: None, work: None, target: "/workspace".into(), readonly: true };
        let output = run(&Spec::new().mount(one), &sh("cat top; (echo x > y) 2>/dev/null || echo refused"));
        assert_eq!(output.text(), "upperrefused");
    }
}

as_everyone! {
    fn a_missing_layer_is_named() {
        let place = Place::new();
        let mut overlay = overlay(&place, 1);
        overlay.lowers.push(place.path().join("no-such-layer"));
        let error = start(&Spec::new().mount(overlay), &sh("true")).err().unwrap();
        assert!(error.to_string().contains("no-such-layer"), "{error}");
    }
}

as_everyone! {
    fn a_directory_can_be_the_root() {
        let place = Place::new();
        let root = place.subdir("root");
        fs::create_dir(root.join("etc")).unwrap();
        fs::write(root.join("etc/image"), "an image").unwrap();
        fs::create_dir(root.join("usr")).unwrap();
        fs::create_dir_all(root.join("home/someone")).unwrap();
        for link in ["bin", "lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link)).unwrap();
        }
        let spec = Spec { root: Root::Directory(root.clone()), ..place.spec() }.mount(Bind::readonly("/usr", "/usr"));
        let output = run(&spec, &sh("cat /etc/image; ls -d /workspace /tmp /home/*; (echo x > /etc/image) 2>/dev/null || echo refused"));
        assert_eq!(output.text(), "an image/home/agent\n/home/someone\n/tmp\n/workspace\nrefused");
        // Mount points were made beside it.
        assert!(!root.join("workspace").exists() && !root.join("home/agent").exists());
    }
}

as_everyone! {
    fn an_overlay_can_be_the_root() {
        let place = Place::new();
        let mut layers = overlay(&place, 1);
        let root = layers.lowers[0].clone();
        fs::create_dir(root.join("usr")).unwrap();
        fs::create_dir(root.join("etc")).unwrap();
        for link in ["bin", "lib", "lib64"] {
            std::os::unix::fs::symlink(format!("usr/{link}"), root.join(link)).unwrap();
        }
        layers.target = "/".into();
        let spec = Spec { root: Root::Overlay(layers), ..place.spec() }.mount(Bind::readonly("/usr", "/usr"));
        let output = run(&spec, &sh("echo installed > /etc/new; cat /etc/new"));
        assert_eq!(output.text(), "installed");
        assert_eq!(fs::read_to_string(place.path().join("upper/etc/new")).unwrap(), "installed\n");
        assert!(!root.join("etc/new").exists());
    }
}

as_everyone! {
    fn memory_file_systems_have_their_size() {
        let place = Place::new();
        let spec = place.spec().mount(Tmpfs::new("/small").with_size(1 << 20));
        let output = run(&spec, &sh("head -c 2000000 /dev/zero > /small/file; stat -c %s /small/file; df -B1 --output=size /small | tail -1"));
        assert!(output.stderr.contains("No space left"), "{output:?}");
        let sizes: Vec<u64> = output.text().split_whitespace().map(|size| size.parse().unwrap()).collect();
        assert!(sizes[0] <= 1 << 20 && sizes[1] == 1 << 20, "{sizes:?}");
    }
}

as_everyone! {
    fn files_belong_to_the_command_inside_and_to_the_caller_outside() {
        let place = Place::new();
        let output = place.run("touch made; stat -c '%u %g' made; id -u; whoami; echo ~");
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        let name = if user == 0 { "root" } else { "agent" };
        assert_eq!(output.text(), format!("{user} {group}\n{user}\n{name}\n/home/agent"));
        assert_eq!(fs::metadata(place.workspace().join("made")).unwrap().uid(), user);
        let spec = Spec { user: ShownUser::Root, ..place.spec() };
        assert_eq!(run(&spec, &sh("stat -c '%u %g' made; id -u")).text(), "0 0\n0");
        assert_eq!(fs::metadata(place.workspace().join("made")).unwrap().uid(), user);
    }
}

as_everyone! {
    fn capabilities_over_files_are_kept_on_request_only() {
        let place = Place::new();
        let file = place.workspace().join("closed");
        fs::write(&file, "x").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        let spec = Spec { user: ShownUser::Root, ..place.spec() };
        let script = sh("cat closed 2>/dev/null || echo refused");
        assert_eq!(run(&spec, &script).text(), "refused");
        let spec = Spec { file_capabilities: FileCapabilities::All, ..spec };
        assert_eq!(run(&spec, &script).text(), "x");
        // They do not reach what is mounted read-only, and there are no others.
        let output = run(&spec, &sh("(echo x > /etc/passwd) 2>/dev/null || echo kept; grep CapEff /proc/self/status | cut -f2"));
        assert_eq!(output.text(), "kept\n000000000000001b");
    }
}

#[test]
fn a_wrong_specification_starts_nothing() {
    let place = Place::new();
    let spec = place.spec().mount(Bind::readonly("relative", "/x"));
    assert!(matches!(start(&spec, &sh("true")), Err(JailError::Invalid(_))));
    let missing = place.spec().mount(Bind::readonly("/no/such/directory", "/x"));
    let error = start(&missing, &sh("true")).err().unwrap();
    assert!(error.to_string().contains("/no/such/directory"), "{error}");
}

as_everyone! {
    fn a_working_directory_and_a_program_must_exist() {
        let place = Place::new();
        let error = start(&place.spec(), &sh("true").cwd("/nowhere")).err().unwrap();
        assert!(matches!(error, JailError::WorkingDirectory { .. }), "{error:?}");
        let nothing = agentiso_jail::Command::new(["no-such-program"]).env(crate::place::environment());
        let error = start(&place.spec(), &nothing).err().unwrap();
        assert!(matches!(error, JailError::ProgramNotFound { .. }), "{error:?}");
        fs::write(place.workspace().join("text"), "#!/no/such/interpreter\n").unwrap();
        let text = agentiso_jail::Command::new(["/workspace/text"]);
        let error = start(&place.spec(), &text).err().unwrap();
        assert!(matches!(error, JailError::NotExecutable { .. }), "{error:?}");
    }
}
