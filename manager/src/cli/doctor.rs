//! `doctor`: what this machine allows, what is missing, what to do.

use clap::{Args, ValueEnum};
use innkeeper::paths;
use innkeeper_images::Store;
use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::v1::{Empty, Fact, HelloReply};
use serde_json::{Value, json};

use super::connect;
use super::failure::{FAILED, Failure};
use super::table::Table;
use super::{Global, output};

/// Say what this machine allows.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit code 1 where no sandbox can be made.\n\nExample:\n  innkeeper doctor --json"
)]
pub(crate) struct Doctor {
    /// What makes the sandboxes
    #[arg(long, value_enum, value_name = "P", default_value = "local")]
    provider: Provider,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Provider {
    /// This machine
    Local,
    /// A cluster (not there yet)
    Kubernetes,
}

impl Doctor {
    /// Looks and reports.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        match self.provider {
            Provider::Local => {}
            Provider::Kubernetes => return Err(Failure::absent("`doctor --provider kubernetes`")),
        }
        let mut facts = vec![root(), kernel(), images(global)];
        let (hello, more) = match ask(global).await {
            Ok(hello) => (
                Some(hello),
                fact(
                    "sandboxes",
                    true,
                    "the daemon that builds sandboxes answers",
                    "",
                ),
            ),
            Err(failure) => (
                None,
                fact(
                    "sandboxes",
                    false,
                    "the daemon that builds sandboxes cannot be used",
                    &failure.message,
                ),
            ),
        };
        facts.push(more);
        let usable = hello.is_some();
        let (strategy, rights) = hello.as_ref().map_or(("none", "none"), |h| {
            (h.strategy.as_str(), h.rights.as_str())
        });
        if global.json {
            let own = hello
                .as_ref()
                .map(|h| h.facts.as_slice())
                .unwrap_or_default();
            output::json(&json!({
                "usable": usable,
                "provider": "local",
                "strategy": strategy,
                "rights": rights,
                "state_dir": connect::state_dir(global).display().to_string(),
                "facts": facts.iter().chain(own).map(document).collect::<Vec<_>>(),
            }))?;
        } else {
            facts.extend(hello.iter().flat_map(|h| h.facts.iter().cloned()));
            output::text(&table(&facts))?;
            output::text(&format!("\nstrategy {strategy}, rights {rights}\n"))?;
        }
        Ok(if usable { 0 } else { FAILED })
    }
}

/// Asks the daemon that builds sandboxes, through a manager that runs or one of this command's own.
async fn ask(global: &Global) -> Result<HelloReply, Failure> {
    let session = connect::own(global).await?;
    let socket = paths::execd_socket(&connect::state_dir(global));
    let hello = async {
        let mut execd = ExecdClient::connect(format!("unix://{}", socket.display()))
            .await
            .map_err(|e| {
                Failure::failed(format_args!(
                    "execd does not answer at {}: {e}",
                    socket.display()
                ))
            })?;
        Ok(execd.hello(Empty {}).await?.into_inner())
    };
    let hello: Result<HelloReply, Failure> = hello.await;
    session.close().await.map_err(Failure::failed)?;
    hello
}

fn root() -> Fact {
    if paths::is_root() {
        fact("root", true, "this process is root", "")
    } else {
        fact(
            "root",
            false,
            "this process is not root",
            "run innkeeper as root: other rights are not there yet",
        )
    }
}

fn kernel() -> Fact {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    let detail = format!("Linux {release}");
    // Overlay layers by descriptor came with 6.13, id-mapped tmpfs with 6.3.
    if version(release) >= (6, 3) {
        fact("kernel", true, &detail, "")
    } else {
        fact(
            "kernel",
            false,
            &detail,
            "use Linux 6.3 or later: id-mapped uppers in memory need it",
        )
    }
}

fn images(global: &Global) -> Fact {
    let store = paths::store_dir(&connect::state_dir(global));
    match Store::open(&store).and_then(|store| store.list()) {
        Ok(images) if images.is_empty() => fact(
            "images",
            false,
            "the store holds no image",
            "import one: innkeeper image import SRC --name NAME",
        ),
        Ok(images) => fact(
            "images",
            true,
            &format!("{} in {}", images.len(), store.display()),
            "",
        ),
        Err(e) => fact(
            "images",
            false,
            "the image store cannot be opened",
            &e.to_string(),
        ),
    }
}

/// Major and minor of a kernel release; zeros where it is not understood.
fn version(release: &str) -> (u32, u32) {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn fact(name: &str, ok: bool, detail: &str, advice: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        ok,
        detail: detail.to_owned(),
        advice: advice.to_owned(),
    }
}

fn document(fact: &Fact) -> Value {
    json!({ "name": fact.name, "ok": fact.ok, "detail": fact.detail, "advice": output::optional(&fact.advice) })
}

fn table(facts: &[Fact]) -> String {
    let mut table = Table::new(&["FACT", "OK", "DETAIL", "WHAT TO DO"]);
    for fact in facts {
        let ok = if fact.ok { "yes" } else { "no" };
        table.row([
            fact.name.as_str(),
            ok,
            fact.detail.as_str(),
            fact.advice.as_str(),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_releases_compare_as_numbers() {
        assert_eq!(version("6.18.3-cloud+"), (6, 18));
        assert!(version("6.18.0") > version("6.3.0"));
        assert_eq!(version(""), (0, 0));
    }
}
