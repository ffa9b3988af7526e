//! The mount table.

use super::Facts;
use crate::ids::IdMap;
use crate::noise;

/// Facts of `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`): one per mount, under its mount point, in
/// the order of stacking where several share one. None for a line that has not that form.
pub fn facts(mountinfo: &str, ids: IdMap) -> Option<Facts> {
    let mut facts = Facts::new();
    for line in mountinfo.lines() {
        let (point, value) = mount(line, ids)?;
        facts.put(point, value);
    }
    Some(facts)
}

fn mount(line: &str, ids: IdMap) -> Option<(String, String)> {
    let (own, rest) = line.split_once(" - ")?;
    let mut own = own.split(' ');
    let [_id, _parent, device, root, point, options] = std::array::from_fn(|_| own.next());
    let (major, _) = device?.split_once(':')?;
    let propagation: Vec<&str> = own
        .filter(|field| !field.is_empty())
        .map(noise::propagation)
        .collect();
    let mut rest = rest.split(' ');
    let (file_system, source) = (rest.next()?, rest.next()?);
    let super_options = rest.next().unwrap_or_default();
    let kept: Vec<String> = super_options
        .split(',')
        .filter_map(|option| noise::mount_option(file_system, option, ids))
        .collect();
    let value = format!(
        "{file_system} from {source} root {} major {major} options {} propagation {} super {}",
        root?,
        options?,
        propagation.join(","),
        kept.join(","),
    );
    Some((point?.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "\
901 880 0:61 / / rw,relatime shared:4 - overlay overlay rw,lowerdir+=/,upperdir=/u,workdir=/w,redirect_dir=on
902 901 0:62 / /dev/pts rw,nosuid - devpts devpts rw,gid=1000005,mode=620
903 901 0:63 / /mnt rw - tmpfs a rw
904 903 0:64 / /mnt rw - tmpfs b rw
";

    #[test]
    fn two_generations_are_the_same() {
        let other = ONE
            .replace("901", "77")
            .replace("0:6", "0:9")
            .replace("shared:4", "shared:9");
        let other = other.replace("1000005", "2000005").replace("/u,", "/v,");
        let (one, two) = (
            facts(ONE, IdMap::at(1_000_000)),
            facts(&other, IdMap::at(2_000_000)),
        );
        assert!(one.is_some());
        assert_eq!(one, two);
    }

    #[test]
    fn a_change_of_any_mount_shows() {
        let ids = IdMap::at(1_000_000);
        for (from, to) in [
            ("rw,nosuid", "ro,nosuid"),
            ("/mnt rw - tmpfs a", "/mnt rw - tmpfs c"),
            ("redirect_dir=on", "x"),
        ] {
            assert_ne!(
                facts(ONE, ids),
                facts(&ONE.replace(from, to), ids),
                "{from}"
            );
        }
        let swapped = ONE
            .replace("tmpfs a", "tmpfs c")
            .replace("tmpfs b", "tmpfs a")
            .replace("tmpfs c", "tmpfs b");
        assert_ne!(
            facts(ONE, ids),
            facts(&swapped, ids),
            "the order of a stack"
        );
        assert_eq!(facts("nonsense", ids), None);
    }
}
