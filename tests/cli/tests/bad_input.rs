//! Bad input: one clear sentence on standard error, a code that is not 0, nothing half done.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::process::Command;

use innkeeper_test_cli::{Inn, Rootfs, needs_binaries, needs_sandboxes};

/// What an import that failed must not leave: an image, a layer or anything unfinished.
fn nothing_is_left(inn: &Inn) {
    assert_eq!(
        inn.line("image ls --json")
            .ok()
            .json()
            .as_array()
            .map(Vec::len),
        Some(0)
    );
    for folder in ["store/layers", "store/tmp"] {
        let left: Vec<_> = fs::read_dir(inn.state().join(folder))
            .expect("a store")
            .map(|e| e.unwrap().path())
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn sources_that_are_no_images() {
    needs_sandboxes!("sources_that_are_no_images");
    let inn = Inn::new();
    inn.run(["image", "import", "./not-there"])
        .fails(1, "not-there");
    inn.run(["image", "import", "nothing-like-that"])
        .fails(1, "nothing-like-that");
    let text = inn.file("text", "this is no image");
    inn.run(["image", "import", text.to_str().unwrap()])
        .fails(1, "not an image");
    nothing_is_left(&inn);
}

#[test]
fn a_truncated_archive_and_a_wrong_digest() {
    needs_sandboxes!("a_truncated_archive_and_a_wrong_digest");
    let inn = Inn::new();
    let layout = inn.path("layout");
    layout::write(&layout);
    let tar = inn.path("whole.tar");
    let packed = Command::new("tar")
        .arg("-cf")
        .arg(&tar)
        .arg("-C")
        .arg(&layout)
        .arg(".")
        .status()
        .expect("tar runs");
    assert!(packed.success());
    let bytes = fs::read(&tar).unwrap();
    let cut = inn.file("cut.tar", &bytes[..bytes.len() / 2]);
    let ran = inn.run(["image", "import", cut.to_str().unwrap(), "--name", "cut"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("cut.tar"), "{ran:?}");
    nothing_is_left(&inn);

    layout::spoil(&layout);
    let ran = inn.run([
        "image",
        "import",
        layout.to_str().unwrap(),
        "--name",
        "spoilt",
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("digest"), "{ran:?}");
    nothing_is_left(&inn);
}

#[test]
fn a_full_disk() {
    needs_sandboxes!("a_full_disk");
    let place = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none"])
        .arg(place.path())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        innkeeper_test_cli::not_run("a_full_disk", "cannot mount a tmpfs");
        return;
    }
    let inn = Inn::with_state(&place.path().join("state"));
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    let ran = inn.run([
        "image",
        "import",
        rootfs.folder.to_str().unwrap(),
        "--name",
        "big",
    ]);
    let left = fs::read_dir(inn.state().join("store/tmp")).map(Iterator::count);
    drop(inn);
    let unmounted = Command::new("umount")
        .arg(place.path())
        .status()
        .expect("umount runs");
    assert!(unmounted.success());
    let ran = ran.fails(1, "no space is left");
    assert!(ran.stderr.contains("innkeeper image rm"), "{ran:?}");
    assert_eq!(left.unwrap(), 0);
}

#[test]
fn a_port_in_use() {
    needs_sandboxes!("a_port_in_use");
    let inn = Inn::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("tcp://{}", taken.local_addr().unwrap());
    let tokens = inn.file("tokens", "a-secret-of-some-length tenant\n");
    let ran = inn.run([
        "serve",
        "--listen",
        &address,
        "--token-file",
        tokens.to_str().unwrap(),
    ]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.stderr.contains("in use")
            && ran
                .stderr
                .contains(&taken.local_addr().unwrap().port().to_string()),
        "{ran:?}"
    );
}

#[test]
fn two_managers_on_one_state_directory() {
    needs_sandboxes!("two_managers_on_one_state_directory");
    let mut inn = Inn::new();
    inn.serve(&[]);
    let other = format!("unix://{}", inn.path("other.sock").display());
    let ran = inn.run(["serve", "--listen", &other]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stderr.contains("state"), "{ran:?}");
    inn.line("ps").ok();
}

#[test]
fn no_root() {
    needs_sandboxes!("no_root");
    let inn = Inn::new();
    let mut command = inn.command(["run", "anything", "--", "true"]);
    // A copy that anybody may run: the build folder may be closed to others.
    let place = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .tempdir()
        .unwrap();
    let program = place.path().join("innkeeper");
    fs::copy(command.get_program(), &program).unwrap();
    let mut open = Command::new(program);
    open.args(command.get_args())
        .env("INNKEEPER_STATE_DIR", place.path().join("state"));
    open.env(
        "INNKEEPER_EXECD",
        command
            .get_envs()
            .find(|(name, _)| *name == "INNKEEPER_EXECD")
            .unwrap()
            .1
            .unwrap(),
    );
    open.uid(65534).gid(65534);
    let output = open.output().unwrap();
    command.env_clear();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("root"), "{stderr}");
}

#[test]
fn a_lease_of_a_missing_image_and_a_wrong_template() {
    needs_sandboxes!("a_lease_of_a_missing_image_and_a_wrong_template");
    let mut inn = Inn::new();
    let rootfs = Rootfs::make(&inn.path("rootfs"));
    inn.run([
        "image",
        "import",
        rootfs.folder.to_str().unwrap(),
        "--name",
        "t",
    ])
    .ok();
    inn.serve(&[]);
    inn.line("lease missing").fails(1, "missing");
    let template = inn.file("t.yaml", "workdirr: /x\n");
    inn.run(["lease", "t", "--template", template.to_str().unwrap()])
        .fails(2, "workdirr");
    let template = inn.file("t.yaml", "workdir: [\n");
    inn.run(["lease", "t", "--template", template.to_str().unwrap()])
        .fails(2, "t.yaml");
    inn.run(["lease", "t", "--template", "/not/there"])
        .fails(2, "/not/there");
    let template = inn.file(
        "t.yaml",
        "base_commit: 0123456789012345678901234567890123456789\nworkdir: /testbed\n",
    );
    inn.run(["lease", "t", "--template", template.to_str().unwrap()])
        .fails(1, "base commit");
    let template = inn.file("t.yaml", "{strategy: in-place, rights: root}\n");
    inn.run(["lease", "t", "--template", template.to_str().unwrap()])
        .fails(2, "write rights pod or user");
    let template = inn.file("t.yaml", "{strategy: sliced, supply: {carry: any}}\n");
    inn.run(["lease", "t", "--template", template.to_str().unwrap()])
        .fails(2, "supply.carry must be own");
    inn.line("exec no-such-lease -- true")
        .fails(125, "no-such-lease");
    inn.line("return no-such-lease").fails(1, "no-such-lease");
    inn.until("nothing is leased or made", || {
        let slots = inn.line("ps --json").ok().json();
        let busy = slots
            .as_array()
            .unwrap()
            .iter()
            .any(|slot| !slot["lease"].is_null());
        if busy { Err(slots.to_string()) } else { Ok(()) }
    });
}

#[test]
fn tasks_and_predictions_that_cannot_be_used() {
    needs_binaries!("tasks_and_predictions_that_cannot_be_used");
    let inn = Inn::new();
    let out = inn.path("out");
    let grade = |tasks: &str, predictions: &str| {
        inn.run([
            "grade",
            "--tasks",
            tasks,
            "--predictions",
            predictions,
            "--out",
            out.to_str().unwrap(),
        ])
    };
    grade("/not/there.jsonl", "gold").fails(1, "/not/there.jsonl");
    let tasks = inn.file("tasks.jsonl", r#"{"instance_id": "a__a-1", "patch": "x", "FAIL_TO_PASS": [], "PASS_TO_PASS": [], "log_parser": "parse_log_pytest"}"#);
    let tasks = tasks.to_str().unwrap();
    grade(tasks, "gold").fails(1, "eval_script");
    grade(tasks, "/not/there.json").fails(1, "/not/there.json");
    let other = inn.file(
        "p.jsonl",
        r#"{"instance_id": "b__b-2", "model_patch": "x"}"#,
    );
    grade(tasks, other.to_str().unwrap()).fails(1, "b__b-2");
    assert!(!out.exists(), "nothing was written");
    let whole = fs::read_to_string(tasks)
        .unwrap()
        .replace("\"patch\"", "\"eval_script\": \"true\", \"patch\"");
    fs::write(tasks, whole).unwrap();
    fs::write(&out, "a file").unwrap();
    grade(tasks, "gold").fails(1, "--out");
    assert!(inn.daemons().is_empty());
}

/// A small OCI layout, written by hand so that it can be spoilt.
mod layout {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use serde_json::{Value, json};

    pub(crate) fn write(folder: &Path) {
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).unwrap();
        let tree = folder.with_extension("tree");
        fs::create_dir_all(&tree).unwrap();
        fs::write(tree.join("file"), vec![b'x'; 200_000]).unwrap();
        let layer = folder.with_extension("layer");
        let packed = Command::new("tar")
            .arg("-cf")
            .arg(&layer)
            .arg("-C")
            .arg(&tree)
            .arg("file")
            .status()
            .unwrap();
        assert!(packed.success());
        let layer = put(
            &blobs,
            "application/vnd.oci.image.layer.v1.tar",
            &fs::read(layer).unwrap(),
        );
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
        });
        let config = put(
            &blobs,
            "application/vnd.oci.image.config.v1+json",
            config.to_string().as_bytes(),
        );
        let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": [layer]});
        let manifest = put(
            &blobs,
            "application/vnd.oci.image.manifest.v1+json",
            manifest.to_string().as_bytes(),
        );
        fs::write(
            folder.join("index.json"),
            json!({"schemaVersion": 2, "manifests": [manifest]}).to_string(),
        )
        .unwrap();
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion": "1.0.0"}"#,
        )
        .unwrap();
    }

    /// Changes a byte of the largest blob, which is the layer.
    pub(crate) fn spoil(folder: &Path) {
        let blobs = fs::read_dir(folder.join("blobs/sha256"))
            .unwrap()
            .map(|e| e.unwrap().path());
        let layer = blobs
            .max_by_key(|path| fs::metadata(path).unwrap().len())
            .unwrap();
        let mut bytes = fs::read(&layer).unwrap();
        bytes[1000] ^= 1;
        fs::write(layer, bytes).unwrap();
    }

    fn put(blobs: &Path, kind: &str, bytes: &[u8]) -> Value {
        let file = blobs.join("new");
        fs::write(&file, bytes).unwrap();
        let output = Command::new("sha256sum").arg(&file).output().unwrap();
        let digest = String::from_utf8_lossy(&output.stdout)
            .split(' ')
            .next()
            .unwrap()
            .to_owned();
        fs::rename(file, blobs.join(&digest)).unwrap();
        json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()})
    }
}
