//! Folders as images.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use innkeeper_images::Source;

use crate::listing;
use crate::tarball::Place;

fn run(script: &str, folder: &std::path::Path) {
    let status = Command::new("sh")
        .args(["-euc", script])
        .current_dir(folder)
        .status()
        .unwrap();
    assert!(status.success(), "{script}");
}

#[test]
fn a_folder_comes_out_as_it_is() {
    let place = Place::new();
    let root = place.path("root");
    fs::create_dir(&root).unwrap();
    run(
        "mkdir -p a/b etc tmp; chmod 1777 tmp; echo hello > a/b/file; chmod 4755 a/b/file; chown 12:34 etc
         ln a/b/file again; ln -s ../nowhere a/link; chown -h 5:6 a/link; mkfifo pipe; truncate -s 1M sparse
         touch -d '2001-02-03 04:05:06.123456789' a/b/file; touch -h -d '1969-12-31 23:59:58.5' a/link
         mkdir -m 2750 group; : > group/empty; touch -d '2010-01-01 00:00:00.5' a etc; chmod 555 .",
        &root,
    );
    let long = "n".repeat(200);
    fs::create_dir_all(root.join(&long).join(&long)).unwrap();
    symlink("t".repeat(300), root.join("long-link")).unwrap();
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(b"odd\xff\n name");
    fs::write(root.join(odd), b"x").unwrap();
    rustix::fs::setxattr(
        root.join(odd),
        "user.k",
        b"\n\0=",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    rustix::fs::lsetxattr(
        root.join("a/link"),
        "trusted.l",
        b"1",
        rustix::fs::XattrFlags::empty(),
    )
    .unwrap();
    let before = listing::of(&root, true);
    let source = Source::parse(root.to_str().unwrap()).unwrap();
    assert_eq!(source, Source::Rootfs(root.clone()));
    let image = place
        .store
        .import(&source, Some("folder"), &mut ())
        .unwrap();
    assert_eq!(listing::of(&place.top(&image), true), before);
    assert_eq!(image.names, ["folder:latest"]);
    // The same content again is the same image.
    let again = place.store.import(&source, Some("other"), &mut ()).unwrap();
    assert_eq!((again.digest, again.names.len()), (image.digest, 2));
}

#[test]
fn sockets_devices_and_other_file_systems_are_left_out() {
    let place = Place::new();
    let root = place.path("root");
    fs::create_dir_all(root.join("proc")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    run("mknod null c 1 3; : > file", &root);
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "none"])
        .arg(root.join("proc"))
        .status();
    let mounted = mounted.is_ok_and(|status| status.success());
    if mounted {
        fs::write(root.join("proc/inside"), b"").unwrap();
    } else {
        println!("not run: other file systems in a folder: no tmpfs can be mounted here");
    }
    let imported = place
        .store
        .import(&Source::Rootfs(root.clone()), None, &mut ());
    if mounted {
        assert!(
            Command::new("umount")
                .arg(root.join("proc"))
                .status()
                .unwrap()
                .success()
        );
    }
    let image = imported.unwrap();
    let mut names: Vec<_> = fs::read_dir(place.top(&image))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["file", "proc"]);
    assert_eq!(
        fs::read_dir(place.top(&image).join("proc"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(
        place.store.layer(&image.layers[0]).unwrap().dropped_devices,
        1
    );
}

#[test]
fn names_that_mean_deletions_are_refused() {
    let place = Place::new();
    let root = place.path("root");
    fs::create_dir(&root).unwrap();
    fs::write(root.join(".wh.x"), b"").unwrap();
    let error = place
        .store
        .import(&Source::Rootfs(root), None, &mut ())
        .unwrap_err();
    assert!(error.to_string().contains(".wh.x"), "{error}");
    place.assert_empty();
}
