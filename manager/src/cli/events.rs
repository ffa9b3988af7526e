//! `events`: what the manager did, event by event.

use clap::Args;
use innkeeper_proto::v1::EventsRequest;
use serde_json::Value;

use super::connect;
use super::failure::Failure;
use super::{Global, output};

/// Print the manager's events.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  innkeeper events --follow --since 120 --json")]
pub(crate) struct Events {
    /// Go on as they happen
    #[arg(long)]
    follow: bool,
    /// Only events after this sequence number
    #[arg(long, value_name = "SEQ")]
    since: Option<u64>,
}

impl Events {
    /// Prints events until there are no more, or with `--follow` until interrupted.
    pub(crate) async fn run(self, global: &Global) -> Result<i32, Failure> {
        let mut client = connect::running(global).await?;
        let request = EventsRequest {
            follow: self.follow,
            since: self.since.unwrap_or(0),
        };
        let mut events = client.events(request).await?.into_inner();
        while let Some(event) = events.message().await? {
            if global.json {
                output::text(&format!("{}\n", event.json))?;
            } else {
                output::text(&line(&event.json))?;
            }
        }
        Ok(0)
    }
}

/// An event as a line: sequence number, time, kind, then the fields it has.
fn line(json: &str) -> String {
    let event: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |name: &str| match &event[name] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let mut line = format!("{:>6}  {}  {:<16}", text("seq"), text("t"), text("kind"));
    for name in [
        "slot", "lease", "job", "template", "supply", "uses", "outcome", "cause", "ms",
    ] {
        let value = text(name);
        if !value.is_empty() {
            let value = if name == "template" {
                output::short(&value)
            } else {
                value
            };
            line.push_str(&format!("  {name}={}", value.escape_debug()));
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_the_fields_that_an_event_has() {
        let shown = line(
            r#"{"seq":7,"t":1.5,"kind":"granted","slot":"s-1","lease":"l-1","job":null,"uses":0}"#,
        );
        assert_eq!(
            shown,
            "     7  1.5  granted           slot=s-1  lease=l-1  uses=0\n"
        );
    }
}
