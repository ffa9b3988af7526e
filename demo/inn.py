"""One manager on the demo's state directory, and the commands that talk to it."""

import hashlib
import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

from children import Ended, Failed, end, run

# The longest path of a socket is 107 bytes; this much of it is the manager's own.
STATE_BYTES = 107 - len("/manager/embedded.sock")
START_S = 60
STOP_S = 60
# What `innkeeper grade` ends with when some gradings have no verdict; the document is whole then too.
INFRA = 3
# Should the demo itself be killed, what it started ends on its own after this long.
CONFIG = "orphan_ttl: 60s\n"


def state_dir(root: Path) -> Path:
    """INNKEEPER_STATE_DIR, else `.demo` in the tree, or, where that is too long a path, a folder in /var/tmp."""
    chosen = os.environ.get("INNKEEPER_STATE_DIR")
    if chosen:
        return Path(chosen).absolute()
    usual = root / ".demo"
    if len(os.fsencode(usual)) <= STATE_BYTES:
        return usual
    return Path("/var/tmp") / f"innkeeper-demo-{hashlib.sha256(os.fsencode(root)).hexdigest()[:8]}"


class Inn:
    """The binaries and a state directory. As a context a manager runs; at its end nothing does."""

    def __init__(self, binaries: Path, state: Path) -> None:
        self.state = state
        self.graded = state / "graded"
        self._innkeeper, self._execd = binaries / "innkeeper", binaries / "execd"
        self._env = {**os.environ, "INNKEEPER_STATE_DIR": str(state), "INNKEEPER_EXECD": str(self._execd)}
        for name in ("INNKEEPER_ENDPOINT", "INNKEEPER_TOKEN"):
            self._env.pop(name, None)
        self._log = state / "demo.log"
        self._manager = None
        self._since = 0

    def text(self, *words: object, codes: tuple[int, ...] = (0,)) -> str:
        """What a command prints."""
        ended = self._run(*words)
        if ended.code not in codes:
            raise Failed(f"innkeeper {words[0]} failed with exit code {ended.code}: {ended.errors}")
        return ended.said

    def json(self, *words: object) -> object:
        """What a command prints as JSON."""
        return json.loads(self.text(*words, "--json"))

    def grade(self, *words: object) -> dict:
        """What `innkeeper grade` says of its gradings."""
        return json.loads(self.text("grade", *words, "--json", codes=(0, INFRA)))

    def _run(self, *words: object) -> Ended:
        return run([self._innkeeper, *words], env=self._env, stderr=subprocess.PIPE)

    def check_machine(self) -> None:
        """Asks `innkeeper doctor` whether sandboxes can be made here."""
        self.state.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            ended = self._run("doctor", "--json")
        except BaseException:
            self._end_daemon()
            raise
        try:
            told = json.loads(ended.said)
        except ValueError:
            raise Failed(f"innkeeper doctor failed: {ended.errors}") from None
        if not told["usable"]:
            # That there are no images yet is no fault of the machine.
            faults = [f"{fact['detail']}: {fact['advice']}" for fact in told["facts"]
                      if not fact["ok"] and fact["name"] != "images"]
            raise Failed(f"no sandbox can be made here, since {'; '.join(faults)}")
        print(f"strategy {told['strategy']}, rights {told['rights']}, state in {self.state}")

    def creates(self) -> int:
        """How many sandboxes' slots were created since the manager started."""
        lines = self.text("events", "--json", "--since", self._since).splitlines()
        return sum(json.loads(line)["kind"] == "create_intent" for line in lines)

    def __enter__(self) -> "Inn":
        config = self.state / "demo.yaml"
        config.write_text(CONFIG)
        # In a session of its own, so that it ends after the gradings.
        with self._log.open("w") as log:
            self._manager = subprocess.Popen([self._innkeeper, "serve", "--config", config], env=self._env,
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        try:
            self._wait_until_it_answers()
            seen = self.text("events", "--json").splitlines()
            self._since = json.loads(seen[-1])["seq"] if seen else 0
        except BaseException:
            self.__exit__()
            raise
        return self

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + START_S
        while True:
            if self._run("ps", "--json").code == 0:
                return
            if self._manager.poll() is not None or time.monotonic() > deadline:
                lines = self._log.read_text().strip().splitlines() or ["it said nothing"]
                raise Failed(f"the manager did not start: {lines[-1]}; all it said is in {self._log}")
            time.sleep(0.05)

    def __exit__(self, *_error: object) -> None:
        end(self._manager)
        # Sandboxes and their daemon outlive a manager on purpose; here they are not to.
        self._end_daemon()

    def _end_daemon(self) -> None:
        """Ends the execd of this state directory and waits until it has gone."""
        for daemon in self._daemons():
            try:
                signal.pidfd_send_signal(daemon, signal.SIGTERM)
                gone, _, _ = select.select([daemon], [], [], STOP_S)
                if not gone:
                    signal.pidfd_send_signal(daemon, signal.SIGKILL)
                    raise Failed(f"execd did not end within {STOP_S} s and was killed; its log is {self.state}/execd/log")
            except ProcessLookupError:
                pass
            finally:
                os.close(daemon)

    def _daemons(self) -> list[int]:
        """A descriptor of each execd of this state directory, also of one that does not listen yet."""
        wanted = [str(self._execd).encode(), b"--state", str(self.state).encode()]
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                # The descriptor first: should the id be another's by then, its command line says so.
                daemon = os.pidfd_open(int(process.name))
            except OSError:
                continue
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                words = []
            if words[:3] == wanted:
                found.append(daemon)
            else:
                os.close(daemon)
        return found
