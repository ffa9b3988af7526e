#!/bin/bash
# Installs the Debian packages that are missing; does nothing when all are there. Usage: packages.sh demo|tests
set -euo pipefail

# What must be there and the package that has it: a program, a file by its path, or import:MODULE of Python.
demo=(
    python3=python3 cc=gcc git=git mmdebstrap=mmdebstrap unshare=util-linux tar=tar
    /usr/include/stdlib.h=libc6-dev
)
tests=(
    "${demo[@]}"
    skopeo=skopeo umoci=umoci docker-registry=docker-registry
    setfacl=acl setfattr=attr setcap=libcap2-bin lsattr=e2fsprogs mkfs.ext4=e2fsprogs
    ip=iproute2 ps=procps dpkg-deb=dpkg patch=patch zstd=zstd
    import:ensurepip=python3-venv
)

case ${1-} in
demo) wanted=("${demo[@]}") ;;
tests) wanted=("${tests[@]}") ;;
*)
    echo "usage: packages.sh demo|tests" >&2
    exit 2
    ;;
esac

there() {
    case $1 in
    /*) [ -e "$1" ] ;;
    import:*) python3 -c "import ${1#import:}" 2> /dev/null ;;
    *) command -v "$1" > /dev/null || [ -x "/usr/sbin/$1" ] || [ -x "/sbin/$1" ] ;;
    esac
}

missing=()
for entry in "${wanted[@]}"; do
    package=${entry#*=}
    if ! there "${entry%%=*}" && [[ " ${missing[*]-} " != *" $package "* ]]; then
        missing+=("$package")
    fi
done
[ "${#missing[@]}" -eq 0 ] && exit 0

echo "installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# Another run of apt may hold the lock for a moment, as on a machine that has just started.
wait=(-o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt-get "${wait[@]}" update -qq > "$log" 2>&1 || {
    tail -n 5 "$log" >&2
    echo "apt-get update failed in part; going on with the lists that are there" >&2
}
apt-get "${wait[@]}" install -y -qq --no-install-recommends "${missing[@]}" > "$log" 2>&1 || {
    tail -n 15 "$log" >&2
    echo "these packages could not be installed: ${missing[*]}; put apt in order and run this again." >&2
    exit 1
}
