//! Several processes at one store, and processes that die.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use innkeeper_images::{LayerId, Store};

use crate::listing;
use crate::tarball::{Place, Tarball, dir, docker_archive, file};

/// The program of `examples/import.rs`, which cargo builds with the tests.
pub(crate) fn importer() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests
        .parent()
        .unwrap()
        .parent()
        .unwrap()
        .join("examples/import");
    assert!(
        path.exists(),
        "{} is missing; run the tests through cargo",
        path.display()
    );
    path
}

fn start(place: &Place, archive: &str) -> Child {
    let mut command = Command::new(importer());
    command.arg(place.store.folder()).arg(place.path(archive));
    command.stdout(Stdio::null()).spawn().unwrap()
}

fn big_archive(place: &Place) -> [Vec<u8>; 2] {
    let layer = |tag: u8| {
        let mut tar = Tarball::default();
        tar.add(&dir(b"d"));
        for index in 0..200 {
            let name = format!("d/{tag}-{index}");
            tar.add(&file(name.as_bytes(), &vec![tag; 5_000]));
        }
        tar.finish()
    };
    let layers = [layer(1), layer(2)];
    docker_archive(&place.path("big.tar"), &layers, &["big:1"]);
    layers
}

/// What each layer must look like, from an import that nobody disturbed.
fn expected() -> Vec<(LayerId, Vec<String>)> {
    let place = Place::new();
    let layers = big_archive(&place);
    let image = place.import(&layers).unwrap();
    image
        .layers
        .iter()
        .map(|layer| (*layer, listing::of(&place.store.layer_path(layer), true)))
        .collect()
}

#[test]
fn two_processes_import_the_same_layers_at_once() {
    let place = Place::new();
    big_archive(&place);
    let mut running: Vec<Child> = (0..3).map(|_| start(&place, "big.tar")).collect();
    for child in &mut running {
        assert!(child.wait().unwrap().success());
    }
    for (layer, tree) in expected() {
        assert_eq!(listing::of(&place.store.layer_path(&layer), true), tree);
    }
    assert_eq!(
        fs::read_dir(place.store.folder().join("tmp"))
            .unwrap()
            .count(),
        0
    );
    assert_eq!(place.store.list().unwrap().len(), 1);
}

#[test]
fn an_import_that_is_killed_leaves_nothing_that_looks_complete() {
    let expected = expected();
    let place = Place::new();
    big_archive(&place);
    let whole = {
        let begun = Instant::now();
        assert!(start(&place, "big.tar").wait().unwrap().success());
        begun.elapsed()
    };
    place.store.remove("big:1", &|_: &LayerId| false).unwrap();
    let mut died_early = 0;
    for step in 0..24u32 {
        let mut child = start(&place, "big.tar");
        std::thread::sleep(whole * step / 24 + Duration::from_micros(u64::from(step) * 37));
        child.kill().unwrap();
        died_early += u32::from(!child.wait().unwrap().success());
        let store = Store::open(place.store.folder()).unwrap();
        assert_eq!(fs::read_dir(store.folder().join("tmp")).unwrap().count(), 0);
        for (layer, tree) in &expected {
            if store.layer(layer).is_ok() {
                assert_eq!(&listing::of(&store.layer_path(layer), true), tree);
            }
        }
        // Killed just before it gets its name, an image is whole but has none.
        for image in store.list().unwrap() {
            assert!(image.layers.iter().all(|layer| store.layer(layer).is_ok()));
            let digest = image.digest.to_string();
            store.remove(&digest, &|_: &LayerId| false).unwrap();
        }
        store.prune(&|_: &LayerId| false).unwrap();
        place.assert_empty();
    }
    assert!(died_early > 0, "no import was killed before its end");
    assert!(start(&place, "big.tar").wait().unwrap().success());
    for (layer, tree) in &expected {
        assert_eq!(&listing::of(&place.store.layer_path(layer), true), tree);
    }
}

#[test]
fn opening_a_store_spares_an_import_under_way() {
    let place = Place::new();
    // A pipe as a layer's archive is not possible; a held lock is what an import under way is.
    let held = place.store.folder().join("tmp/held");
    let dead = place.store.folder().join("tmp/dead");
    fs::create_dir(&held).unwrap();
    fs::create_dir_all(dead.join("tree/usr")).unwrap();
    fs::write(place.store.folder().join("tmp/file"), b"").unwrap();
    let lock = fs::File::open(&held).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).unwrap();
    Store::open(place.store.folder()).unwrap();
    assert!(held.exists() && !dead.exists());
    drop(lock);
    Store::open(place.store.folder()).unwrap();
    place.assert_empty();
}
