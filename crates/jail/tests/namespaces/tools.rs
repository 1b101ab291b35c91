//! Programs that agents use work inside.

use std::path::Path;

use agentiso_jail::Bind;

use crate::place::{Place, run, sh};

as_everyone! {
    fn version_control_builds_and_databases_work() {
        let place = Place::new();
        let script = r#"set -e
            git init -q repo; cd repo; git config user.email a@b; git config user.name a
            printf 'all: hello\nhello: hello.c\n\tgcc -o hello hello.c\n' > Makefile
            printf '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n' > hello.c
            git add .; git commit -qm first; git clone -q . ../clone; git -C ../clone log --oneline | wc -l
            make -s -j2; ./hello
            sqlite3 data.db 'pragma journal_mode=wal; create table t(x); insert into t values (42); select x from t;'
            tar cf - . | tar tf - | grep -c hello.c; mv repo ../moved 2>/dev/null || true"#;
        let output = run(&place.spec(), &sh(script));
        assert_eq!(output.text(), "1\nbuilt\nwal\n42\n1", "{}", output.stderr);
    }
}

as_everyone! {
    fn python_works() {
        let place = Place::new();
        let script = r#"
import multiprocessing, os, socket, subprocess, tempfile, threading, uuid
with multiprocessing.Pool(2) as pool:
    print(sum(pool.map(abs, [-1, -2, -3])))
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
print(subprocess.run(["true"]).returncode, os.cpu_count() > 0, len(os.urandom(8)), tempfile.gettempdir())
"#;
        std::fs::write(place.workspace().join("t.py"), script).unwrap();
        let output = run(&place.spec(), &sh("/usr/bin/python3 t.py"));
        assert_eq!(output.text(), "6\n0 True 8 /tmp", "{}", output.stderr);
    }
}

as_everyone! {
    fn node_works() {
        let place = Place::new();
        let script = r#"const { execFileSync } = require("child_process"); const { Worker } = require("worker_threads");
require("fs").promises.writeFile("x", "y").then(() => {
  new Worker('require("worker_threads").parentPort.postMessage(1)', { eval: true }).on("message", m =>
    console.log(m, execFileSync("cat", ["x"]).toString()));
});"#;
        std::fs::write(place.workspace().join("t.js"), script).unwrap();
        let output = run(&place.spec(), &sh("node t.js"));
        assert_eq!(output.text(), "1 y", "{}", output.stderr);
    }
}

as_everyone! {
    fn tools_of_the_caller_can_be_shown() {
        let place = Place::new();
        let tools = place.subdir("tools");
        std::fs::write(tools.join("mine"), "#!/bin/sh\necho mine\n").unwrap();
        crate::place::allow(&tools.join("mine"), 0o755);
        let spec = place.spec().mount(Bind::readonly(&tools, Path::new("/opt/tools")));
        assert_eq!(run(&spec, &sh("PATH=/opt/tools:$PATH; mine")).text(), "mine");
    }
}
