//! Counters, gauges and histograms for Prometheus, and the page that serves them.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use innkeeper_pool::{Kind, LogEvent, SlotRow};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::engine::Handle;

type Labels = Vec<(&'static str, String)>;

/// All metrics of one manager.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    leases: Family<Labels, Counter>,
    ends: Family<Labels, Counter>,
    creates: Family<Labels, Counter>,
    specialises: Family<Labels, Counter>,
    resets: Family<Labels, Counter>,
    canaries: Family<Labels, Counter>,
    retired: Counter,
    slots: Family<Labels, Gauge>,
    unconfirmed: Gauge,
    /// From asking to the lease, seconds, waiting included.
    pub lease_seconds: Histogram,
    create_seconds: Histogram,
    specialise_seconds: Histogram,
    reset_seconds: Histogram,
}

impl Default for Metrics {
    fn default() -> Self {
        // A ready lease takes about a millisecond, a create with its pull over a minute.
        let seconds = || Histogram::new(exponential_buckets(0.0005, 2.0, 19));
        let mut metrics = Self {
            registry: Registry::with_prefix("innkeeper"),
            leases: Family::default(),
            ends: Family::default(),
            creates: Family::default(),
            specialises: Family::default(),
            resets: Family::default(),
            canaries: Family::default(),
            retired: Counter::default(),
            slots: Family::default(),
            unconfirmed: Gauge::<i64>::default(),
            lease_seconds: seconds(),
            create_seconds: seconds(),
            specialise_seconds: seconds(),
            reset_seconds: seconds(),
        };
        metrics.register();
        metrics
    }
}

impl Metrics {
    fn register(&mut self) {
        let r = &mut self.registry;
        r.register("leases", "Leases granted, by supply", self.leases.clone());
        r.register("lease_ends", "Leases ended, by how", self.ends.clone());
        r.register(
            "creates",
            "Creates settled, by outcome",
            self.creates.clone(),
        );
        r.register(
            "specialises",
            "Specialisings ended, by outcome",
            self.specialises.clone(),
        );
        r.register("resets", "Resets ended, by outcome", self.resets.clone());
        let help = "Gradings in fresh and in reused sandboxes compared, by outcome";
        r.register("canaries", help, self.canaries.clone());
        r.register("slots_retired", "Slots that ended", self.retired.clone());
        r.register("slots", "Slots by state", self.slots.clone());
        let help = "Deletes that are asked and not confirmed";
        r.register("deletes_unconfirmed", help, self.unconfirmed.clone());
        let histograms = [
            (
                "lease_seconds",
                "From asking to the lease",
                &self.lease_seconds,
            ),
            (
                "create_seconds",
                "Duration of creates",
                &self.create_seconds,
            ),
            (
                "specialise_seconds",
                "Duration of specialisings",
                &self.specialise_seconds,
            ),
            (
                "reset_seconds",
                "Duration of resets with verification",
                &self.reset_seconds,
            ),
        ];
        for (name, help, histogram) in histograms {
            r.register(name, help, histogram.clone());
        }
    }

    /// Counts an event of the log.
    pub fn count(&self, event: &LogEvent) {
        let outcome = || event.outcome.clone().unwrap_or_default();
        let add = |family: &Family<Labels, Counter>, label, value| {
            family.get_or_create(&vec![(label, value)]).inc();
        };
        let time = |histogram: &Histogram| {
            if let Some(ms) = event.ms {
                histogram.observe(ms as f64 / 1000.0);
            }
        };
        match event.kind {
            Kind::Granted => {
                let supply = event.supply.map(crate::events::supply_word);
                add(
                    &self.leases,
                    "supply",
                    supply.unwrap_or_default().to_owned(),
                );
            }
            Kind::Returned => add(&self.ends, "how", "returned".to_owned()),
            Kind::Expired => add(&self.ends, "how", "expired".to_owned()),
            Kind::Lost => add(&self.ends, "how", "lost".to_owned()),
            Kind::CreateSettled => {
                add(&self.creates, "outcome", outcome());
                time(&self.create_seconds);
            }
            Kind::Specialised => {
                add(&self.specialises, "outcome", outcome());
                time(&self.specialise_seconds);
            }
            Kind::Verified => {
                add(&self.resets, "outcome", "clean".to_owned());
                time(&self.reset_seconds);
            }
            Kind::Tainted => {
                add(&self.resets, "outcome", "tainted".to_owned());
                time(&self.reset_seconds);
            }
            Kind::Retired => drop(self.retired.inc()),
            Kind::Canary => add(&self.canaries, "outcome", outcome()),
            Kind::CreateIntent
            | Kind::DeleteAsked
            | Kind::DeleteConfirmed
            | Kind::Shrunk
            | Kind::Grown
            | Kind::Deferred => {}
        }
    }

    /// The page, with gauges as of these slots.
    pub fn page(&self, slots: &[SlotRow]) -> String {
        self.slots.clear();
        for slot in slots {
            self.slots
                .get_or_create(&vec![("state", slot.state.clone())])
                .inc();
        }
        let retiring = slots.iter().filter(|slot| slot.state == "retiring").count();
        self.unconfirmed.set(retiring as i64);
        let mut page = String::new();
        match encode(&mut page, &self.registry) {
            Ok(()) => page,
            // Writing to a String does not fail; a scrape must not end the manager if it does.
            Err(error) => format!("# {error}\n"),
        }
    }
}

/// Serves `/metrics` on a listener until the future is dropped.
pub async fn serve(
    listener: tokio::net::TcpListener,
    metrics: Arc<Metrics>,
    engine: Handle,
) -> std::io::Result<()> {
    let app = axum::Router::new()
        .route("/metrics", axum::routing::get(page))
        .with_state((metrics, engine));
    axum::serve(listener, app).await
}

async fn page(State((metrics, engine)): State<(Arc<Metrics>, Handle)>) -> impl IntoResponse {
    let slots = engine.slots(None).await;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(CONTENT_TYPE, kind)], metrics.page(&slots))
}

/// Binds the address of `--metrics`, `HOST:PORT` or `tcp://HOST:PORT`.
pub async fn bind(address: &str) -> std::io::Result<(tokio::net::TcpListener, SocketAddr)> {
    let place = address.strip_prefix("tcp://").unwrap_or(address);
    let listener = tokio::net::TcpListener::bind(place).await?;
    let local = listener.local_addr()?;
    Ok((listener, local))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_that_differs_is_counted_apart() {
        let metrics = Metrics::default();
        for outcome in ["same", "differs", "same"] {
            let event = serde_json::json!({
                "t": 1, "kind": "canary", "slot": "s-1", "lease": "l-1", "job": null,
                "template": "t", "supply": "reused", "uses": 8, "outcome": outcome,
                "cause": null, "ms": null,
            });
            metrics.count(&serde_json::from_value(event).unwrap());
        }
        let page = metrics.page(&[]);
        for line in [
            "innkeeper_canaries_total{outcome=\"same\"} 2",
            "innkeeper_canaries_total{outcome=\"differs\"} 1",
        ] {
            assert!(page.contains(line), "{page}");
        }
    }
}
