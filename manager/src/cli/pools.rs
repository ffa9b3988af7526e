//! `ps`, `pools` and `drain`: what the manager holds.

use clap::Args;
use innkeeper_proto::v1::{DrainRequest, Empty};
use serde_json::Value;

use super::Global;
use super::connect;
use super::failure::Failure;
use super::output::{self, short};
use super::table::Table;

/// List slots.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper ps --json")]
pub(crate) struct Ps {}

impl Ps {
    /// Prints the slots.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let reply = client.ps(Empty {}).await?.into_inner();
        show(
            global,
            &reply.json,
            &[
                "slot", "state", "template", "carries", "lease", "uses", "node", "age_s",
            ],
        )
    }
}

/// List pools.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper pools --json")]
pub(crate) struct Pools {}

impl Pools {
    /// Prints the pools.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let reply = client.pools(Empty {}).await?.into_inner();
        show(
            global,
            &reply.json,
            &[
                "class",
                "supply",
                "slots",
                "idle",
                "leased",
                "creating",
                "creates",
                "leases",
                "warm_share",
                "leaks",
            ],
        )
    }
}

/// Retire the idle slots of a pool.
#[derive(Debug, Args)]
#[command(
    after_help = "Leased slots are retired as they come back.\n\nExample:\n  innkeeper drain CLASS"
)]
pub(crate) struct Drain {
    /// The pool's class, as `innkeeper pools` names it
    pool: String,
}

impl Drain {
    /// Drains the pool and prints what was retired.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let reply = client
            .drain(DrainRequest { pool: self.pool })
            .await?
            .into_inner();
        if global.json {
            output::text(&format!("{}\n", reply.json))?;
        } else {
            output::text(&lines(&parse(&reply.json)?))?;
        }
        Ok(0)
    }
}

fn show(global: &Global, json: &str, columns: &[&str]) -> Result<i32, Failure> {
    if global.json {
        output::text(&format!("{json}\n"))?;
    } else {
        output::text(&listing(&parse(json)?, columns))?;
    }
    Ok(0)
}

fn parse(json: &str) -> Result<Value, Failure> {
    serde_json::from_str(json)
        .map_err(|e| Failure::failed(format_args!("the manager's answer is not readable: {e}")))
}

/// A table of objects, a column a field. Digests are cut, numbers go to the right.
fn listing(rows: &Value, columns: &[&str]) -> String {
    let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
    let headings: Vec<String> = columns
        .iter()
        .map(|column| {
            let number = rows.iter().any(|row| row[column].is_number());
            format!("{}{}", if number { ">" } else { "" }, column.to_uppercase())
        })
        .collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    for row in rows {
        table.row(columns.iter().map(|column| cell(&row[column])));
    }
    table.render()
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if is_digest(text) => short(text),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => format!("{float:.2}"),
            Some(_) | None => number.to_string(),
        },
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(leaks) if leaks.contains_key("found") => leaking(leaks),
        Value::Bool(_) | Value::Object(_) => value.to_string(),
    }
}

/// An image with the kinds of answers that were found in it.
fn leaking(leaks: &serde_json::Map<String, Value>) -> String {
    let found = leaks.get("found").and_then(Value::as_object);
    let mut kinds: Vec<_> = found
        .into_iter()
        .flatten()
        .map(|(kind, finding)| format!("{} {kind}", cell(&finding["count"])))
        .collect();
    let unread = leaks.get("unread").and_then(Value::as_array);
    if unread.is_some_and(|unread| !unread.is_empty()) {
        kinds.push("not all looked at".to_owned());
    }
    let image = leaks.get("image").map_or_else(String::new, cell);
    format!("{image}: {}", kinds.join(", "))
}

fn is_digest(text: &str) -> bool {
    let hex = text.rsplit(':').next().unwrap_or(text);
    hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
}

fn lines(value: &Value) -> String {
    match value.as_object() {
        Some(object) => object
            .iter()
            .map(|(name, value)| format!("{name}: {}\n", cell(value)))
            .collect(),
        None => format!("{}\n", cell(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_has_a_column_a_field() {
        let rows = serde_json::json!([
            {"slot": "s-1", "template": "0123456789abcdef0123456789abcdef", "lease": null, "age_s": 1.0},
            {"slot": "s-2", "template": null, "lease": "l-1", "age_s": 10.25},
        ]);
        assert_eq!(
            listing(&rows, &["slot", "template", "lease", "age_s"]),
            "SLOT  TEMPLATE      LEASE  AGE_S\ns-1   0123456789ab  -       1.00\ns-2   -             l-1    10.25\n"
        );
        assert_eq!(listing(&Value::Null, &["slot"]), "SLOT\n");
    }
}
