//! Directories that were there before the command, which the kernel's overlay does not rename without root.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::place::Place;

/// Runs a test as the caller and as an ordinary user.
macro_rules! as_everyone {
    (fn $name:ident($place:ident: &Place) $body:block) => {
        mod $name {
            use super::*;

            fn test($place: &Place) $body

            #[test]
            fn as_the_caller() {
                test(&Place::with_vault());
            }

            #[test]
            fn as_an_ordinary_user() {
                test(&Place::of_an_ordinary_user());
            }
        }
    };
}

/// A directory with files and a directory in it.
fn fill(place: &Place, dir: &str) {
    place.write(&format!("/{dir}/one"), &format!("one of {dir}"));
    place.write(&format!("/{dir}/below/two"), &format!("two of {dir}"));
}

/// Whether a path came from another one.
fn came_from(result: &Value, path: &str, old: &str) -> bool {
    let list = result["changes"].as_array().unwrap();
    list.iter().any(|one| one["kind"] == "renamed" && one["path"] == path && one["old_path"] == old)
}

fn assert_moved(place: &Place, result: &Value, old: &str, new: &str) {
    assert_eq!(result["warnings"], serde_json::json!([]), "{result}");
    assert!(came_from(result, &format!("/{new}"), &format!("/{old}")), "{result}");
    assert_eq!(result["changes_total"], 1, "{result}");
    assert_eq!(place.cat(&format!("/{new}/one")), format!("one of {old}"));
    assert_eq!(place.cat(&format!("/{new}/below/two")), format!("two of {old}"));
    assert_ne!(place.avfs(&["--vault", "work", "cat", &format!("/{old}/one")]).code, 0);
}

as_everyone! {
    fn programs_that_only_rename_are_served(place: &Place) {
        fill(place, "a");
        let result = place.line("python3 -c 'import os; os.rename(\"a\", \"b\"); print(sorted(os.listdir(\".\")))'");
        assert_eq!(result["stdout"], "['b']\n");
        assert_moved(place, &result, "a", "b");
        let result = place.line("mv b c; ls");
        assert_eq!(result["stdout"], "c\n");
        assert!(came_from(&result, "/c", "/b"), "{result}");
        place.line("perl -e 'mkdir \"d\" or die; rename \"c\", \"d/c\" or die $!'");
        assert_eq!(place.cat("/d/c/below/two"), "two of a");
    }
}

as_everyone! {
    fn only_an_empty_directory_is_replaced(place: &Place) {
        fill(place, "a");
        fill(place, "full");
        let result = place.line(
            "mkdir empty; python3 -c '\nimport os\nos.rename(\"a\", \"empty\")\ntry: os.rename(\"empty\", \"full\")\n\
             except OSError as error: print(error.strerror)'",
        );
        assert_eq!(result["stdout"], "Directory not empty\n");
        assert_moved(place, &result, "a", "empty");
        assert_eq!(place.cat("/full/one"), "one of full");
    }
}

as_everyone! {
    fn a_session_serves_each_command(place: &Place) {
        fill(place, "a");
        let session = place.work("session", &["session", "start"])["session"].as_str().unwrap().to_owned();
        for (old, new) in [("a", "b"), ("b", "c"), ("c", "a")] {
            let line = format!("perl -e 'rename \"{old}\", \"{new}\" or die $!'");
            let done = place.avfs(&["--json", "session", "exec", &session, "--shell", &line]);
            assert_eq!(done.code, 0, "{}", done.stdout);
            assert_eq!(place.cat(&format!("/{new}/below/two")), "two of a");
        }
        place.json("session", &["session", "end", &session]);
    }
}

as_everyone! {
    fn nothing_but_the_vault_can_be_renamed(place: &Place) {
        fill(place, "a");
        fill(place, "x");
        // Paths change between the look and the call: the vault's directory and links to others take turns.
        let script = r#"
import os, threading
os.makedirs("/tmp/t/below"); open("/tmp/t/below/f", "w").write("tmp")
for path in ["/usr", "/etc", "/proc/1/root/etc", "/proc/self/root/etc", "/dev", ".."]:
    for new in ["stolen", "/tmp/stolen"]:
        try: os.rename(path, new); print("renamed", path)
        except OSError: pass
try: os.rename("a", "/tmp/a"); print("renamed to another file system")
except OSError as error: print(error.errno)
os.symlink("/usr", "to"); os.symlink("/etc", "to2"); done = False
def swap():
    while not done:
        for target in ["/usr", "/etc", "/tmp/t", "x"]:
            os.symlink(target, "next"); os.rename("next", "to")
thread = threading.Thread(target=swap); thread.start()
for number in range(300):
    for old, new in [("to/bin", "to/bin2"), ("to/below", f"got{number}"), (f"got{number}", "to/below")]:
        try: os.rename(old, new)
        except OSError: pass
done = True; thread.join()
print(os.path.exists("/usr/bin/env"), os.path.exists("/usr/bin2"), os.path.exists("/tmp/stolen"))
print(open("/tmp/t/below/f").read())
"#;
        place.write("/probe.py", script);
        let bin = std::fs::metadata("/usr/bin/env").unwrap().len();
        let result = place.line("python3 probe.py");
        assert_eq!(result["stdout"], "18\nTrue False False\ntmp\n", "{result}");
        assert_eq!(std::fs::metadata("/usr/bin/env").unwrap().len(), bin);
        assert!(!std::path::Path::new("/usr/bin2").exists());
        assert_eq!(place.cat("/a/one"), "one of a");
    }
}

as_everyone! {
    fn a_command_that_is_killed_in_a_rename_leaves_a_whole_vault(place: &Place) {
        for number in 0..40 {
            place.write(&format!("/a/below/{number}"), &number.to_string());
        }
        // Other threads keep renaming while the command is ended.
        let script = "import os, threading\n\
            def rename():\n  while True:\n    for pair in [('a', 'b'), ('b', 'a')]:\n      try: os.rename(*pair)\n      except OSError: pass\n\
            [threading.Thread(target=rename).start() for _ in range(3)]\n\
            while not os.path.exists('b'): pass\n\
            print('renamed', flush=True)\n";
        place.write("/loop.py", script);
        let mut command = place.command(&["--json", "--vault", "work", "proxy", "exec", "--stream", "--", "python3", "loop.py"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("renamed"), "{line}");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(!child.wait().unwrap().success());
        // The rename that was under way has been finished.
        let names: Value = place.work("ls", &["ls", "-R", "/"]);
        let text = names.to_string();
        assert!(!text.contains(".avfs-moving"), "{text}");
        for number in 0..40 {
            let read = |dir: &str| place.avfs(&["--vault", "work", "cat", &format!("/{dir}/below/{number}")]);
            let found = ["a", "b"].map(read).into_iter().filter(|done| done.code == 0);
            let texts: Vec<String> = found.map(|done| done.stdout).collect();
            assert_eq!(texts, [number.to_string()], "{text}");
        }
        assert_eq!(place.json("vault_info", &["vault", "info", "work"])["uses"], 0);
        assert_eq!(place.line("true")["changes_total"], 0);
    }
}
