"""The images of the demo's tasks, from the recipes into the store."""

import json
import time
from pathlib import Path

from children import output
from inn import Inn


def bring(root: Path, inn: Inn) -> None:
    """Builds the images and imports those that the store does not hold in this very form."""
    began = time.monotonic()
    listed = output([root / "fixtures/demo/build.sh"], "building the images")
    layouts = dict(line.split("\t") for line in listed.splitlines())
    stored = {}
    for image in inn.json("image", "ls"):
        stored.update({name: image["manifest_digest"] for name in image["names"]})
    absent = [name for name, layout in layouts.items() if stored.get(name) != manifest(Path(layout))]
    for name in absent:
        inn.json("image", "import", layouts[name], "--name", name)
    print(f"{len(layouts)} images, {len(absent)} of them imported, in {time.monotonic() - began:.0f} s")


def manifest(layout: Path) -> str:
    """The digest of the one image of an OCI layout."""
    return json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
