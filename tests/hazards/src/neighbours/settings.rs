//! Settings of the kernel, and programs that others run without knowing.

use super::Neighbour;

pub(super) const CASES: &[Neighbour] = &[
    Neighbour::forbidden(
        "B22-any-setting",
        "true",
        "find /proc/sys /sys /proc/irq /proc/fs -type f 2>/dev/null | while read -r f; do \
         old=$(head -c 4096 \"$f\" 2>/dev/null | tr -d '\\0') && printf '%s\\n' \"$old\" 2>/dev/null >\"$f\" && echo \"$f\"; \
         done | grep -q .",
    ),
    Neighbour::forbidden(
        "B22-names-and-clock",
        "true",
        "hostname other || domainname other || date -s '+1 hour' || echo b >/proc/sysrq-trigger \
         || dmesg -C || chmod 777 /proc/sys/kernel/hostname",
    ),
    Neighbour::forbidden(
        "B22-network",
        "true",
        "ip link set lo down || ip link set lo mtu 1000 || ip addr add 10.9.9.9/24 dev lo || ip route add 10.8.0.0/16 dev lo \
         || ip link add d0 type dummy || ip link add v0 type veth || iptables -A INPUT -j DROP || ip neigh add 10.9.9.8 dev lo \
         || tc qdisc add dev lo root netem delay 1ms || ip rule add from 10.1.1.1 table 7",
    ),
    Neighbour::open(
        "B22-own-priorities-and-limits",
        "(ulimit -n 20; ulimit -c 0; renice -n 19 -p $BASHPID; exec sleep 751) & \
         (umask 077; trap '' PIPE; exec setsid sleep 752) & sleep .3",
        "test $(pgrep -xc sleep) = 2",
    ),
    Neighbour::open(
        "B22-own-score-and-filters",
        "echo 1000 >/proc/self/oom_score_adj; \
         (exec setpriv --no-new-privs --bounding-set -all sleep 761) & \
         python3 -c 'import ctypes, time; ctypes.CDLL(None).prctl(22, 1, 0, 0, 0)' & sleep .5; true",
        "pgrep -f 'sleep 761'",
    ),
    Neighbour::open(
        "B26-loader-replaced",
        "cp /bin/true /tmp/t; l=$(readlink -f /lib64/ld-linux-x86-64.so.2); cp -a $l /tmp/l; cp -a $l $l.new; printf garbage >>$l.new; \
         ln -sf /tmp/t /usr/local/bin/ls; mkdir -p /etc/ld.so.conf.d; echo /tmp >/etc/ld.so.conf.d/0.conf; ldconfig; \
         echo 'LD_PRELOAD=/tmp/x.so' >>/etc/environment; mv $l.new $l",
        "test \"$(tail -c 7 \"$(readlink -f /lib64/ld-linux-x86-64.so.2)\")\" = garbage",
    ),
    Neighbour::open(
        "B26-shell-replaced",
        "printf '#!/usr/bin/python3\\nimport os\\nos.fork() or os.execv(\"/usr/bin/sleep\", [\"sleep\", \"771\"])\\n' >/tmp/sh; \
         chmod 755 /tmp/sh; ln -sf /tmp/sh /usr/bin/sh; ln -sf /tmp/sh /usr/bin/tar; ln -sf /tmp/sh /usr/bin/git; \
         mv /tmp/sh /usr/bin/.sh; ln -sf .sh /usr/bin/sh",
        "test \"$(readlink /usr/bin/sh)\" = .sh",
    ),
    Neighbour::open(
        "B26-what-logins-run",
        "useradd -m -u 0 -o toor; echo 'root::0:0::/root:/bin/false' >/etc/passwd; echo 'exec sleep 772' >>/root/.bashrc; \
         cp /root/.bashrc /etc/profile.d/x.sh; mkdir -p /etc/cron.d; echo '* * * * * root touch /x' >/etc/cron.d/x; \
         echo 'hosts: db' >/etc/nsswitch.conf; groupadd -g 4242 more",
        "test -d /home/toor && grep -q false /etc/passwd",
    ),
    Neighbour::open(
        "B26-python-prepared",
        "d=$(python3 -c 'import site; print(site.getsitepackages()[0])'); echo 'import os' >$d/z.pth; \
         python3 -c 'import py_compile; py_compile.compile(\"/usr/lib/python3.11/abc.py\", \
         invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)'; \
         printf 'x = 1\\n' >$d/sitecustomize.py; python3 -m compileall -q /usr/lib/python3.11/json",
        "test -e /usr/lib/python3.11/__pycache__/abc.cpython-311.pyc",
    ),
];
