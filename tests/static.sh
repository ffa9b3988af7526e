#!/bin/sh
# Builds one program of the workspace, static, and prints its path. Usage: static.sh PACKAGE CARGO-ARGUMENTS...
# A target that is named keeps the flag away from build scripts and macros, and the output beside that of other builds.
set -eu
cd "$(dirname "$0")/.."
package=$1
shift
RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+crt-static"
export RUSTFLAGS
host=$(rustc --print host-tuple)
cargo build "$@" --target "$host" -p "$package" --message-format json-render-diagnostics |
    sed -n "s/.*\"executable\":\"\([^\"]*\/$package\)\".*/\1/p"
