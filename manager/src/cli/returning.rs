//! `return`.

use clap::{Args, ValueEnum};
use innkeeper_proto::v1::{ComponentResult, Difference, ReturnReply, ReturnRequest};
use serde_json::{Map, Value, json};

use super::Global;
use super::connect;
use super::failure::Failure;
use super::output::{self, optional, put_bytes, short};
use super::table::Table;

/// Give a lease back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper return LEASE --wait --verify walk")]
pub(crate) struct Return {
    /// The lease's id
    lease: String,
    /// Destroy the sandbox instead of resetting it
    #[arg(long)]
    discard: bool,
    /// Wait for the reset and its verification
    #[arg(long)]
    wait: bool,
    /// Verify at least this deeply
    #[arg(long, value_enum, value_name = "DEPTH")]
    verify: Option<Depth>,
}

/// How deeply a reset is verified.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Depth {
    /// The new upper, the identity of the lowers, and everything but files
    Swap,
    /// The merged tree's attributes too
    Walk,
    /// All contents too
    Full,
}

impl Depth {
    /// Its name in the protocol.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Walk => "walk",
            Self::Full => "full",
        }
    }
}

impl Return {
    /// Returns the lease and prints the outcome.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let request = ReturnRequest {
            lease: self.lease,
            discard: self.discard,
            wait: self.wait,
            verify: self.verify.map_or("", Depth::name).to_owned(),
            ..ReturnRequest::default()
        };
        let reply = client.r#return(request).await?.into_inner();
        if global.json {
            output::json(&document(&reply))?;
        } else {
            output::text(&summary(&reply))?;
        }
        Ok(0)
    }
}

/// The outcome as the contract's JSON.
pub(crate) fn document(reply: &ReturnReply) -> Value {
    json!({
        "outcome": reply.outcome,
        "uses": reply.uses,
        "digest": optional(&reply.digest),
        "baseline": optional(&reply.baseline),
        "verified": optional(&reply.verified),
        "components": components(&reply.components),
        "differs": reply.differs.iter().map(difference).collect::<Vec<_>>(),
        "retired": optional(&reply.retired),
        "record": record(reply),
    })
}

/// The signed record; null without `--wait`.
pub(crate) fn record(reply: &ReturnReply) -> Value {
    serde_json::from_str(&reply.record_json).unwrap_or_default()
}

/// Components by name.
pub(crate) fn components(components: &[ComponentResult]) -> Value {
    components
        .iter()
        .map(|c| {
            (
                c.name.clone(),
                json!({ "digest": c.digest, "baseline": c.baseline, "equal": c.equal }),
            )
        })
        .collect::<Map<_, _>>()
        .into()
}

/// One difference between the baseline and what was found.
pub(crate) fn difference(difference: &Difference) -> Value {
    let mut object = Map::new();
    object.insert(
        "component".to_owned(),
        Value::from(difference.component.as_str()),
    );
    put_bytes(&mut object, "path", &difference.path);
    object.insert("what".to_owned(), Value::from(difference.what.as_str()));
    object.insert(
        "baseline".to_owned(),
        Value::from(difference.baseline.as_str()),
    );
    object.insert("now".to_owned(), Value::from(difference.now.as_str()));
    object.into()
}

fn summary(reply: &ReturnReply) -> String {
    let mut table = Table::new(&[
        "OUTCOME", ">USES", "VERIFIED", "DIGEST", "BASELINE", "RETIRED",
    ]);
    table.row([
        reply.outcome.clone(),
        reply.uses.to_string(),
        reply.verified.clone(),
        short(&reply.digest),
        short(&reply.baseline),
        reply.retired.clone(),
    ]);
    let mut text = table.render();
    if !reply.differs.is_empty() {
        let mut table = Table::new(&["COMPONENT", "PATH", "WHAT", "BASELINE", "NOW"]);
        for d in &reply.differs {
            table.row([
                d.component.clone(),
                String::from_utf8_lossy(&d.path).into_owned(),
                d.what.clone(),
                d.baseline.clone(),
                d.now.clone(),
            ]);
        }
        text.push('\n');
        text.push_str(&table.render());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_fields_of_the_contract() {
        let reply = ReturnReply {
            outcome: "tainted".into(),
            components: vec![ComponentResult {
                name: "files".into(),
                digest: "a".into(),
                baseline: "b".into(),
                equal: false,
            }],
            differs: vec![Difference {
                component: "files".into(),
                path: vec![b'/', 0xff].into(),
                ..Difference::default()
            }],
            ..ReturnReply::default()
        };
        let document = document(&reply);
        let names: std::collections::BTreeSet<_> = document
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            names,
            "outcome uses digest baseline verified components differs retired record"
                .split(' ')
                .collect()
        );
        assert_eq!(
            document["components"]["files"],
            json!({"digest": "a", "baseline": "b", "equal": false})
        );
        assert_eq!(document["differs"][0]["path_b64"], "L/8=");
        assert_eq!(document["retired"], Value::Null);
        assert!(summary(&reply).contains("tainted"));
    }
}
