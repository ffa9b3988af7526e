//! The same image through every format that other tools write, compared with their own unpacking.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use innkeeper_images::{Digest, Image, Source};

use crate::listing;
use crate::tarball::{Place, Tarball, dir, file};

pub(crate) fn missing(test: &str, tools: &[&str]) -> bool {
    let lacks = |tool: &&&str| {
        let mut command = Command::new("sh");
        !command
            .args(["-c", "command -v \"$0\" >/dev/null", tool])
            .status()
            .unwrap()
            .success()
    };
    match tools.iter().find(lacks) {
        Some(tool) => {
            println!("not run: {test}: {tool} is not installed");
            true
        }
        None => false,
    }
}

pub(crate) fn sh(folder: &Path, script: &str) {
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(folder)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{said}");
}

/// Builds `layout:task` with umoci: a base layer, one with changes and deletions, one with an
/// opaque directory. Leaves umoci's own unpacking in `reference/rootfs`.
pub(crate) fn build(folder: &Path) {
    sh(
        folder,
        r#"umoci init --layout layout >/dev/null
        umoci new --image layout:task
        umoci unpack --image layout:task bundle >/dev/null 2>&1
        cd bundle/rootfs
        mkdir -p bin etc data/old/deep var/empty opaque home/user; chmod 1777 var/empty; chmod 2755 data
        echo one > data/old/deep/one; echo two > data/two; ln data/two data/again; ln -s ../etc bin/link
        head -c 300000 /dev/urandom > bin/tool; chmod 4755 bin/tool; : > opaque/before; : > etc/gone
        setfattr -n user.note -v 'a line
and another' etc/gone; cp -a etc/gone etc/kept; chown -R 1000:1000 home/user; mkfifo home/user/pipe
        setcap cap_net_raw+ep bin/tool; setfacl -m u:1000:r etc/kept
        printf x > "$(printf 'data/odd\377name')"; truncate -s 2M data/holes
        touch -d '2012-03-04 05:06:07.891234567' data/two; touch -h -d '2012-03-04 05:06:07' bin/link
        cd ../..
        umoci repack --refresh-bundle --image layout:task bundle >/dev/null
        cd bundle/rootfs
        rm -r data/old etc/gone; echo changed > data/two; rm bin/link; mkdir bin/link; echo in > bin/link/in
        mkdir data/old; echo fresh > data/old/fresh; chmod 700 home/user
        cd ../..
        umoci repack --image layout:task bundle >/dev/null"#,
    );
    let opaque = Tarball::of(&[
        dir(b"opaque/"),
        file(b"opaque/.wh..wh..opq", b""),
        file(b"opaque/after", b"x"),
    ]);
    fs::write(folder.join("opaque.tar"), opaque).unwrap();
    sh(
        folder,
        "umoci raw add-layer --image layout:task opaque.tar
         umoci config --image layout:task --config.env A=b --config.user 1000 --config.workingdir /data --config.cmd run
         umoci unpack --image layout:task reference >/dev/null 2>&1",
    );
}

/// The merged view of an image, as a sandbox would mount it.
struct Merged(PathBuf);

impl Merged {
    fn mount(place: &Place, image: &Image) -> Option<Merged> {
        let target = place.path("merged");
        fs::create_dir_all(&target).unwrap();
        let lowers: Vec<String> = image
            .layers
            .iter()
            .rev()
            .map(|layer| place.store.layer_path(layer).display().to_string())
            .collect();
        let options = format!("ro,lowerdir={}", lowers.join(":"));
        let mut command = Command::new("mount");
        command
            .args(["-t", "overlay", "-o", &options, "none"])
            .arg(&target);
        command
            .status()
            .unwrap()
            .success()
            .then_some(Merged(target))
    }

    fn unmount(self) {
        assert!(
            Command::new("umount")
                .arg(&self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

/// Imports and checks against umoci's unpacking; gives the image.
pub(crate) fn check(place: &Place, source: &str) -> Image {
    let image = place
        .store
        .import(&Source::parse(source).unwrap(), None, &mut ())
        .unwrap();
    assert_eq!(image.layers.len(), 3, "{source}");
    assert_eq!(image.config.env, ["A=b"]);
    assert_eq!(image.config.user.as_deref(), Some("1000"));
    assert_eq!(image.config.workdir.as_deref(), Some("/data"));
    assert_eq!(image.config.cmd, ["run"]);
    match Merged::mount(place, &image) {
        None => {
            println!("not run: comparison of {source} with umoci: no overlay can be mounted here")
        }
        Some(merged) => {
            // The root is in no layer, so each tool gives it a time of its own.
            let ours = listing::of(&merged.0, true).split_off(1);
            merged.unmount();
            let theirs = listing::of(&place.path("reference/rootfs"), true).split_off(1);
            // The mark for mounts with `userxattr` shows in mounts without.
            let ours: Vec<String> = ours
                .iter()
                .map(|line| line.replace("user.overlay.opaque=y", ""))
                .collect();
            assert_eq!(ours, theirs, "{source}");
        }
    }
    image
}

#[test]
fn every_format_gives_the_same_trees() {
    let tools = [
        "umoci", "skopeo", "setfattr", "setcap", "setfacl", "gzip", "zstd",
    ];
    if missing("every_format_gives_the_same_trees", &tools) {
        return;
    }
    let place = Place::new();
    let folder = place.folder.path();
    build(folder);
    sh(
        folder,
        "for way in 'oci:zstd:task --dest-compress-format zstd' 'docker-archive:docker.tar:task:1' 'oci-archive:oci.tar:task'
         do skopeo copy -q oci:layout:task $way; done
         gzip -k docker.tar; zstd -q docker.tar oci.tar; gzip -k oci.tar",
    );
    let at = |name: &str| place.path(name).display().to_string();
    let sources = [
        at("layout"),
        format!("oci:{}:task", at("layout")),
        at("zstd"),
        at("docker.tar"),
        format!("docker-archive:{}:task:1", at("docker.tar")),
        at("docker.tar.gz"),
        at("docker.tar.zst"),
        at("oci.tar"),
        format!("oci-archive:{}:task", at("oci.tar")),
        at("oci.tar.gz"),
        at("oci.tar.zst"),
    ];
    let first = check(&place, &sources[0]);
    for source in &sources[1..] {
        // A fresh start each time, or the layers would merely be found again.
        place
            .store
            .remove(
                &first.digest.to_string(),
                &|_: &innkeeper_images::LayerId| false,
            )
            .unwrap();
        place.assert_empty();
        let image = check(&place, source);
        assert_eq!(
            (image.layers, image.entries),
            (first.layers.clone(), first.entries),
            "{source}"
        );
    }
    assert_eq!(place.store.resolve("oci:task").unwrap().names, ["oci:task"]);
}

#[test]
fn a_changed_blob_of_a_layout_is_refused() {
    if missing(
        "a_changed_blob_of_a_layout_is_refused",
        &["umoci", "setfattr", "setcap", "setfacl"],
    ) {
        return;
    }
    let place = Place::new();
    build(place.folder.path());
    let mut blobs: Vec<PathBuf> = fs::read_dir(place.path("layout/blobs/sha256"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            // Old manifests and configs of umoci are blobs that nothing refers to any more.
            let index = fs::read_to_string(place.path("layout/index.json")).unwrap();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            index.contains(&name) || fs::read(path).unwrap().starts_with(&[0x1f, 0x8b])
        })
        .collect();
    blobs.sort();
    assert_eq!(blobs.len(), 4);
    let source = Source::parse(place.path("layout").to_str().unwrap()).unwrap();
    for blob in blobs {
        let whole = fs::read(&blob).unwrap();
        let mut changed = whole.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        for bytes in [changed, whole[..whole.len() / 2].to_vec()] {
            fs::write(&blob, bytes).unwrap();
            let error = place.store.import(&source, None, &mut ()).unwrap_err();
            assert_eq!(
                error.kind(),
                innkeeper_images::ErrorKind::BadInput,
                "{error}"
            );
            place.assert_empty();
        }
        fs::remove_file(&blob).unwrap();
        let error = place.store.import(&source, None, &mut ()).unwrap_err();
        assert!(error.to_string().contains("lacks"), "{error}");
        fs::write(&blob, whole).unwrap();
    }
    place.store.import(&source, None, &mut ()).unwrap();
}

#[test]
fn every_form_of_tar_comes_out_whole() {
    if missing("every_form_of_tar_comes_out_whole", &["tar"]) {
        return;
    }
    let place = Place::new();
    let folder = place.folder.path();
    sh(
        folder,
        "mkdir root; cd root; truncate -s 3M few many tail end
         for at in 0 1000000 2000000; do printf data | dd of=few bs=1 seek=$at conv=notrunc status=none; done
         i=0; while [ $i -lt 60 ]; do printf $i | dd of=many bs=1 seek=$((i * 50000)) conv=notrunc status=none; i=$((i + 1)); done
         printf x | dd of=end bs=1 seek=3145727 conv=notrunc status=none
         long=$(printf 'long%.0s' $(seq 50)); mkdir $long; echo x > $long/$long; ln $long/$long $long/again; ln -s $long$long link
         find . -print0 | xargs -0 touch -h -d '2020-02-02 02:02:02'",
    );
    let before = listing::of(&place.path("root"), true);
    let forms = [
        "gnu",
        "posix --sparse-version=0.0",
        "posix --sparse-version=0.1",
        "posix --sparse-version=1.0",
    ];
    for (index, form) in forms.iter().enumerate() {
        sh(
            folder,
            &format!("tar -C root --sparse --format={form} -cf {index}.tar ."),
        );
        let layer = fs::read(place.path(&format!("{index}.tar"))).unwrap();
        assert!(layer.len() < 2 << 20, "tar has not made it sparse");
        let image = place.import(std::slice::from_ref(&layer)).unwrap();
        assert_eq!(image.layers[0].digest(), Digest::of(&layer));
        assert_eq!(listing::of(&place.top(&image), true), before, "{form}");
    }
}
