//! Each place in which a repository can keep the answer.

use std::collections::BTreeMap;
use std::fs;

use crate::repository::{Repository, counts, git, scan_in};

fn only(found: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    found.iter().copied().collect()
}

/// The fix's commit, and its tree and file.
const OBJECTS: [(&str, u64); 2] = [("commits", 1), ("contents", 2)];

fn with(more: &[(&'static str, u64)]) -> BTreeMap<&'static str, u64> {
    only(&[&OBJECTS[..], more].concat())
}

#[test]
fn history_up_to_the_base_is_no_leak_however_it_is_stored() {
    let made = Repository::clear();
    assert!(made.scan().is_clear(), "{:?}", made.scan());
    made.git("repack -q -a -d -f --depth=20");
    made.git("pack-refs --all");
    let report = made.scan();
    assert!(report.is_clear(), "{report:?}");
    assert_eq!(report.base.as_deref(), Some(made.base.as_str()));
    assert!(
        made.scan_from("").is_clear(),
        "HEAD stands in for a base that is not given"
    );
}

#[test]
fn the_fix_in_the_history_is_found_loose_and_packed() {
    let made = Repository::new();
    assert_eq!(made.found(), only(&OBJECTS));
    assert_eq!(
        made.scan().found[&innkeeper_leaks::Kind::Commits].examples,
        std::slice::from_ref(&made.fix)
    );
    made.git(&format!("branch next {}", made.fix));
    assert_eq!(made.found(), with(&[("refs", 1)]));
    made.forget();
    made.git("repack -q -a -d -f --depth=20");
    made.git("pack-refs --all");
    assert!(!made.path("testbed/.git/refs/heads/next").exists());
    assert_eq!(
        made.found(),
        with(&[("refs", 1)]),
        "a packed ref, a packed object"
    );
    made.git("update-ref -d refs/heads/next");
    assert_eq!(
        made.found(),
        only(&OBJECTS),
        "an object in a pack that nothing leads to"
    );
}

#[test]
fn every_name_that_leads_to_it_is_found() {
    let made = Repository::new();
    let dot_git = made.path("testbed/.git");
    let fix = &made.fix;
    made.git(&format!("tag light {fix}"));
    made.git(&format!("tag -a -m later annotated {fix}"));
    made.git(&format!("update-ref refs/remotes/origin/main {fix}"));
    made.git(&format!("update-ref refs/notes/commits {fix}"));
    fs::write(dot_git.join("ORIG_HEAD"), format!("{fix}\n")).unwrap();
    fs::write(
        dot_git.join("FETCH_HEAD"),
        format!("{fix}\t\tbranch 'main' of x\n"),
    )
    .unwrap();
    fs::create_dir(dot_git.join("rebase-merge")).unwrap();
    fs::write(dot_git.join("rebase-merge/orig-head"), format!("{fix}\n")).unwrap();
    fs::create_dir_all(dot_git.join("logs/refs/heads")).unwrap();
    let zero = "0".repeat(40);
    let line = format!("{zero} {fix} t <t@localhost> 0 +0000\tclone\n");
    fs::write(dot_git.join("logs/refs/heads/gone"), line).unwrap();
    let found = made.found();
    let mut expected = with(&[
        ("tags", 2),
        ("refs", 1),
        ("notes", 1),
        ("heads", 3),
        ("reflog", 1),
    ]);
    // The annotated tag is an object of its own.
    expected.insert("commits", 2);
    assert_eq!(found, expected);
}

#[test]
fn stashes_and_further_work_trees_are_found() {
    let made = Repository::clear();
    made.write("code.py", "right\n");
    made.git("stash -q");
    let found = made.found();
    assert!(found["stashes"] >= 1 && found["commits"] == 2, "{found:?}");

    let made = Repository::new();
    made.git(&format!("worktree add -q --detach ../other {}", made.fix));
    made.forget();
    let found = made.found();
    assert!(found["worktrees"] >= 1, "{found:?}");
    // Seen from the other work tree, whose own part of the repository is elsewhere.
    let inner = made.path("testbed/.git/worktrees/other/gitdir");
    assert!(inner.exists());
}

#[test]
fn an_alternate_is_followed_below_the_root_only() {
    let made = Repository::new();
    let mirror = made.path("opt/mirror.git");
    fs::create_dir_all(made.path("opt")).unwrap();
    fs::rename(made.path("testbed/.git/objects"), &mirror).unwrap();
    fs::create_dir_all(made.path("testbed/.git/objects/info")).unwrap();
    let alternates = made.path("testbed/.git/objects/info/alternates");
    fs::write(&alternates, "/opt/mirror.git\n").unwrap();
    assert_eq!(made.found(), with(&[("alternates", 1)]));
    fs::write(&alternates, "../../../../../../opt/mirror.git\n").unwrap();
    assert_eq!(
        made.found(),
        with(&[("alternates", 1)]),
        "`..` ends at the root"
    );
    // One of the machine itself is not in the image.
    fs::write(&alternates, format!("{}\n", mirror.display())).unwrap();
    let report = made.scan();
    assert!(
        report.found.is_empty() && !report.unread.is_empty(),
        "{report:?}"
    );
}

#[test]
fn contents_without_a_commit_are_found() {
    let made = Repository::clear();
    fs::write(made.path("answer"), "right\n").unwrap();
    made.git("hash-object -w ../answer");
    assert_eq!(made.found(), only(&[("contents", 1)]));
}

#[test]
fn an_empty_commit_on_top_is_no_leak_and_what_it_hides_is_one() {
    let made = Repository::clear();
    made.git("commit -q --allow-empty -m published");
    made.forget();
    assert!(made.scan().is_clear(), "{:?}", made.scan());

    let made = Repository::clear();
    made.write("code.py", "right\n");
    made.git("commit -q -a -m fix");
    made.git("revert --no-edit HEAD");
    made.forget();
    let found = made.found();
    assert_eq!(
        found["commits"], 1,
        "the fix below a HEAD of the base's tree: {found:?}"
    );
    assert_eq!(found.get("heads"), None, "HEAD itself holds nothing new");

    let made = Repository::clear();
    made.write("code.py", "right\n");
    made.git("commit -q -a -m fix");
    made.forget();
    assert_eq!(made.found()["heads"], 1, "HEAD is not at the base");
}

#[test]
fn a_base_that_a_replacement_stands_for_counts_as_the_replacement() {
    let made = Repository::clear();
    let tree = made.git("rev-parse HEAD^{tree}");
    let task = made.git(&format!("commit-tree -m task {tree}"));
    let elsewhere = "1".repeat(40);
    made.git(&format!("update-ref refs/replace/{elsewhere} {task}"));
    made.git(&format!("reset -q --hard {task}"));
    made.forget();
    let report = made.scan_from(&elsewhere);
    assert_eq!(report.base.as_deref(), Some(task.as_str()));
    // All of the history is beyond a base that has none.
    assert_eq!(counts(&report)["commits"], 4, "{report:?}");
}

#[test]
fn a_replacement_of_what_is_there_may_not_be_the_fix() {
    let made = Repository::new();
    made.git(&format!("replace {} {}", made.base, made.fix));
    assert_eq!(made.found(), with(&[("refs", 1)]));
}

#[test]
fn what_git_says_is_unreachable_is_what_is_found() {
    let made = Repository::new();
    for n in 0..40 {
        made.write(
            &format!("pkg/m{}.py", n % 7),
            &format!("{}# {n}\n", "body\n".repeat(n * 9)),
        );
        made.git("add .");
        made.git(&format!("commit -q -m m{n}"));
    }
    made.git("gc -q --prune=now");
    let middle = made.git("rev-parse HEAD~25");
    made.git(&format!("reset -q --hard {middle}"));
    let all = made.git("cat-file --batch-all-objects --batch-check=%(objectname)");
    let reached = made.git(&format!("rev-list --objects {middle}"));
    let reached: Vec<_> = reached.lines().map(|line| &line[..40]).collect();
    let tag = made.git("rev-parse v2.0");
    let beyond = all
        .lines()
        .filter(|oid| !reached.contains(oid) && *oid != tag)
        .count();
    let found = counts(&made.scan_from(&middle));
    assert_eq!(
        found["commits"] + found["contents"],
        beyond as u64,
        "{found:?}"
    );
    assert!(found["commits"] >= 25, "{found:?}");
}

#[test]
fn a_shallow_clone_is_read_to_where_it_ends() {
    let made = Repository::new();
    let url = format!("file://{}", made.path("testbed").display());
    fs::create_dir(made.path("image")).unwrap();
    git(
        &made.path("image"),
        &format!("clone -q --depth 2 {url} testbed"),
    );
    assert!(made.path("image/testbed/.git/shallow").exists());
    let report = scan_in(&made.path("image"), &made.base);
    assert!(report.is_clear(), "{report:?}");
}

#[test]
fn formats_that_are_not_known_are_not_taken_for_clear() {
    for option in ["--object-format=sha256", "--ref-format=reftable"] {
        let root = tempfile::tempdir().unwrap();
        let testbed = root.path().join("testbed");
        fs::create_dir(&testbed).unwrap();
        let config = match option {
            "--object-format=sha256" => "[extensions]\n\tobjectFormat = sha256\n",
            _ => "[extensions]\n\trefStorage = reftable\n",
        };
        git(&testbed, "init -q .");
        let file = testbed.join(".git/config");
        fs::write(&file, fs::read_to_string(&file).unwrap() + config).unwrap();
        let report = scan_in(root.path(), "");
        assert!(
            report.unread[0].contains("is not known"),
            "{option}: {report:?}"
        );
    }
}
