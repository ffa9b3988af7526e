//! Canaries: one patch graded in a fresh sandbox and in a reused one. Whether the two differ is
//! read from the signed records, so the client's word decides nothing but the explanation.

use innkeeper_proto::v1;
use serde_json::{Value, json};
use tonic::Status;

use super::Service;
use super::status::wrong;
use crate::engine::{DIFFERS, SAME};

/// Bytes of an explanation that are kept.
const CAUSE: usize = 1000;

impl Service {
    pub(super) async fn take_canary(
        &self,
        tenant: &str,
        ask: v1::CanaryRequest,
    ) -> Result<v1::JsonReply, Status> {
        let mut records = Vec::new();
        for lease in [&ask.fresh, &ask.reused] {
            match self.own_record(tenant, lease).await {
                Some((_, record)) => records.push(record),
                None => return Err(wrong(format!("there is no record of a lease {lease}"))),
            }
        }
        let outcome = compare(&records[0], &records[1]).map_err(wrong)?;
        let mut cause = ask.cause;
        if let Some((end, _)) = cause.char_indices().find(|(at, _)| *at >= CAUSE) {
            cause.truncate(end);
        }
        let cause = (outcome == DIFFERS).then(|| format!("fresh in lease {}: {cause}", ask.fresh));
        self.engine.canary(&ask.reused, outcome, cause.clone());
        let json = json!({ "outcome": outcome, "cause": cause }).to_string();
        Ok(v1::JsonReply { json })
    }
}

/// Whether two gradings came out alike.
fn compare(fresh: &Value, reused: &Value) -> Result<&'static str, &'static str> {
    if fresh["verdict"].is_null() || reused["verdict"].is_null() {
        return Err("both leases must be of gradings that state a verdict");
    }
    if fresh["lease"]["uses"] != 0 {
        return Err("the first lease's sandbox was used before: it is no fresh one");
    }
    for field in ["instance_id", "eval_script_blake3"] {
        if fresh[field] != reused[field] {
            return Err("the two gradings are not of the same task");
        }
    }
    let same_patch = fresh["patch"]["blake3"] == reused["patch"]["blake3"];
    if !same_patch || fresh["lease"]["template"] != reused["lease"]["template"] {
        return Err("the two gradings are not of the same patch and template");
    }
    let alike = ["verdict", "tests_status_blake3"]
        .iter()
        .all(|field| fresh[field] == reused[field]);
    Ok(if alike { SAME } else { DIFFERS })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_gradings_of_one_patch_are_compared_and_any_difference_counts() {
        let fresh = json!({
            "verdict": "resolved", "tests_status_blake3": "a", "instance_id": "i",
            "patch": {"blake3": "p"}, "lease": {"uses": 0, "template": "t"},
        });
        let with = |path: &str, value: Value| {
            let mut other = fresh.clone();
            *other.pointer_mut(path).unwrap() = value;
            other
        };
        assert_eq!(compare(&fresh, &with("/lease/uses", 8.into())), Ok(SAME));
        assert_eq!(
            compare(&fresh, &with("/verdict", "unresolved".into())),
            Ok(DIFFERS)
        );
        assert_eq!(
            compare(&fresh, &with("/tests_status_blake3", "b".into())),
            Ok(DIFFERS)
        );
        assert_eq!(
            compare(&fresh, &with("/tests_status_blake3", Value::Null)),
            Ok(DIFFERS)
        );
        for (path, value) in [
            ("/verdict", Value::Null),
            ("/patch/blake3", "q".into()),
            ("/lease/template", "u".into()),
            ("/instance_id", "j".into()),
        ] {
            assert!(compare(&fresh, &with(path, value)).is_err(), "{path}");
        }
        assert!(compare(&with("/lease/uses", 1.into()), &fresh).is_err());
    }
}
