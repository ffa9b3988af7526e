//! A real registry on this machine, filled by another tool.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use innkeeper_images::Source;

use crate::tarball::Place;
use crate::tools::{build, check, missing, sh};

/// Debian's registry on a free port of this machine.
struct Registry {
    process: Child,
    address: String,
}

impl Registry {
    /// `auth` goes into its configuration.
    fn start(folder: &Path, auth: &str) -> Registry {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let address = format!("127.0.0.1:{port}");
        let config = format!(
            "version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '{address}'}}\n{auth}",
            folder.join("registry").display()
        );
        fs::write(folder.join("registry.yml"), config).unwrap();
        let mut command = Command::new("docker-registry");
        command
            .arg("serve")
            .arg(folder.join("registry.yml"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(&address).is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "the registry does not come up"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        Registry { process, address }
    }

    fn stop(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_registry_gives_the_same_trees() {
    let test = "a_registry_gives_the_same_trees";
    let tools = [
        "umoci",
        "skopeo",
        "docker-registry",
        "setfattr",
        "setcap",
        "setfacl",
    ];
    if missing(test, &tools) {
        return;
    }
    if cfg!(not(feature = "registry")) {
        println!("not run: {test}: built without the feature `registry`");
        return;
    }
    let place = Place::new();
    build(place.folder.path());
    let registry = Registry::start(place.folder.path(), "");
    let address = registry.address.clone();
    let result = std::panic::catch_unwind(|| {
        sh(
            place.folder.path(),
            &format!(
                "skopeo copy -q --dest-tls-verify=false oci:layout:task docker://{address}/sets/task:1
                 skopeo copy -q --dest-tls-verify=false --format v2s2 oci:layout:task docker://{address}/sets/task:docker"
            ),
        );
        let image = check(&place, &format!("{address}/sets/task:1"));
        assert_eq!(image.names, [format!("{address}/sets/task:1")]);
        assert!(!image.private);
        let by_digest = format!(
            "docker://{address}/sets/task@{}",
            image.manifest_digest.unwrap()
        );
        assert_eq!(check(&place, &by_digest).digest, image.digest);
        assert_eq!(
            check(&place, &format!("{address}/sets/task:docker")).layers,
            image.layers
        );

        let import = |source: &str| {
            place
                .store
                .import(&Source::parse(source).unwrap(), None, &mut ())
                .unwrap_err()
        };
        let error = import(&format!("{address}/sets/task:none"));
        assert_eq!(
            error.kind(),
            innkeeper_images::ErrorKind::NotFound,
            "{error}"
        );
        let error = import(&format!("{address}/none/at/all"));
        assert_eq!(
            error.kind(),
            innkeeper_images::ErrorKind::NotFound,
            "{error}"
        );

        // A blob that the registry's disk has lost bits of.
        place
            .store
            .remove(
                &image.digest.to_string(),
                &|_: &innkeeper_images::LayerId| false,
            )
            .unwrap();
        sh(
            place.folder.path(),
            "for blob in $(find registry -name data -path '*blobs*' -size +100k); do printf x | dd of=$blob bs=1 seek=90000 conv=notrunc status=none; done",
        );
        let error = import(&format!("{address}/sets/task:1"));
        assert_eq!(
            error.kind(),
            innkeeper_images::ErrorKind::BadInput,
            "{error}"
        );
        assert_eq!(
            fs::read_dir(place.store.folder().join("tmp"))
                .unwrap()
                .count(),
            0
        );
    });
    registry.stop();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
    let gone = place.store.import(
        &Source::Registry(format!("{address}/sets/task:1")),
        None,
        &mut (),
    );
    assert_eq!(
        gone.unwrap_err().kind(),
        innkeeper_images::ErrorKind::Transient
    );
}

#[test]
fn a_registry_with_a_password_takes_that_of_docker_login() {
    let test = "a_registry_with_a_password_takes_that_of_docker_login";
    if missing(
        test,
        &[
            "umoci",
            "skopeo",
            "docker-registry",
            "setfattr",
            "setcap",
            "setfacl",
        ],
    ) {
        return;
    }
    if cfg!(not(feature = "registry")) {
        println!("not run: {test}: built without the feature `registry`");
        return;
    }
    let place = Place::new();
    let folder = place.folder.path();
    build(folder);
    // The password is `secret`.
    let passwords = "guest:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n";
    fs::write(folder.join("htpasswd"), passwords).unwrap();
    let auth = format!(
        "auth: {{htpasswd: {{realm: here, path: {}}}}}\n",
        folder.join("htpasswd").display()
    );
    let registry = Registry::start(folder, &auth);
    let reference = format!("{}/sets/task:1", registry.address);
    let result = std::panic::catch_unwind(|| {
        sh(
            folder,
            &format!(
                "skopeo copy -q --dest-creds guest:secret --dest-tls-verify=false oci:layout:task docker://{reference}"
            ),
        );
        let import = |config: &str| {
            fs::write(folder.join("config.json"), config).unwrap();
            let mut command = Command::new(crate::concurrent::importer());
            command
                .env("DOCKER_CONFIG", folder)
                .arg(place.store.folder())
                .arg(&reference);
            command.output().unwrap()
        };
        let login = |auth: &str| {
            format!(
                r#"{{"auths":{{"{}":{{"auth":"{auth}"}}}}}}"#,
                registry.address
            )
        };
        for config in ["{}", &login("Z3Vlc3Q6d3Jvbmc=")] {
            let refused = import(config);
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(
                !refused.status.success() && said.contains("docker login"),
                "{said}"
            );
            place.assert_empty();
        }
        let done = import(&login("Z3Vlc3Q6c2VjcmV0"));
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
        assert!(place.store.resolve(&reference).unwrap().private);
    });
    registry.stop();
    if let Err(panic) = result {
        std::panic::resume_unwind(panic);
    }
}
