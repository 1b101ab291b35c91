//! Git in a workspace, with a password-protected server on its loopback interface.

use serde_json::{Value, json};

use crate::http::Http;
use crate::place::Place;

const PASSWORD: &str = "kite-of-git";
const WRONG: &str = "kite-that-is-wrong";

/// Git's own server, behind a password.
const SERVER: &str = r#"
import base64, http.server, os
class Handler(http.server.CGIHTTPRequestHandler):
    def allowed(self):
        wanted = 'Basic ' + base64.b64encode(b'user:kite-of-git').decode()
        if self.headers.get('authorization') == wanted:
            return True
        self.send_response(401)
        self.send_header('WWW-Authenticate', 'Basic realm="git"')
        self.send_header('Content-Length', '0')
        self.end_headers()
        return False
    def do_GET(self):
        if self.allowed(): super().do_GET()
    def do_POST(self):
        if self.allowed(): super().do_POST()
    def log_message(self, *words): pass
os.environ.update(GIT_PROJECT_ROOT='/srv', GIT_HTTP_EXPORT_ALL='1')
os.chdir('/www')
server = http.server.ThreadingHTTPServer(('127.0.0.1', 8080), Handler)
print('ready', flush=True)
server.serve_forever()
"#;

/// A workspace with a Git server.
struct Forge {
    user: Http,
    _place: Place,
}

impl Forge {
    fn new() -> Self {
        let place = Place::new();
        let user = place.http();
        user.act("workspace_create", json!({"name": "forge"}));
        user.act("file_write", json!({"workspace_id": "forge", "path": "/www/server.py", "content": SERVER}));
        user.sh(
            "forge",
            "git config --global init.defaultBranch main; git config --global user.name tester; \
             git config --global user.email tester@example.com; git init -q --bare /srv/repo.git; \
             git init -q /tmp/first; cd /tmp/first; seq 1 200 > numbers; echo first > README.md; git add .; \
             git commit -qm first; git push -q /srv/repo.git main; git tag v1; git push -q /srv/repo.git v1; \
             chown -R nobody /srv; mkdir -p /www/cgi-bin; ln -s /usr/lib/git-core/git-http-backend /www/cgi-bin/git",
        );
        let job = user
            .act("exec_start", json!({"workspace_id": "forge", "command": "exec python3 /www/server.py"}));
        let ready =
            json!({"workspace_id": "forge", "job_id": job["job_id"], "wait": "output", "wait_secs": 300});
        assert_eq!(user.act("exec_poll", ready)["stdout"], "ready\n");
        Self { user, _place: place }
    }

    fn act(&self, action: &str, arguments: Value) -> Value {
        let done = self.user.act(action, of_forge(arguments));
        has_no_password(&done.to_string());
        done
    }

    fn refused(&self, action: &str, arguments: Value, code: &str, words: &[&str]) {
        let refusal = self.user.refused(action, of_forge(arguments));
        has_no_password(&refusal.said);
        refusal.is(code, words);
    }

    fn sh(&self, script: &str) -> String {
        self.user.sh("forge", script)
    }
}

fn of_forge(mut arguments: Value) -> Value {
    arguments["workspace_id"] = json!("forge");
    arguments
}

fn url(user: &str) -> String {
    format!("http://{user}127.0.0.1:8080/cgi-bin/git/repo.git")
}

fn has_no_password(text: &str) {
    assert!(!text.contains(PASSWORD) && !text.contains(WRONG), "{text}");
}

#[test]
fn a_repository_can_be_cloned_changed_and_pushed_without_revealing_a_password() {
    let forge = Forge::new();
    cloning(&forge);
    changing(&forge);
    pushing(&forge);
    let told = forge.act("timeline", json!({"limit": 1000}));
    assert!(told.to_string().contains("[redacted]@127.0.0.1"), "{told}");
}

fn cloning(forge: &Forge) {
    let good = url(&format!("user:{PASSWORD}@"));
    forge.refused("git_clone", json!({"url": url("")}), "git_failed", &["set_env"]);
    forge.refused("git_clone", json!({"url": url(&format!("user:{WRONG}@"))}), "git_failed", &["set_env"]);
    assert_eq!(forge.sh("ls -d /workspace 2>/dev/null || echo none"), "none", "nothing incomplete is left");
    let cloned = forge.act("git_clone", json!({"url": good}));
    assert_eq!((&cloned["path"], &cloned["branch"]), (&json!("/workspace"), &json!("main")));
    assert_eq!(cloned["url"], url("[redacted]@"));
    assert_eq!(cloned["commit_sha"], forge.sh("git -C /tmp/first rev-parse HEAD"));
    forge.refused("git_clone", json!({"url": good}), "git_failed", &["already exists"]);
    let tag = forge.act("git_clone", json!({"url": good, "path": "/tagged", "branch": "v1", "depth": 1}));
    assert_eq!((&tag["branch"], &tag["depth"]), (&Value::Null, &json!(1)));
    forge.refused("git_clone", json!({"url": good, "path": "/x", "branch": "none"}), "git_failed", &["none"]);
    // The way that leaves no password in the repository.
    forge.sh("printf '#!/bin/sh\\necho $GIT_PASSWORD\\n' > /run/askpass; chmod +x /run/askpass");
    let vars = json!({"GIT_ASKPASS": "/run/askpass", "GIT_PASSWORD": PASSWORD});
    forge.act("set_env", json!({"vars": vars}));
    forge.act("git_clone", json!({"url": url("user@"), "path": "/asked"}));
    let there = "grep -rl kite /asked/.git || echo none";
    assert_eq!(forge.sh(there), "none");

    for hostile in [
        "",
        "/srv/repo.git",
        "file:///srv/repo.git",
        "ext::sh -c 'touch /tmp/pwned'",
        "--upload-pack=touch /tmp/pwned",
        "-oProxyCommand=touch@x:y",
        "ssh://-oProxyCommand=id/x",
        "http://x/$(id)",
        "http://x/;id",
        "http://x/\nid",
    ] {
        forge.refused("git_clone", json!({"url": hostile, "path": "/hostile"}), "invalid_argument", &["url"]);
    }
    for name in ["-x", "--mirror", "a..b", "a b", "$(id)", "a\nb", "x.lock", "", "+main"] {
        forge.refused(
            "git_clone",
            json!({"url": good, "path": "/hostile", "branch": name}),
            "invalid_argument",
            &[],
        );
        forge.refused("git_push", json!({"branch": name}), "invalid_argument", &[]);
        forge.refused("git_push", json!({"remote": name}), "invalid_argument", &[]);
    }
    forge.refused("git_clone", json!({"url": good, "path": "relative"}), "invalid_argument", &["absolute"]);
    forge.refused(
        "git_clone",
        json!({"url": good, "path": "/x", "depth": 0}),
        "invalid_argument",
        &["depth"],
    );
    assert_eq!(forge.sh("ls -d /hostile /x /tmp/pwned 2>/dev/null || echo none"), "none");
    forge.refused("git_status", json!({"path": "/tmp"}), "not_a_repository", &["/tmp"]);
    forge.refused("git_status", json!({"path": "/none"}), "not_a_repository", &["/none"]);
}

fn changing(forge: &Forge) {
    let clean = forge.act("git_status", json!({}));
    assert_eq!((&clean["branch"], &clean["dirty"]), (&json!("main"), &json!(false)));
    assert_eq!((&clean["upstream"], &clean["ahead"]), (&json!("origin/main"), &json!(0)));
    assert_eq!(forge.act("git_commit", json!({"message": "x"}))["status"], "nothing_to_commit");
    forge.sh(
        "cd /workspace; echo changed > README.md; echo x > 'new file'; seq 1 400 > numbers; git add numbers",
    );
    let state = forge.act("git_status", json!({}));
    assert_eq!((&state["staged"], &state["modified"]), (&json!(["numbers"]), &json!(["README.md"])));
    assert_eq!((&state["untracked"], &state["dirty"]), (&json!(["new file"]), &json!(true)));
    let diff = forge.act("git_diff", json!({}));
    let text = diff["diff"].as_str().unwrap();
    assert!(text.contains("-first\n+changed\n") && !text.contains("numbers"), "{text}");
    assert!(forge.act("git_diff", json!({"staged": true}))["diff"].as_str().unwrap().contains("\n+400\n"));
    let part = forge.act("git_diff", json!({"staged": true, "max_bytes": 300}));
    assert_eq!(part["truncated"], true);
    let stat = forge.act("git_diff", json!({"stat": true}));
    assert!(stat["stat"].as_str().unwrap().contains("README.md"), "{stat}");
    assert_eq!(forge.act("git_diff", json!({"file_path": "numbers"}))["diff"], "");
    forge.act("git_diff", json!({"file_path": "--output=/tmp/pwned"}));
    assert_eq!(forge.sh("ls /tmp/pwned 2>/dev/null || echo none"), "none");

    forge.refused("git_commit", json!({"message": " "}), "invalid_argument", &["message"]);
    let alone = json!({"message": "x", "author_name": "A"});
    forge.refused("git_commit", alone, "invalid_argument", &["author_email"]);
    let message = "It's \"quoted\" $(touch /tmp/pwned) `id`\n\nbody";
    let author =
        json!({"message": message, "add_all": false, "author_name": "A B", "author_email": "a@example.com"});
    let committed = forge.act("git_commit", author);
    assert_eq!((&committed["status"], &committed["branch"]), (&json!("committed"), &json!("main")));
    assert_eq!(committed["summary"], "It's \"quoted\" $(touch /tmp/pwned) `id`");
    assert_eq!(
        forge.sh("cd /workspace; git log -1 --format='%an %ae %H'; ls /tmp/pwned 2>/dev/null || echo none"),
        format!("A B a@example.com {}\nnone", committed["commit_sha"].as_str().unwrap())
    );
    assert_eq!(forge.act("git_status", json!({}))["modified"], json!(["README.md"]), "only what was staged");
    assert_eq!(forge.act("git_commit", json!({"message": "rest"}))["status"], "committed");
    let state = forge.act("git_status", json!({}));
    assert_eq!((&state["ahead"], &state["dirty"]), (&json!(2), &json!(false)));
}

fn pushing(forge: &Forge) {
    let pushed = forge.act("git_push", json!({}));
    assert_eq!((&pushed["remote"], &pushed["branch"]), (&json!("origin"), &json!("main")));
    assert_eq!(forge.act("git_status", json!({}))["ahead"], 0);
    let head = "git -c safe.directory=* -C /srv/repo.git log -1 --format=%s";
    assert_eq!(forge.sh(&format!("{head} main")), "rest");
    forge.sh("cd /workspace; git checkout -q -b topic/one");
    forge.act("git_push", json!({"set_upstream": true}));
    assert_eq!(forge.act("git_status", json!({}))["upstream"], "origin/topic/one");

    // Another clone is behind: rejected, then forced with the known remote commit.
    forge.sh("cd /asked; echo other > README.md; git commit -qam other");
    forge.refused("git_push", json!({"path": "/asked"}), "git_failed", &["force"]);
    forge.sh("cd /asked; git fetch -q");
    forge.act("git_push", json!({"path": "/asked", "force": true}));
    assert_eq!(forge.sh(&format!("{head} main")), "other");
    forge.refused("git_push", json!({"remote": "nowhere"}), "git_failed", &["git remote -v"]);
    forge.sh("cd /workspace; git checkout -q --detach");
    forge.refused("git_push", json!({}), "git_failed", &["branch"]);
    forge.sh("cd /workspace; git remote set-url origin http://user:kite-that-is-wrong@127.0.0.1:8080/cgi-bin/git/repo.git");
    forge.refused("git_push", json!({"branch": "main"}), "git_failed", &[]);
}
