#!/bin/bash
# Says in one sentence why sandboxes cannot be made on this machine, or nothing. Usage: machine.sh WHAT-FOR
set -euo pipefail

refuse() {
    echo "$1" >&2
    exit 1
}

what=$1
[ "$(uname -s)" = Linux ] || refuse "$what needs Linux, whose namespaces and overlays sandboxes are made of; this is $(uname -s)."
[ "$(id -u)" -eq 0 ] || refuse "$what needs root, to mount and to make namespaces: run it as root, for example with sudo."
release=$(uname -r)
IFS=.- read -r major minor _ <<< "$release"
if [ "$major" -lt 6 ] || { [ "$major" -eq 6 ] && [ "$minor" -lt 15 ]; }; then
    refuse "$what needs Linux 6.15 or later, because older ones cannot clone the mounts that sandboxes are made of; this is $release."
fi
command -v cargo > /dev/null ||
    refuse "$what needs Rust 1.90 or later, and there is no cargo in PATH: install Rust with rustup, or add its bin folder to PATH."
version=$(rustc --version | cut -d' ' -f2)
IFS=. read -r major minor _ <<< "$version"
[ "$major" -gt 1 ] || [ "$minor" -ge 90 ] || refuse "$what needs Rust 1.90 or later, and this is $version: run rustup update."
command -v apt-get > /dev/null ||
    refuse "$what installs what it needs with apt-get, which is not here: use Debian or a system made of it."
