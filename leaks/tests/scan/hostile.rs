//! Images that want to hang, mislead or break whoever looks at them.

use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use innkeeper_leaks::{Ground, Question, scan};

use crate::repository::Repository;

fn fifo(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
}

#[test]
fn nothing_that_lies_in_the_place_of_a_file_is_waited_for_or_taken_for_clear() {
    for name in [
        "HEAD",
        "packed-refs",
        "config",
        "objects/info/alternates",
        "refs/heads/pipe",
    ] {
        let made = Repository::clear();
        let path = made.path("testbed/.git").join(name);
        let _ = fs::remove_file(&path);
        fifo(&path);
        let report = made.scan();
        assert!(
            report
                .unread
                .iter()
                .any(|why| why.contains("no regular file")),
            "{name}: {report:?}"
        );
    }
    let made = Repository::clear();
    fs::remove_dir_all(made.path("testbed/.git")).unwrap();
    fifo(&made.path("testbed/.git"));
    assert!(!made.scan().unread.is_empty());
}

#[test]
fn no_link_leads_out_of_the_image() {
    let outside = Repository::new();
    let made = Repository::clear();
    let dot_git = made.path("testbed/.git");
    let objects = dot_git.join("objects");
    fs::remove_dir_all(&objects).unwrap();
    symlink(outside.path("testbed/.git/objects"), &objects).unwrap();
    let report = made.scan();
    assert!(
        report.found.is_empty() && !report.unread.is_empty(),
        "{report:?}"
    );

    let made = Repository::clear();
    fs::remove_dir_all(made.path("testbed/.git")).unwrap();
    let there = outside.path("testbed/.git");
    fs::write(
        made.path("testbed/.git"),
        format!("gitdir: {}\n", there.display()),
    )
    .unwrap();
    let report = made.scan();
    assert!(
        report.found.is_empty() && !report.unread.is_empty(),
        "{report:?}"
    );

    let made = Repository::clear();
    symlink("loop", made.path("testbed/.git/refs/loop")).unwrap();
    symlink(".", made.path("testbed/.git/refs/self")).unwrap();
    made.scan();
}

#[test]
fn a_scan_ends_at_its_deadline_and_says_so() {
    let made = Repository::new();
    let question = Question {
        workdir: b"/testbed".to_vec(),
        base_commit: made.base.clone(),
        patience_ms: 0,
    };
    let report = scan(&Ground::open(made.root.path()).unwrap(), &question);
    assert!(
        report
            .unread
            .iter()
            .any(|why| why.contains("took too long")),
        "{report:?}"
    );
}

#[test]
fn damage_of_any_kind_is_survived_and_an_answer_is_never_hidden_quietly() {
    let made = Repository::new();
    made.git(&format!("branch next {}", made.fix));
    made.git("repack -q -a -d -f --depth=20");
    let whole = made.found();
    let packs = made.path("testbed/.git/objects/pack");
    let files: Vec<_> = fs::read_dir(&packs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|end| end == "pack" || end == "idx")
        })
        .collect();
    assert_eq!(files.len(), 2);
    for file in files {
        let good = fs::read(&file).unwrap();
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        #[expect(clippy::permissions_set_readonly_false, reason = "a file of this test")]
        permissions.set_readonly(false);
        fs::set_permissions(&file, permissions).unwrap();
        for step in 0..60 {
            let mut bad = good.clone();
            let at = step * 7919 % bad.len();
            if step % 5 == 0 {
                bad.truncate(at);
            } else {
                bad[at] ^= 1 << (step % 8);
            }
            fs::write(&file, &bad).unwrap();
            let began = std::time::Instant::now();
            let report = made.scan();
            assert!(began.elapsed() < Duration::from_secs(60), "byte {at}");
            if report.unread.is_empty() {
                // Damage that no reader notices (a checksum, another object's name) may change
                // counts, but something that is there is still found.
                assert!(!report.found.is_empty(), "byte {at}: {report:?}");
            }
        }
        fs::write(&file, &good).unwrap();
    }
    assert_eq!(made.found(), whole);
}

#[test]
fn a_pack_that_git_does_not_see_is_not_taken_for_clear() {
    let made = Repository::clear();
    made.git("repack -q -a -d");
    let packs = made.path("testbed/.git/objects/pack");
    fs::write(packs.join("tmp_pack_x"), "PACK").unwrap();
    fs::write(packs.join("pack-0000.pack"), "PACK").unwrap();
    let report = made.scan();
    assert_eq!(report.unread.len(), 2, "{report:?}");
    assert!(report.unread.iter().all(|why| why.contains("has no index")));
}
