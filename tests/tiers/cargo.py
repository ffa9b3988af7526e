"""Building the workspace once and finding its test programs."""

import json
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import tier
from tier import Tier

# Quick ones first, so that a plain mistake shows early; what is not named comes last.
ORDER = ["innkeeper-proto", "innkeeper-proto-codegen", "innkeeper-pool", "innkeeper-grading", "innkeeper-images",
         "innkeeper-reset", "execd", "innkeeper"]
# Everything that is compiled for tests, so that no second graph of dependencies is built.
PROFILE = ["--profile", "tests"]


class Unbuilt(Exception):
    """The build failed; cargo has said why."""


@dataclass(frozen=True)
class Built:
    """The folder of `innkeeper` and `execd`, and the test programs in the order to run them."""

    binaries: Path
    tiers: list[Tier]


def build(root: Path) -> Built:
    """Builds binaries and test programs of the whole workspace with all features of the defaults."""
    artifacts = _cargo(root, ["build", "--workspace", "--bins"]) + _cargo(root, ["test", "--workspace", "--no-run"])
    # Last, since it takes the place of the one before: in a pod that runs a task's image, execd finds that image's
    # libraries or none.
    artifacts += _cargo(root, ["rustc", "--package", "execd", "--bin", "execd"], "-C", "target-feature=+crt-static")
    programs, tests = {}, []
    for artifact in artifacts:
        if not artifact.get("executable"):
            continue
        if artifact["profile"]["test"]:
            tests.append(artifact)
        elif "bin" in artifact["target"]["kind"]:
            programs[artifact["target"]["name"]] = Path(artifact["executable"])
    packages = {package["id"]: package for package in _metadata(root)["packages"]}

    def rank(artifact: dict) -> tuple:
        name = packages[artifact["package_id"]]["name"]
        unit = "test" not in artifact["target"]["kind"]
        return (ORDER.index(name) if name in ORDER else len(ORDER), not unit, name, artifact["target"]["name"])

    return Built(programs["innkeeper"].parent, [_tier(artifact, packages) for artifact in sorted(tests, key=rank)])


def documentation(root: Path) -> Tier:
    """The examples in documentation."""
    return Tier("documentation", ["cargo", "test", "--locked", *PROFILE, "--workspace", "--doc"], root)


def _tier(artifact: dict, packages: dict) -> Tier:
    package, target = packages[artifact["package_id"]], artifact["target"]
    folder = Path(package["manifest_path"]).parent
    kind = "" if "test" in target["kind"] else f" {target['kind'][0]} units"
    # Cargo runs tests in their package's folder and with these variables.
    env = {"CARGO_MANIFEST_DIR": str(folder), "CARGO_PKG_NAME": package["name"], "CARGO_PKG_VERSION": package["version"]}
    harness = _has_harness(package, target)
    argv = [artifact["executable"], *(["--show-output"] if harness else [])]
    return Tier(f"{package['name']}/{target['name']}{kind}", argv, folder, env, captured=harness)


def _has_harness(package: dict, target: dict) -> bool:
    """Whether a test program is Rust's own harness: cargo's metadata does not say, the manifest does."""
    manifest = tomllib.loads(Path(package["manifest_path"]).read_text())
    own = [test["name"] for test in manifest.get("test", []) if not test.get("harness", True)]
    return target["name"] not in own


def _metadata(root: Path) -> dict:
    done = subprocess.run(["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"], cwd=root, check=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def _cargo(root: Path, words: list[str], *flags: str) -> list[dict]:
    """Runs cargo, with flags for the compiler of the one program that is named; cargo shows its progress. Gives the
    artifacts that it made or found made."""
    argv = ["cargo", words[0], "--locked", *PROFILE, *words[1:], "--message-format", "json-render-diagnostics"]
    argv += ["--", *flags] if flags else []
    child = subprocess.Popen(argv, cwd=root, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    try:
        said, _ = child.communicate()
    except BaseException:
        tier.end(child)
        raise
    if child.returncode != 0:
        raise Unbuilt
    messages = [json.loads(line) for line in said.splitlines() if line.startswith(b"{")]
    return [message for message in messages if message["reason"] == "compiler-artifact"]
