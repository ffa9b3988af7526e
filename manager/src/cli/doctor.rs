//! `doctor`: what this machine allows, what is missing, what to do.

use clap::{Args, ValueEnum};
use innkeeper::paths;
use innkeeper_images::Store;
use innkeeper_proto::v1::execd_client::ExecdClient;
use innkeeper_proto::v1::{Empty, Fact, HelloReply, ManagerInfo, SlotForm};
use serde_json::{Value, json};

use super::connect;
use super::failure::{FAILED, Failure, INTERRUPTED};
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
        let asked = ask(global).await;
        let (info, hello) = match asked {
            Ok((info, hello)) => (info, hello),
            // Ended by its caller: there is nothing to report.
            Err(failure) if failure.code == INTERRUPTED => return Err(failure),
            Err(failure) => {
                let detail = "the daemon that builds sandboxes cannot be used";
                facts.push(fact("sandboxes", false, detail, &failure.message));
                (ManagerInfo::default(), None)
            }
        };
        let can = info.forms.iter().find(|form| form.refusal.is_empty());
        if let Some(first) = info.forms.first() {
            facts.push(match can {
                Some(_) => fact("sandboxes", true, "sandboxes can be made", ""),
                None => fact(
                    "sandboxes",
                    false,
                    "none can be made",
                    &best(&info, first).refusal,
                ),
            });
        }
        facts.extend(hello.iter().flat_map(|hello| hello.facts.iter().cloned()));
        let (strategy, rights) = can.map_or(("none", "none"), |form| {
            (form.strategy.as_str(), form.rights.as_str())
        });
        if global.json {
            output::json(&json!({
                "usable": can.is_some(),
                "provider": "local",
                "strategy": strategy,
                "rights": rights,
                "forms": info.forms.iter().map(form).collect::<Vec<_>>(),
                "state_dir": connect::state_dir(global).display().to_string(),
                "facts": facts.iter().map(document).collect::<Vec<_>>(),
            }))?;
        } else {
            output::text(&table(&facts))?;
            output::text(&format!("\n{}", forms(&info.forms)))?;
            output::text(&format!("\nstrategy {strategy}, rights {rights}\n"))?;
        }
        Ok(if can.is_some() { 0 } else { FAILED })
    }
}

/// The form whose refusal helps most: what this process's own rights lack.
fn best<'a>(info: &'a ManagerInfo, first: &'a SlotForm) -> &'a SlotForm {
    let own = if paths::is_root() { "root" } else { "user" };
    let mut forms = info.forms.iter();
    forms.find(|form| form.rights == own).unwrap_or(first)
}

/// Asks a manager that runs, or one of this command's own, and the machine's execd, which there
/// is with root's rights alone.
async fn ask(global: &Global) -> Result<(ManagerInfo, Option<HelloReply>), Failure> {
    let socket = paths::execd_socket(&connect::state_dir(global));
    connect::within(global, |mut manager| async move {
        let info = manager.info(Empty {}).await?.into_inner();
        let Ok(mut execd) = ExecdClient::connect(format!("unix://{}", socket.display())).await
        else {
            return Ok((info, None));
        };
        let hello = execd.hello(Empty {}).await?.into_inner();
        Ok((info, Some(hello)))
    })
    .await
}

fn root() -> Fact {
    if paths::is_root() {
        fact("root", true, "this process is root", "")
    } else {
        let detail = "this process is not root: sandboxes get rights user";
        fact("root", true, detail, "")
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

fn form(form: &SlotForm) -> Value {
    json!({
        "strategy": form.strategy,
        "rights": form.rights,
        "layout": form.layout,
        "ok": form.refusal.is_empty(),
        "reason": output::optional(&form.refusal),
    })
}

fn forms(forms: &[SlotForm]) -> String {
    let mut table = Table::new(&["STRATEGY", "RIGHTS", "LAYOUT", "OK", "WHY NOT"]);
    for form in forms {
        let ok = if form.refusal.is_empty() { "yes" } else { "no" };
        table.row([
            form.strategy.as_str(),
            form.rights.as_str(),
            form.layout.as_str(),
            ok,
            form.refusal.as_str(),
        ]);
    }
    table.render()
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
