//! `record`.

use clap::Args;
use innkeeper_proto::v1::RecordRequest;

use super::Global;
use super::connect;
use super::failure::Failure;
use super::output;

/// Print the signed record of a lease that is over.
#[derive(Debug, Args)]
#[command(
    after_help = "The record says what the sandbox was and what became of it. `return --wait --json` holds it too.\n\nExample:\n  innkeeper record LEASE > record.json"
)]
pub(crate) struct Record {
    /// The lease's id
    lease: String,
}

impl Record {
    /// Prints the record; with or without `--json` it is one JSON document.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let request = RecordRequest { lease: self.lease };
        let reply = client.record(request).await?.into_inner();
        output::text(&format!("{}\n", reply.json))?;
        Ok(0)
    }
}
