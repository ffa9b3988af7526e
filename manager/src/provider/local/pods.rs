//! Local pods: one container with one execd for each slot. On a cluster a slot is a pod too, and
//! this is the shape of a provider of those: each slot has a connection, a boot and an end of its
//! own.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use innkeeper_proto::v1;
use serde::Deserialize;
use tokio::sync::watch;

use super::launch::{Launched, ask, find_execd, launch_pod};
use super::{Error, ErrorKind, LIST, NewSlot, Options, Standing, connect, within};
use crate::paths;
use pod::Pod;

mod pod;
mod record;

/// How long a pod may take from its start to its first answer.
const READY: Duration = Duration::from_secs(60);

/// Pauses between looks at a pod that starts: it takes some 20 ms.
const LOOK: Duration = Duration::from_millis(5);

/// Pods are pinged at most this often, and at least three times per orphan ttl.
const PING: Duration = Duration::from_secs(30);

/// All pods of a state directory.
#[derive(Debug)]
pub(super) struct Pods {
    execd: Result<PathBuf, Error>,
    options: Options,
    standing: watch::Sender<Standing>,
    hold: watch::Sender<u64>,
    pods: Mutex<HashMap<String, Arc<Pod>>>,
}

/// What `execd pod --probe` says.
#[derive(Debug, Deserialize)]
pub(super) struct Probe {
    /// The build of execd and the kernel.
    pub(super) platform: String,
    /// Why no pod can be made with these rights, and what to do.
    pub(super) missing: Option<String>,
}

impl Pods {
    /// Finds the pods that run, and removes what dead ones have left.
    pub(super) async fn start(
        options: Options,
        standing: watch::Sender<Standing>,
        hold: watch::Sender<u64>,
    ) -> Result<Self, Error> {
        let pods = Self {
            execd: find_execd(options.execd.as_deref()),
            options,
            standing,
            hold,
            pods: Mutex::default(),
        };
        if pods.names().is_empty() {
            return Ok(pods);
        }
        pods.sweep().await?;
        for name in pods.names() {
            match Pod::attach(&pods.home(&name)).await {
                Ok(pod) => drop(pods.keep(&name, pod)),
                Err(error) => {
                    tracing::warn!(pod = %name, %error, "a pod does not answer and is ended");
                    pods.destroy(&name).await?;
                }
            }
        }
        Ok(pods)
    }

    /// What this machine allows with these rights.
    pub(super) async fn probe(&self, rights: &str) -> Result<Probe, Error> {
        let execd = self.execd.clone()?;
        let words = ["pod", "--probe", "--rights", rights].map(OsString::from);
        let said = ask(&execd, &words).await?;
        let unread = |error| Error::new(ErrorKind::Permanent, format!("{said}: {error}"));
        serde_json::from_str(&said).map_err(unread)
    }

    /// The pod of a slot.
    pub(super) fn get(&self, slot: &str) -> Option<Arc<Pod>> {
        self.lock().get(slot).cloned()
    }

    /// Makes a pod with its slot; one that is there is fine. Answers with its boot id.
    pub(super) async fn create(&self, new: &NewSlot) -> Result<String, Error> {
        let pod = match self.get(&new.slot) {
            Some(pod) => pod,
            None => self.launch(new).await?,
        };
        let request = v1::CreateSlotRequest {
            slot: new.slot.clone(),
            tenant: new.tenant.clone(),
        };
        pod.control().create_slot(request).await?;
        Ok(pod.boot_id.clone())
    }

    async fn launch(&self, new: &NewSlot) -> Result<Arc<Pod>, Error> {
        let execd = self.execd.clone()?;
        let logs = self.folder().join(".logs");
        let mut launched = launch_pod(&execd, &self.words(new), &logs, &new.slot)?;
        let home = self.home(&new.slot);
        let answered = tokio::time::timeout(READY, first_answer(&home, &mut launched)).await;
        let error = match answered {
            Ok(Ok(pod)) => {
                // Only to take its exit status when it ends, so that no zombie is left.
                tokio::spawn(async move { launched.child.wait().await });
                return Ok(self.keep(&new.slot, pod));
            }
            Ok(Err(error)) => error,
            Err(_) => {
                let sentence = format!("a pod did not answer within {} s", READY.as_secs());
                Error::new(ErrorKind::Transient, sentence)
            }
        };
        // Nobody has used it; what cannot be ended now is ended when the slot is deleted.
        tokio::spawn(async move { launched.child.wait().await });
        let _ = pod::end_recorded(&home).await;
        Err(error)
    }

    /// Makes a sandbox in a pod. What the first one has prepared is moved to where the others of
    /// its tenant read it before anybody hears that it is there.
    pub(super) async fn specialise(
        &self,
        pod: &Pod,
        request: v1::SpecialiseRequest,
    ) -> Result<v1::SpecialiseReply, Error> {
        let slot = request.slot.clone();
        let template = request.template.clone().unwrap_or_default();
        let reply = pod.control().specialise(request).await?.into_inner();
        if reply.first {
            let words = [
                ("--name", slot),
                ("--tenant", template.tenant),
                ("--publish", template.key),
            ];
            let words = words.map(|(option, value)| [option.to_owned(), value]);
            self.ask(words.into_iter().flatten()).await?;
        }
        Ok(reply)
    }

    fn words(&self, new: &NewSlot) -> Vec<OsString> {
        let form = new.form;
        let resources = &new.resources;
        let network = match new.network {
            v1::Network::Host => "host",
            v1::Network::None | v1::Network::Pod | v1::Network::Unspecified => "none",
        };
        let mut words: Vec<OsString> =
            vec!["--state".into(), self.options.state_dir.clone().into()];
        for (option, value) in [
            ("--name", new.slot.clone()),
            ("--tenant", new.tenant.clone()),
            ("--layout", form.layout().as_str().to_owned()),
            ("--rights", form.rights().as_str().to_owned()),
            ("--layers", new.layers.join(",")),
            ("--network", network.to_owned()),
            ("--cpu-millis", resources.cpu_millis.to_string()),
            ("--memory", resources.memory_bytes.to_string()),
            ("--pids", resources.pids.to_string()),
            (
                "--orphan-ttl-ms",
                self.options.orphan_ttl.as_millis().to_string(),
            ),
        ] {
            words.push(option.into());
            words.push(value.into());
        }
        words
    }

    /// Every slot of every pod that answers. One that does not is ended: its slot is not listed,
    /// and so is lost.
    pub(super) async fn list(&self) -> Vec<v1::SlotInfo> {
        let pods: Vec<_> = self.lock().clone().into_iter().collect();
        let mut slots = Vec::new();
        for (name, pod) in pods {
            match within(LIST, pod.control().list_slots(v1::Empty {})).await {
                Ok(list) => slots.extend(list.slots),
                Err(error) => {
                    tracing::error!(pod = %name, %error, "a pod does not answer and is ended");
                    if let Err(error) = self.destroy(&name).await {
                        tracing::error!(pod = %name, %error, "it could not be ended");
                    }
                }
            }
        }
        slots
    }

    /// Whether there is anything of a pod of this slot.
    pub(super) fn knows(&self, slot: &str) -> bool {
        self.get(slot).is_some() || self.home(slot).exists()
    }

    /// Ends a pod. Ok means that nothing of it is left.
    pub(super) async fn destroy(&self, slot: &str) -> Result<(), Error> {
        let home = self.home(slot);
        match self.get(slot) {
            Some(pod) => pod.end().await?,
            None => pod::end_recorded(&home).await?,
        }
        self.lock().remove(slot);
        if home.exists() {
            // Its parent was killed before it.
            self.sweep().await?;
        }
        if home.exists() {
            let sentence = format!("{} is still there", home.display());
            return Err(Error::new(ErrorKind::Transient, sentence));
        }
        let _ = std::fs::remove_file(self.folder().join(".logs").join(slot));
        Ok(())
    }

    /// Ends all pods that are left.
    pub(super) async fn stop(&self) -> Result<(), Error> {
        for name in self.names() {
            self.destroy(&name).await?;
        }
        Ok(())
    }

    fn keep(&self, name: &str, pod: Pod) -> Arc<Pod> {
        let pod = Arc::new(pod);
        let every = (self.options.orphan_ttl / 3).clamp(LOOK, PING);
        pod.tend(self.standing.clone(), self.hold.subscribe(), every);
        self.lock().insert(name.to_owned(), Arc::clone(&pod));
        pod
    }

    async fn sweep(&self) -> Result<(), Error> {
        self.ask(["--sweep".to_owned()].into_iter()).await
    }

    /// A short task of `execd pod`.
    async fn ask(&self, words: impl Iterator<Item = String>) -> Result<(), Error> {
        let execd = self.execd.clone()?;
        let rights = if paths::is_root() { "pod" } else { "user" };
        let state = self.options.state_dir.clone().into();
        let first = ["pod", "--rights", rights, "--state"].map(OsString::from);
        let words = words.map(OsString::from);
        let words: Vec<_> = first.into_iter().chain([state]).chain(words).collect();
        ask(&execd, &words).await.map(drop)
    }

    fn folder(&self) -> PathBuf {
        self.options.state_dir.join("pods")
    }

    fn home(&self, slot: &str) -> PathBuf {
        self.folder().join(slot)
    }

    /// Names of all pods that have a folder.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder()).into_iter().flatten();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| !name.starts_with('.')).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Pod>>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until a pod that was just started answers.
async fn first_answer(home: &Path, launched: &mut Launched) -> Result<Pod, Error> {
    loop {
        // Looked at first: one that had ended before the pod was looked for will not be there.
        let ended = launched.child.try_wait().ok().flatten();
        match Pod::attach(home).await {
            Ok(pod) => return Ok(pod),
            Err(_) if ended.is_none() => tokio::time::sleep(LOOK).await,
            Err(_) => {
                let sentence = format!("the pod ended as it started: {}", launched.said());
                return Err(Error::new(ErrorKind::Permanent, sentence));
            }
        }
    }
}
