//! Roots as images and runtimes make them.

use super::*;

const MB: u64 = 1 << 20;

fn directory(name: &str, megabytes: u64, children: Vec<Node>) -> Node {
    let own = Weight {
        bytes: megabytes * MB,
        entries: 1 + megabytes * 10,
    };
    Node {
        name: name.into(),
        kind: Kind::Directory,
        weight: children
            .iter()
            .fold(own, |sum, child| sum.plus(child.weight)),
        mounted: false,
        own: false,
        children,
    }
}

fn file(name: &str) -> Node {
    Node {
        kind: Kind::Other,
        ..directory(name, 0, Vec::new())
    }
}

fn mounted(node: Node) -> Node {
    Node {
        mounted: true,
        ..node
    }
}

fn own(node: Node) -> Node {
    Node { own: true, ..node }
}

fn kernel() -> Vec<Node> {
    ["proc", "sys", "dev"]
        .map(|name| mounted(directory(name, 0, Vec::new())))
        .to_vec()
}

/// The treatment of every part, as text.
fn planned(mut children: Vec<Node>) -> Vec<String> {
    children.extend(kernel());
    let root = directory("", 0, children);
    plan(&root, &Limits::default())
        .iter()
        .map(|part| format!("{} {:?}", part.path.escape_ascii(), part.treatment))
        .filter(|line| !["proc", "sys", "dev"].contains(&line.split(' ').next().unwrap_or("")))
        .collect()
}

#[test]
fn a_debian_image_has_two_slices() {
    let etc = directory(
        "etc",
        1,
        vec![
            mounted(file("hosts")),
            mounted(file("resolv.conf")),
            file("passwd"),
        ],
    );
    let run = directory(
        "run",
        0,
        vec![directory(
            "secrets",
            0,
            vec![mounted(directory("token", 0, vec![]))],
        )],
    );
    let found = planned(vec![
        file("bin"),
        directory("usr", 600, vec![]),
        etc,
        run,
        directory("var", 40, vec![]),
        directory("testbed", 20, vec![]),
        mounted(directory("data", 0, vec![])),
        own(directory("innkeeper", 0, vec![])),
    ]);
    assert_eq!(
        found,
        [
            "bin Copied",
            "data Empty",
            "etc Copied",
            "innkeeper LeftOut",
            "run Copied",
            "testbed Copied",
            "usr Slice",
            "var Slice",
        ]
    );
}

#[test]
fn the_kernels_places_are_made_where_the_image_has_none() {
    let root = directory("", 0, vec![directory("bin", 1, vec![])]);
    let parts = plan(&root, &Limits::default());
    let empty: Vec<&[u8]> = parts
        .iter()
        .filter(|part| part.treatment == Treatment::Empty)
        .map(|part| part.path.as_slice())
        .collect();
    assert_eq!(empty, [&b"dev"[..], b"proc", b"sys"]);
}

#[test]
fn a_large_directory_with_mounts_is_split_around_them() {
    let usr = directory(
        "usr",
        2,
        vec![
            directory("bin", 80, vec![]),
            directory("include", 5, vec![]),
            directory(
                "share",
                50,
                vec![
                    directory("doc", 45, vec![]),
                    mounted(directory("volume", 0, vec![])),
                ],
            ),
            file("notes"),
        ],
    );
    assert_eq!(
        planned(vec![usr]),
        [
            "usr Split",
            "usr/bin Slice",
            "usr/include Copied",
            "usr/notes Copied",
            "usr/share Split",
            "usr/share/doc Slice",
            "usr/share/volume Empty",
        ]
    );
}

#[test]
fn a_huge_etc_is_split_and_its_mounted_files_stay_empty() {
    let etc = directory(
        "etc",
        0,
        vec![
            mounted(file("hosts")),
            file("passwd"),
            directory("ssl", 50, vec![]),
        ],
    );
    assert_eq!(
        planned(vec![etc]),
        [
            "etc Split",
            "etc/hosts Empty",
            "etc/passwd Copied",
            "etc/ssl Slice"
        ]
    );
}

#[test]
fn directories_outside_usr_are_slices_too() {
    // Without a merged /usr.
    let found = planned(vec![
        directory("bin", 8, vec![]),
        directory("lib", 45, vec![]),
        directory("sbin", 31, vec![]),
        directory("usr", 300, vec![]),
    ]);
    assert_eq!(
        found,
        ["bin Copied", "lib Slice", "sbin Slice", "usr Slice"]
    );
}

#[test]
fn many_middling_directories_do_not_all_get_copied() {
    let found = planned(
        (0..8)
            .map(|n| directory(&format!("d{n}"), 20 + n, vec![]))
            .collect(),
    );
    let copied = found.iter().filter(|line| line.ends_with("Copied")).count();
    assert_eq!(found.len(), 8);
    assert_eq!(copied, 5, "20 to 24 MB: {found:?}");
    assert!(found.contains(&"d7 Slice".to_owned()));
}

#[test]
fn many_small_files_weigh_too() {
    let mut node_modules = directory("app", 1, vec![]);
    node_modules.weight.entries = 50_000;
    assert_eq!(planned(vec![node_modules]), ["app Slice"]);
}

#[test]
fn slices_come_in_order() {
    let root = directory(
        "",
        0,
        vec![directory("var", 90, vec![]), directory("usr", 90, vec![])],
    );
    let parts = plan(&root, &Limits::default());
    assert_eq!(slices(&parts), [b"usr".to_vec(), b"var".to_vec()]);
}

#[test]
fn files_with_names_in_two_slices_are_counted() {
    let slices = [b"usr".to_vec(), b"var".to_vec()];
    let group = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let linked = [
        group(&["usr/bin/git", "usr/lib/git"]),
        group(&["usr/bin/a", "opt/a"]),
        group(&["var/a", "usr/b", "usr/c"]),
        group(&["usrx", "opt/y"]),
        group(&["opt/only"]),
    ];
    assert_eq!(cut_links(&slices, &linked), 2);
}
