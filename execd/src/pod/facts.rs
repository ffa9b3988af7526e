//! What this container allows and lacks, for `innkeeper doctor`.

use innkeeper_proto::v1::Fact;

use super::Pod;

/// The facts of a daemon that runs in a pod.
pub fn facts(pod: &Pod) -> Vec<Fact> {
    let standing = &pod.standing;
    let refusal = standing.refusal(pod.layout);
    vec![
        Fact {
            name: "namespaces".to_owned(),
            ok: refusal.is_none(),
            detail: "user namespaces in the container".to_owned(),
            advice: refusal.unwrap_or_default(),
        },
        fact(
            "own_proc",
            standing.own_proc,
            "a pid namespace and a /proc of a sandbox's own",
            "allowed with hostUsers: false and procMount: Unmasked; without it guests see the container's processes",
        ),
        fact(
            "limits",
            standing.own_groups,
            "memory, cpu and pids",
            "they are the pod's: a guest that uses them up may end its own slot, and no other",
        ),
        Fact {
            name: "disk_limit".to_owned(),
            ok: true,
            detail: "hard in memory, soft on disk".to_owned(),
            advice: String::new(),
        },
    ]
}

fn fact(name: &str, ok: bool, detail: &str, advice: &str) -> Fact {
    Fact {
        name: name.to_owned(),
        ok,
        detail: detail.to_owned(),
        advice: if ok { String::new() } else { advice.to_owned() },
    }
}
