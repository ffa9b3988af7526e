//! What needs no sandbox: usage, what is not there yet, and the absence of a manager.

use innkeeper_test_cli::{Inn, needs_binaries};

#[test]
fn wrong_usage_exits_2() {
    needs_binaries!("wrong_usage_exits_2");
    let inn = Inn::new();
    for line in [
        "",
        "nonsense",
        "lease",
        "exec l true",
        "return l --verify deep",
        "renew l --ttl 5",
        "cp a b",
        "lease i --ttl 0s",
        "serve --strategy fast",
        "serve --rights wheel",
        "serve --strategy sliced --rights root",
    ] {
        let ran = inn.line(line);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(
            ran.stdout.is_empty() && !ran.stderr.is_empty(),
            "{line}: {ran:?}"
        );
    }
    inn.line("--endpoint nowhere ps").fails(2, "unix:///PATH");
}

#[test]
fn what_is_not_there_yet_says_so() {
    needs_binaries!("what_is_not_there_yet_says_so");
    let inn = Inn::new();
    for line in [
        "snapshot create l n",
        "snapshot ls",
        "replay t --out d",
        "size t --out d",
        "top",
        "lease --from-snapshot n",
        "lease --announce f",
        "lease i --direct",
        "doctor --provider kubernetes",
        "serve --provider kubernetes",
        "serve --namespace n",
        "serve --docker tcp://127.0.0.1:1",
        "serve --http tcp://127.0.0.1:1",
        "serve --policy f",
        "serve --layout mounted",
    ] {
        let ran = inn.line(line);
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(ran.stderr.contains("does not have"), "{line}: {ran:?}");
    }
}

#[test]
fn without_a_manager_commands_exit_69_and_say_how_to_start_one() {
    needs_binaries!("without_a_manager_commands_exit_69_and_say_how_to_start_one");
    let inn = Inn::new();
    let file = inn.file("f", "x");
    let copy = format!("cp {} l:/f", file.display());
    for line in [
        "lease i",
        "exec l -- true",
        "return l",
        "renew l",
        "ps",
        "pools",
        "drain p",
        "events",
        copy.as_str(),
        "--endpoint tcp://127.0.0.1:1 ps",
        "--endpoint tcp://127.0.0.1:1 run i -- true",
    ] {
        inn.line(line).fails(69, "innkeeper serve");
    }
    assert!(inn.daemons().is_empty());
}

#[test]
fn every_command_helps_with_an_example() {
    needs_binaries!("every_command_helps_with_an_example");
    let inn = Inn::new();
    for command in [
        "serve",
        "doctor",
        "image",
        "image import",
        "image ls",
        "image rm",
        "lease",
        "renew",
        "exec",
        "cp",
        "return",
        "run",
        "ps",
        "pools",
        "top",
        "drain",
        "events",
        "snapshot",
        "grade",
        "verify",
        "fuzz",
        "replay",
        "size",
        "bench",
    ] {
        let ran = inn.line(&format!("{command} --help")).ok();
        assert!(
            ran.stdout.contains(&format!("innkeeper {command}")) && ran.stdout.contains("Example"),
            "{command}"
        );
    }
}
