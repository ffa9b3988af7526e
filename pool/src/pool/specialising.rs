//! Specialising: a slot becomes a template, for the first time ever or by the record.

use super::{Dirty, Pool};
use crate::action::Action;
use crate::event::Ready;
use crate::ids::{ImageId, SlotId, TemplateKey};
use crate::lease::{Failure, FailureKind, Refusal};
use crate::log::Kind;
use crate::slot::state::{Move, RetireCause, SlotState};
use crate::template::{Baseline, Depth, Template};

impl Pool {
    /// Starts to make the slot a sandbox of the template. It is the first ever when no record of the template exists.
    pub(super) fn specialise(&mut self, slot: &SlotId, template: &TemplateKey, image: &ImageId) {
        let first = !self.templates.contains_key(template);
        if first {
            self.preparing.insert(template.clone(), slot.clone());
        }
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.record.generation += 1;
            entry.record.verified = None;
            entry.checking = None;
        }
        self.shift(
            slot,
            Move::Specialise {
                template: template.clone(),
                image: image.clone(),
                first,
            },
        );
        self.ask_specialise(slot);
    }

    pub(super) fn ask_specialise(&mut self, slot: &SlotId) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Specialising {
            template,
            image,
            first,
        } = &entry.record.state
        else {
            return;
        };
        let known = self.templates.get(template);
        let action = Action::Specialise {
            slot: slot.clone(),
            generation: entry.record.generation,
            template: template.clone(),
            image: image.clone(),
            first: *first,
            baseline: known.and_then(|known| known.baseline.clone()),
        };
        self.act(action);
        self.arm_slot(slot);
    }

    pub(super) fn specialised(
        &mut self,
        slot: &SlotId,
        generation: u64,
        result: Result<Ready, Failure>,
    ) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Specialising {
            template,
            image,
            first,
        } = entry.record.state.clone()
        else {
            return;
        };
        if entry.record.generation != generation {
            return;
        }
        let ms = self.now.saturating_sub(entry.record.since);
        let checked = match result {
            Ok(ready) => self.compare(&template, first, ready),
            Err(failure) => Err((
                RetireCause::SpecialiseFailed(failure.cause.clone()),
                failure,
            )),
        };
        let outcome = if checked.is_ok() { "ok" } else { "failed" };
        let cause = checked
            .as_ref()
            .err()
            .map(|(_, failure)| failure.cause.clone());
        self.log_slot(Kind::Specialised, slot, |line| {
            line.outcome = Some(outcome.to_owned());
            line.cause = cause;
            line.ms = Some(ms);
        });
        match checked {
            Ok(ready) => {
                if first {
                    self.record_template(template, image, &ready);
                }
                self.specialise_succeeded(slot, ready.depth);
            }
            Err((retire, failure)) => self.specialise_failed(slot, &failure, retire),
        }
    }

    /// What a later sandbox shows must be what the first one showed, where that is known.
    fn compare(
        &self,
        template: &TemplateKey,
        first: bool,
        ready: Ready,
    ) -> Result<Ready, (RetireCause, Failure)> {
        if first || !self.template_usable(template) {
            return Ok(ready);
        }
        let recorded = self
            .templates
            .get(template)
            .and_then(|known| known.baseline.as_ref());
        if recorded == ready.observed.as_ref() {
            return Ok(ready);
        }
        let files = |baseline: Option<&Baseline>| {
            baseline
                .and_then(Baseline::files)
                .unwrap_or("nothing")
                .to_owned()
        };
        let cause = format!(
            "observed files {}, recorded {}",
            files(ready.observed.as_ref()),
            files(recorded)
        );
        let retire = RetireCause::BaselineDiffers(cause.clone());
        let cause = format!("its digests differ from those on record for the template: {cause}");
        Err((
            retire,
            Failure {
                kind: FailureKind::Transient,
                cause,
            },
        ))
    }

    fn specialise_succeeded(&mut self, slot: &SlotId, depth: Depth) {
        if let Some(entry) = self.slots.get_mut(slot) {
            entry.record.verified = Some(depth);
            entry.heard = Some(self.now);
            if let Some(class) = self.classes.get_mut(&entry.record.class) {
                class.fruitless = 0;
                class.standby_after = 0;
            }
        }
        self.shift(slot, Move::Ready);
        self.arm_slot(slot);
        self.grant_reserved(slot);
    }

    /// First ready happened: from now on every other sandbox of the template is made by this record.
    fn record_template(&mut self, key: TemplateKey, image: ImageId, ready: &Ready) {
        self.preparing.remove(&key);
        for request in self.queue.of_template(&key) {
            if let Some(waiting) = self.queue.get(&request) {
                self.touched.insert(waiting.request.class.id.clone());
            }
        }
        let baseline = ready.observed.clone();
        let baseline = baseline.filter(|seen| seen.usable(self.config.baseline_format));
        self.dirty.insert(Dirty::Template(key.clone()));
        self.templates.insert(
            key.clone(),
            Template {
                key,
                image,
                baseline,
                single_use: ready.single_use.clone(),
            },
        );
    }

    /// Ends a slot that could not become its template. A failed first ready refuses all who wait for the template.
    pub(super) fn specialise_failed(
        &mut self,
        slot: &SlotId,
        failure: &Failure,
        retire: RetireCause,
    ) {
        let Some(entry) = self.slots.get(slot) else {
            return;
        };
        let SlotState::Specialising {
            template, first, ..
        } = entry.record.state.clone()
        else {
            return;
        };
        if let Some(class) = self.classes.get_mut(&entry.record.class) {
            class.last_failure = Some(failure.cause.clone());
        }
        if first {
            for key in self.queue.of_template(&template) {
                let reason = Refusal::PrepareFailed {
                    cause: failure.cause.clone(),
                };
                self.refuse(&key, reason);
            }
        }
        self.count_try(slot, failure);
        self.retire(slot, retire);
    }

    /// A slot failed under the request that it was meant for; after some of them the request is refused.
    pub(super) fn count_try(&mut self, slot: &SlotId, failure: &Failure) {
        let Some(key) = self
            .slots
            .get(slot)
            .and_then(|entry| entry.reserved.clone())
        else {
            return;
        };
        let Some(waiting) = self.queue.get_mut(&key) else {
            return;
        };
        waiting.tries += 1;
        if failure.kind == FailureKind::Permanent || waiting.tries >= self.config.policy.tries {
            self.refuse(
                &key,
                Refusal::SpecialiseFailed {
                    cause: failure.cause.clone(),
                },
            );
        }
    }
}
