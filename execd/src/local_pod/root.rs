//! The root of a pod, as a container runtime would make it: the tree, volumes, /proc, /sys, /dev.

mod dev;
mod kernel;

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::mount::{UnmountFlags, mount, mount_bind, mount_change, mount_remount, unmount};

use super::PodError;
use super::home::{self, Home};
use super::options::{Layout, Options, Pod, Rights};
use super::program::Program;
use crate::sandbox::HOSTNAME;
use crate::sys;

/// Where things are in a pod. In an image's root all of ours lies under one name.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    execd: &'static str,
    store: &'static str,
    state: &'static str,
    run: &'static str,
}

/// The places of a layout.
pub fn places(layout: Layout) -> Places {
    match layout {
        Layout::Mounted => Places {
            execd: "/execd",
            store: "/store",
            state: "/state",
            run: "/run/innkeeper",
        },
        Layout::Sliced | Layout::Plain => Places {
            execd: "/.innkeeper/execd",
            store: "/.innkeeper/store",
            state: "/.innkeeper/state",
            run: "/.innkeeper/run",
        },
    }
}

impl Places {
    /// The command line of the pod's execd.
    pub fn words(self, pod: &Pod) -> io::Result<Vec<CString>> {
        if pod.layout == Layout::Plain {
            return reached_by_descriptor(self.execd, pod);
        }
        let socket = format!("{}/execd.sock", self.run);
        let words = [
            self.execd,
            "--layout",
            pod.layout.as_str(),
            "--store",
            self.store,
            "--state",
            self.state,
            "--socket",
            &socket,
        ];
        let words = words.map(CString::new).into_iter();
        Ok(words.collect::<Result<_, _>>()?)
    }

    /// Its environment: nothing of the machine's but how much it logs.
    pub fn variables(self, pod: &Pod) -> io::Result<Vec<CString>> {
        let mut lines = vec![
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            format!("HOSTNAME={}", host_name(pod)),
        ];
        if pod.orphan_ttl_ms > 0 {
            lines.push(format!("INNKEEPER_ORPHAN_TTL_MS={}", pod.orphan_ttl_ms));
        }
        if pod.layout == Layout::Plain {
            // The guest's /tmp is none of the daemon's.
            lines.push(format!("TMPDIR=/proc/self/fd/{VOLUMES}/state"));
        }
        if let Ok(level) = std::env::var("INNKEEPER_LOG") {
            lines.push(format!("INNKEEPER_LOG={level}"));
        }
        let lines = lines.into_iter().map(CString::new);
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

/// Of the listening socket, in a pod whose guest shares its root.
pub const LISTENER: i32 = 3;
/// Of the folder of its volumes, `state` and `store`.
pub const VOLUMES: i32 = 4;

/// Where the guest has the daemon's root, nothing of the daemon's lies under a path: whoever could
/// replace its socket could answer in its place.
fn reached_by_descriptor(execd: &str, pod: &Pod) -> io::Result<Vec<CString>> {
    let volume = |name: &str| format!("/proc/self/fd/{VOLUMES}/{name}");
    let words = [
        execd.to_owned(),
        "--layout".to_owned(),
        pod.layout.as_str().to_owned(),
        "--store".to_owned(),
        volume("store"),
        "--state".to_owned(),
        volume("state"),
        "--listener".to_owned(),
        LISTENER.to_string(),
    ];
    let words = words.map(CString::new).into_iter();
    Ok(words.collect::<Result<_, _>>()?)
}

/// Everything that goes into a pod's root, decided before there are namespaces.
#[derive(Debug)]
pub struct Root {
    layout: Layout,
    rights: Rights,
    program: Program,
    /// Where it is put together.
    at: PathBuf,
    /// Lowers of an image's root, top first.
    lowers: Vec<PathBuf>,
    upper: PathBuf,
    work: PathBuf,
    store: PathBuf,
    state: PathBuf,
    prepared: PathBuf,
    run: PathBuf,
    /// Files of the container runtime: hosts, hostname, resolv.conf.
    files: PathBuf,
}

impl Root {
    /// Makes the folders and files that the pod is made of.
    pub fn plan(
        options: &Options,
        pod: &Pod,
        home: &Home,
        program: Program,
    ) -> Result<Self, PodError> {
        let state = fs::canonicalize(&options.state)
            .map_err(PodError::at(format!("finding {}", options.state.display())))?;
        let store = state.join("store");
        let layer = |name: &String| {
            let tree = store.join("layers").join(name).join("tree");
            let step = PodError::at(format!("layer {name} is not in the store"));
            fs::canonicalize(tree).map_err(step)
        };
        let lowers = pod
            .layers
            .iter()
            .rev()
            .map(layer)
            .collect::<Result<_, _>>()?;
        let prepared = home::prepared(&state, &pod.tenant);
        folder(&prepared)?;
        let root = Self {
            layout: pod.layout,
            rights: options.rights,
            program,
            at: home.folder("root")?,
            lowers,
            upper: home.folder("root/upper")?,
            work: home.folder("root/work")?,
            store,
            state: home.folder("state")?,
            prepared,
            run: home.folder("run")?,
            files: home.folder("files")?,
        };
        // What runs in it sees a root that everybody may enter.
        open(&root.upper)?;
        root.write_files(host_name(pod))?;
        Ok(root)
    }

    fn write_files(&self, name: &str) -> Result<(), PodError> {
        let hosts = format!("127.0.0.1\tlocalhost\n::1\tlocalhost\n127.0.1.1\t{name}\n");
        super::launch::write(&self.files.join("hosts"), &hosts)?;
        super::launch::write(&self.files.join("hostname"), &format!("{name}\n"))?;
        super::launch::write(&self.files.join("resolv.conf"), "")
    }

    /// The folder of its socket.
    pub fn run(&self) -> &Path {
        &self.run
    }

    /// In the pod's own mount namespace: puts the root together and makes it this process's. Gives the
    /// folder of volumes, where they lie under no path.
    pub fn enter(&self) -> Result<Option<OwnedFd>, PodError> {
        let flags = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", flags).map_err(step("making mounts private"))?;
        let at = &self.at.join("tree");
        folder(at)?;
        match self.layout {
            Layout::Mounted => self.empty_tree(at)?,
            Layout::Sliced | Layout::Plain => self.image_tree(at)?,
        }
        let volumes = self.bring(at)?;
        kernel::mount_all(at, self.rights)?;
        dev::mount_all(at, self.rights)?;
        kernel::mask(at)?;
        pivot(at)?;
        Ok(volumes)
    }

    /// A tree of execd alone.
    fn empty_tree(&self, at: &Path) -> Result<(), PodError> {
        tmpfs(
            at,
            "mode=0755,size=16m",
            MountFlags::NOSUID | MountFlags::NODEV,
        )?;
        for name in ["proc", "sys", "dev", "etc", "run", "var", "usr"] {
            folder(&at.join(name))?;
        }
        folder(&at.join("tmp"))?;
        for library in &self.program.libraries {
            bring_library(
                library,
                &at.join(library.strip_prefix("/").unwrap_or(library)),
            )?;
            // Programs name their loader by one of these, whatever the file's own folder is.
            let name = library.file_name().unwrap_or_default();
            if name.as_bytes().starts_with(b"ld-") {
                bring_library(library, &at.join("lib64").join(name))?;
                bring_library(library, &at.join("lib").join(name))?;
            }
        }
        Ok(())
    }

    /// The task's image under an upper of the pod's own, as a runtime mounts it.
    fn image_tree(&self, at: &Path) -> Result<(), PodError> {
        let lowers: Vec<_> = self
            .lowers
            .iter()
            .map(|path| path.as_os_str().as_bytes())
            .collect();
        let mut options = b"lowerdir=".to_vec();
        options.extend(lowers.join(&b':'));
        for (key, path) in [("upperdir", &self.upper), ("workdir", &self.work)] {
            options.extend(format!(",{key}=").bytes());
            options.extend(path.as_os_str().as_bytes());
        }
        if self.rights == Rights::User {
            options.extend(b",userxattr");
        }
        let options = CString::new(options).map_err(|e| PodError::at("its layers")(e.into()))?;
        mount("overlay", at, "overlay", MountFlags::NODEV, Some(&*options))
            .map_err(step("mounting its image"))?;
        for name in ["proc", "sys", "dev", ".innkeeper", "etc"] {
            folder(&at.join(name))?;
        }
        for name in ["hosts", "hostname", "resolv.conf"] {
            bind_file(&self.files.join(name), &at.join("etc").join(name))?;
        }
        let ours = at.join(".innkeeper");
        tmpfs(
            &ours,
            "mode=0755,size=1m",
            MountFlags::NOSUID | MountFlags::NODEV,
        )
    }

    /// Execd and its volumes.
    fn bring(&self, at: &Path) -> Result<Option<OwnedFd>, PodError> {
        let places = places(self.layout);
        let inside = |place: &str| at.join(place.trim_start_matches('/'));
        bind_file(&self.program.path, &inside(places.execd))?;
        read_only(
            &inside(places.execd),
            MountFlags::NOSUID | MountFlags::NODEV,
        )?;
        if self.layout == Layout::Plain {
            return self.volumes().map(Some);
        }
        let quiet = MountFlags::NOSUID | MountFlags::NODEV;
        let layers = self.store.join("layers");
        let mounted = (self.layout == Layout::Mounted).then_some((&layers, "layers"));
        for (from, name) in mounted.into_iter().chain([(&self.prepared, "prepared")]) {
            let to = inside(places.store).join(name);
            bind(from, &to)?;
            read_only(&to, quiet)?;
        }
        bind(&self.state, &inside(places.state))?;
        bind(&self.run, &inside(places.run))?;
        Ok(None)
    }

    /// State volume and prepared layers in one folder that is mounted nowhere.
    fn volumes(&self) -> Result<OwnedFd, PodError> {
        let folder = self.at.join("volumes");
        let quiet = MountFlags::NOSUID | MountFlags::NODEV;
        bind(&self.state, &folder.join("state"))?;
        bind(&self.prepared, &folder.join("store/prepared"))?;
        read_only(&folder.join("store/prepared"), quiet)?;
        let opened = fs::File::open(&folder).map_err(PodError::at("opening its volumes"))?;
        sys::mount::clone_tree(opened.as_fd()).map_err(PodError::at("taking its volumes along"))
    }
}

/// The pod's, or, where the pod is the sandbox, the one name of all sandboxes.
pub fn host_name(pod: &Pod) -> &str {
    match pod.layout {
        Layout::Plain => HOSTNAME,
        Layout::Mounted | Layout::Sliced => &pod.name,
    }
}

fn pivot(at: &Path) -> Result<(), PodError> {
    let change = |path: &Path| std::env::set_current_dir(path);
    change(at).map_err(PodError::at("entering its root"))?;
    rustix::process::pivot_root(".", ".").map_err(step("changing the root"))?;
    unmount(".", UnmountFlags::DETACH).map_err(step("letting the machine's root go"))?;
    change(Path::new("/")).map_err(PodError::at("entering its root"))
}

/// For `map_err` of a system call.
fn step(what: impl Into<String>) -> impl FnOnce(rustix::io::Errno) -> PodError {
    let what = what.into();
    move |errno| PodError::Step {
        step: what,
        source: errno.into(),
    }
}

fn folder(path: &Path) -> Result<(), PodError> {
    fs::create_dir_all(path).map_err(PodError::at(format!("making {}", path.display())))
}

/// Lets everybody enter a folder, as the root of any system does.
fn open(path: &Path) -> Result<(), PodError> {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, mode).map_err(PodError::at(format!("opening {}", path.display())))
}

fn tmpfs(at: &Path, options: &str, flags: MountFlags) -> Result<(), PodError> {
    let data = CString::new(options).map_err(|e| PodError::at("a mount's options")(e.into()))?;
    mount("tmpfs", at, "tmpfs", flags, Some(&*data))
        .map_err(step(format!("mounting a tmpfs at {}", at.display())))
}

fn bring_library(from: &Path, to: &Path) -> Result<(), PodError> {
    folder(to.parent().unwrap_or(to))?;
    bind_file(from, to)
}

/// Shows a folder at another place, without what is mounted below it.
fn bind(from: &Path, to: &Path) -> Result<(), PodError> {
    folder(to)?;
    mount_bind(from, to).map_err(step(format!("binding {}", from.display())))
}

/// Shows a file at another place.
fn bind_file(from: &Path, to: &Path) -> Result<(), PodError> {
    if fs::symlink_metadata(to).is_err() {
        fs::File::create(to).map_err(PodError::at(format!("making {}", to.display())))?;
    }
    mount_bind(from, to).map_err(step(format!("binding {}", from.display())))
}

fn read_only(at: &Path, flags: MountFlags) -> Result<(), PodError> {
    let flags = MountFlags::BIND | MountFlags::RDONLY | flags;
    mount_remount(at, flags, "").map_err(step(format!("closing {} to writes", at.display())))
}
