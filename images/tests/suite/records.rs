//! Names, digests, removal.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use innkeeper_images::{Digest, ErrorKind, LayerId, Source, Step, Store};

use crate::tarball::{Place, Tarball, docker_archive, file, symlink};

fn never(_: &LayerId) -> bool {
    false
}

#[test]
fn images_answer_to_names_and_digests() {
    let place = Place::new();
    let archive = place.path("image.tar");
    docker_archive(
        &archive,
        &[Tarball::of(&[file(b"a", b"1")])],
        &["docker.io/library/task:1", "localhost/mine:latest"],
    );
    let source = Source::parse(archive.to_str().unwrap()).unwrap();
    let image = place.store.import(&source, None, &mut ()).unwrap();
    assert_eq!(image.names, ["localhost/mine:latest", "task:1"]);
    assert_eq!(image.config.env, ["A=b"]);
    let hex = image.digest.hex();
    for name in [
        "task:1",
        "docker.io/task:1",
        "docker.io/library/task:1",
        "mine",
        "localhost/mine",
        &hex,
        &hex[..12],
    ] {
        assert_eq!(place.store.resolve(name).unwrap(), image, "{name}");
    }
    assert_eq!(
        place.store.resolve(&format!("any@sha256:{hex}")).unwrap(),
        image
    );
    for name in ["task", "task:2", "abc", "sha256:0000", ""] {
        assert_eq!(
            place.store.resolve(name).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{name}"
        );
    }
    assert_eq!(place.store.list().unwrap(), [image]);
}

#[test]
fn a_name_moves_to_the_image_imported_last() {
    let place = Place::new();
    let old = place.import(&[Tarball::of(&[file(b"a", b"1")])]).unwrap();
    let new = place.import(&[Tarball::of(&[file(b"a", b"2")])]).unwrap();
    assert_eq!(place.store.resolve("made:1").unwrap().digest, new.digest);
    assert!(
        place
            .store
            .resolve(&old.digest.to_string())
            .unwrap()
            .names
            .is_empty()
    );
}

#[test]
fn removing_takes_what_nobody_else_needs() {
    let place = Place::new();
    let shared = Tarball::of(&[file(b"shared", b"")]);
    let one = place
        .import(&[shared.clone(), Tarball::of(&[file(b"one", b"")])])
        .unwrap();
    let archive = place.path("two.tar");
    docker_archive(
        &archive,
        &[shared, Tarball::of(&[file(b"two", b"")])],
        &["two:1"],
    );
    let source = Source::parse(archive.to_str().unwrap()).unwrap();
    let two = place.store.import(&source, None, &mut ()).unwrap();
    place.store.import(&source, Some("alias"), &mut ()).unwrap();

    let removed = place.store.remove("made:1", &never).unwrap();
    assert_eq!(
        (removed.image, removed.layers),
        (Some(one.digest), vec![one.layers[1]])
    );
    let removed = place.store.remove("alias", &never).unwrap();
    assert_eq!(
        (removed.image, removed.names),
        (None, vec!["alias:latest".to_owned()])
    );
    let removed = place
        .store
        .remove("two:1", &|layer| *layer == two.layers[0])
        .unwrap();
    assert_eq!(
        (removed.layers, removed.in_use),
        (vec![two.layers[1]], vec![two.layers[0]])
    );
    assert!(place.store.layer(&two.layers[0]).is_ok());
    assert_eq!(place.store.prune(&never).unwrap(), [two.layers[0]]);
    place.assert_empty();
    assert_eq!(
        place.store.remove("two:1", &never).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn what_is_there_is_not_read_again() {
    let place = Place::new();
    let layer = Tarball::of(&[file(b"a", &[1; 100_000])]);
    let image = place.import(std::slice::from_ref(&layer)).unwrap();
    let source = Source::parse(place.path("image.tar").to_str().unwrap()).unwrap();
    let mut steps = Vec::new();
    place
        .store
        .import(&source, None, &mut |step: Step| steps.push(step))
        .unwrap();
    let diff_id = Digest::of(&layer);
    assert_eq!(
        steps,
        [
            Step::Layers { total: 1 },
            Step::Shared { index: 0, diff_id }
        ]
    );
    // A layer without its record or tree is no layer; the import makes it anew.
    fs::remove_file(place.top(&image).with_file_name("layer.json")).unwrap();
    assert_eq!(
        place.store.layer(&image.layers[0]).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    place.store.import(&source, None, &mut ()).unwrap();
    assert!(place.store.layer(&image.layers[0]).is_ok());
}

#[test]
fn the_store_is_closed_to_others() {
    let place = Place::new();
    for folder in ["", "layers", "images", "tmp"] {
        let mode = fs::metadata(place.store.folder().join(folder))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700, "{folder}");
    }
}

#[test]
fn an_archive_with_several_images_wants_a_choice() {
    let place = Place::new();
    let layer = Tarball::of(&[file(b"a", b"1")]);
    let mut tar = Tarball::default();
    let mut items = Vec::new();
    for name in ["one", "two"] {
        let config = crate::tarball::config(&[Digest::of(&layer)]).replace("A=b", name);
        tar.add(&file(format!("{name}.json").as_bytes(), config.as_bytes()));
        items.push(format!(
            r#"{{"Config":"{name}.json","RepoTags":["{name}:1"],"Layers":["layer.tar"]}}"#
        ));
    }
    tar.add(&file(b"layer.tar", &layer));
    tar.add(&file(
        b"manifest.json",
        format!("[{}]", items.join(",")).as_bytes(),
    ));
    let path = place.path("both.tar");
    fs::write(&path, tar.finish()).unwrap();
    let text = path.to_str().unwrap();
    let import = |text: &str| {
        place
            .store
            .import(&Source::parse(text).unwrap(), None, &mut ())
    };
    let error = import(text).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("one:1, two:1"), "{error}");
    let image = import(&format!("docker-archive:{text}:two:1")).unwrap();
    assert_eq!(
        (image.names, image.config.env),
        (vec!["two:1".to_owned()], vec!["two".to_owned()])
    );
    assert_eq!(
        import(&format!("docker-archive:{text}:three"))
            .unwrap_err()
            .kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn a_store_can_be_opened_again() {
    let place = Place::new();
    let image = place.import(&[Tarball::of(&[file(b"a", b"1")])]).unwrap();
    let again = Store::open(place.store.folder()).unwrap();
    assert_eq!(again.resolve("made:1").unwrap(), image);
}

#[test]
fn an_archive_may_name_a_layer_by_a_link() {
    let place = Place::new();
    let layer = Tarball::of(&[file(b"a", b"1")]);
    let mut tar = Tarball::default();
    tar.add(&symlink(b"second/layer.tar", b"../first/layer.tar"));
    tar.add(&file(b"./first/layer.tar", &layer));
    tar.add(&symlink(b"round", b"round"));
    tar.add(&file(
        b"config.json",
        crate::tarball::config(&[Digest::of(&layer)]).as_bytes(),
    ));
    let manifest = |layer: &str| format!(r#"[{{"Config":"config.json","Layers":["{layer}"]}}]"#);
    let mut looped = tar.clone();
    tar.add(&file(
        b"manifest.json",
        manifest("second/layer.tar").as_bytes(),
    ));
    looped.add(&file(b"manifest.json", manifest("round").as_bytes()));
    let path = place.path("links.tar");
    fs::write(&path, tar.finish()).unwrap();
    let source = Source::parse(path.to_str().unwrap()).unwrap();
    let image = place.store.import(&source, None, &mut ()).unwrap();
    assert_eq!(image.layers[0].digest(), Digest::of(&layer));
    fs::write(&path, looped.finish()).unwrap();
    let error = place.store.import(&source, None, &mut ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadInput, "{error}");
}

#[test]
fn an_index_gives_the_image_for_this_machine() {
    let place = Place::new();
    let layout = place.path("layout");
    fs::create_dir_all(layout.join("blobs/sha256")).unwrap();
    let blob = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        fs::write(layout.join("blobs/sha256").join(digest.hex()), bytes).unwrap();
        format!(r#""digest":"{digest}","size":{}"#, bytes.len())
    };
    let host = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let entry = |architecture: &str| {
        let layer = Tarball::of(&[file(architecture.as_bytes(), b"")]);
        let config = crate::tarball::config(&[Digest::of(&layer)]).replace("amd64", architecture);
        let manifest = format!(
            r#"{{"schemaVersion":2,"config":{{"mediaType":"application/vnd.oci.image.config.v1+json",{}}},
            "layers":[{{"mediaType":"application/vnd.oci.image.layer.v1.tar",{}}}]}}"#,
            blob(config.as_bytes()),
            blob(&layer),
        );
        format!(
            r#"{{"mediaType":"application/vnd.oci.image.manifest.v1+json",{},"platform":{{"architecture":"{architecture}","os":"linux"}}}}"#,
            blob(manifest.as_bytes())
        )
    };
    let point_to = |entries: &[String]| {
        let index = format!(
            r#"{{"schemaVersion":2,"manifests":[{}]}}"#,
            entries.join(",")
        );
        let top = format!(
            r#"{{"schemaVersion":2,"manifests":[{{"mediaType":"application/vnd.oci.image.index.v1+json",{},
            "annotations":{{"org.opencontainers.image.ref.name":"sets/multi:1"}}}}]}}"#,
            blob(index.as_bytes())
        );
        fs::write(layout.join("index.json"), top).unwrap();
        fs::write(
            layout.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )
        .unwrap();
        let source = Source::parse(layout.to_str().unwrap()).unwrap();
        place.store.import(&source, None, &mut ())
    };
    let image = point_to(&[entry("s390x"), entry(host)]).unwrap();
    assert_eq!(
        (image.config.architecture.as_str(), image.names),
        (host, vec!["sets/multi:1".to_owned()])
    );
    let error = point_to(&[entry("s390x"), entry("riscv64")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("linux/s390x, linux/riscv64"),
        "{error}"
    );
}
