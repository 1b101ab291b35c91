"""agentiso.avfs on an installation of its own. Needs the program avfs: AVFS_BIN, or in PATH."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from agentiso.avfs import AVFS, AvfsError, Program, avfs

SCHEMAS = Path(__file__).parents[4] / "docs" / "schemas"


class Installation(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.home = directory.name
        before = os.environ.get("AGENTISO_HOME")
        os.environ["AGENTISO_HOME"] = self.home
        self.addCleanup(self._restore, before)

    @staticmethod
    def _restore(before: str | None) -> None:
        if before is None:
            del os.environ["AGENTISO_HOME"]
        else:
            os.environ["AGENTISO_HOME"] = before


class AsPrinted(Installation):
    def test_the_low_level_example(self) -> None:
        binary = Program().path()

        def avfs(*args):
            result = subprocess.run(
                [binary, "--json"] + [str(a) for a in args],
                capture_output=True,
                text=True,
            )
            return json.loads(result.stdout) if result.stdout else None

        self.assertEqual(avfs("vault", "create", "agent-workspace")["created"], "agent-workspace")
        forked = avfs("vault", "fork", "agent-workspace", "agent-workspace-task-1")
        self.assertEqual(forked["name"], "agent-workspace-task-1")
        saved = avfs("--vault", "agent-workspace-task-1", "checkpoint", "save", "before-change")
        self.assertEqual(saved["name"], "before-change")

    def test_the_same_with_the_function_of_the_package(self) -> None:
        avfs("vault", "create", "agent-workspace")
        avfs("vault", "fork", "agent-workspace", "agent-workspace-task-1")
        avfs("--vault", "agent-workspace-task-1", "checkpoint", "save", "before-change")
        envelope = avfs("--vault", "agent-workspace-task-1", "proxy", "exec", "--", "false")
        self.assertEqual((envelope["kind"], envelope["result"]["exit_code"]), ("proxy_exec_result", 1))
        self.assertEqual(avfs("vault", "info", "none")["error"]["code"], "vault_not_found")


class Pattern(Installation):
    def test_the_recommended_pattern(self) -> None:
        root = AVFS.create("agent-workspace")
        root.write("/main.py", "print('one')\n")
        task = root.fork("agent-workspace-task-1")
        task.checkpoint_save("before-change")
        run = task.exec("sed -i s/one/two/ main.py && python3 main.py")
        self.assertTrue(run.success)
        self.assertEqual(run.result.stdout, "two\n")
        self.assertEqual(run.result.changed_files, ["/main.py"])
        self.assertEqual(run.result.changes[0].kind, "modified")
        self.assertEqual(task.checkpoint_diff("before-change")["total"], 1)
        self.assertTrue(root.merge(task.vault)["applied"])
        self.assertEqual(root.cat("/main.py"), "print('two')\n")
        task.remove()
        mistake = root.exec(["rm", "main.py"])
        assert mistake.result.checkpoint is not None
        root.checkpoint_restore(mistake.result.checkpoint)
        self.assertEqual(root.read("/main.py"), b"print('two')\n")


class Envelopes(Installation):
    def setUp(self) -> None:
        super().setUp()
        self.vault = AVFS.create("work")

    def test_no_outcome_loses_its_envelope(self) -> None:
        outcomes = {
            "done": self.vault.exec(["true"]),
            "failed": self.vault.exec("exit 7"),
            "denied": self.vault.exec(["cat", "/etc/passwd"]),
            "approval_required": self.vault.exec(["curl", "https://example.com"]),
            "timed_out": self.vault.exec("sleep 100", timeout=0.3),
            "not_found": self.vault.exec(["no-such-program"]),
            "killed": self.vault.exec("kill -9 $$"),
            "planned": self.vault.exec(["touch", "x"], dry_run=True),
            "invalid_request": self.vault.exec(["true"], cwd="/.."),
        }
        for expected, envelope in outcomes.items():
            self.assertEqual(envelope.outcome, expected)
            self.assertEqual(envelope.success, expected in ("done", "planned"))
            self.assertEqual(envelope.schema_version, 1)
        self.assertEqual(outcomes["failed"].result.exit_code, 7)
        self.assertEqual(outcomes["killed"].result.signal, 9)
        self.assertEqual(outcomes["denied"].result.decision.action, "deny")
        approval = outcomes["approval_required"].result.approval
        assert approval is not None
        self.assertEqual(approval.state, "open")
        self.assertIsNotNone(outcomes["invalid_request"].result.error)
        self.assertEqual(AVFS("none").exec(["true"]).outcome, "invalid_request")

    def test_every_field_of_the_envelope_is_known_here(self) -> None:
        envelope = self.vault.exec("echo x > f")
        for name, value in envelope.raw["result"].items():
            self.assertTrue(hasattr(envelope.result, name), name)
            if isinstance(value, (str, int, bool, type(None))):
                self.assertEqual(getattr(envelope.result, name), value)
        for name in envelope.raw["request"]:
            if name != "timeout":
                self.assertTrue(hasattr(envelope.request, name), name)
        for name in envelope.raw["result"]["changes"][0]:
            self.assertTrue(hasattr(envelope.result.changes[0], name), name)
        self.assertEqual(envelope.request.timeout_ms, 300_000)
        schema = json.loads((SCHEMAS / "proxy_exec_result.json").read_text())
        known = schema["$defs"]["ResultReport"]["properties"]
        self.assertEqual(set(known), set(envelope.result.__dataclass_fields__))

    def test_input_variables_and_directory(self) -> None:
        self.vault.mkdir("/dir")
        run = self.vault.exec("pwd; echo $WORD; cat", cwd="/dir", env={"WORD": "a b"}, input="read me")
        self.assertEqual(run.result.stdout, "/workspace/dir\na b\nread me")

    def test_output_arrives_while_the_command_runs(self) -> None:
        seen: list[tuple[str, str]] = []
        run = self.vault.exec("echo a; echo b >&2", on_output=lambda stream, text: seen.append((stream, text)))
        self.assertTrue(run.success)
        self.assertEqual("".join(text for stream, text in seen if stream == "stdout"), "a\n")
        self.assertEqual("".join(text for stream, text in seen if stream == "stderr"), "b\n")

    def test_a_session_runs_commands_in_one_sandbox(self) -> None:
        with self.vault.session() as session:
            self.assertEqual(session.exec("echo 1 > /tmp/f; echo x > f").result.changed_files, ["/f"])
            self.assertEqual(session.exec(["cat", "/tmp/f"]).result.stdout, "1\n")
            self.assertEqual(session.exec(["false"]).outcome, "failed")
        self.assertEqual(self.vault.cat("/f"), "x\n")
        self.assertEqual(session.exec(["true"]).outcome, "invalid_request")

    def test_agents_do_not_meet(self) -> None:
        names = [f"agent-{number}" for number in range(4)]

        def work(name: str) -> None:
            vault = self.vault.fork(name)
            vault.exec(f"echo {name} > name")

        threads = [threading.Thread(target=work, args=(name,)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for name in names:
            self.assertEqual(AVFS(name).cat("/name"), name + "\n")


class Files(Installation):
    def setUp(self) -> None:
        super().setUp()
        self.vault = AVFS.create("work")

    def test_bytes_come_back(self) -> None:
        data = bytes(range(256)) * 5000
        self.assertEqual(self.vault.write("/new/data", data)["size"], len(data))
        self.assertEqual(self.vault.read("/new/data"), data)

    def test_every_list_is_what_it_says(self) -> None:
        self.vault.write("/a", "one\n")
        self.vault.append("/a", "two\n")
        self.vault.cp("/a", "/b")
        self.vault.mv("/b", "/c")
        self.assertEqual([one["name"] for one in self.vault.ls()], ["a", "c"])
        self.assertEqual([one["name"] for one in AVFS.list_vaults()], ["work"])
        self.vault.checkpoint_save("one")
        self.assertEqual([one["name"] for one in self.vault.checkpoint_list()], ["one"])
        self.assertEqual(len(self.vault.tree()["children"]), 2)
        self.assertEqual(self.vault.grep("two")["matches"][0]["line_number"], 2)
        self.assertEqual(self.vault.find(name="c")["count"], 1)
        self.assertEqual(self.vault.search("one")["count"], 2)
        self.assertEqual([one["version"] for one in self.vault.log("/a")], [2, 1])
        self.assertEqual(self.vault.revert("/a")["reverted_to"], 1)
        self.assertEqual(self.vault.checkout("/a", 2)["restored_version"], 2)
        self.assertEqual(self.vault.stat("/a")["type"], "file")
        self.vault.rm("/a")
        self.assertGreaterEqual(self.vault.stats()["files"], 1)
        self.assertFalse(self.vault.gc()["dry_run"])
        self.vault.compact()
        self.assertEqual(self.vault.explain("rm -rf x")["decision"]["action"], "allow_with_checkpoint")

    def test_host_directories_go_in_and_out(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "in").mkdir()
            Path(directory, "in", "f").write_text("x")
            self.assertEqual(self.vault.import_(Path(directory, "in"))["files_imported"], 1)
            self.vault.export("/", Path(directory, "out"))
            self.assertEqual(Path(directory, "out", "f").read_text(), "x")

    def test_errors_have_codes(self) -> None:
        with self.assertRaises(AvfsError) as caught:
            self.vault.read("/none")
        self.assertEqual(caught.exception.code, "file_not_found")
        with self.assertRaises(AvfsError) as caught:
            AVFS.create("work")
        self.assertEqual(caught.exception.code, "vault_exists")
        with self.assertRaises(AvfsError) as caught:
            AVFS("work", binary="no-such-program").info()
        self.assertEqual(caught.exception.code, "tool_missing")
        # Names and paths that look like flags are names and paths.
        with self.assertRaises(AvfsError) as caught:
            self.vault.cat("--help")
        self.assertEqual(caught.exception.code, "file_not_found")

    def test_vaults_are_renamed_and_forked_from_checkpoints(self) -> None:
        self.vault.write("/f", "1")
        self.vault.checkpoint_save("one")
        self.vault.write("/f", "2")
        fork = self.vault.fork("old", checkpoint="one", ttl="2h")
        self.assertEqual(fork.cat("/f"), "1")
        fork.rename("older")
        self.assertEqual(fork.info()["name"], "older")
        self.vault.checkpoint_restore("one", path="/f")
        self.assertEqual(self.vault.cat("/f"), "1")
        self.vault.checkpoint_delete("one")
        fork.remove()


if __name__ == "__main__":
    unittest.main()
