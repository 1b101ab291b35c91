//! Places to test in, trees, and children in namespaces.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use agentiso_mounts::{
    Enter, Entered, IngestOptions, Ingested, Kind, LayoutOptions, Layouts, Support, WorkDir, WorkDirOptions,
    WorkDirs, enter,
};
use agentiso_store::{ChangeOptions, ImportOptions, Options, Root, Store, TreeId, changes, import_directory};

const PLACE: &str = "MOUNTS_TEST_PLACE";
const NOBODY: u32 = 65534;

/// A store with layouts and working directories, and room for other files beside them.
pub struct Place {
    pub root: PathBuf,
    pub store: Store,
    pub dirs: WorkDirs,
    /// Removed with everything in it, unless the parent of this process owns it.
    pub _dir: Option<tempfile::TempDir>,
}

impl Place {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self::open(dir.path(), LayoutOptions::default());
        fs::create_dir(place.path("at")).unwrap();
        Self { _dir: Some(dir), ..place }
    }

    /// Opens a place as another process does.
    pub fn open(root: &Path, options: LayoutOptions) -> Self {
        let store = Store::open_or_create(&root.join("store"), Options::default()).unwrap();
        let support = Support::probe(&root.join("work")).unwrap();
        assert_eq!(support.overlay(), &Ok(()), "these tests need overlays in user namespaces");
        let layouts = Layouts::open(&root.join("layouts"), &store, options).unwrap();
        let dirs = WorkDirs::open(&root.join("work"), &store, &layouts, &support).unwrap();
        Self { root: root.to_owned(), store, dirs, _dir: None }
    }

    /// The place that the parent of this process has made.
    pub fn inherited() -> Self {
        Self::open(Path::new(&std::env::var_os(PLACE).unwrap()), LayoutOptions::default())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Commits a directory; the pin keeps it.
    pub fn import(&self, path: &Path) -> TreeId {
        let session = self.store.begin().unwrap();
        let imported = import_directory(&session, path, &ImportOptions::default()).unwrap();
        let lease = session.commit(&[Root::Tree(imported.tree)]).unwrap();
        self.store.pin(&imported.tree.to_string(), Root::Tree(imported.tree)).unwrap();
        drop(lease);
        imported.tree
    }

    pub fn tree(&self, fill: impl FnOnce(&Path)) -> TreeId {
        let source = tempfile::tempdir().unwrap();
        fill(source.path());
        self.import(source.path())
    }

    pub fn create(&self, tree: TreeId, kind: Kind) -> WorkDir {
        self.dirs.create(tree, &WorkDirOptions { label: "test".to_owned(), kind }).unwrap()
    }

    /// Runs a test of this program in the mounted working directory.
    pub fn enter_test(&self, workdir: &WorkDir, test: &str) -> Entered {
        let program = std::env::current_exe().unwrap().into_os_string();
        let argv = [program, "--exact".into(), test.into(), "--ignored".into(), "--quiet".into()];
        let what = Enter { workdir, at: &self.path("at"), argv: &argv, read_only: false };
        enter(&what, |command| {
            command.env(PLACE, &self.root).stdout(Stdio::piped()).stderr(Stdio::piped());
        })
        .unwrap()
    }

    /// Runs a shell script in the mounted working directory.
    pub fn run(&self, workdir: &WorkDir, script: &str) -> String {
        let argv = ["sh".into(), "-ec".into(), script.into()];
        let what = Enter { workdir, at: &self.path("at"), argv: &argv, read_only: false };
        let mut entered = enter(&what, |command| {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        })
        .unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        use std::io::Read;
        entered.child().stdout.take().unwrap().read_to_string(&mut out).unwrap();
        entered.child().stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let (status, _) = entered.wait_for_all().unwrap();
        assert!(status.success(), "{script}\n{out}{err}");
        out
    }

    /// The tree that the mounted working directory shows, read by a process inside.
    pub fn shown(&self, workdir: &WorkDir) -> TreeId {
        let text = self.run_test(workdir, "support::import_here");
        TreeId::from_hex(text.lines().find_map(|line| line.strip_prefix("tree ")).unwrap()).unwrap()
    }

    pub fn run_test(&self, workdir: &WorkDir, test: &str) -> String {
        let mut entered = self.enter_test(workdir, test);
        use std::io::Read;
        let (mut out, mut err) = (String::new(), String::new());
        entered.child().stdout.take().unwrap().read_to_string(&mut out).unwrap();
        entered.child().stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let (status, _) = entered.wait_for_all().unwrap();
        assert!(status.success(), "{out}{err}");
        fs::read_to_string(self.path("answer")).unwrap_or_default()
    }

    pub fn ingest(&self, workdir: &WorkDir) -> Ingested {
        let ingested = workdir.ingest(&IngestOptions::default()).unwrap();
        assert!(ingested.is_consistent);
        ingested
    }

    /// Differences with or without times, as text.
    pub fn differences(&self, before: TreeId, after: TreeId, times: bool) -> Vec<String> {
        let options = ChangeOptions { times, renames: false, ..ChangeOptions::default() };
        let found = changes(&self.store, before, after, &options).unwrap();
        found
            .list
            .iter()
            .map(|change| format!("{:?} {} {:?}", change.kind, change.path, change.aspects))
            .collect()
    }
}

#[test]
#[ignore = "other tests run it in a namespace of their own"]
fn import_here() {
    let place = Place::inherited();
    let tree = place.import(Path::new("."));
    fs::write(place.path("answer"), format!("tree {tree}\n")).unwrap();
}

/// Runs an ignored test of this program as the present user and, if that is root, as an ordinary one.
pub fn everywhere(test: &str) {
    let users: &[Option<u32>] =
        if rustix::process::geteuid().is_root() { &[None, Some(NOBODY)] } else { &[None] };
    for user in users {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--quiet"]);
        if let Some(user) = user {
            command.uid(*user).gid(*user);
        }
        let output = command.output().unwrap();
        let text =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "as user {user:?}:\n{text}");
        assert!(text.contains("1 passed"), "no test is called {test}");
    }
}

pub fn write(path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
    fs::create_dir_all(path.as_ref().parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A directory with `directories` times `files` small files.
pub fn fill(root: &Path, directories: usize, files: usize) {
    for directory in 0..directories {
        for file in 0..files {
            let text = format!("file {file} of directory {directory}\n").repeat(1 + file % 7);
            write(root.join(format!("dir-{directory}/file-{file}")), text);
        }
    }
}
