#!/bin/bash
# Puts the swebench package (5.x), with which gradings are compared, into an environment of its own in the cache, and
# prints the path of its Python. Usage: reference.sh
set -euo pipefail

cache=${INNKEEPER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/innkeeper}
final=$cache/reference-1
python=$final/bin/python
usable() { [ -x "$python" ] && "$python" -c 'import swebench.harness.grading' 2> /dev/null; }

mkdir -p "$cache/locks"
exec 9> "$cache/locks/reference"
flock 9
if ! usable; then
    echo "installing the swebench package into $final" >&2
    rm -rf "$final"
    # Scripts of an environment name its folder, so it is made in place; one that does not import is not complete.
    {
        python3 -m venv "$final" &&
            "$python" -m pip install --quiet --retries 5 'swebench>=5,<6' &&
            usable
    } >&2 < /dev/null || {
        rm -rf "$final"
        echo "the swebench package could not be installed with pip" >&2
        exit 1
    }
fi
echo "$python"
