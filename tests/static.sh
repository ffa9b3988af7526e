#!/bin/sh
# Builds innkeeper-guest, static, and prints its path. Arguments go to cargo: --locked, --profile NAME and the like.
# A target that is named keeps the flag away from build scripts and macros, and the output beside that of other builds.
set -eu
cd "$(dirname "$0")/../.."
RUSTFLAGS="${RUSTFLAGS-} -C target-feature=+crt-static"
export RUSTFLAGS
host=$(rustc --print host-tuple)
cargo build "$@" --target "$host" -p innkeeper-guest --message-format json-render-diagnostics |
    sed -n 's/.*"executable":"\([^"]*innkeeper-guest\)".*/\1/p'
