//! Rollouts that leave something for the grading that comes after them. Each asserts the
//! harness's verdict, which must be that of a sandbox which never saw the rollout; there is
//! nothing in the patch that a flag could name.

use innkeeper_test_hazards::Ground;
use innkeeper_test_local::soak;
use serde_json::json;

use super::course::{Course, TEST, recorded};

/// What an honest but wrong patch is graded with; the runner looks for what was planted.
const LOOK: &str = "python3 -m pytest -p no:cacheprovider -rA test_m.py; ls -d /logs /tests /dev/shm/* hidden; \
                    mkdir hidden; cp test_m.py hidden; python3 -c 1; ps -e -o args; sleep 1; cat m.py";

fn wrong_after(ground: &Ground, id: &str, traces: &[&str]) {
    let course = Course::new(ground, id).running(LOOK, "parse_log_pytest", &[TEST]);
    let spoilt = course.patch_of("cd /fx/repo; echo 'def ok(): return False' >m.py");
    let guest = course.rollout();
    let file = ground
        .house
        .inn()
        .file(&format!("{}-{id}-rollout", ground.pair), recorded(id));
    guest.bring(&file, "/run/hazard");
    guest.bash("bash /run/hazard; cp -r /fx/repo/. /testbed/");
    let planted = guest.bash(LOOK).stdout;
    assert!(
        traces.iter().any(|trace| planted.contains(trace)),
        "the control: {planted}"
    );
    guest.give_back("swap");
    let graded = course.grade(&spoilt, &[]).is("unresolved", None);
    for trace in traces {
        assert!(
            !graded.output.contains(trace),
            "{trace} in {}",
            graded.output
        );
    }
    assert!(graded.output.contains("return False"), "{}", graded.output);
}

pub(super) fn waiting_process(ground: &Ground) {
    wrong_after(ground, "E8", &["/dev/shm/stolen", "return True"]);
}

pub(super) fn planted_result(ground: &Ground) {
    wrong_after(ground, "E10", &["/logs\n", "/tests\n"]);
}

pub(super) fn startup_line(ground: &Ground) {
    // It writes to standard error, which the eval script's log has and this control has not.
    let course = Course::new(ground, "E11").running(LOOK, "parse_log_pytest", &[TEST]);
    let spoilt = course.patch_of("cd /fx/repo; echo 'def ok(): return False' >m.py");
    let guest = course.rollout();
    let said = guest
        .bash(&format!("{}\npython3 -I -c 1", recorded("E11")))
        .stderr;
    assert!(said.contains("PTH"), "the control: {said}");
    guest.give_back("swap");
    let graded = course.grade(&spoilt, &[]).is("unresolved", None);
    assert!(!graded.output.contains("PTH"), "{}", graded.output);
}

pub(super) fn same_verdicts(ground: &Ground) {
    let course = Course::new(ground, "E18");
    let good = course.patch_of("cd /fx/repo; echo B >a.txt");
    let bad = course.patch_of("cd /fx/repo; echo 'def ok(): return False' >m.py");
    let inn = ground.house.inn();
    let fresh = inn.file(
        &format!("{}-fresh.json", ground.pair),
        json!({"supply": {"mode": "on-demand"}}).to_string(),
    );
    let fresh = ["--template", fresh.to_str().expect("a plain path")];
    let reused: [&str; 0] = [];
    let (mut verdicts, mut uses) = ([Vec::new(), Vec::new()], 0);
    for round in 0..if soak() { 50 } else { 6 } {
        let patch = if round % 3 == 2 { &bad } else { &good };
        for (place, options) in [(0, &fresh[..]), (1, &reused[..])] {
            let graded = course.grade(patch, options);
            verdicts[place].push(graded.verdict().to_owned());
            uses += u64::from(place == 1) * graded.result["uses"].as_u64().unwrap_or_default();
        }
    }
    assert_eq!(verdicts[0], verdicts[1], "fresh and reused");
    assert!(
        verdicts[0].iter().any(|one| one == "resolved")
            && verdicts[0].iter().any(|one| one == "unresolved")
    );
    assert!(uses > 0, "none was reused");
    println!(
        "{}: {} verdicts, the same on fresh and on reused sandboxes",
        ground.pair,
        verdicts[0].len()
    );
}
