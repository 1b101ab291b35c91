//! Machines from all kinds of images.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{agentiso, run, text};
use crate::place::Place;
use agentiso_testing::TestHome;

fn image(home: &TestHome, arguments: &[&str]) -> Output {
    agentiso(home).arg("image").args(arguments).output().unwrap()
}

fn ok(output: &Output) {
    assert!(output.status.success(), "{} {}", text(&output.stdout), text(&output.stderr));
}

/// A root file system with only a static busybox.
pub fn busybox_root(dir: &Path) {
    for name in ["bin", "etc", "data"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    std::fs::copy("/bin/busybox", dir.join("bin/busybox")).unwrap();
    for applet in ["sh", "cat", "ls", "stat", "true", "uname"] {
        std::os::unix::fs::symlink("busybox", dir.join("bin").join(applet)).unwrap();
    }
    std::fs::write(dir.join("data/word"), "from the image").unwrap();
    std::fs::hard_link(dir.join("data/word"), dir.join("data/same")).unwrap();
}

fn shell(script: &str, dir: &Path) {
    assert!(
        Command::new("sh").args(["-ec", script]).current_dir(dir).status().unwrap().success(),
        "{script}"
    );
}

#[test]
fn a_bare_busybox_directory_boots() {
    let home = Place::without_images();
    let root = tempfile::tempdir().unwrap();
    busybox_root(root.path());
    ok(&image(&home, &["import", "--name", "tiny", root.path().to_str().unwrap()]));
    let output =
        run(&home, &["--image", "tiny"], &["sh", "-c", "cat /data/word; echo; stat -c %h /data/same"]);
    assert_eq!(text(&output.stdout), "from the image\n2", "{}", text(&output.stderr));

    let listed = image(&home, &["--json", "ls"]);
    let images: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(images[0]["name"], "tiny");
    let again = image(&home, &["--json", "import", "--name", "tiny", root.path().to_str().unwrap()]);
    let refused: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(refused["error"]["code"], "image_exists");
    ok(&image(&home, &["rm", "tiny"]));
    assert_eq!(text(&image(&home, &["--json", "ls"]).stdout), "[]");
}

#[test]
fn a_tarball_keeps_owners_modes_links_and_attributes() {
    let home = Place::without_images();
    let work = tempfile::tempdir().unwrap();
    let root = work.path().join("root");
    std::fs::create_dir(&root).unwrap();
    busybox_root(&root);
    shell(
        "echo x > data/owned; chmod 4750 data/owned; ln -s /etc/nowhere data/link; mkfifo data/pipe; \
         tar --xattrs --owner=1234 --group=2345 --numeric-owner -cJf ../root.tar.xz .",
        &root,
    );
    ok(&image(&home, &["import", work.path().join("root.tar.xz").to_str().unwrap()]));
    let script = "stat -c '%u %g %a %F' /data/owned /data/pipe /data/link; stat -c %h /data/word";
    let output = run(&home, &["--image", "root"], &["sh", "-c", script]);
    let expected = "1234 2345 4750 regular file\n1234 2345 644 fifo\n1234 2345 777 symbolic link\n2";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn a_hostile_tarball_is_rejected_and_leaves_nothing() {
    let home = Place::without_images();
    let work = tempfile::tempdir().unwrap();
    shell(
        "mkdir -p in; ln -s / in/out; tar -cf evil.tar in; mkdir more; mkdir more/in more/in/out; \
         echo bad > more/in/out/passwd; tar -rf evil.tar -C more in/out/passwd",
        work.path(),
    );
    let output = image(&home, &["--json", "import", work.path().join("evil.tar").to_str().unwrap()]);
    let refused: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(refused["error"]["code"], "image_rejected", "{refused}");
    assert_eq!(std::fs::read_dir(home.path().join("images")).unwrap().count(), 0);
    assert!(home.is_empty());
}

#[test]
fn an_image_from_a_registry_runs_with_its_own_settings() {
    let home = Place::without_images();
    let work = tempfile::tempdir().unwrap();
    let root = work.path().join("root");
    std::fs::create_dir(&root).unwrap();
    busybox_root(&root);
    let registry = Registry::start(work.path());
    registry.push(work.path(), &root);
    ok(&image(&home, &["pull", &format!("127.0.0.1:{}/team/tiny:1.0", registry.port)]));
    let output = run(&home, &["--image", "tiny-1.0"], &["sh", "-c", "cat word; echo; echo $GREETING"]);
    assert_eq!(text(&output.stdout), "from the image\nhello", "{}", text(&output.stderr));
    let info = image(&home, &["--json", "info", "tiny-1.0"]);
    let info: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert!(info["digest"].as_str().unwrap().starts_with("sha256:"), "{info}");
}

#[test]
fn the_default_image_has_what_agents_expect() {
    let home = Place::without_images();
    ok(&image(&home, &["build", "debian"]));
    let script = "
        for tool in git python python3 pip node npm gcc g++ make curl jq rg nano vi less; do
            command -v $tool > /dev/null || echo missing: $tool
        done
        set -e
        python -m venv /tmp/venv && /tmp/venv/bin/pip --version > /dev/null
        echo 'int main(void) { return 42; }' > /tmp/answer.c
        cd /tmp && make --silent answer && ./answer || echo gcc $?
        node -e 'console.log(\"node\", 6 * 7)'
        npm --version > /dev/null && echo npm
        python -c 'print(\"python\", 6 * 7)'
        echo '{\"jq\": 42}' | jq -c .
        rg --count answer /tmp/answer.c || echo none";
    let output = run(&home, &["--image", "debian", "--memory", "1024"], &["sh", "-c", script]);
    let expected = "gcc 42\nnode 42\nnpm\npython 42\n{\"jq\":42}\nnone";
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn a_running_or_stopped_workspace_can_be_committed_and_its_image_exported() {
    let place = Place::without_images();
    let work = tempfile::tempdir().unwrap();
    let root = work.path().join("root");
    std::fs::create_dir(&root).unwrap();
    busybox_root(&root);
    place.text(&["image", "import", "--name", "tiny", root.to_str().unwrap()]);
    place.json(&["create", "--name", "web", "--image", "tiny", "--disk", "2"]);
    // Not flushed explicitly: the image must contain completed writes.
    place.sh(
        "web",
        "echo new > /data/new; busybox ln /data/new /data/linked; busybox chown 7:8 /data/new; \
                     busybox chmod 4711 /data/new; busybox rm /data/same; busybox mkfifo /data/pipe",
    );
    let made = place.json(&["image", "commit", "web", "running"]);
    assert_eq!((&made["name"], &made["source"]), (&"running".into(), &"workspace web".into()));
    assert_eq!(place.sh("web", "cat /data/new"), "new", "the workspace keeps running");
    place.refused(&["image", "commit", "web", "running"]).is("image_exists", &["running"]);

    let look = "cat /data/new /data/word; echo; stat -c '%a %u %g %h %F' /data/linked; stat -c %F /data/pipe; ls /data";
    let expected = "new\nfrom the image\n4711 7 8 2 regular file\nfifo\nlinked\nnew\npipe\nword";
    let run = |image: &str| place.text(&["run", "--image", image, "--", "sh", "-c", look]);
    assert_eq!(run("running"), expected);

    let (tar, oci) = (work.path().join("out.tar"), work.path().join("out-oci.tar"));
    let written = place.json(&["image", "export", "running", tar.to_str().unwrap()]);
    assert_eq!(written["bytes"], std::fs::metadata(&tar).unwrap().len());
    let piped = place.output(&["image", "export", "--format", "oci", "running", "-"]);
    assert!(piped.status.success(), "{}", text(&piped.stderr));
    std::fs::write(&oci, piped.stdout).unwrap();
    place
        .refused(&["image", "export", "none", work.path().join("x").to_str().unwrap()])
        .is("image_not_found", &[]);
    place.text(&["image", "import", "--name", "from-oci", oci.to_str().unwrap()]);
    assert_eq!(run("from-oci"), expected);
    assert!(
        text(&Command::new("tar").arg("-tf").arg(&tar).output().unwrap().stdout).contains("./data/linked")
    );
    let files: Vec<_> =
        std::fs::read_dir(work.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files.len(), 3, "{files:?}");

    place.text(&["stop", "web"]);
    place.text(&["image", "commit", "web", "stopped"]);
    assert_eq!(run("stopped"), expected);
}

/// A real registry on this machine.
struct Registry {
    child: std::process::Child,
    port: u16,
}

impl Registry {
    fn start(dir: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = dir.join("registry.yml");
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n",
            dir.join("registry").display()
        );
        std::fs::write(&config, text).unwrap();
        let mut command = Command::new("docker-registry");
        command
            .arg("serve")
            .arg(&config)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null());
        let registry = Self { child: command.spawn().unwrap(), port };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        registry
    }

    /// Creates an OCI layout of one layer and pushes it with skopeo.
    fn push(&self, work: &Path, root: &Path) {
        let script = format!(
            r#"
            mkdir -p layout/blobs/sha256
            tar --owner=0 --group=0 --numeric-owner -C {root} -cf layer.tar .
            diff=$(sha256sum layer.tar | cut -d' ' -f1); gzip -n layer.tar
            put() {{ h=$(sha256sum "$1" | cut -d' ' -f1); cp "$1" layout/blobs/sha256/$h; echo $h; }}
            layer=$(put layer.tar.gz); size=$(stat -c %s layer.tar.gz)
            printf '{{"architecture":"amd64","os":"linux","config":{{"Env":["GREETING=hello"],"WorkingDir":"/data"}},"rootfs":{{"type":"layers","diff_ids":["sha256:%s"]}}}}' $diff > config
            config=$(put config)
            printf '{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:%s","size":%s}},"layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":"sha256:%s","size":%s}}]}}' $config $(stat -c %s config) $layer $size > manifest
            manifest=$(put manifest)
            printf '{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%s","size":%s,"annotations":{{"org.opencontainers.image.ref.name":"1.0"}}}}]}}' $manifest $(stat -c %s manifest) > layout/index.json
            printf '{{"imageLayoutVersion":"1.0.0"}}' > layout/oci-layout
            skopeo --insecure-policy copy --quiet --dest-tls-verify=false oci:layout:1.0 docker://127.0.0.1:{port}/team/tiny:1.0
            "#,
            root = root.display(),
            port = self.port
        );
        shell(&script, work);
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
