//! What a layer's entries become on the disk.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use crate::listing;
use crate::tarball::{Entry, Place, Tarball, dir, file, hard_link, special, symlink};

fn is_whiteout(path: &Path) -> bool {
    let stat = fs::symlink_metadata(path).unwrap();
    stat.file_type().is_char_device() && stat.rdev() == 0
}

const OPAQUE: &str = "trusted.overlay.opaque=y user.overlay.opaque=y";

#[test]
fn attributes_are_kept_to_the_last_bit() {
    let place = Place::new();
    let capability = b"\x01\0\0\x02\x0a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    // Access list: owner rw, user 1000 r, group r, mask r, others none.
    let mut acl = b"\x02\0\0\0".to_vec();
    for (tag, rights, id) in [
        (1u16, 6u16, u32::MAX),
        (2, 4, 1000),
        (4, 4, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&rights.to_le_bytes());
        acl.extend_from_slice(&id.to_le_bytes());
    }
    let long = [b"deep/".repeat(30), b"name\xff\xfe".repeat(10)].concat();
    let entries = [
        Entry {
            mode: 0o4755,
            pax: vec![("SCHILY.xattr.security.capability", capability)],
            ..file(b"capable", b"x")
        },
        Entry {
            mode: 0o6711,
            uid: 12,
            gid: 34,
            ..file(b"setuid", b"")
        },
        Entry {
            mode: 0o640,
            pax: vec![("SCHILY.xattr.system.posix_acl_access", &acl)],
            ..file(b"acl", b"")
        },
        Entry {
            pax: vec![("mtime", b"1234567890.123456789")],
            ..file(b"time", b"")
        },
        Entry {
            pax: vec![("mtime", b"-3.25")],
            ..file(b"old", b"")
        },
        Entry {
            pax: vec![
                ("SCHILY.xattr.user.text", b"a=b\nc\0"),
                ("SCHILY.xattr.trusted.t", b""),
            ],
            ..file(b"noted", b"")
        },
        Entry {
            uid: 1000,
            gid: 1000,
            pax: vec![("mtime", b"5.5")],
            ..symlink(b"link", b"/nowhere\xff")
        },
        Entry {
            uid: 1,
            gid: 2,
            ..special(b"pipe", b'6')
        },
        Entry {
            pax: vec![("uid", b"3000000000"), ("gid", b"70000")],
            ..file(b"foreign", b"")
        },
        Entry {
            pax: vec![("path", &long)],
            ..file(b"short", b"deep")
        },
        Entry {
            mode: 0o1777,
            mtime: 77,
            ..dir(b"sticky/")
        },
        file(b"sticky/inside", b""),
        hard_link(b"sticky/again", b"sticky/inside"),
        hard_link(b"link2", b"link"),
    ];
    let image = place.import(&[Tarball::of(&entries)]).unwrap();
    let tree = place.top(&image);
    let stat = |name: &str| fs::symlink_metadata(tree.join(name)).unwrap();
    assert_eq!(stat("capable").mode() & 0o7777, 0o4755);
    let shown: String = capability.escape_ascii().to_string();
    assert_eq!(
        listing::xattrs(&tree.join("capable")),
        format!("security.capability={shown}")
    );
    assert_eq!(
        (
            stat("setuid").mode() & 0o7777,
            stat("setuid").uid(),
            stat("setuid").gid()
        ),
        (0o6711, 12, 34)
    );
    assert_eq!(
        listing::xattrs(&tree.join("acl")),
        format!("system.posix_acl_access={}", acl.escape_ascii())
    );
    assert_eq!(
        (stat("time").mtime(), stat("time").mtime_nsec()),
        (1_234_567_890, 123_456_789)
    );
    assert_eq!(
        (stat("old").mtime(), stat("old").mtime_nsec()),
        (-4, 750_000_000)
    );
    assert_eq!(
        listing::xattrs(&tree.join("noted")),
        "trusted.t= user.text=a=b\\nc\\x00"
    );
    assert_eq!(
        (
            stat("link").uid(),
            stat("link").mtime(),
            stat("link").mtime_nsec()
        ),
        (1000, 5, 500_000_000)
    );
    assert_eq!(stat("link").ino(), stat("link2").ino());
    assert!(stat("pipe").file_type().is_fifo());
    assert_eq!(
        (stat("foreign").uid(), stat("foreign").gid()),
        (3_000_000_000, 70_000)
    );
    assert_eq!(
        (stat("sticky").mode() & 0o7777, stat("sticky").mtime()),
        (0o1777, 77)
    );
    assert_eq!(stat("sticky/inside").nlink(), 2);
    let odd: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(long.as_slice());
    assert_eq!(fs::read(tree.join(odd)).unwrap(), b"deep");
    let record = place.store.layer(&image.layers[0]).unwrap();
    assert_eq!(
        (record.entries, record.bytes, record.foreign_ids),
        (14, 5, 1)
    );
}

#[test]
fn a_directory_does_not_colour_what_is_made_in_it() {
    let place = Place::new();
    // Default list: everybody everything.
    let mut acl = b"\x02\0\0\0".to_vec();
    for tag in [1u16, 4, 32] {
        acl.extend_from_slice(&tag.to_le_bytes());
        acl.extend_from_slice(&7u16.to_le_bytes());
        acl.extend_from_slice(&u32::MAX.to_le_bytes());
    }
    let group = Entry {
        mode: 0o2775,
        gid: 50,
        pax: vec![("SCHILY.xattr.system.posix_acl_default", &acl)],
        ..dir(b"g")
    };
    let entries = [
        group,
        Entry {
            mode: 0o600,
            ..file(b"g/f", b"")
        },
        Entry {
            mode: 0o700,
            ..dir(b"g/d")
        },
    ];
    let image = place.import(&[Tarball::of(&entries)]).unwrap();
    let tree = place.top(&image);
    for (name, mode) in [("g/f", 0o600), ("g/d", 0o700)] {
        let stat = fs::metadata(tree.join(name)).unwrap();
        assert_eq!((stat.mode() & 0o7777, stat.gid()), (mode, 0), "{name}");
        assert_eq!(listing::xattrs(&tree.join(name)), "");
    }
    assert!(listing::xattrs(&tree.join("g")).starts_with("system.posix_acl_default="));
}

#[test]
fn whiteouts_mean_the_same_in_any_order() {
    let place = Place::new();
    let base = Tarball::of(&[
        dir(b"d"),
        file(b"d/old", b""),
        file(b"f", b""),
        file(b"gone", b""),
    ]);
    let upper = [
        file(b".wh.gone", b""),
        file(b".wh.d", b""),
        dir(b"d"),
        file(b"d/new", b""),
        file(b".wh.f", b""),
        file(b"f", b"again"),
        dir(b"o"),
        file(b"o/.wh..wh..opq", b""),
        file(b"o/kept", b""),
        file(b".wh..wh.plnk/1.2", b"aufs"),
    ];
    let forward = Tarball::of(&upper);
    let mut backward: Vec<_> = upper.to_vec();
    backward.reverse();
    let mut seen = Vec::new();
    for top in [forward, Tarball::of(&backward)] {
        let image = place.import(&[base.clone(), top]).unwrap();
        let tree = place.top(&image);
        assert!(is_whiteout(&tree.join("gone")));
        assert_eq!(listing::xattrs(&tree.join("d")), OPAQUE);
        assert_eq!(listing::xattrs(&tree.join("o")), OPAQUE);
        assert_eq!(fs::read(tree.join("f")).unwrap(), b"again");
        assert!(tree.join("o/kept").exists() && !tree.join(".wh..wh.plnk").exists());
        let record = place.store.layer(image.layers.last().unwrap()).unwrap();
        assert_eq!(record.opaque_dirs, 2);
        seen.push(listing::of(&tree, true));
    }
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn the_last_of_two_entries_wins() {
    let place = Place::new();
    let image = place
        .import(&[Tarball::of(&[
            file(b"a", b"file"),
            dir(b"a"),
            file(b"a/b", b""),
            dir(b"c/d"),
            file(b"c/d/e", b""),
            file(b"c", b"file"),
            symlink(b"s", b"elsewhere"),
            dir(b"s"),
            file(b"x", b"1"),
            hard_link(b"y", b"x"),
            file(b"x", b"2"),
            Entry {
                mode: 0o700,
                ..dir(b"twice")
            },
            file(b"twice/in", b""),
            Entry {
                mode: 0o711,
                ..dir(b"twice")
            },
            file(b"z", b""),
            file(b"z/under", b""),
        ])])
        .unwrap();
    let tree = place.top(&image);
    assert!(
        tree.join("a/b").is_file() && tree.join("s").is_dir() && tree.join("z/under").is_file()
    );
    assert_eq!(fs::read(tree.join("c")).unwrap(), b"file");
    assert_eq!(
        (
            fs::read(tree.join("x")).unwrap(),
            fs::read(tree.join("y")).unwrap()
        ),
        (b"2".to_vec(), b"1".to_vec())
    );
    assert_eq!(
        fs::metadata(tree.join("twice")).unwrap().mode() & 0o7777,
        0o711
    );
    assert!(tree.join("twice/in").is_file());
}

#[test]
fn left_out_directories_look_as_beneath() {
    let place = Place::new();
    let top = Tarball::of(&[file(b"tmp/x", b""), file(b"new/y", b"")]);
    let base = |mode| {
        Tarball::of(&[
            Entry {
                mode: 0o555,
                ..dir(b"./")
            },
            Entry {
                mode,
                gid: 9,
                ..dir(b"tmp")
            },
        ])
    };
    let one = place.import(&[base(0o1777), top.clone()]).unwrap();
    let two = place.import(&[base(0o1770), top.clone()]).unwrap();
    let alone = place.import(&[top]).unwrap();
    let modes = |image| {
        let tree = place.top(image);
        ["", "tmp", "new"].map(|name| fs::metadata(tree.join(name)).unwrap().mode() & 0o7777)
    };
    assert_eq!(modes(&one), [0o555, 0o1777, 0o755]);
    assert_eq!(
        fs::metadata(place.top(&one).join("tmp")).unwrap().mtime(),
        1_000_000_000
    );
    assert_eq!(modes(&two), [0o555, 0o1770, 0o755]);
    assert_eq!(modes(&alone), [0o755, 0o755, 0o755]);
    // The same tar over other layers is another layer here, but only because it depends on them.
    assert_ne!(one.layers[1], two.layers[1]);
    assert!(place.store.layer(&one.layers[1]).unwrap().depends_on_lower);
    assert!(
        !place
            .store
            .layer(&alone.layers[0])
            .unwrap()
            .depends_on_lower
    );
}

#[test]
fn a_layer_that_needs_nothing_is_shared() {
    let place = Place::new();
    let top = Tarball::of(&[dir(b"d"), file(b"d/x", b"")]);
    let one = place
        .import(&[Tarball::of(&[file(b"one", b"")]), top.clone()])
        .unwrap();
    let two = place
        .import(&[Tarball::of(&[file(b"two", b"")]), top])
        .unwrap();
    assert_eq!(one.layers[1], two.layers[1]);
    assert_ne!(one.layers[0], two.layers[0]);
}

#[test]
fn hard_links_to_lower_layers_bring_the_file_up() {
    let place = Place::new();
    let bottom = Tarball::of(&[
        dir(b"d"),
        Entry {
            mode: 0o4711,
            uid: 5,
            mtime: 42,
            pax: vec![("SCHILY.xattr.user.k", b"v")],
            ..file(b"d/f", b"content")
        },
        symlink(b"s", b"target"),
        file(b"hidden", b""),
        dir(b"o"),
        file(b"o/in", b""),
    ]);
    let middle = Tarball::of(&[
        file(b".wh.hidden", b""),
        dir(b"o"),
        file(b"o/.wh..wh..opq", b""),
    ]);
    let top = Tarball::of(&[hard_link(b"new", b"d/f"), hard_link(b"s2", b"./s")]);
    let image = place
        .import(&[bottom.clone(), middle.clone(), top])
        .unwrap();
    let tree = place.top(&image);
    let (new, old) = (
        fs::metadata(tree.join("new")).unwrap(),
        fs::metadata(tree.join("d/f")).unwrap(),
    );
    assert_eq!((new.ino(), new.nlink()), (old.ino(), 2));
    assert_eq!(
        (new.mode() & 0o7777, new.uid(), new.mtime()),
        (0o4711, 5, 42)
    );
    assert_eq!(listing::xattrs(&tree.join("new")), "user.k=v");
    assert_eq!(fs::read(tree.join("new")).unwrap(), b"content");
    assert_eq!(fs::read_link(tree.join("s2")).unwrap(), Path::new("target"));
    assert!(
        place
            .store
            .layer(&image.layers[2])
            .unwrap()
            .depends_on_lower
    );
    for gone in [&b"hidden"[..], b"o/in"] {
        let top = Tarball::of(&[hard_link(b"new", gone)]);
        place
            .import(&[bottom.clone(), middle.clone(), top])
            .expect_err("a deleted file was linked");
    }
}

#[test]
fn a_layer_that_occurs_twice_is_listed_once() {
    let place = Place::new();
    let empty = Tarball::of(&[]);
    let image = place
        .import(&[empty.clone(), Tarball::of(&[file(b"a", b"")]), empty])
        .unwrap();
    assert_eq!(image.layers.len(), 2);
    assert_eq!(fs::read_dir(place.top(&image)).unwrap().count(), 0);
}

#[test]
fn zeros_become_holes() {
    let place = Place::new();
    let mut content = vec![0; 4 << 20];
    content[1 << 20] = 1;
    let image = place
        .import(&[Tarball::of(&[
            file(b"sparse", &content),
            file(b"zero", &content[..100]),
        ])])
        .unwrap();
    let path = place.top(&image).join("sparse");
    assert!(fs::metadata(&path).unwrap().blocks() * 512 < 1 << 20);
    assert_eq!(fs::read(&path).unwrap(), content);
    assert_eq!(
        fs::read(place.top(&image).join("zero")).unwrap(),
        vec![0; 100]
    );
}
