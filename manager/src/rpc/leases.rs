//! Lease, renew, return.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use innkeeper_pool::{
    Carry, ClassId, ClassSpec, Depth, ImageId, LeaseRequest, Mode, Outcome, Replace, RequestKey,
    Resources, Supply, TemplateKey, Tenant, VerifyEvery,
};
use innkeeper_proto::v1;
use tonic::Status;

use super::status::wrong;
use super::{Service, stated};
use crate::engine::{Caller, Granted, NoLease, OVERALL, Returned};
use crate::template::form::{self, Form};
use crate::template::{self, Resolved, Template, resolve};

/// How long a lease lasts without a sign of life when nothing is said.
const TTL: Duration = Duration::from_secs(60 * 60);

/// How long it lasts at most when nothing is said.
const MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest request id and job: they are kept in every record of the lease.
const LONGEST_NAME: usize = 256;

impl Service {
    pub(super) async fn ask_lease(
        &self,
        tenant: &str,
        pid: Option<i32>,
        ask: v1::LeaseRequest,
    ) -> Result<v1::LeaseReply, Status> {
        for (name, value) in [
            ("request id", &ask.request_id),
            ("job", &ask.job),
            ("holder", &ask.holder),
        ] {
            if value.len() > LONGEST_NAME {
                return Err(wrong(format!(
                    "the {name} is longer than {LONGEST_NAME} bytes"
                )));
            }
        }
        let resolved = self.resolve(tenant, &ask)?;
        let unnamed = ask.request_id.is_empty();
        let id = if unnamed {
            new_request_id()?
        } else {
            ask.request_id
        };
        let ttl = or_default(ask.ttl_ms, TTL);
        let request = LeaseRequest {
            key: RequestKey {
                tenant: Tenant(tenant.to_owned()),
                id,
            },
            template: TemplateKey(resolved.spec.key.clone()),
            image: ImageId(resolved.spec.image_digest.clone()),
            verify: VerifyEvery {
                walk_every: resolved.verify.walk_every,
                full_every: resolved.verify.full_every,
            },
            class: class(&resolved),
            holder: ask.holder,
            job: ask.job,
            ttl_ms: ttl,
            max_ms: or_default(ask.max_ms, MAX),
            wait_until: match ask.timeout_ms {
                // Without bound; half the range leaves room for sums.
                0 => u64::MAX / 2,
                ms => unix_ms().saturating_add(ms),
            },
        };
        let granted = self.engine.lease(request, Caller { pid, unnamed }).await?;
        if granted.lease.ended.is_some() {
            return Err(self.gone(tenant, granted.lease.id.as_str()));
        }
        Ok(self.reply(granted))
    }

    /// The template that is asked for, bound to its image and made known.
    fn resolve(&self, tenant: &str, ask: &v1::LeaseRequest) -> Result<Resolved, Status> {
        let mut template: Template = ask.template_json.parse()?;
        if !ask.image.is_empty() {
            template.image = Some(ask.image.clone());
        }
        let image = resolve::look_up(&template, &self.store)?;
        let provider = self.engine.provider();
        form::settle(&mut template, self.defaults, |form| provider.refusal(form))?;
        let platform = provider.standing().borrow().platform.clone();
        let ground = resolve::Ground {
            tenant: tenant.to_owned(),
            platform,
            image,
        };
        let resolved = resolve::bind(&template, &ground)?;
        self.engine
            .templates()
            .know(&resolved, &template, &ground)?;
        Ok(resolved)
    }

    /// The form of a template that leaves it open; None where no slot can be made.
    pub(super) fn usual_form(&self) -> Option<Form> {
        let provider = self.engine.provider();
        form::settle(&mut Template::default(), self.defaults, |form| {
            provider.refusal(form)
        })
        .ok()
    }

    /// Every form of slot, with what this machine says to it.
    pub(super) fn forms(&self) -> Vec<v1::SlotForm> {
        let provider = self.engine.provider();
        let form = |form: Form| v1::SlotForm {
            strategy: form.strategy().as_str().to_owned(),
            rights: form.rights().as_str().to_owned(),
            layout: form.layout().as_str().to_owned(),
            refusal: provider.refusal(form).unwrap_or_default(),
        };
        Form::ALL.into_iter().map(form).collect()
    }

    pub(super) async fn renew_lease(
        &self,
        tenant: &str,
        ask: v1::RenewRequest,
    ) -> Result<v1::LeaseReply, Status> {
        self.engine.route(tenant, &ask.lease)?;
        let ttl = (ask.ttl_ms > 0).then(|| Duration::from_millis(ask.ttl_ms));
        let granted = self.engine.renew(&ask.lease, ttl).await;
        match granted.filter(|granted| granted.lease.live()) {
            Some(granted) => Ok(self.reply(granted)),
            None => Err(self.gone(tenant, &ask.lease)),
        }
    }

    pub(super) async fn return_lease(
        &self,
        tenant: &str,
        ask: v1::ReturnRequest,
    ) -> Result<v1::ReturnReply, Status> {
        let verify = match ask.verify.as_str() {
            "" | "swap" => Depth::Swap,
            "walk" => Depth::Walk,
            "full" => Depth::Full,
            other => {
                return Err(wrong(format!(
                    "verify is \"{other}\": write swap, walk or full"
                )));
            }
        };
        match self.engine.route(tenant, &ask.lease) {
            // A repeated return gets the first one's answer.
            Ok(_) | Err(NoLease::Ended { .. }) => {}
            Err(error @ NoLease::Unknown(_)) => return Err(error.into()),
        }
        if !ask.stated_json.is_empty() {
            self.engine
                .state(&ask.lease, stated::read(&ask.stated_json)?);
        }
        let returned = self
            .engine
            .give_back(&ask.lease, ask.discard, verify, ask.wait)
            .await;
        let Some(returned) = returned else {
            return Err(self.gone(tenant, &ask.lease));
        };
        let how = returned.lease.ended.as_ref().map(|ended| ended.how);
        if how.is_some_and(|how| how != innkeeper_pool::How::Returned) {
            return Err(self.gone(tenant, &ask.lease));
        }
        Ok(return_reply(returned))
    }

    /// A lease as its holder sees it. What is used once only is put back by no strategy.
    fn reply(&self, granted: Granted) -> v1::LeaseReply {
        let Granted { lease, seat } = granted;
        let baseline = lease
            .baseline
            .as_ref()
            .and_then(|b| b.components.get(OVERALL));
        let template = self.engine.templates().get(lease.template.as_str());
        let once = template
            .as_ref()
            .is_some_and(|template| template.single_use);
        let form = template.map_or(Form::ALL[0], |template| template.form);
        v1::LeaseReply {
            lease: lease.id.to_string(),
            slot: lease.slot.to_string(),
            generation: lease.generation,
            supply: crate::events::supply_word(lease.supply).to_owned(),
            specialised: lease.specialised,
            uses: lease.uses,
            strategy: if once {
                "none".to_owned()
            } else {
                form.strategy().as_str().to_owned()
            },
            rights: form.rights().as_str().to_owned(),
            layout: form.layout().as_str().to_owned(),
            template: lease.template.to_string(),
            baseline: baseline.cloned().unwrap_or_default(),
            verified: lease.verified.map_or("", Depth::word).to_owned(),
            boot_id: seat.boot_id,
            expires_ms: lease.expires,
            deadline_ms: lease.deadline,
            disk_limit: seat.disk_limit,
            resources: "granted".to_owned(),
            image_digest: lease.image.to_string(),
        }
    }

    /// The typed error of a lease that is over.
    fn gone(&self, tenant: &str, lease: &str) -> Status {
        match self.engine.route(tenant, lease) {
            Err(error) => error.into(),
            Ok(_) => NoLease::Unknown(lease.to_owned()).into(),
        }
    }
}

fn or_default(ms: u64, default: Duration) -> u64 {
    if ms == 0 {
        default.as_millis() as u64
    } else {
        ms
    }
}

fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64
}

/// A request id that nobody else has, for a caller that gives none.
fn new_request_id() -> Result<String, Status> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Status::internal(format!("no random numbers: {error}")))?;
    Ok(format!("r-{:032x}", u128::from_le_bytes(bytes)))
}

/// The slot class as the pool takes it, with supply settings for the case that it is new.
fn class(resolved: &Resolved) -> ClassSpec {
    let given = &resolved.supply;
    let default = Supply::default();
    let supply = Supply {
        mode: given.mode.map_or(default.mode, |mode| match mode {
            template::Mode::OnDemand => Mode::OnDemand,
            template::Mode::Warm => Mode::Warm,
            template::Mode::Reuse => Mode::Reuse,
        }),
        replace: given
            .replace
            .map_or(default.replace, |replace| match replace {
                template::Replace::OnLease => Replace::OnLease,
                template::Replace::OnLoss => Replace::OnLoss,
                template::Replace::Ahead => Replace::Ahead,
            }),
        carry: given.carry.map_or(default.carry, |carry| match carry {
            template::Carry::Own => Carry::Own,
            template::Carry::Listed => Carry::Listed,
            template::Carry::Any => Carry::Any,
        }),
        reuses: given.reuses.unwrap_or(default.reuses),
        idle_timeout_ms: given
            .idle_timeout
            .map_or(default.idle_timeout_ms, |span| span.0.as_millis() as u64),
    };
    let resources = resolved.spec.resources.unwrap_or_default();
    ClassSpec {
        id: ClassId(resolved.class.clone()),
        tenant: Tenant(resolved.spec.tenant.clone()),
        resources: Resources {
            cpu_milli: resources.cpu_millis,
            memory_bytes: resources.memory_bytes,
        },
        supply,
        resettable: !resolved.single_use,
    }
}

fn return_reply(returned: Returned) -> v1::ReturnReply {
    let Returned {
        lease,
        reset,
        outcome,
        record,
    } = returned;
    let (word, retired) = match outcome {
        None => ("resetting", String::new()),
        Some(Outcome::Clean { retired, .. }) => (
            "clean",
            retired.map(|cause| cause.to_string()).unwrap_or_default(),
        ),
        Some(Outcome::Tainted { cause }) => ("tainted", format!("tainted: {cause}")),
        Some(Outcome::Discarded { retired }) => ("discarded", retired.to_string()),
    };
    let reset = reset.unwrap_or_default();
    let verified = match reset.verified() {
        v1::Depth::Unspecified => "",
        v1::Depth::Swap => "swap",
        v1::Depth::Walk => "walk",
        v1::Depth::Full => "full",
    };
    v1::ReturnReply {
        outcome: word.to_owned(),
        uses: lease.uses,
        digest: reset.digest,
        baseline: reset.baseline,
        verified: verified.to_owned(),
        components: reset.components,
        differs: reset.differs,
        retired,
        ms: reset.ms,
        record_json: record.as_deref().unwrap_or_default().to_owned(),
    }
}
