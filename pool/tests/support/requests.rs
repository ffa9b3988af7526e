//! Requests and settings that the tests share.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use innkeeper_pool::sim::{Faults, Run, World};
use innkeeper_pool::{
    Carry, ClassSpec, Config, Depth, Event, Lease, LeaseRequest, Mode, Replace, RequestKey,
    Resources, Supply, VerifyEvery,
};

pub(crate) fn key(id: &str) -> RequestKey {
    RequestKey {
        tenant: "default".into(),
        id: id.to_owned(),
    }
}

pub(crate) fn supply(mode: Mode, replace: Replace, carry: Carry) -> Supply {
    Supply {
        mode,
        replace,
        carry,
        ..Supply::default()
    }
}

pub(crate) fn class(id: &str, supply: Supply) -> ClassSpec {
    ClassSpec {
        id: id.into(),
        tenant: "default".into(),
        resources: Resources {
            cpu_milli: 1000,
            memory_bytes: 1 << 30,
        },
        supply,
        resettable: true,
    }
}

pub(crate) fn request(id: &str, template: &str, class: ClassSpec) -> LeaseRequest {
    LeaseRequest {
        key: key(id),
        template: template.into(),
        image: format!("image-of-{template}").as_str().into(),
        verify: VerifyEvery::default(),
        class,
        holder: "test".to_owned(),
        job: String::new(),
        ttl_ms: 3_600_000,
        max_ms: 86_400_000,
        wait_until: u64::MAX,
    }
}

/// A world where everything takes up to `lag_ms` and nothing goes wrong.
pub(crate) fn calm(config: Config, lag_ms: u64) -> Run {
    Run::new(
        config,
        World::new(
            7,
            Faults {
                lag_ms,
                ..Faults::default()
            },
        ),
    )
}

/// Asks and waits for the lease.
pub(crate) fn lease(run: &mut Run, request: LeaseRequest) -> Lease {
    let key = request.key.clone();
    run.feed(Event::LeaseRequested(Box::new(request)));
    run.until_granted(&key, 60_000)
        .unwrap_or_else(|| panic!("{} got no lease: {:?}", key.id, run.refusals))
}

pub(crate) fn give_back(run: &mut Run, lease: &Lease) {
    run.feed(Event::Returned {
        lease: lease.id.clone(),
        discard: false,
        verify: Depth::Swap,
    });
}

pub(crate) fn creates(run: &Run) -> u64 {
    run.pool.pools().iter().map(|row| row.creates).sum()
}
