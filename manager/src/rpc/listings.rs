//! ps, pools, drain, events: replies whose shape the command line's JSON fixes.

use innkeeper_proto::v1;
use serde_json::json;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

use super::Service;
use super::streams::Stream;
use crate::client::{Kind, error_status as status};
use crate::records::Record;

/// Events under way to one reader.
const EVENTS_AHEAD: usize = 256;

impl Service {
    pub(super) async fn list_slots(&self, tenant: &str) -> Result<v1::JsonReply, Status> {
        let rows = self.engine.slots(Some(tenant)).await;
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| {
                json!({
                    "slot": row.slot, "state": row.state, "template": row.template,
                    "carries": row.carries, "lease": row.lease, "uses": row.uses,
                    "node": row.node, "age_s": row.age_s,
                })
            })
            .collect();
        Ok(v1::JsonReply {
            json: json!(rows).to_string(),
        })
    }

    pub(super) async fn list_pools(&self, tenant: &str) -> Result<v1::JsonReply, Status> {
        let rows = self.engine.pools(Some(tenant)).await;
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| {
                json!({
                    "class": row.class, "supply": row.supply, "slots": row.slots,
                    "idle": row.idle, "leased": row.leased, "creating": row.creating,
                    "creates": row.creates, "leases": row.leases, "warm_share": row.warm_share,
                    "leaks": self.leaks_of(row.class.as_str()),
                })
            })
            .collect();
        Ok(v1::JsonReply {
            json: json!(rows).to_string(),
        })
    }

    /// What was seen of answers in the images of a class's templates, where something was seen or
    /// something could not be looked at.
    fn leaks_of(&self, class: &str) -> Vec<serde_json::Value> {
        let mut found = Vec::new();
        for template in self.engine.templates().all_of_class(class) {
            let key = &template.spec.key;
            let Some(report) = self.engine.leaks().get(key) else {
                continue;
            };
            if !report.is_clear() {
                found.push(json!({
                    "template": key, "image": template.image,
                    "found": report.found, "unread": report.unread,
                }));
            }
        }
        found
    }

    /// A record of a lease of this tenant; the same words whether it is another's or nobody's.
    pub(super) async fn read_record(
        &self,
        tenant: &str,
        lease: &str,
    ) -> Result<v1::JsonReply, Status> {
        match self.own_record(tenant, lease).await {
            Some((text, _)) => Ok(v1::JsonReply {
                json: text.to_string(),
            }),
            None => {
                let sentence = format!(
                    "there is no record of a lease {lease}: one is made once a lease is over and \
                     its sandbox reset or destroyed, and the newest {} are kept",
                    crate::records::KEPT
                );
                Err(status(Kind::Permanent, Code::NotFound, sentence))
            }
        }
    }

    /// A record of a lease of this tenant, as text and parsed.
    pub(super) async fn own_record(
        &self,
        tenant: &str,
        lease: &str,
    ) -> Option<(Record, serde_json::Value)> {
        let record = self.engine.record(lease).await?;
        let parsed: serde_json::Value = serde_json::from_str(&record).ok()?;
        (parsed["tenant"] == tenant).then_some((record, parsed))
    }

    pub(super) async fn drain_pool(
        &self,
        tenant: &str,
        pool: &str,
    ) -> Result<v1::JsonReply, Status> {
        if !self.engine.drain(tenant, pool).await {
            let sentence = format!("there is no pool {pool}: `innkeeper pools` lists them");
            return Err(status(Kind::Permanent, Code::NotFound, sentence));
        }
        Ok(v1::JsonReply {
            json: json!({"pool": pool, "state": "draining"}).to_string(),
        })
    }

    pub(super) fn read_events(
        &self,
        tenant: std::sync::Arc<str>,
        ask: v1::EventsRequest,
    ) -> Stream<v1::JsonReply> {
        let mut reader = self.engine.events().read(ask.since);
        let (sender, receiver) = tokio::sync::mpsc::channel(EVENTS_AHEAD);
        tokio::spawn(async move {
            loop {
                let next = if ask.follow {
                    tokio::select! {
                        next = reader.next() => next,
                        () = sender.closed() => return,
                    }
                } else {
                    reader.next_written()
                };
                let item = match next {
                    Ok(None) => return,
                    Ok(Some(line)) if line.tenant.as_deref() != Some(&*tenant) => continue,
                    Ok(Some(line)) => Ok(v1::JsonReply {
                        json: line.for_client(),
                    }),
                    Err(error) => Err(error.into()),
                };
                if sender.send(item).await.is_err() {
                    return;
                }
            }
        });
        Box::pin(ReceiverStream::new(receiver))
    }
}
