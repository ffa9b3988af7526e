# Removes from the work tree and its repository what the base commit ($1, else HEAD) does not
# reach, and leftovers of tests. The tree of HEAD and the work tree's own files stay as they are.
set -eu
base=${1:-HEAD}

g() {
    git -c safe.directory='*' -c core.hooksPath=/dev/null -c gc.auto=0 -c core.logAllRefUpdates=false "$@"
}

is_reached() {
    commit=$(g rev-parse -q --verify "$1^{commit}" 2>/dev/null) || return 1
    g merge-base --is-ancestor "$commit" "$base" 2>/dev/null
}

remove_leftovers() {
    command -v find >/dev/null || return 0
    find . -name .git -prune -o \( \
        -name .pytest_cache -o -name .tox -o -name .nox -o -name .hypothesis -o -name .mypy_cache \
        -o -name .ruff_cache -o -name .testmondata -o -name htmlcov -o -name .coverage \
        -o -name '.coverage.*' -o -name coverage.xml -o -name nosetests.xml -o -name 'junit*.xml' \
        -o -name '*.lcov' -o -name '*.orig' -o -name '*.rej' -o -name '*.log' -o -name '*.diff' \
        -o -name '*.patch' -o -name 'test_*.pyc' -o -name '*_test.*.pyc' -o -name 'conftest.*.pyc' \
        -o -path '*/tests/*.pyc' -o -path '*/test/*.pyc' -o -path '*/testing/*.pyc' \
        \) -prune -exec sh -c '
            for path; do
                git -c safe.directory="*" ls-files --error-unmatch -- "$path" >/dev/null 2>&1 ||
                    rm -rf -- "$path"
            done' sh {} +
}

remove_history() {
    base=$(g rev-parse -q --verify "$base^{commit}") || base=$(g rev-parse --verify "HEAD^{commit}")
    # Another tree is another task's: that is said when the commit is checked, after this.
    [ "$(g rev-parse "HEAD^{tree}")" = "$(g rev-parse "$base^{tree}")" ] || return 0
    head=$(g symbolic-ref -q HEAD) || head=
    # HEAD may be a commit of the same tree on top of the base. Where more lies between the two,
    # HEAD goes back to the base itself.
    for parent in $(g rev-parse 'HEAD^@'); do
        if ! is_reached "$parent"; then
            g update-ref HEAD "$base"
            break
        fi
    done
    g for-each-ref --format='%(refname)' | while read -r ref; do
        case $ref in
            "$head" | "refs/replace/${1:-}") continue ;;
            refs/stash | refs/notes/*) ;;
            *) if is_reached "$ref"; then continue; fi ;;
        esac
        g update-ref --no-deref -d "$ref"
    done
    own=$(g rev-parse --absolute-git-dir)
    common=$(cd "$own" && cd "$(g rev-parse --git-common-dir)" && pwd)
    for directory in "$own" "$common"; do
        for name in "$directory"/*_HEAD "$directory"/BISECT_* "$directory"/rebase-* \
            "$directory"/sequencer "$directory"/logs "$directory"/worktrees; do
            [ "$directory" = "$own" ] && [ "$own" != "$common" ] && [ "$name" = "$own/worktrees" ] && continue
            rm -rf -- "$name"
        done
    done
    objects=$common/objects
    rm -rf -- "$objects"/pack/*.keep "$objects"/pack/*.promisor "$objects"/pack/tmp_* \
        "$objects"/info/commit-graph "$objects"/info/commit-graphs
    # What an alternate lends and the base reaches is copied, then the alternate is let go.
    g repack -q -a -d
    rm -f -- "$objects/info/alternates"
    g prune --expire=now
    g pack-refs --all
}

if git -c safe.directory='*' rev-parse --git-dir >/dev/null 2>&1; then
    cd "$(g rev-parse --show-toplevel 2>/dev/null || pwd)"
    remove_history "${1:-}"
elif [ -e .git ]; then
    echo "the repository cannot be scrubbed without git: put git into the image" >&2
    exit 1
fi
[ "$(pwd)" = / ] || remove_leftovers
