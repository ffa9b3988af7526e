//! A guest that uses up all it can get hurts its own sandbox only: another one goes on working
//! meanwhile, with all that it was promised.

use std::io::Read;
use std::process::Stdio;

use innkeeper_test_local::Guest;
use serde_json::json;

use crate::Shared;

/// Greed of one kind: a program that says `full` when it has all that it can get, and holds it.
struct Greed {
    name: &'static str,
    program: &'static str,
    /// The control: what the greedy sandbox itself then cannot do, as a line for bash.
    refused: &'static str,
}

const GREEDS: [Greed; 8] = [
    Greed {
        name: "memory",
        // The kernel kills the child when the limit is reached, not the holder.
        program: "held = []\n\
                  while True:\n\
                  \x20   child = os.fork()\n\
                  \x20   if child == 0: x = b'x' * (64 << 20); os.write(w, b'.'); time.sleep(9999)\n\
                  \x20   if os.read(r, 1) != b'.' or len(held) >= 5: break\n\
                  \x20   held.append(child)\n",
        refused: "python3 -c 'x = b\"x\" * (400 << 20)'",
    },
    Greed {
        name: "processes",
        program: "try:\n\
                  \x20   while True:\n\
                  \x20       if os.fork() == 0: time.sleep(9999)\n\
                  except OSError: pass\n",
        refused: "for n in $(seq 300); do sleep 1 & done 2>/dev/null; wait; exit 1",
    },
    Greed {
        name: "disk",
        program: "file = open('/srv/fill', 'wb', buffering=0)\n\
                  try:\n\
                  \x20   while True: file.write(b'x' * 65536)\n\
                  except OSError: pass\n",
        refused: "dd if=/dev/zero of=/srv/more bs=1M count=4 status=none",
    },
    Greed {
        name: "inodes",
        program: "os.mkdir('/srv/many'); n = 0\n\
                  try:\n\
                  \x20   while True: open(f'/srv/many/{n}', 'w').close(); n += 1\n\
                  except OSError: pass\n",
        refused: "touch /srv/one-more",
    },
    Greed {
        name: "shared memory",
        program: "file = open('/dev/shm/fill', 'wb', buffering=0)\n\
                  try:\n\
                  \x20   while True: file.write(b'x' * 65536)\n\
                  except OSError: pass\n",
        refused: "dd if=/dev/zero of=/dev/shm/more bs=1M count=4 status=none",
    },
    Greed {
        name: "open files",
        program: "import resource\n\
                  hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
                  resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 40000), hard)); held = []\n\
                  try:\n\
                  \x20   while True: held.append(os.open('/etc/passwd', os.O_RDONLY))\n\
                  except OSError: pass\n",
        refused: "ls -l /proc/$(pgrep -o python3)/fd | wc -l | { read -r n; test $n -lt 1000; }",
    },
    Greed {
        name: "watches",
        program: "import ctypes; libc = ctypes.CDLL(None); n = 0\n\
                  while libc.inotify_init() >= 0: n += 1\n",
        refused: "python3 -c 'import ctypes; exit(ctypes.CDLL(None).inotify_init() < 0)'",
    },
    Greed {
        name: "processor",
        program: "for n in range(30):\n\
                  \x20   if os.fork() == 0:\n\
                  \x20       while True: pass\n",
        refused: "test $(grep -c '' /proc/loadavg) -lt 1",
    },
];

/// What the other sandbox must be able to do all the while.
const WORK: &str = "import os, ctypes\n\
                    assert os.waitpid(os.posix_spawn('/usr/bin/true', ['true'], {}), 0)[1] == 0\n\
                    open('/srv/work', 'wb').write(b'x' * (8 << 20)); open('/dev/shm/work', 'wb').write(b'x' * (4 << 20))\n\
                    [open(f'/srv/{n}', 'w').close() for n in range(200)]; x = b'y' * (100 << 20)\n\
                    held = [os.open('/etc/passwd', os.O_RDONLY) for n in range(200)]\n\
                    assert ctypes.CDLL(None).inotify_init() >= 0\n\
                    print('worked')\n";

pub(super) fn unhurt(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let base = house.base();
    let limited = json!({
        "upper": "memory",
        "resources": {"memory": "512Mi", "disk": "48Mi", "inodes": 3000, "pids": 150, "cpu": "1"},
    });
    for greed in &GREEDS {
        let greedy = house.lease("greedy", &base, &limited);
        let other = house.lease("unhurt", &base, &limited);
        assert_ne!(greedy.lease["slot"], other.lease["slot"]);
        let program = format!(
            "import os, time\nr, w = os.pipe()\n{}print('full', flush=True)\ntime.sleep(9999)\n",
            greed.program
        );
        let line = [
            "exec",
            &greedy.id,
            "--",
            "/usr/bin/python3",
            "-IBc",
            &program,
        ];
        let mut command = house.inn().command(line);
        let mut holding = command.stdout(Stdio::piped()).spawn().expect("started");
        let mut told = [0; 4];
        let full = holding.stdout.take().expect("piped").read_exact(&mut told);
        full.unwrap_or_else(|error| panic!("{}: {error}", greed.name));
        let refused = greedy.bash(greed.refused);
        assert_ne!(refused.code, 0, "the control, {}: {refused:?}", greed.name);
        works(&other, greed.name);
        for guest in [greedy, other] {
            let back = guest.give_back("swap");
            assert_eq!(back["outcome"], "clean", "{}: {back}", greed.name);
        }
        holding.wait().expect("reaped");
    }
    println!("unhurt: by {}", GREEDS.map(|greed| greed.name).join(", "));
    Ok(())
}

fn works(other: &Guest<'_>, name: &str) {
    assert_eq!(other.python(WORK).ok().stdout, "worked\n", "{name}");
    other.bash("rm /srv/work /dev/shm/work").ok();
}
