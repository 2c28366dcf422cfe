//! How often the kernel has killed for memory in this container's cgroup. kubelet sees that only of PID 1.

use std::fs;
use std::path::{Path, PathBuf};

/// Kills for memory in our own cgroup since it was made; `None` where no counter can be read.
#[must_use]
pub fn kills() -> Option<u64> {
    let cgroup = fs::read_to_string("/proc/self/cgroup").ok()?;
    counters(&cgroup)
        .iter()
        .find_map(|path| count(&fs::read_to_string(path).ok()?))
}

/// Where the counter may be, the likeliest first: under cgroup v1 a container sees its own cgroup as the root of the
/// mount, while `/proc/self/cgroup` may name the path as the host sees it.
fn counters(cgroup: &str) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for line in cgroup.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            continue;
        };
        let (mount, file) = if controllers.split(',').any(|controller| controller == "memory") {
            (Path::new("/sys/fs/cgroup/memory"), "memory.oom_control")
        } else if controllers.is_empty() {
            (Path::new("/sys/fs/cgroup"), "memory.events")
        } else {
            continue;
        };
        paths.push(mount.join(path.trim_start_matches('/')).join(file));
        paths.push(mount.join(file));
    }
    paths
}

fn count(text: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix("oom_kill "))
        .and_then(|value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_counter_are_read() {
        assert_eq!(count("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"), Some(3));
        assert_eq!(
            count("low 0\nhigh 0\nmax 9\noom 4\noom_kill 2\noom_group_kill 0\n"),
            Some(2)
        );
        assert_eq!(count("under_oom 0\n"), None);
    }

    #[test]
    fn the_counter_is_looked_for_in_our_own_cgroup_first() {
        let v2 = counters("0::/\n");
        assert_eq!(v2[0], Path::new("/sys/fs/cgroup/memory.events"));
        let v1 = counters("5:cpu:/a\n4:memory:/kubepods/x\n0::/\n");
        assert_eq!(v1[0], Path::new("/sys/fs/cgroup/memory/kubepods/x/memory.oom_control"));
        assert_eq!(v1[1], Path::new("/sys/fs/cgroup/memory/memory.oom_control"));
    }
}
