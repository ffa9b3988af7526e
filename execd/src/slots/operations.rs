//! Specialise, reset and destroy: each runs to its end in a task of the daemon's own.

use std::sync::Arc;
use std::time::Instant;

use innkeeper_proto::v1::{
    Depth as WireDepth, ResetReply, ResetRequest, SandboxRef, SpecialiseReply, SpecialiseRequest,
    TemplateSpec,
};
use innkeeper_reset::baseline::Verdict;
use innkeeper_reset::files::Depth;
use innkeeper_reset::layered::{self, Deadlines, Plan};
use tokio::runtime::Handle;
use tonic::Status;

use super::ground::{SlotGround, end};
use super::in_place;
use super::reply::{Seen, files_digest, reply_for, reset_reply, status_of, tainted_reply};
use super::{Held, Phase, Slot, Slots, check_name, gone, lock};
use crate::sandbox::Sandbox;
use crate::template::{First, Template, first_ready};

impl Slots {
    /// Makes a sandbox of a template in a slot. Repeated for a sandbox in which nothing has
    /// run, it answers with that one.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` where there is no baseline and none may be made, `ABORTED`
    /// where the result differs from the baseline, `INVALID_ARGUMENT` for what the spec
    /// asks, `INTERNAL` else; the slot is blank then.
    pub async fn specialise(
        self: Arc<Self>,
        request: SpecialiseRequest,
    ) -> Result<SpecialiseReply, Status> {
        detached(async move { self.specialise_now(request).await }).await
    }

    async fn specialise_now(&self, request: SpecialiseRequest) -> Result<SpecialiseReply, Status> {
        let started = Instant::now();
        let spec = request
            .template
            .ok_or_else(|| Status::invalid_argument("no template given"))?;
        check_name(&spec.key, "template key")?;
        for layer in &spec.layers {
            check_name(layer, "layer")?;
        }
        let slot = self.slot(&request.slot)?;
        let (generation, phase) = slot.take("specialising")?;
        match phase {
            Phase::Ready(held) if held.fits(&spec.key) => {
                let reply = reply_for(&held.template, generation, None, started);
                slot.put(generation, Phase::Ready(held));
                return Ok(reply);
            }
            Phase::Ready(held) => end(&self.machine, held.sandbox).await,
            Phase::Blank | Phase::Broken(_) => {}
            Phase::Busy(_) => return Err(Status::internal("a busy slot was taken")),
        }
        let made = self
            .make(
                &slot,
                &spec,
                generation,
                &request.expected_files,
                request.may_prepare,
            )
            .await;
        match made {
            Ok((held, seen)) => {
                let generation = held.sandbox.live.generation;
                let reply = reply_for(&held.template, generation, Some(seen), started);
                slot.put(generation, Phase::Ready(Box::new(held)));
                Ok(reply)
            }
            Err(status) => {
                slot.put(generation + 1, Phase::Blank);
                Err(status)
            }
        }
    }

    /// A ready sandbox of the template, and how it was seen to equal its baseline.
    async fn make(
        &self,
        slot: &Slot,
        spec: &TemplateSpec,
        generation: u64,
        expected: &str,
        may_prepare: bool,
    ) -> Result<(Held, Seen), Status> {
        let mut made = None;
        let make = async || {
            let First {
                template,
                sandbox,
                services,
            } = first_ready(&self.machine, spec, &slot.name, generation + 1).await?;
            made = Some((sandbox, services));
            Ok(template)
        };
        let make = may_prepare.then_some(make);
        let template = self
            .templates
            .get_or_make(&self.machine, spec, make)
            .await
            .map_err(|error| status_of(&error))?;
        let files = files_digest(&template.baseline);
        if !expected.is_empty() && expected != files {
            if let Some((sandbox, _)) = made {
                end(&self.machine, sandbox).await;
            }
            return Err(Status::aborted(format!(
                "the files of this template hash to {files} here, not to the recorded {expected}"
            )));
        }
        if let Some((sandbox, services)) = made {
            return Ok((Held::new(sandbox, template, services), Seen::AsBaseline));
        }
        let (verdict, ground) = self
            .put_back(
                slot,
                template,
                None,
                generation + 1,
                self.machine.first_depth(),
            )
            .await?;
        match (verdict, ground.into_held()) {
            (Verdict::Clean(clean), Some(held)) => Ok((held, Seen::Equal(clean.depth()))),
            (Verdict::Clean(_), None) => Err(Status::internal("nothing was built")),
            (Verdict::Tainted(tainted), _) => Err(Status::aborted(format!(
                "a fresh sandbox differs: {}",
                tainted.cause
            ))),
        }
    }

    /// Resets a returned sandbox and verifies it.
    ///
    /// # Errors
    /// `NOT_FOUND`, `UNAVAILABLE` as for calls. A reset that fails is no error: it is a
    /// reply that is not clean, and the slot is blank.
    pub async fn reset(self: Arc<Self>, request: ResetRequest) -> Result<ResetReply, Status> {
        detached(async move { self.reset_now(request).await }).await
    }

    async fn reset_now(&self, request: ResetRequest) -> Result<ResetReply, Status> {
        let started = Instant::now();
        let depth = match request.depth() {
            WireDepth::Unspecified | WireDepth::Swap => Depth::Swap,
            WireDepth::Walk => Depth::Walk,
            WireDepth::Full => Depth::Full,
        };
        let sandbox = request
            .sandbox
            .ok_or_else(|| Status::invalid_argument("no sandbox given"))?;
        let slot = self.slot(&sandbox.slot)?;
        let (held, generation) = take_ready(&slot, &sandbox, "resetting")?;
        let template = Arc::clone(&held.template);
        let recorded = template.baseline.digest().to_string();
        let refusal = match &template.single_use {
            Some(reason) => Some(format!("single use: {reason}")),
            None if request.expected_baseline.is_empty() => {
                Some("single use: the manager has no baseline recorded".to_owned())
            }
            None if request.expected_baseline != recorded => {
                Some("the baseline here is not the one that the manager recorded".to_owned())
            }
            None => None,
        };
        if let Some(cause) = refusal {
            end(&self.machine, held.sandbox).await;
            slot.put(generation + 1, Phase::Blank);
            return Ok(tainted_reply(
                &template.baseline,
                generation + 1,
                cause,
                started,
            ));
        }
        let (verdict, ground) = match self
            .put_back(
                &slot,
                Arc::clone(&template),
                Some(held.sandbox),
                generation + 1,
                depth,
            )
            .await
        {
            Ok(done) => done,
            Err(status) => {
                slot.put(generation + 1, Phase::Broken(status.message().to_owned()));
                return Err(status);
            }
        };
        tracing::debug!(slot = slot.name, step = "end", "reset");
        let held = ground.into_held();
        let reply = reset_reply(&template.baseline, &verdict, generation + 1, started);
        match (verdict.is_clean(), held) {
            (true, Some(held)) => slot.put(generation + 1, Phase::Ready(Box::new(held))),
            (true, None) | (false, _) => slot.put(generation + 1, Phase::Blank),
        }
        Ok(reply)
    }

    /// The phases of a reset, on a blocking thread.
    async fn put_back(
        &self,
        slot: &Slot,
        template: Arc<Template>,
        old: Option<Sandbox>,
        next: u64,
        depth: Depth,
    ) -> Result<(Verdict, SlotGround), Status> {
        let mut ground = SlotGround {
            runtime: Handle::current(),
            machine: Arc::clone(&self.machine),
            template: Arc::clone(&template),
            slot: slot.name.clone(),
            next,
            old,
            new: None,
            services: Vec::new(),
        };
        tokio::task::spawn_blocking(move || {
            let plan = Plan {
                baseline: &template.baseline,
                depth,
                deadlines: Deadlines::default(),
            };
            if ground.machine.plain().is_some() {
                return in_place::reset(ground, &template, depth);
            }
            (layered::reset(&mut ground, &plan), ground)
        })
        .await
        .map_err(|error| Status::internal(format!("the reset broke off: {error}")))
    }

    /// Destroys a slot and all in it; answers when nothing is left. A slot that is not
    /// there is destroyed already.
    ///
    /// # Errors
    /// `UNAVAILABLE` while an operation has it.
    pub async fn destroy(self: Arc<Self>, name: String) -> Result<(), Status> {
        detached(async move {
            let Ok(slot) = self.slot(&name) else {
                return Ok(());
            };
            let (generation, phase) = slot.take("destroying")?;
            if let Phase::Ready(held) = phase {
                end(&self.machine, held.sandbox).await;
            }
            slot.put(generation + 1, Phase::Blank);
            lock(&self.slots).remove(&name);
            Ok(())
        })
        .await
    }

    /// Destroys every slot, when the daemon ends.
    pub async fn destroy_all(self: Arc<Self>) {
        for info in self.list() {
            if let Err(status) = Arc::clone(&self).destroy(info.slot.clone()).await {
                tracing::warn!(
                    slot = info.slot,
                    reason = status.message(),
                    "a slot was left"
                );
            }
        }
    }
}

/// Runs an operation to its end even when its caller goes away.
async fn detached<T: Send + 'static>(
    work: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let done = tokio::spawn(work).await;
    done.unwrap_or_else(|e| Err(Status::internal(format!("the operation broke off: {e}"))))
}

/// Takes the sandbox out of its slot, if it is this generation.
fn take_ready(slot: &Slot, wanted: &SandboxRef, what: &'static str) -> Result<(Held, u64), Status> {
    let (generation, phase) = slot.take(what)?;
    match phase {
        Phase::Ready(held) if generation == wanted.generation => Ok((*held, generation)),
        other => {
            slot.put(generation, other);
            Err(gone(wanted))
        }
    }
}

impl Held {
    /// Whether it can be handed out as this template without further work.
    fn fits(&self, key: &str) -> bool {
        self.template.spec.key == key
            && self.pristine.load(std::sync::atomic::Ordering::Relaxed)
            && self.health().is_ok()
    }
}
