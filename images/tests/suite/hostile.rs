//! Layers and archives made to do harm, or merely broken: one clear error, nothing left, nothing
//! touched outside.

use std::fs;

use innkeeper_images::{Digest, Error, ErrorKind, Source};

use crate::tarball::{
    Entry, Place, Tarball, config, dir, docker_archive, docker_archive_with, file, hard_link,
    special, symlink,
};

fn refused(place: &Place, entries: &[Entry<'_>]) -> Error {
    let error = place
        .import(&[Tarball::of(entries)])
        .expect_err("the layer was accepted");
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
    place.assert_empty();
    error
}

#[test]
fn names_that_climb_out_are_refused() {
    let place = Place::new();
    for name in [&b"../out"[..], b"a/../../out", b"..", b"/../out", b"a/.."] {
        let error = refused(&place, &[file(name, b"x")]);
        assert!(error.to_string().contains("`..`"), "{error}");
    }
    refused(&place, &[file(b".wh...", b"")]);
    refused(&place, &[file(b".wh.", b"")]);
    refused(&place, &[hard_link(b"a", b"../../etc/passwd")]);
    assert!(!place.path("out").exists());
}

#[test]
fn absolute_names_and_links_stay_in_the_tree() {
    let place = Place::new();
    let outside = place.path("outside");
    fs::create_dir(&outside).unwrap();
    let target = outside.to_str().unwrap().as_bytes();
    let up = b"../../../../../../../../../../../../tmp";
    let image = place
        .import(&[Tarball::of(&[
            symlink(b"absolute", target),
            file(b"absolute/x", b"1"),
            symlink(b"upwards", up),
            file(b"upwards/y", b"2"),
            file(b"/etc/z", b"3"),
            symlink(b"d", b"absolute"),
            hard_link(b"linked", b"d/x"),
        ])])
        .unwrap();
    let tree = place.top(&image);
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let inside = tree.join(outside.strip_prefix("/").unwrap());
    assert_eq!(fs::read(inside.join("x")).unwrap(), b"1");
    assert_eq!(fs::read(tree.join("tmp/y")).unwrap(), b"2");
    assert_eq!(fs::read(tree.join("etc/z")).unwrap(), b"3");
    assert_eq!(fs::read(tree.join("linked")).unwrap(), b"1");
}

#[test]
fn a_link_is_never_written_through() {
    let place = Place::new();
    let victim = place.path("victim");
    fs::write(&victim, b"whole").unwrap();
    let target = victim.to_str().unwrap().as_bytes();
    let image = place
        .import(&[Tarball::of(&[symlink(b"a", target), file(b"a", b"mine")])])
        .unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"whole");
    assert_eq!(fs::read(place.top(&image).join("a")).unwrap(), b"mine");
}

#[test]
fn hard_links_reach_only_files_of_the_image() {
    let place = Place::new();
    let victim = place.path("victim");
    fs::write(&victim, b"secret").unwrap();
    let target = victim.to_str().unwrap().as_bytes();
    for entries in [
        vec![hard_link(b"a", b"/etc/passwd")],
        vec![hard_link(b"a", target)],
        vec![symlink(b"way", b"/"), hard_link(b"a", b"way/etc/passwd")],
        vec![dir(b"d"), hard_link(b"a", b"d")],
        vec![file(b".wh.gone", b""), hard_link(b"a", b"gone")],
    ] {
        let error = refused(&place, &entries);
        assert!(error.to_string().contains("hard link"), "{error}");
    }
}

#[test]
fn loops_of_links_end() {
    let place = Place::new();
    let error = refused(
        &place,
        &[symlink(b"a", b"b"), symlink(b"b", b"a"), file(b"a/x", b"")],
    );
    assert!(error.to_string().contains("loop"), "{error}");
}

#[test]
fn devices_and_overlay_metadata_are_left_out() {
    let place = Place::new();
    let mut forged = dir(b"forged");
    forged.pax = vec![
        ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ("SCHILY.xattr.trusted.overlay.redirect", b"/etc"),
        ("SCHILY.xattr.user.overlay.opaque", b"y"),
        ("SCHILY.xattr.user.kept", b"1"),
    ];
    let image = place
        .import(&[Tarball::of(&[
            special(b"null", b'3'),
            special(b"disk", b'4'),
            forged,
        ])])
        .unwrap();
    let record = place.store.layer(&image.layers[0]).unwrap();
    assert_eq!((record.dropped_devices, record.dropped_xattrs), (2, 3));
    let tree = place.top(&image);
    assert!(!tree.join("null").exists() && !tree.join("disk").exists());
    assert_eq!(crate::listing::xattrs(&tree.join("forged")), "user.kept=1");
}

#[test]
fn broken_headers_are_refused() {
    let place = Place::new();
    let mut wrong_sum = Tarball::of(&[file(b"a", b"x")]);
    wrong_sum[0] ^= 1;
    let mut huge = Tarball::default();
    let mut header = tar::Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_size(u64::MAX >> 1);
    header.set_cksum();
    huge.raw(header.as_bytes());
    let mut pax_huge = file(b"a", b"x");
    pax_huge.pax = vec![("size", b"18446744073709551615")];
    let mut long_record = file(b"a", b"x");
    long_record.flag = b'x';
    let mut sparse = file(b"a", b"x");
    sparse.pax = vec![("GNU.sparse.map", b"5,1"), ("GNU.sparse.size", b"3")];
    let mut wide = file(b"a", b"x");
    wide.pax = vec![("uid", b"4294967296")];
    for layer in [
        wrong_sum,
        huge.finish(),
        Tarball::of(&[pax_huge]),
        Tarball::of(&[long_record]),
        Tarball::of(&[sparse]),
        Tarball::of(&[wide]),
        Tarball::of(&[special(b"a", b'Q')]),
        b"no tar at all, but long enough to be looked at".repeat(40),
    ] {
        let error = place.import(&[layer]).expect_err("the layer was accepted");
        assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
        place.assert_empty();
    }
}

#[test]
fn a_name_too_deep_is_refused() {
    let place = Place::new();
    let name = b"d/".repeat(1000);
    let mut deep = dir(b"d");
    deep.pax = vec![("path", &name)];
    let error = refused(&place, &[deep]);
    assert!(error.to_string().contains("deep"), "{error}");
}

#[test]
fn truncation_is_noticed_wherever_it_falls() {
    let place = Place::new();
    let layer = Tarball::of(&[dir(b"a"), file(b"a/b", &[7; 3000]), symlink(b"c", b"a")]);
    let whole = Digest::of(&layer);
    for length in (0..layer.len() - 1).step_by(256) {
        let path = place.path("short.tar");
        docker_archive_with(
            &path,
            &[layer[..length].to_vec()],
            &["made:1"],
            &config(&[whole]),
        );
        let error = place.store.import(
            &Source::parse(path.to_str().unwrap()).unwrap(),
            None,
            &mut (),
        );
        assert_eq!(
            error.expect_err("accepted").kind(),
            ErrorKind::BadInput,
            "{length}"
        );
        place.assert_empty();
    }
    let path = place.path("image.tar");
    docker_archive(&path, &[layer], &["made:1"]);
    let archive = fs::read(&path).unwrap();
    for length in (512..archive.len() - 2048).step_by(512) {
        fs::write(&path, &archive[..length]).unwrap();
        let error = place.store.import(
            &Source::parse(path.to_str().unwrap()).unwrap(),
            None,
            &mut (),
        );
        assert_eq!(
            error.expect_err("accepted").kind(),
            ErrorKind::BadInput,
            "{length}"
        );
        place.assert_empty();
    }
}

#[test]
fn a_wrong_layer_names_both_digests() {
    let place = Place::new();
    let path = place.path("image.tar");
    let (wanted, other) = (
        Tarball::of(&[file(b"a", b"1")]),
        Tarball::of(&[file(b"a", b"2")]),
    );
    docker_archive_with(
        &path,
        std::slice::from_ref(&other),
        &[],
        &config(&[Digest::of(&wanted)]),
    );
    let error = place.store.import(
        &Source::parse(path.to_str().unwrap()).unwrap(),
        None,
        &mut (),
    );
    match error.unwrap_err() {
        Error::WrongDigest {
            expected, found, ..
        } => {
            assert_eq!((expected, found), (Digest::of(&wanted), Digest::of(&other)));
        }
        error => panic!("{error}"),
    }
    place.assert_empty();
}

#[test]
fn what_is_no_image_is_said_in_a_sentence() {
    let place = Place::new();
    let text = place.path("text");
    fs::write(&text, b"hello").unwrap();
    let parsed = |text: &str| Source::parse(text);
    let import = |source: Source| place.store.import(&source, None, &mut ()).unwrap_err();
    let error = import(parsed(text.to_str().unwrap()).unwrap());
    assert!(error.to_string().contains("is not an image"), "{error}");
    let plain = place.path("plain.tar");
    fs::write(&plain, Tarball::of(&[file(b"a", b"1")])).unwrap();
    let error = import(parsed(plain.to_str().unwrap()).unwrap());
    assert!(
        error
            .to_string()
            .contains("neither manifest.json nor index.json"),
        "{error}"
    );
    assert_eq!(
        parsed("no-such-image").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        parsed("./no-such-file").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        parsed("oci:/no/such/folder").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    place.assert_empty();
}

#[test]
fn a_full_disk_is_said_and_cleaned_up() {
    let place = Place::new();
    let small = place.path("small");
    fs::create_dir(&small).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "none"])
        .arg(&small)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("not run: a_full_disk_is_said_and_cleaned_up: no tmpfs can be mounted here");
        return;
    }
    let archive = place.path("image.tar");
    docker_archive(
        &archive,
        &[Tarball::of(&[file(b"big", &[1; 4 << 20])])],
        &["made:1"],
    );
    let result = std::panic::catch_unwind(|| {
        let store = innkeeper_images::Store::open(small.join("store")).unwrap();
        let error = store
            .import(
                &Source::parse(archive.to_str().unwrap()).unwrap(),
                None,
                &mut (),
            )
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoSpace, "{error}");
        for folder in ["layers", "tmp"] {
            assert_eq!(
                fs::read_dir(store.folder().join(folder)).unwrap().count(),
                0
            );
        }
    });
    assert!(
        std::process::Command::new("umount")
            .arg(&small)
            .status()
            .unwrap()
            .success()
    );
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn no_damage_to_a_header_breaks_the_importer() {
    let place = Place::new();
    let mut noted = file(b"d/noted", b"x");
    noted.pax = vec![
        ("SCHILY.xattr.user.k", b"v"),
        ("mtime", b"1.5"),
        ("path", b"d/other"),
    ];
    let mut sparse = file(b"sparse", b"datadata");
    sparse.pax = vec![
        ("GNU.sparse.map", b"0,4,100,4"),
        ("GNU.sparse.size", b"200"),
    ];
    let layer = Tarball::of(&[
        dir(b"d"),
        noted,
        symlink(b"s", b"d"),
        hard_link(b"s/h", b"d/other"),
        file(b"s/.wh.gone", b""),
        sparse,
    ]);
    let outside = crate::listing::of(place.folder.path(), false).len();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut accepted = 0;
    for _ in 0..300 {
        let mut damaged = layer.clone();
        for _ in 0..2 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let at = (random >> 16) as usize % damaged.len();
            damaged[at] = random as u8;
            // With a right checksum, or the first check would refuse all of them.
            let block = at / 512 * 512;
            let header = &mut damaged[block..block + 512];
            if &header[257..262] == b"ustar" {
                header[148..156].fill(b' ');
                let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
                header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
            }
        }
        match place.import(&[damaged]) {
            Ok(image) => {
                accepted += 1;
                place
                    .store
                    .remove(
                        &image.digest.to_string(),
                        &|_: &innkeeper_images::LayerId| false,
                    )
                    .unwrap();
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::BadInput, "{error}"),
        }
        place.assert_empty();
    }
    assert!(accepted > 0);
    fs::remove_file(place.path("image.tar")).unwrap();
    // The store's lock file is the one thing that is new.
    assert!(crate::listing::of(place.folder.path(), false).len() <= outside + 1);
}
