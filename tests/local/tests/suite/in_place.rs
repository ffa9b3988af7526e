//! Sandboxes that are their container, put back in place. What a guest does to what it shares with the
//! daemon may end its slot, with an error that says so; it never ends in a clean that is none.

use innkeeper_test_cli::{Inn, Rootfs};
use innkeeper_test_local::{Guest, built, shared, static_execd};
use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    (
        "what_a_guest_leaves_is_undone",
        what_a_guest_leaves_is_undone,
    ),
    (
        "what_nobody_has_a_copy_of_taints",
        what_nobody_has_a_copy_of_taints,
    ),
    ("the_daemon_is_out_of_reach", the_daemon_is_out_of_reach),
    ("what_later_commands_would_inherit_taints", inherited),
    ("a_guest_that_kills_the_spawner_loses_its_slot", kills),
    ("a_second_container_becomes_the_first", second),
    ("services_are_started_anew", services),
    ("real_rollouts_come_back_clean", rollouts),
];

/// Programs that guests use beside those that every test image has.
const PROGRAMS: [&str; 10] = [
    "prlimit", "setpriv", "setsid", "ipcmk", "ipcs", "chown", "find", "mkfifo", "readlink", "cut",
];

/// A manager whose slots are such containers.
fn inn(shared: &Shared) -> Result<&Inn, String> {
    let made = shared.in_place.get_or_init(|| {
        static_execd()?;
        let mut inn = Inn::new();
        inn.try_serve(&["--strategy", "in-place", "--rights", "pod"])?;
        let rootfs = Rootfs::make(&inn.path("image")).with(&PROGRAMS);
        let folder = rootfs.folder.to_str().expect("a plain path");
        inn.run(["image", "import", folder, "--name", "plain"]).ok();
        Ok(inn)
    });
    made.as_ref().map_err(Clone::clone)
}

fn lease<'a>(inn: &'a Inn, test: &str, more: &Value) -> Guest<'a> {
    let mut template = json!({"env": {"INNKEEPER_TEST": test}, "workdir": "/testbed"});
    let fields = template.as_object_mut().expect("an object");
    for (name, value) in more.as_object().into_iter().flatten() {
        fields.insert(name.clone(), value.clone());
    }
    let guest = Guest::lease(inn, test, "plain", &template);
    assert_eq!(guest.lease["strategy"], "in-place", "{}", guest.lease);
    guest
}

/// The spawner as the guest sees it.
const SPAWNER: &str = "spawner() { for p in /proc/[0-9]*; do \
    read -r -d '' name < $p/cmdline; [ \"$name\" = sandbox-init ] && echo ${p#/proc/}; done; }; ";

fn what_a_guest_leaves_is_undone(all: &Shared) -> Result<(), String> {
    let inn = inn(all)?;
    let guest = lease(inn, "leaves", &json!({}));
    let (slot, baseline) = (guest.lease["slot"].clone(), guest.lease["baseline"].clone());
    let script = "echo changed > /testbed/file; rm -r /testbed/.git; chmod 0 /etc; chown 7:7 /usr/bin; \
        echo 6.6.6.6 evil >> /etc/hosts; echo x > /dev/shm/x; mkfifo /dev/pipe; ipcmk -M 64 -S 1 -Q; \
        setsid sleep 1000 & (setsid bash -c 'while :; do sleep 0.1 & done' &) ; \
        mv /testbed /gone; ln -s /tmp /testbed; sleep 0.2";
    let guest = {
        guest.bash(script);
        let back = guest.give_back("swap");
        assert_eq!(back["outcome"], "clean", "{back}");
        assert_eq!(back["digest"], baseline, "{back}");
        assert_eq!(back["verified"], "full", "{back}");
        lease(inn, "leaves", &json!({}))
    };
    assert_eq!(guest.lease["slot"], slot);
    let seen = guest
        .bash("cat /testbed/file; git -C /testbed status --short; ls /dev/shm; ipcs | grep -c 0x")
        .stdout;
    assert_eq!(seen, "wrong\n0\n");
    guest.give_back("swap");
    Ok(())
}

fn what_nobody_has_a_copy_of_taints(all: &Shared) -> Result<(), String> {
    let guest = lease(inn(all)?, "no-copy", &json!({}));
    guest.bash("echo changed >> /usr/bin/ls").ok();
    let back = guest.give_back("swap");
    assert_eq!(back["outcome"], "tainted", "{back}");
    let said = back.to_string();
    assert!(said.contains("/usr/bin/ls"), "it is not named: {said}");
    Ok(())
}

/// Each of these would give the guest a hand in its own verdict.
fn the_daemon_is_out_of_reach(all: &Shared) -> Result<(), String> {
    let guest = lease(inn(all)?, "reach", &json!({}));
    let attempts = [
        ("its descriptors", "readlink /proc/1/fd/4"),
        ("its volumes", "ls /proc/1/fd/4/state"),
        ("its memory", "head -c 1 /proc/1/mem"),
        (
            "the spawner's descriptors",
            "readlink /proc/$(spawner)/fd/10",
        ),
        ("its program", "echo x >> /.innkeeper/execd"),
        ("its program by name", "rm /.innkeeper/execd"),
        ("its program through /proc", "echo x >> /proc/1/exe"),
        ("its socket", "find / -xdev -name execd.sock | grep ."),
        ("its limits", "prlimit --pid 1 --nofile=10:10"),
        (
            "the spawner's limits",
            "prlimit --pid $(spawner) --nofile=10:10",
        ),
        ("ending it", "kill -KILL 1; sleep 0.2; [ ! -e /proc/1 ]"),
    ];
    for (what, attempt) in attempts {
        let ran = guest.bash(&format!("{SPAWNER}{attempt}"));
        assert_ne!(ran.code, 0, "{what}: {ran:?}");
    }
    // A control: the same hands reach a process of the guest's own.
    guest.bash("sleep 100 & readlink /proc/$!/fd/1 && prlimit --pid $! --nofile=10:10 && kill -KILL $!").ok();
    let back = guest.give_back("swap");
    assert_eq!(back["outcome"], "clean", "{back}");
    Ok(())
}

/// Root may raise anybody's place in the order of the kernel's victims, and with the daemon's id, which
/// it can read, limit it.
fn inherited(all: &Shared) -> Result<(), String> {
    let inn = inn(all)?;
    let attempts = [
        ("victims", "echo 900 > /proc/$(spawner)/oom_score_adj"),
        (
            "limits",
            "id=$(stat -c %u /proc/$(spawner)/task/$(spawner)/comm); read -r _ id _ < <(grep Uid /proc/$(spawner)/status); \
             setpriv --reuid $id --regid $id --clear-groups prlimit --pid $(spawner) --nofile=100:100",
        ),
    ];
    for (what, attempt) in attempts {
        let guest = lease(inn, &format!("inherit-{what}"), &json!({}));
        guest.bash(&format!("{SPAWNER}{attempt}")).ok();
        let back = guest.give_back("swap");
        assert_eq!(back["outcome"], "tainted", "{what}: {back}");
        assert_eq!(
            back["components"]["limits"]["equal"], false,
            "{what}: {back}"
        );
    }
    Ok(())
}

fn kills(all: &Shared) -> Result<(), String> {
    let inn = inn(all)?;
    let guest = lease(inn, "kills", &json!({}));
    let slot = guest.lease["slot"].clone();
    let ran = guest.bash(&format!("{SPAWNER}kill -KILL $(spawner); sleep 5"));
    assert_ne!(ran.code, 0, "{ran:?}");
    let again = guest.bash("true");
    assert_ne!(
        again.code, 0,
        "a slot without its spawner answers: {again:?}"
    );
    let next = lease(inn, "kills", &json!({}));
    assert_ne!(next.lease["slot"], slot);
    assert_eq!(next.lease["uses"], 0);
    next.bash("cat /testbed/file").ok();
    next.give_back("swap");
    Ok(())
}

/// Its root is brought to what the first has published, prepare and all, without running it again.
fn second(all: &Shared) -> Result<(), String> {
    let inn = inn(all)?;
    let prepare = [
        "sh",
        "-c",
        "echo $$-$RANDOM > /usr/made; ln /usr/made /usr/linked; chmod 4711 /usr/made",
    ];
    let more = json!({"prepare": [prepare]});
    let (one, two) = (lease(inn, "second", &more), lease(inn, "second", &more));
    assert_ne!(one.lease["slot"], two.lease["slot"]);
    assert_eq!(one.lease["baseline"], two.lease["baseline"]);
    let look = "cat /usr/made; stat -c '%a %h %i %Y' /usr/made | cut -d' ' -f1,2,4; ls -la --time-style=full-iso /usr";
    let seen = one.bash(look).ok().stdout;
    assert_eq!(two.bash(look).ok().stdout, seen);
    for guest in [one, two] {
        guest.bash("rm /usr/linked; echo x > /usr/made").ok();
        let back = guest.give_back("swap");
        assert_eq!(back["outcome"], "clean", "{back}");
    }
    Ok(())
}

fn rollouts(all: &Shared) -> Result<(), String> {
    let inn = inn(all)?;
    let (mut clean, mut returned) = (0, 0);
    for id in [
        "django__django-10973",
        "pylint-dev__pylint-4551",
        "sphinx-doc__sphinx-8595",
    ] {
        let file = shared("rollouts")?.join(format!("{id}.json"));
        let text =
            std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let rollout: Value = serde_json::from_str(&text).expect("a rollout");
        let lines = built("rollouts/build.sh", &["--only", id])?;
        inn.run(["image", "import", &lines[0][1], "--name", &lines[0][0]])
            .ok();
        let template = json!({"env": {"INNKEEPER_TEST": id}, "workdir": "/testbed"});
        let guest = Guest::lease(inn, id, &lines[0][0], &template);
        let cwd = rollout["cwd"].as_str().unwrap_or("/testbed");
        for command in rollout["commands"].as_array().expect("commands") {
            let command = command.as_str().expect("a line");
            let ran = guest.with(
                &["--cwd", cwd, "--timeout", "120s"],
                &["bash", "-lc", command],
            );
            assert!(ran.code >= 0 && ran.code != 125, "{command}: {ran:?}");
        }
        let back = guest.give_back("swap");
        returned += 1;
        if back["outcome"] == "clean" {
            clean += 1;
        } else {
            println!("{id}: {}", back["cause"]);
        }
    }
    println!("{clean} of {returned} rollouts came back clean in place");
    assert!(clean * 100 >= returned * 95, "{clean} of {returned}");
    Ok(())
}

/// A service is compared by what it is, though the daemon itself may not look into it.
fn services(all: &Shared) -> Result<(), String> {
    let inn = inn(all)?;
    let service = |name: &str, user: &str| json!({"name": name, "argv": ["sleep", "infinity"], "user": user, "cwd": "/tmp"});
    let more = json!({"services": [service("one", "root"), service("two", "guest")]});
    for _ in 0..2 {
        let guest = lease(inn, "services", &more);
        guest.bash("kill $(for p in /proc/[0-9]*; do grep -lz infinity $p/cmdline; done | cut -d/ -f3); sleep 30 &");
        let back = guest.give_back("swap");
        assert_eq!(back["outcome"], "clean", "{back}");
        assert_eq!(back["components"]["processes"]["equal"], true, "{back}");
    }
    Ok(())
}
