//! What this machine allows, found out by trying, for `innkeeper doctor`.

use std::os::fd::AsFd;

use innkeeper_proto::v1::Fact;

use crate::pod;
use crate::sandbox::{Machine, Means, Root, upper};

/// The facts of a daemon that runs: it has its spawner, its devices and its store already.
pub async fn facts(machine: &Machine) -> Vec<Fact> {
    match &machine.means {
        Means::Root(root) => of_root(root).await,
        Means::Pod(pod) => pod::facts(pod),
    }
}

async fn of_root(machine: &Root) -> Vec<Fact> {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    vec![
        fact(
            "detached_mounts",
            kernel_fits(&release),
            &release,
            "use Linux 6.15 or later: layers are mounted by descriptor",
        ),
        fact(
            "limits",
            machine.groups.can_limit(),
            "control groups for memory, cpu and pids",
            "mount the memory, cpu and pids controllers, version 1 or 2",
        ),
        id_map(machine).await,
        fact(
            "disk_limit",
            upper::image::is_possible(),
            if upper::image::is_possible() {
                "hard in memory and on disk"
            } else {
                "hard in memory, soft on disk"
            },
            "install e2fsprogs and load the loop module, for hard limits of uppers on disk",
        ),
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

/// Whether the store's file system can map ids, by mapping it.
async fn id_map(machine: &Root) -> Fact {
    let mapped = match machine.spawner.kit(0x3fff_0000).await {
        Ok(kit) => match kit.first() {
            Some(users) => machine
                .store
                .mapped(users.as_fd())
                .map(drop)
                .map_err(|e| e.to_string()),
            None => Err("no user namespace came back".to_owned()),
        },
        Err(error) => Err(error.to_string()),
    };
    Fact {
        name: "id_map".to_owned(),
        ok: mapped.is_ok(),
        detail: mapped
            .as_ref()
            .map_or_else(Clone::clone, |()| "layers can be id-mapped".to_owned()),
        advice: match mapped {
            Ok(()) => String::new(),
            Err(_) => {
                "put the state directory on ext4, xfs or btrfs and allow user namespaces".to_owned()
            }
        },
    }
}

/// 6.13 for layers by descriptor, 6.15 for clones of detached mounts.
fn kernel_fits(release: &str) -> bool {
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse::<u32>().ok());
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6, 15)
}

#[cfg(test)]
mod tests {
    use super::kernel_fits;

    #[test]
    fn releases_are_compared_by_number() {
        assert!(kernel_fits("6.18.5-generic"));
        assert!(kernel_fits("10.0"));
        assert!(!kernel_fits("6.9.1"));
        assert!(!kernel_fits("5.15.0-100"));
    }
}
