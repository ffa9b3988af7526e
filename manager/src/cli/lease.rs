//! `lease` and `renew`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use innkeeper_proto::v1::{LeaseReply, LeaseRequest, RenewRequest};
use serde_json::{Value, json};

use super::connect::{self, Client};
use super::failure::Failure;
use super::output::{self, optional, seconds, short};
use super::table::Table;
use super::{Global, absent, template, values};

/// Lease a sandbox of an image.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper lease demo --ttl 30m --json")]
pub(crate) struct Lease {
    /// The image, by name or digest
    #[arg(required_unless_present_any = ["from_snapshot", "announce"])]
    image: Option<String>,
    /// A template file, YAML or JSON
    #[arg(long, value_name = "F")]
    template: Option<PathBuf>,
    /// The job this lease belongs to
    #[arg(long, value_name = "J")]
    job: Option<String>,
    /// How long the lease lives without a call [default: 1h]
    #[arg(long, value_name = "D", value_parser = values::duration)]
    ttl: Option<Duration>,
    /// How long it lives at most [default: 24h]
    #[arg(long, value_name = "D", value_parser = values::duration)]
    max: Option<Duration>,
    /// How long to wait for a sandbox
    #[arg(long, value_name = "D", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// The same id gives the same lease again
    #[arg(long, value_name = "R")]
    request_id: Option<String>,
    /// Return execd's own address too (not there yet)
    #[arg(long)]
    direct: bool,
    /// Fork a snapshot (not there yet)
    #[arg(long, value_name = "NAME")]
    from_snapshot: Option<String>,
    /// Number of leases (not there yet)
    #[arg(long, value_name = "N")]
    count: Option<u32>,
    /// Announce leases that will come (not there yet)
    #[arg(long, value_name = "F")]
    announce: Option<OsString>,
}

impl Lease {
    /// Asks for the lease and prints it.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        absent::refuse(&[
            ("`lease --direct`", self.direct),
            ("`lease --from-snapshot`", self.from_snapshot.is_some()),
            ("`lease --count`", self.count.is_some()),
            ("`lease --announce`", self.announce.is_some()),
        ])?;
        let request = LeaseRequest {
            image: self.image.unwrap_or_default(),
            template_json: template::read(self.template.as_deref())?,
            job: self.job.unwrap_or_default(),
            holder: holder(),
            request_id: self.request_id.unwrap_or_default(),
            ttl_ms: values::millis(self.ttl),
            max_ms: values::millis(self.max),
            timeout_ms: values::millis(self.timeout),
        };
        let mut client = connect::running(global).await?;
        let reply = client.lease(request).await?.into_inner();
        show(global, &reply)
    }
}

/// Move a lease's expiry.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper renew LEASE --ttl 2h")]
pub(crate) struct Renew {
    /// The lease's id
    lease: String,
    /// How long it lives from now on without a call [default: 1h]
    #[arg(long, value_name = "D", value_parser = values::duration)]
    ttl: Option<Duration>,
}

impl Renew {
    /// Renews the lease and prints it.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let request = RenewRequest {
            lease: self.lease,
            ttl_ms: values::millis(self.ttl),
        };
        let reply = client.renew(request).await?.into_inner();
        show(global, &reply)
    }
}

/// Asks for a lease on behalf of another command.
pub(crate) async fn ask(
    client: &mut Client,
    image: &str,
    template_json: String,
    job: &str,
) -> Result<LeaseReply, tonic::Status> {
    let request = LeaseRequest {
        image: image.to_owned(),
        template_json,
        job: job.to_owned(),
        holder: holder(),
        ..LeaseRequest::default()
    };
    Ok(client.lease(request).await?.into_inner())
}

/// Who holds the leases of this process, for people who look at them.
fn holder() -> String {
    format!("innkeeper-cli:{}", std::process::id())
}

/// The lease as the contract's JSON.
pub(crate) fn document(reply: &LeaseReply) -> Value {
    json!({
        "lease": reply.lease,
        "slot": reply.slot,
        "generation": reply.generation,
        "sandbox": format!("{}.{}", reply.slot, reply.generation),
        "supply": reply.supply,
        "specialised": reply.specialised,
        "uses": reply.uses,
        "strategy": reply.strategy,
        "rights": reply.rights,
        "layout": optional(&reply.layout),
        "template": reply.template,
        "baseline": reply.baseline,
        "verified": optional(&reply.verified),
        "boot_id": reply.boot_id,
        "expires": seconds(reply.expires_ms),
        "deadline": seconds(reply.deadline_ms),
        "disk_limit": optional(&reply.disk_limit),
        "resources": optional(&reply.resources),
    })
}

fn show(global: &Global, reply: &LeaseReply) -> Result<i32, Failure> {
    if global.json {
        output::json(&document(reply))?;
    } else {
        let mut table = Table::new(&[
            "LEASE", "SANDBOX", "SUPPLY", ">USES", "TEMPLATE", "BASELINE",
        ]);
        table.row([
            reply.lease.clone(),
            format!("{}.{}", reply.slot, reply.generation),
            reply.supply.clone(),
            reply.uses.to_string(),
            short(&reply.template),
            short(&reply.baseline),
        ]);
        output::text(&table.render())?;
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_fields_of_the_contract() {
        let reply = LeaseReply {
            slot: "s-1".into(),
            generation: 3,
            expires_ms: 1500,
            ..LeaseReply::default()
        };
        let document = document(&reply);
        let names: std::collections::BTreeSet<_> = document
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let wanted = "lease slot generation sandbox supply specialised uses strategy rights layout template baseline verified boot_id expires deadline disk_limit resources";
        assert_eq!(names, wanted.split(' ').collect());
        assert_eq!(document["sandbox"], "s-1.3");
        assert_eq!(document["expires"], 1.5);
    }
}
