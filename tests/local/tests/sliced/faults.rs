//! What a guest may notice of slices: each as ARCHITECTURE.md has it, and beside it what works.

use serde_json::{Value, json};

use crate::{Shared, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("slices_are_file_systems_of_their_own", apart),
    ("what_image_users_do_works", works),
];

const APART: &str = r#"
import errno, json, os, shutil, subprocess
said = {}
def attempt(name, work):
    try:
        said[name] = work() or 'done'
    except OSError as error:
        said[name] = errno.errorcode[error.errno]
open('/usr/fresh', 'w').close()
os.mkdir('/opt/fresh')
attempt('link across', lambda: os.link('/usr/fresh', '/opt/linked'))
attempt('rename across', lambda: os.rename('/usr/fresh', '/opt/renamed'))
attempt('move across', lambda: shutil.move('/usr/fresh', '/opt/moved') and None)
attempt('link within', lambda: os.link('/usr/bin/env', '/usr/lib/linked'))
attempt('link in the root', lambda: os.link('/etc/passwd', '/opt/passwd'))
attempt('rename of a new directory', lambda: os.rename('/opt/fresh', '/etc/fresh'))
attempt('rename of a directory of the image', lambda: os.rename('/usr/share/doc', '/usr/share/other'))
attempt('rename of a slice', lambda: os.rename('/usr', '/other'))
attempt('removal of a slice', lambda: shutil.rmtree('/usr/games') or os.rmdir('/usr'))
attempt('device', lambda: os.mknod('/usr/device', 0o20666, os.makedev(1, 3)))
find = subprocess.run(['find', '/', '-xdev', '-path', '/usr/*'], capture_output=True, text=True)
said['find -xdev'] = len(find.stdout.splitlines())
print(json.dumps(said))
"#;

fn apart(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("sliced-apart", &house.base(), &json!({}));
    let said: Value = guest.python(APART).ok().json();
    let expected = json!({
        "link across": "EXDEV",
        "rename across": "EXDEV",
        "move across": "done",
        "link within": "done",
        "link in the root": "done",
        "rename of a new directory": "done",
        "rename of a directory of the image": "EXDEV",
        "rename of a slice": "EBUSY",
        "removal of a slice": "EBUSY",
        "device": "EPERM",
        "find -xdev": 0,
    });
    assert_eq!(said, expected);
    guest.comes_back_clean("walk");
    Ok(())
}

fn works(shared: &Shared) -> Result<(), String> {
    let house = shared.house();
    let guest = house.lease("sliced-works", &house.base(), &json!({}));
    for script in [
        "useradd -m worker && su worker -c 'touch ~/mine && test ! -w /etc/passwd'",
        "cp /usr/bin/id /usr/bin/as-root && chmod 4755 /usr/bin/as-root && su nobody -s /bin/sh -c 'as-root -u' | grep -qx 0",
        "touch /opt/a /usr/a && chown 12345:54321 /opt/a /usr/a && test $(stat -c %u:%g /usr/a) = 12345:54321",
        "mv /usr/bin/env /opt/env && /opt/env true && mv /opt/env /usr/bin/env",
        "ping -c 1 127.0.0.1 >/dev/null 2>&1 || ! command -v ping",
        "python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 80))'",
        "python3 -c 'import tempfile, os; os.open(\"/usr\", os.O_TMPFILE | os.O_RDWR)'",
        "python3 -c 'import multiprocessing as m; m.Semaphore()'",
        "test -c /dev/null && echo x > /dev/null && head -c 2 /dev/urandom | wc -c | grep -qx 2",
    ] {
        let ran = guest.bash(script);
        assert_eq!(ran.code, 0, "{script}: {ran:?}");
    }
    guest.comes_back_clean("walk");
    Ok(())
}
