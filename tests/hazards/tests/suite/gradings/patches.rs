//! Patches and logs that are easily read wrongly. Each asserts the harness's verdict.

use innkeeper_test_hazards::Ground;

use super::course::{Course, TEST, recorded};

const ANY: &str = "cd /fx/repo; echo B >a.txt";

pub(super) fn names_with_spaces(ground: &Ground) {
    let lines = |last: &str| {
        format!(
            "printf '%s\\n' \"PASSED t.py::a[x-'str' object-One]\" \"{last} t.py::a[x-'str' object-Two] - E\" \"PASSED t.py::b\""
        )
    };
    // The harness's names end at the first space, in its rows and in its logs: of two tests with
    // one name the later line counts, and a name with a space is found in no log.
    for (last, tests, verdict) in [
        ("FAILED", &["t.py::a[x-'str'"][..], "unresolved"),
        ("PASSED", &["t.py::a[x-'str'"][..], "resolved"),
        ("PASSED", &["t.py::a[x-'str' object-One]"][..], "unresolved"),
        ("FAILED", &["t.py::b"][..], "resolved"),
    ] {
        let course = Course::new(ground, "E12").running(&lines(last), "parse_log_pytest", tests);
        let patch = course.patch_of(ANY);
        course.grade(&patch, &[]).is(verdict, None);
    }
}

pub(super) fn mixed_streams(ground: &Ground) {
    let script = recorded("E14");
    let course = Course::new(ground, "E14").running(&script, "parse_log_django", &["test_x (a.T)"]);
    let patch = course.patch_of(ANY);
    let graded = course.grade(&patch, &[]);
    // In the order of arrival, nothing lost.
    assert!(
        graded
            .output
            .contains("test_x (a.T) ... System check ok\nok\n"),
        "{}",
        graded.output
    );
    assert!(
        ["resolved", "unresolved"].contains(&graded.verdict()),
        "{graded:?}"
    );
    // A bare word names no test and breaks no parser.
    let course = Course::new(ground, "E14-bare").running(
        "printf 'PASSED\\n'; echo 'PASSED t.py::b'",
        "parse_log_pytest",
        &["t.py::b"],
    );
    course.grade(&patch, &[]).is("resolved", None);
}

pub(super) fn lost_newline(ground: &Ground) {
    let show = "cat a.txt; python3 -m pytest -p no:cacheprovider -rA test_m.py";
    let course = Course::new(ground, "E16").running(show, "parse_log_pytest", &[TEST]);
    let whole = course.patch_of("cd /fx/repo; printf 'B\\n' >a.txt");
    let cut = whole.trim_end_matches('\n');
    assert_eq!(whole.len(), cut.len() + 1);
    let graded = course.grade(&whole, &[]).is("resolved", None);
    assert!(graded.output.contains("\nB\n"), "{}", graded.output);
    let exact = std::fs::read(graded.folder.join("patch.diff")).expect("kept");
    assert_eq!(exact, whole.as_bytes());
    // Cut off, it reaches the tools as it is: either they take it for the same change, or they do
    // not apply it, and then that is the cause.
    let graded = course.grade(cut, &[]);
    let exact = std::fs::read(graded.folder.join("patch.diff")).expect("kept");
    assert_eq!(exact, cut.as_bytes());
    match graded.verdict() {
        "resolved" => assert!(graded.output.contains("\nB\n"), "{}", graded.output),
        _ => assert_eq!(graded.result["cause"], "patch_does_not_apply", "{graded:?}"),
    }
}

pub(super) fn binary(ground: &Ground) {
    let show = "sha256sum a.txt b.bin; stat -c '%a %N' m.py link; python3 -m pytest -p no:cacheprovider -rA test_m.py";
    let course = Course::new(ground, "E17").running(show, "parse_log_pytest", &[TEST]);
    let change = "cd /fx/repo; printf 'A\\r\\n\\r\\n' >a.txt; printf '\\000\\001\\377' >b.bin; chmod 755 m.py; \
                  ln -s a.txt link; mkdir -p build/lib; echo x >build/lib/m.py";
    let patch = course.patch_of(change);
    assert!(
        patch.contains("GIT binary patch") && patch.contains('\r') && !patch.contains("build/lib"),
        "{patch}"
    );
    let graded = course.grade(&patch, &[]).is("resolved", None);
    let guest = course.rollout();
    let wanted = guest
        .bash(&format!(
            "{change}; sha256sum a.txt b.bin; stat -c '%a %N' m.py link"
        ))
        .ok()
        .stdout;
    guest.give_back("swap");
    for line in wanted.lines() {
        assert!(
            graded.output.contains(line),
            "{line} is not in {}",
            graded.output
        );
    }
    // Line ends that something converted on the way.
    let spoilt = patch.replace('\r', "").replace('\n', "\r\n");
    let graded = course.grade(&spoilt, &[]);
    assert_eq!(graded.result["cause"], "patch_does_not_apply", "{graded:?}");
}
