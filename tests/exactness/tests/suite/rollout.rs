//! What rollouts do.

use innkeeper_test_local::Guest;

/// A rollout.
pub(crate) type Rollout = fn(&Guest<'_>);

/// Leaves everything as it is.
pub(crate) fn nothing(_: &Guest<'_>) {}

/// Solves a task: reads, edits, commits, leaves caches and a log.
pub(crate) fn honest(guest: &Guest<'_>) {
    let script = r#"
        set -e
        cd /testbed
        git -c core.pager=cat log --oneline
        sed -i s/wrong/right/ file
        git diff > /tmp/patch
        git -c user.name=a -c user.email=a@localhost commit -qam fixed
        git checkout -q -b more
        mkdir -p build/__pycache__ ~/.cache
        for n in $(seq 50); do echo $n > build/__pycache__/$n; done
        mv build/__pycache__ build/cache
        cp -r .git /tmp/copy
        rm -r build/cache
        echo done >> /var.log
    "#;
    guest.bash(script).ok();
}

/// Leaves whatever root can leave inside: attributes, links, names, holes, processes, IPC.
pub(crate) fn nasty(guest: &Guest<'_>) {
    // Some of it is refused, and differently by different forms: none of that may matter.
    let script = r#"
        cd /
        setfattr -n user.mark -v left /etc/passwd; setfattr -n trusted.mark -v left /etc/group
        setfacl -m u:1000:rwx,d:u:1000:rwx /testbed; setfacl -m g:1000:r /testbed/file
        chattr +A /etc/passwd; chattr +i /etc/group
        touch -d 1999-01-01 /etc/group /usr/bin /
        chown 1000:1000 /etc; chmod 7777 /usr/bin/env; chmod 0 /testbed/.git
        ln /usr/bin/cat /usr/bin/dog; ln -s nowhere /etc/link; ln -sf /tmp /testbed/file
        rm -rf /usr/lib/git-core /testbed/conftest.py; mkdir /testbed/conftest.py
        mv /root /etc/root; mv /usr/bin/tail /tmp
        truncate -s 1T /tmp/hole; dd if=/dev/zero of=/etc/passwd bs=1 count=1 seek=100000 conv=notrunc
        mkfifo /tmp/fifo; mknod /tmp/node c 1 3; mknod /dev/node c 1 3
        touch "$(printf '/tmp/\377\n name')"
        d=/tmp; for n in $(seq 300); do d=$d/deep-directory-name-$n; mkdir $d 2>/dev/null || break; done
        echo changed > /etc/hosts; echo changed > /etc/resolv.conf; echo > /dev/shm/left; echo x > /dev/null
        chmod 777 /dev/null /dev/shm /dev/pts/ptmx; touch -d 1999-01-01 /dev/null /proc /dev
        mkdir /dev/mqueue/x; mknod /dev/mqueue/queue p
        hostname changed; echo changed > /proc/sys/kernel/hostname; echo 1 > /proc/sys/net/ipv4/ip_forward
        echo 1000 > /proc/self/oom_score_adj
        (setsid nohup bash -c 'trap "" TERM HUP; exec 9</etc/passwd; while :; do sleep 100; done' &) >/dev/null 2>&1
        for n in $(seq 20); do (sleep 1000 & kill -STOP $!) ; done >/dev/null 2>&1
        exec 8>/tmp/deleted; rm /tmp/deleted; echo left >&8
        ulimit -n 10; umask 0; exit 0
    "#;
    guest.bash(script).ok();
    guest
        .bash_as(
            "1000",
            "echo left > /tmp/of-1000; (setsid sleep 1000 &) >/dev/null 2>&1",
        )
        .ok();
}
