//! Requests that wait: first come first served within a job, in turns by weight between jobs.

use crate::config::JobRule;
use crate::ids::{ClassId, JobKey, Millis, RequestKey, SlotId, TemplateKey};
use crate::lease::LeaseRequest;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// One turn of a job of weight 1, in the units of its account.
const TURN: u64 = 1 << 20;

/// A request without a lease.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) request: LeaseRequest,
    /// Place in the order of arrival.
    pub(crate) seq: u64,
    pub(crate) since: Millis,
    /// Slots that failed under it so far.
    pub(crate) tries: u32,
    /// The slot that is being made ready or checked for it.
    pub(crate) slot: Option<SlotId>,
    /// Served by a slot that stood idle as it came.
    pub(crate) warm: bool,
    /// A slot was specialised for it.
    pub(crate) specialised: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    rules: BTreeMap<JobKey, JobRule>,
    waiting: BTreeMap<RequestKey, Waiting>,
    /// Those without a slot.
    open: BTreeMap<ClassId, BTreeMap<JobKey, BTreeSet<(u64, RequestKey)>>>,
    /// Requests by class, with a slot or without.
    by_class: BTreeMap<ClassId, u32>,
    /// What each job has used up; the lowest is next.
    accounts: BTreeMap<JobKey, u64>,
    /// Leases and slots under preparation, by job.
    holds: BTreeMap<JobKey, u32>,
}

impl Queue {
    pub(crate) fn new(rules: BTreeMap<JobKey, JobRule>) -> Self {
        Self {
            rules,
            ..Self::default()
        }
    }

    pub(crate) fn get(&self, key: &RequestKey) -> Option<&Waiting> {
        self.waiting.get(key)
    }

    pub(crate) fn get_mut(&mut self, key: &RequestKey) -> Option<&mut Waiting> {
        self.waiting.get_mut(key)
    }

    /// All requests of a class, with a slot or without.
    pub(crate) fn in_class(&self, class: &ClassId) -> u32 {
        self.by_class.get(class).copied().unwrap_or(0)
    }

    pub(crate) fn push(&mut self, request: LeaseRequest, seq: u64, now: Millis) {
        let job = request.job_key();
        // A job that was away does not come back with credit for the time it did not ask.
        let floor = self.busy_accounts().min().unwrap_or(0);
        let account = self.accounts.entry(job).or_insert(floor);
        *account = (*account).max(floor);
        *self.by_class.entry(request.class.id.clone()).or_insert(0) += 1;
        let waiting = Waiting {
            request,
            seq,
            since: now,
            tries: 0,
            slot: None,
            warm: false,
            specialised: false,
        };
        self.open(&waiting);
        self.waiting.insert(waiting.request.key.clone(), waiting);
    }

    fn busy_accounts(&self) -> impl Iterator<Item = u64> + '_ {
        let jobs: BTreeSet<&JobKey> = self.open.values().flat_map(BTreeMap::keys).collect();
        jobs.into_iter()
            .filter_map(|job| self.accounts.get(job).copied())
    }

    fn open(&mut self, waiting: &Waiting) {
        self.open
            .entry(waiting.request.class.id.clone())
            .or_default()
            .entry(waiting.request.job_key())
            .or_default()
            .insert((waiting.seq, waiting.request.key.clone()));
    }

    fn close(&mut self, waiting: &Waiting) {
        let class = &waiting.request.class.id;
        let job = waiting.request.job_key();
        if let Some(jobs) = self.open.get_mut(class) {
            if let Some(requests) = jobs.get_mut(&job) {
                requests.remove(&(waiting.seq, waiting.request.key.clone()));
                if requests.is_empty() {
                    jobs.remove(&job);
                }
            }
            if jobs.is_empty() {
                self.open.remove(class);
            }
        }
    }

    /// Gives the request its slot, and charges its job for a turn.
    pub(crate) fn assign(&mut self, key: &RequestKey, slot: SlotId) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        waiting.slot = Some(slot);
        let waiting = waiting.clone();
        self.close(&waiting);
        let job = waiting.request.job_key();
        let weight = self
            .rules
            .get(&job)
            .copied()
            .unwrap_or_default()
            .weight
            .max(1);
        *self.accounts.entry(job.clone()).or_insert(0) += TURN / u64::from(weight);
        self.hold(&job);
    }

    /// The slot failed: the request goes back to its place in the queue.
    pub(crate) fn reopen(&mut self, key: &RequestKey) {
        let Some(waiting) = self.waiting.get_mut(key) else {
            return;
        };
        if waiting.slot.take().is_none() {
            return;
        }
        waiting.warm = false;
        waiting.specialised = false;
        let waiting = waiting.clone();
        self.open(&waiting);
        self.release(&waiting.request.job_key());
    }

    /// Takes a request out, because it is answered. What its job holds goes on to its lease, or ends.
    pub(crate) fn remove(&mut self, key: &RequestKey, leased: bool) -> Option<Waiting> {
        let waiting = self.waiting.remove(key)?;
        if let Some(count) = self.by_class.get_mut(&waiting.request.class.id) {
            *count -= 1;
            if *count == 0 {
                self.by_class.remove(&waiting.request.class.id);
            }
        }
        if waiting.slot.is_none() {
            self.close(&waiting);
        } else if !leased {
            self.release(&waiting.request.job_key());
        }
        let job = waiting.request.job_key();
        // Accounts of jobs that are over are kept only while they are few.
        let asks = self.open.values().any(|jobs| jobs.contains_key(&job));
        if self.accounts.len() > 4096 && !asks {
            self.accounts.remove(&job);
        }
        Some(waiting)
    }

    /// Counts a lease of the job.
    pub(crate) fn hold(&mut self, job: &JobKey) {
        *self.holds.entry(job.clone()).or_insert(0) += 1;
    }

    /// A lease of the job ended.
    pub(crate) fn release(&mut self, job: &JobKey) {
        if let Some(count) = self.holds.get_mut(job) {
            *count -= 1;
            if *count == 0 {
                self.holds.remove(job);
            }
        }
    }

    fn room(&self, job: &JobKey) -> u32 {
        match self.rules.get(job).and_then(|rule| rule.cap) {
            Some(cap) => cap.saturating_sub(self.holds.get(job).copied().unwrap_or(0)),
            None => u32::MAX,
        }
    }

    /// Whether a lease's end in one class may let the job's requests of another go on.
    pub(crate) fn capped(&self, job: &JobKey) -> bool {
        self.rules.get(job).is_some_and(|rule| rule.cap.is_some())
    }

    /// Requests of the class without a slot, those over their job's cap included.
    pub(crate) fn open_in(&self, class: &ClassId) -> u32 {
        let jobs = self.open.get(class);
        jobs.map_or(0, |jobs| {
            jobs.values().map(|requests| requests.len() as u32).sum()
        })
    }

    /// How many requests of the class may get a slot now: those over their job's cap left out.
    pub(crate) fn eligible(&self, class: &ClassId) -> u32 {
        let jobs = self.open.get(class).into_iter().flatten();
        jobs.map(|(job, requests)| self.room(job).min(requests.len() as u32))
            .sum()
    }

    /// Those requests, in the order in which they should get one.
    pub(crate) fn order(&self, class: &ClassId) -> impl Iterator<Item = &Waiting> {
        let mut turns = BinaryHeap::new();
        let mut queues = Vec::new();
        for (job, requests) in self.open.get(class).into_iter().flatten() {
            let account = self.accounts.get(job).copied().unwrap_or(0);
            let weight = self
                .rules
                .get(job)
                .copied()
                .unwrap_or_default()
                .weight
                .max(1);
            turns.push(Reverse((account, queues.len())));
            queues.push((self.room(job), TURN / u64::from(weight), requests.iter()));
        }
        std::iter::from_fn(move || {
            while let Some(Reverse((account, at))) = turns.pop() {
                let (room, turn, requests) = &mut queues[at];
                if *room == 0 {
                    continue;
                }
                if let Some((_, key)) = requests.next() {
                    *room -= 1;
                    turns.push(Reverse((account + *turn, at)));
                    return self.waiting.get(key);
                }
            }
            None
        })
    }

    /// Classes with requests that have no slot, the longest waiting first.
    pub(crate) fn open_classes(&self) -> Vec<ClassId> {
        let mut classes: Vec<(u64, &ClassId)> = self
            .open
            .iter()
            .map(|(class, jobs)| {
                let oldest = jobs
                    .values()
                    .filter_map(|requests| requests.first())
                    .map(|(seq, _)| *seq);
                (oldest.min().unwrap_or(u64::MAX), class)
            })
            .collect();
        classes.sort();
        classes
            .into_iter()
            .map(|(_, class)| class.clone())
            .collect()
    }

    /// All requests of the class, with a slot or without.
    pub(crate) fn of_class(&self, class: &ClassId) -> Vec<RequestKey> {
        let of = self
            .waiting
            .values()
            .filter(|waiting| &waiting.request.class.id == class);
        of.map(|waiting| waiting.request.key.clone()).collect()
    }

    /// All requests for the template, with a slot or without.
    pub(crate) fn of_template(&self, template: &TemplateKey) -> Vec<RequestKey> {
        let of = self
            .waiting
            .values()
            .filter(|waiting| &waiting.request.template == template);
        of.map(|waiting| waiting.request.key.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{ClassSpec, Resources, Supply};
    use crate::template::VerifyEvery;

    fn job(name: &str) -> JobKey {
        JobKey {
            tenant: "t".into(),
            job: name.to_owned(),
        }
    }

    fn request(id: &str, job: &str) -> LeaseRequest {
        LeaseRequest {
            key: RequestKey {
                tenant: "t".into(),
                id: id.to_owned(),
            },
            template: "k".into(),
            image: "i".into(),
            verify: VerifyEvery::default(),
            class: ClassSpec {
                id: "c".into(),
                tenant: "t".into(),
                resources: Resources::default(),
                supply: Supply::default(),
                resettable: true,
            },
            holder: String::new(),
            job: job.to_owned(),
            ttl_ms: 1,
            max_ms: 1,
            wait_until: 1,
        }
    }

    fn ids(queue: &Queue) -> Vec<String> {
        queue
            .order(&"c".into())
            .map(|waiting| waiting.request.key.id.clone())
            .collect()
    }

    #[test]
    fn jobs_take_turns_by_weight_and_stay_in_order_within() {
        let rules = BTreeMap::from([(
            job("b"),
            JobRule {
                weight: 2,
                cap: None,
            },
        )]);
        let mut queue = Queue::new(rules);
        for (seq, id) in ["a1", "a2", "a3", "b1", "b2", "b3", "b4"]
            .iter()
            .enumerate()
        {
            queue.push(request(id, &id[..1]), seq as u64, 0);
        }
        assert_eq!(ids(&queue), ["a1", "b1", "b2", "a2", "b3", "b4", "a3"]);
    }

    #[test]
    fn a_capped_job_waits_for_its_own() {
        let rules = BTreeMap::from([(
            job("a"),
            JobRule {
                weight: 1,
                cap: Some(1),
            },
        )]);
        let mut queue = Queue::new(rules);
        queue.push(request("a1", "a"), 0, 0);
        queue.push(request("a2", "a"), 1, 0);
        assert_eq!(ids(&queue), ["a1"]);
        let key = RequestKey {
            tenant: "t".into(),
            id: "a1".to_owned(),
        };
        queue.assign(&key, "s".into());
        assert!(ids(&queue).is_empty());
        queue.remove(&key, true);
        assert!(ids(&queue).is_empty());
        queue.release(&job("a"));
        assert_eq!(ids(&queue), ["a2"]);
    }

    #[test]
    fn a_request_whose_slot_failed_keeps_its_place() {
        let mut queue = Queue::new(BTreeMap::new());
        queue.push(request("a1", "a"), 0, 0);
        queue.push(request("a2", "a"), 1, 0);
        let key = RequestKey {
            tenant: "t".into(),
            id: "a1".to_owned(),
        };
        queue.assign(&key, "s".into());
        queue.reopen(&key);
        assert_eq!(ids(&queue), ["a1", "a2"]);
    }
}
