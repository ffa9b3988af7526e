//! `run`: lease, exec, return.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use innkeeper_proto::v1::ReturnRequest;

use super::connect;
use super::exec::{self, How};
use super::failure::Failure;
use super::form::FormArgs;
use super::{Global, lease, template, values};

/// Lease a sandbox, run a command in it and return it.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit codes are those of `innkeeper exec`.\n\nExample:\n  innkeeper run demo --timeout 5m -- python -m pytest -q"
)]
pub(crate) struct Run {
    /// The image, by name or digest
    image: String,
    /// A template file, YAML or JSON
    #[arg(long, value_name = "F")]
    template: Option<PathBuf>,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    how: How,
    /// Kill the command and all its children after this time
    #[arg(long, value_name = "D", value_parser = values::duration)]
    timeout: Option<Duration>,
    /// The command and its arguments, after --
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<OsString>,
}

impl Run {
    /// Runs it. Returns the command's exit code. Signals go to the command, so that an
    /// interrupted run still returns its lease.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let template = template::read(self.template.as_deref())?;
        let template = self.form.into_template(&template)?;
        // Caught from here on: a signal while the manager starts must not leave its daemon behind.
        let interrupted = innkeeper::embedded::interrupted();
        let session = connect::own(global).await.map_err(Failure::of_exec)?;
        let mut client = session.manager();
        let leased = tokio::select! {
            leased = lease::ask(&mut client, &self.image, template, "") => leased.map_err(Failure::from),
            () = interrupted => Err(Failure { code: 130, message: "interrupted".to_owned() }),
        };
        let ended = match leased {
            Ok(lease) => {
                let ended = exec::in_lease(
                    &mut client,
                    global,
                    &lease.lease,
                    self.how,
                    self.timeout,
                    self.argv,
                )
                .await;
                let request = ReturnRequest {
                    lease: lease.lease,
                    ..ReturnRequest::default()
                };
                match client.r#return(request).await {
                    Ok(_) => ended,
                    Err(status) => ended.and(Err(Failure::from(status))),
                }
            }
            Err(failure) => Err(failure),
        };
        let closed = session.close().await.map_err(Failure::failed);
        let code = ended.map_err(Failure::of_exec)?;
        closed.map_err(Failure::of_exec)?;
        Ok(code)
    }
}
