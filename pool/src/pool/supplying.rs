//! How many slots there should be.

use super::{Pool, SlotEntry};
use crate::class::{Carries, Carry, MAX_LISTED, Mode, Replace};
use crate::ids::{ClassId, ImageId, Millis, SlotId};
use crate::pool::timing::Timer;
use crate::slot::state::{RetireCause, SlotState};

/// Why no slot may be created now.
enum Blocked {
    /// Until then.
    Until(Millis),
    /// Until another create settles.
    Starting,
    /// Until a slot of the class is gone.
    ClassFull,
    /// Until any slot is gone.
    BudgetSpent,
}

impl Pool {
    /// Creates for requests that no slot of the class, there or on its way, is going to serve.
    pub(super) fn create_for_waiting(&mut self, class: &ClassId) {
        let unmet = self.unmet(class);
        for (done, image) in unmet.iter().enumerate() {
            if let Err(blocked) = self.may_create(class) {
                self.hindered(class, &blocked, unmet.len() - done);
                return;
            }
            let carries = self.carries_for(class, &unmet[done..], Some(image));
            self.create(class, carries);
        }
    }

    /// Images of those requests that no slot there or on its way will serve.
    fn unmet(&self, class: &ClassId) -> Vec<ImageId> {
        let Some(entry) = self.classes.get(class) else {
            return Vec::new();
        };
        if entry.record.draining {
            return Vec::new();
        }
        if self.queue.eligible(class) == 0 {
            return Vec::new();
        }
        let carry = entry.record.spec.supply.carry;
        let mut coming: Vec<&Carries> = self
            .slots_of(class)
            .filter(|entry| self.is_coming(entry))
            .map(|entry| &entry.record.carries)
            .collect();
        if carry != Carry::Listed && self.queue.eligible(class) as usize <= coming.len() {
            return Vec::new();
        }
        let images = self
            .queue
            .order(class)
            .map(|waiting| &waiting.request.image);
        match carry {
            Carry::Own | Carry::Any => images.skip(coming.len()).cloned().collect(),
            Carry::Listed => images
                .filter(
                    |image| match coming.iter().position(|carries| carries.holds(image)) {
                        Some(at) => {
                            coming.swap_remove(at);
                            false
                        }
                        None => true,
                    },
                )
                .cloned()
                .collect(),
        }
    }

    /// Free, or going to be free by itself soon.
    fn is_coming(&self, entry: &SlotEntry) -> bool {
        match entry.record.state {
            SlotState::Creating { .. } => true,
            // A prepare may take an hour, and its caller has gone.
            SlotState::Specialising { first: true, .. } => false,
            SlotState::Blank | SlotState::Specialising { .. } | SlotState::Idle { .. } => {
                entry.reserved.is_none()
            }
            SlotState::Resetting { worn, .. } => !worn,
            SlotState::Growing { .. }
            | SlotState::Leased { .. }
            | SlotState::Lost { .. }
            | SlotState::Retiring { .. }
            | SlotState::Deleted => false,
        }
    }

    /// Creates what keeps supply at its level, as far as room allows; nothing is evicted for it.
    pub(super) fn keep_level(&mut self, class: &ClassId) {
        let Some(entry) = self.classes.get(class) else {
            return;
        };
        if entry.record.draining {
            return;
        }
        let supply = &entry.record.spec.supply;
        let missing = match (supply.mode, supply.replace) {
            (Mode::OnDemand, Replace::OnLease | Replace::OnLoss | Replace::Ahead) => 0,
            (Mode::Warm | Mode::Reuse, Replace::OnLease) => entry.owed,
            (Mode::Warm | Mode::Reuse, Replace::OnLoss | Replace::Ahead) => {
                self.level(class).saturating_sub(self.lasting(class))
            }
        };
        for _ in 0..missing {
            match self.may_stand_by(class) {
                Ok(()) => {
                    let carries = self.carries_for(class, &[], None);
                    if carries == Carries::Images(Vec::new()) {
                        return;
                    }
                    self.create(class, carries);
                    if let Some(entry) = self.classes.get_mut(class) {
                        entry.owed = entry.owed.saturating_sub(1);
                        if entry.fruitless > 0 {
                            // One at a time finds out whether slots come to something again.
                            let pause = self.config.limits.backoff(entry.fruitless);
                            entry.standby_after = self.now + pause;
                        }
                    }
                }
                Err(blocked) => {
                    if let (Blocked::ClassFull | Blocked::BudgetSpent, Some(entry)) =
                        (&blocked, self.classes.get_mut(class))
                    {
                        // A replacement that finds no room is not owed for ever.
                        entry.owed = 0;
                    }
                    self.hindered(class, &blocked, 0);
                    return;
                }
            }
        }
    }

    /// How many slots the class should have, by the peak of demand within its idle timeout.
    fn level(&self, class: &ClassId) -> u32 {
        let Some(entry) = self.classes.get(class) else {
            return 0;
        };
        let peak = entry
            .peak
            .peak(self.now, entry.record.spec.supply.idle_timeout_ms);
        let policy = &self.config.policy;
        match peak {
            0 => 0,
            _ => peak.saturating_mul(policy.level_percent).div_ceil(100) + policy.spare,
        }
    }

    /// Slots that are there or coming and will serve again; with `ahead`, those in their last use do not count.
    fn lasting(&self, class: &ClassId) -> u32 {
        let Some(entry) = self.classes.get(class) else {
            return 0;
        };
        let spec = &entry.record.spec;
        let ahead = match spec.supply.replace {
            Replace::Ahead => true,
            Replace::OnLease | Replace::OnLoss => false,
        };
        let reuses = if entry.record.draining {
            0
        } else {
            spec.reuses()
        };
        let lasting = self
            .slots_of(class)
            .filter(|entry| match entry.record.state {
                SlotState::Creating { .. }
                | SlotState::Blank
                | SlotState::Specialising { .. }
                | SlotState::Idle { .. } => true,
                SlotState::Growing { .. } => true,
                SlotState::Leased { ref template, .. } => {
                    !ahead || (entry.record.uses < reuses && self.template_usable(template))
                }
                SlotState::Resetting { worn, .. } => !worn,
                SlotState::Lost { .. } | SlotState::Retiring { .. } | SlotState::Deleted => false,
            });
        lasting.count() as u32
    }

    /// As [`Pool::may_create`], for a slot that no request waits for.
    fn may_stand_by(&mut self, class: &ClassId) -> Result<(), Blocked> {
        match self.classes.get(class).map(|entry| entry.standby_after) {
            Some(after) if after > self.now => Err(Blocked::Until(after)),
            Some(_) | None => self.may_create(class),
        }
    }

    fn may_create(&mut self, class: &ClassId) -> Result<(), Blocked> {
        let Some(entry) = self.classes.get(class) else {
            return Err(Blocked::ClassFull);
        };
        if entry.backoff_until > self.now {
            return Err(Blocked::Until(entry.backoff_until));
        }
        if entry.slots.len() as u32 >= self.config.class_slots {
            return Err(Blocked::ClassFull);
        }
        let (budget, used) = (&self.config.budget, &self.usage);
        let takes = &entry.record.spec.resources;
        let over = |most: Option<u64>, sum: u64| most.is_some_and(|most| sum > most);
        if over(budget.slots.map(u64::from), u64::from(used.slots) + 1)
            || over(budget.cpu_milli, used.cpu_milli + takes.cpu_milli)
            || over(budget.memory_bytes, used.memory_bytes + takes.memory_bytes)
        {
            return Err(Blocked::BudgetSpent);
        }
        if used.starting >= self.config.max_starting.max(1) {
            return Err(Blocked::Starting);
        }
        self.bucket.take(self.now).map_err(Blocked::Until)
    }

    /// Remembers to look again; where `waiting` requests lack room, makes some from slots that nobody waits for.
    fn hindered(&mut self, class: &ClassId, blocked: &Blocked, waiting: usize) {
        self.blocked.insert(class.clone());
        match blocked {
            Blocked::Until(at) => self.arm(*at, Timer::Class(class.clone())),
            Blocked::Starting => {}
            Blocked::ClassFull => self.make_room(Some(class), waiting),
            Blocked::BudgetSpent => self.make_room(None, waiting),
        }
    }

    /// Retires up to `wanted` unused slots, the longest unused first; of one class, or of any.
    fn make_room(&mut self, of: Option<&ClassId>, wanted: usize) {
        if wanted == 0 {
            return;
        }
        let within = |entry: &&SlotEntry| of.is_none_or(|class| &entry.record.class == class);
        let mut leaving = 0;
        let mut unused = Vec::new();
        for entry in self.slots.values().filter(within) {
            match entry.record.state {
                SlotState::Retiring { .. } => leaving += 1,
                SlotState::Blank | SlotState::Idle { .. } if entry.reserved.is_none() => {
                    unused.push((entry.record.since, entry.record.id.clone()));
                }
                SlotState::Creating { .. }
                | SlotState::Blank
                | SlotState::Specialising { .. }
                | SlotState::Idle { .. }
                | SlotState::Growing { .. }
                | SlotState::Leased { .. }
                | SlotState::Lost { .. }
                | SlotState::Resetting { .. }
                | SlotState::Deleted => {}
            }
        }
        unused.sort();
        let mut missing = wanted.saturating_sub(leaving);
        for (_, slot) in unused {
            if missing == 0 {
                return;
            }
            if !self.is_waited_for(&slot) {
                self.retire(&slot, RetireCause::MadeRoom);
                missing -= 1;
            }
        }
    }

    /// Whether a request of the slot's own class waits that it could serve (as for a template's first sandbox).
    fn is_waited_for(&self, slot: &SlotId) -> bool {
        let Some(entry) = self.slots.get(slot) else {
            return false;
        };
        let mut waiting = self.queue.order(&entry.record.class);
        waiting.any(|waiting| entry.record.carries.holds(&waiting.request.image))
    }

    /// What a new slot of the class carries: first what waits, then what was asked for lately.
    fn carries_for(&self, class: &ClassId, unmet: &[ImageId], first: Option<&ImageId>) -> Carries {
        let Some(entry) = self.classes.get(class) else {
            return Carries::Images(Vec::new());
        };
        let most = match entry.record.spec.supply.carry {
            Carry::Any => return Carries::Any,
            Carry::Own => 1,
            Carry::Listed => MAX_LISTED,
        };
        let recent = entry.recent.iter().rev().map(|(_, image)| image);
        let mut images: Vec<ImageId> = Vec::new();
        for image in first.into_iter().chain(unmet).chain(recent) {
            if images.len() < most && !images.contains(image) {
                images.push(image.clone());
            }
        }
        Carries::Images(images)
    }

    /// Retires what stood unused for the idle timeout, as far as the level allows.
    pub(super) fn trim(&mut self, class: &ClassId) {
        let Some(entry) = self.classes.get(class) else {
            return;
        };
        let supply = entry.record.spec.supply.clone();
        let level = match (supply.mode, supply.replace) {
            (Mode::Warm | Mode::Reuse, Replace::OnLoss | Replace::Ahead) => self.level(class),
            (Mode::Warm | Mode::Reuse, Replace::OnLease) => 0,
            (Mode::OnDemand, Replace::OnLease | Replace::OnLoss | Replace::Ahead) => 0,
        };
        let mut overdue: Vec<(Millis, SlotId)> = Vec::new();
        for entry in self
            .slots_of(class)
            .filter(|entry| entry.reserved.is_none())
        {
            let due = entry.record.since + supply.idle_timeout_ms;
            if let SlotState::Blank | SlotState::Idle { .. } = entry.record.state
                && due <= self.now
            {
                overdue.push((entry.record.since, entry.record.id.clone()));
            }
        }
        if overdue.is_empty() {
            return;
        }
        overdue.sort();
        let mut above = self.lasting(class).saturating_sub(level);
        for (_, slot) in overdue {
            if above > 0 && !self.is_waited_for(&slot) {
                above -= 1;
                self.retire(&slot, RetireCause::Idle);
            }
        }
    }
}
